#!/bin/sh
# Times every model of the sweeps on facts that figures/headline.svg draws (least-times.sh), and prints CSV: sweep, row of its summary.csv,
# settings, seconds of inference and of a training step with 64 images. Ten minutes.
#   SMOE_ISA=v3 experiments/fronts-time.sh >experiments/results/fronts-time/times.csv
here=$(dirname "$0")
smoe=${SMOE:-$here/../build/smoe}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
for name in pareto pareto-configurations pareto-vmoe facts-experts facts-slots facts-slack reduced-compute; do
    # a cell of one step for each row of its summary.csv, in the same order; its spec, which has no blank in its name, is what is timed
    "$smoe" sweep "$here/$name.yaml" --seeds 0 train.steps=1 train.schedule.cooldown=0 train.schedule.warmup=0 train.eval_every=1 data.limit=6400 \
        data.test_size=248 -q -o "$work/$name" >/dev/null || exit 1
    [ "$(wc -l <"$work/$name/summary.csv")" = "$(wc -l <"$here/results/$name/summary.csv")" ] || { echo "$0: $name has other rows now" >&2; exit 1; }
    row=0
    for cell in "$work/$name"/[0-9]*/; do
        cell=${cell%/} row=$((row + 1)) settings=${cell##*/}
        printf '%s,%s,"%s"\t10\t%s/spec.yaml\n' "$name" $row "${settings#*-}" "$cell"
    done
done >"$work/models"
echo "sweep,row,settings,infer_s,train_s"
"$here/least-times.sh" 3 <"$work/models"
