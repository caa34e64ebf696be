#!/bin/sh
# Brings the results of a sweep into the tree: a packed copy of it, the tables computed from that copy, and the figure. Differences from further
# references than that of the spec are added, where results/NAME/references.txt has them, one per line (against.sh).
#   experiments/publish.sh facts-slots runs/evidence/facts-slots --line model.moe.router
# Further options are those of smoe sweep, for the figure.
# A sweep that has not finished is packed only. To continue it from the tree, without training its finished cells again:
#   mkdir -p runs/evidence/facts-slots && tar -xzf experiments/results/facts-slots/trials.tar.gz -C runs/evidence/facts-slots
#   make evidence        (or smoe sweep --resume runs/evidence/facts-slots)
set -eu
[ $# -ge 2 ] || { echo "usage: publish.sh NAME DIR [--x COLUMN] [--y COLUMN] [--line COLUMN]" >&2; exit 2; }
here=$(dirname "$0") smoe=${SMOE:-$(dirname "$0")/../build/smoe}
results=$here/results/$1 dir=$2
shift 2
mkdir -p "$results"
"$smoe" sweep "$dir" --pack "$results/trials.tar.gz"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xzf "$results/trials.tar.gz" -C "$work"
if "$smoe" sweep --status "$work" --json | grep -qE '"state": "(waiting|stopped|failed)"'; then
    echo "publish.sh: $dir has not finished; $results/trials.tar.gz holds the cells that have"
    exit
fi
"$smoe" sweep --resume "$work" --quiet "$@" >/dev/null
for file in "$work"/*.csv "$work"/*.svg; do
    case $file in *'*'*) ;; *) cp "$file" "$results/" ;; esac
done
[ ! -f "$results/references.txt" ] || "$here/against.sh" "$work" "$results/references.txt" "$results"
