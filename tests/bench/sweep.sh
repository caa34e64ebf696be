#!/bin/sh
# The share of a sweep of tiny cells that is spent outside training: its wall time less the time that the cells' own records
# say was spent on training and evaluation (wall_s of the last record), divided by its wall time. Usage:
# tests/bench/sweep.sh [STEPS [CELLS]], on an otherwise idle machine. A step of the small model of tests/cli/tiny.yaml takes
# about half a millisecond.
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
