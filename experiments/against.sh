#!/bin/sh
# Differences of a sweep from further references than that of its spec: writes OUT/against.csv and, for evaluations at other settings,
# OUT/evaluations_against.csv, from the cells in DIR (an unpacked trials.tar.gz) and a file with a reference per line. publish.sh calls it for
# results/NAME/references.txt.
#   experiments/against.sh DIR references.txt OUT
set -eu
[ $# = 3 ] || { echo "usage: against.sh DIR REFERENCES OUT" >&2; exit 2; }
smoe=${SMOE:-$(dirname "$0")/../build/smoe}
rm -f "$3/against.csv" "$3/evaluations_against.csv"
while read -r reference; do
    rm -f "$1/differences.csv" "$1/evaluations_differences.csv"
    "$smoe" sweep --resume "$1" --quiet --reference "$reference" >/dev/null </dev/null
    case $reference in *evaluate.*) ;; *) cat "$1/differences.csv" >>"$3/against.csv" ;; esac
    [ ! -f "$1/evaluations_differences.csv" ] || cat "$1/evaluations_differences.csv" >>"$3/evaluations_against.csv"
done <"$2"
for table in "$3"/against.csv "$3"/evaluations_against.csv; do # one head each
    [ ! -f "$table" ] || { awk 'NR == 1 { head = $0 } NR == 1 || $0 != head' "$table" >"$table.new" && mv "$table.new" "$table"; }
done
