#!/bin/sh
# Trains published cells again and compares them with results.csv, digit for digit: COUNT cells drawn at random from the named sweeps.
#   experiments/repeat.sh 3 1 facts-experts pareto      three cells of these two; another second number draws other cells
# Prints the seconds that each cell took with one thread, then and now. Exits with 1 if a cell differs. The cells stay in runs/repeat/NAME.
set -eu
[ $# -ge 3 ] || { echo "usage: repeat.sh COUNT DRAW NAME..." >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd) smoe=${SMOE:-$here/../build/smoe} count=$1 draw=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Cell, test loss, precision and seconds of each finished cell of the sweep in folder $1, separated by tabs.
finished() {
    awk "$(cat "$here/csv.awk")"'
        NR == 1 { columns = split_csv($0, f); for (i = 1; i <= columns; i++) at[f[i]] = i }
        NR > 1 && split_csv($0, f) && f[at["status"]] == "done" {
            print f[1] "\t" f[at["test_loss"]] "\t" f[at["precision_at_1"]] "\t" f[at["seconds"]]
        }' "$1/results.csv"
}

for name in "$@"; do
    [ -f "$here/results/$name/results.csv" ] || { echo "repeat.sh: $name has no published results" >&2; exit 2; }
    finished "$here/results/$name" | sed "s/^/$name	/"
done >"$work/cells"
awk -v draw="$draw" 'BEGIN { srand(draw) } { print rand() "\t" $0 }' "$work/cells" | sort | head -n "$count" | cut -f 2- >"$work/drawn"

tab=$(printf '\t') differs=0
while IFS=$tab read -r name cell loss precision published; do
    dir=runs/repeat/$name
    printf 'training %s, %s: published %.0f s\n' "$name" "$cell" "$published"
    SMOE_ISA=v3 "$smoe" sweep "$here/$name.yaml" -o "$dir" --resume --cells "${cell%%-*}" -J 1 -j 1 -q >/dev/null </dev/null
    again=$(finished "$dir" | awk -F "$tab" -v cell="$cell" '$1 == cell')
    seconds=${again##*"$tab"}
    if [ "${again%"$tab"*}" = "$cell$tab$loss$tab$precision" ]; then
        echo "the same: $name, $cell: test loss $loss, precision@1 $precision; $seconds s, published $published s"
        echo "$published $seconds" >>"$work/times"
    else
        echo "different: $name, $cell: published test loss and precision@1 $loss, $precision; now ${again:-none}"
        differs=1
    fi
done <"$work/drawn"
[ ! -f "$work/times" ] || awk '{ before += $1; now += $2 } END { printf "together: %.0f s, published %.0f s\n", now, before }' "$work/times"
exit $differs
