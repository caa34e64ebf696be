#!/bin/sh
# Prints the number of the setting, the seed and the folder of each trained cell of a sweep that has its weights, with tabs between them:
#   experiments/cells.sh DIR
set -eu
dir=${1:?usage: cells.sh DIR}
awk 'NR == 1 { next }
    { set = $0; sub(/.*"set":/, "", set); sub(/}.*/, "", set); seed = set; sub(/.*"seed":"/, "", seed); sub(/".*/, "", seed)
      sub(/,?"seed":"[0-9]*"/, "", set); if (!(set in row)) row[set] = rows++
      cell = $0; sub(/.*"cell":"/, "", cell); sub(/".*/, "", cell); print row[set] "\t" seed "\t" cell }' "$dir/cells.jsonl" |
    while IFS='	' read -r row seed cell; do
        ! grep -qs "^done" "$dir/$cell/STATUS" || [ ! -d "$dir/$cell/ckpt" ] || printf '%s\t%s\t%s\n' "$row" "$seed" "$dir/$cell"
    done
