#!/bin/sh
# What a sweep of tiny cells spends outside training: its time on the clock less what the cells' own records say they trained
# and evaluated (wall_s of the last record), as a share. Usage: tests/bench/sweep.sh [STEPS [CELLS]], on a machine with
# nothing else to do; STEPS of the small model of tests/cli/tiny.yaml take about half a millisecond each.
set -eu
cd "$(dirname "$0")/../.."
steps=${1:-4000} cells=${2:-8}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
seeds=$(seq -s, 1 "$cells")
now() { date +%s.%N; }
begin=$(now)
build/release/smoe sweep tests/cli/tiny.yaml seed="$seeds" train.steps="$steps" train.eval_every=0 train.checkpoint_every=0 \
    train.log_every=100 -q -o "$work/sweep" >"$work/out"
end=$(now)
for cell in "$work"/sweep/0*; do tail -n 1 "$cell/metrics.jsonl"; done | sed 's/.*"wall_s":\([^,]*\),.*/\1/' |
    awk -v all="$(echo "$end $begin" | awk '{ print $1 - $2 }')" -v cells="$cells" '
        { trained += $1 }
        END { printf "%d cells: %.2f s, of which %.2f s training; outside %.1f%%, %.0f ms a cell\n",
              cells, all, trained, 100 * (1 - trained / all), 1000 * (all - trained) / cells }'
