#!/bin/sh
# Trains published cells again and compares them with results.csv, digit for digit: COUNT cells drawn at random from the named sweeps.
#   experiments/repeat.sh 3 1 facts-experts pareto      three cells of these two; another second number draws other cells
# Exits with 1 if a cell differs. The cells stay in runs/repeat/NAME.
set -eu
[ $# -ge 3 ] || { echo "usage: repeat.sh COUNT DRAW NAME..." >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd) smoe=${SMOE:-$here/../build/smoe} count=$1 draw=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Name, cell, test loss and precision of each cell, separated by tabs.
for name in "$@"; do
    [ -f "$here/results/$name/results.csv" ] || { echo "repeat.sh: $name has no published results" >&2; exit 2; }
    awk -v name="$name" "$(cat "$here/csv.awk")"'
        NR == 1 { columns = split_csv($0, f); for (i = 1; i <= columns; i++) at[f[i]] = i }
        NR > 1 && split_csv($0, f) && f[at["status"]] == "done" {
            print name "\t" f[1] "\t" f[at["test_loss"]] "\t" f[at["precision_at_1"]]
        }' "$here/results/$name/results.csv"
done >"$work/cells"
awk -v draw="$draw" 'BEGIN { srand(draw) } { print rand() "\t" $0 }' "$work/cells" | sort | head -n "$count" | cut -f 2- >"$work/drawn"

differs=0
while IFS="$(printf '\t')" read -r name cell loss precision; do
    dir=runs/repeat/$name
    SMOE_ISA=v3 "$smoe" sweep "$here/$name.yaml" -o "$dir" --resume --cells "${cell%%-*}" -q >/dev/null </dev/null
    again=$(awk -v cell="$cell" "$(cat "$here/csv.awk")"'
        NR == 1 { columns = split_csv($0, f); for (i = 1; i <= columns; i++) at[f[i]] = i }
        NR > 1 && split_csv($0, f) && f[1] == cell { print f[at["test_loss"]] "\t" f[at["precision_at_1"]] }' "$dir/results.csv")
    if [ "$again" = "$(printf '%s\t%s' "$loss" "$precision")" ]; then
        echo "the same: $name, $cell: test loss $loss, precision@1 $precision"
    else
        echo "different: $name, $cell: published test loss and precision@1 $loss, $precision; now ${again:-none}"
        differs=1
    fi
done <"$work/drawn"
exit $differs
