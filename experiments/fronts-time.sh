#!/bin/sh
# Times every model of the sweeps on facts that figures/headline.svg draws, with one thread, and prints CSV: sweep, row of its summary.csv,
# settings, seconds of inference and of a training step with 64 images. These are processor time of the thread, the least of three turns of
# ten rounds over all models, so that other programs beside it disturb little. Ten minutes.
#   SMOE_ISA=v3 experiments/fronts-time.sh >experiments/results/fronts-time/times.csv
here=$(dirname "$0")
smoe=${SMOE:-$here/../build/smoe}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
for name in pareto pareto-configurations pareto-vmoe facts-experts facts-slots facts-slack reduced-compute; do
    # a cell of one step for each row of its summary.csv, in the same order; its spec is what is timed
    "$smoe" sweep "$here/$name.yaml" --seeds 0 train.steps=1 train.schedule.cooldown=0 train.schedule.warmup=0 train.eval_every=1 data.limit=6400 \
        data.test_size=248 -q -o "$work/$name" >/dev/null || exit 1
    [ "$(wc -l <"$work/$name/summary.csv")" = "$(wc -l <"$here/results/$name/summary.csv")" ] || { echo "$0: $name has other rows now" >&2; exit 1; }
    row=0
    for cell in "$work/$name"/[0-9]*/; do
        cell=${cell%/} row=$((row + 1)) settings=${cell##*/}
        printf '%s/spec.yaml\t%s,%s,"%s"\n' "$cell" "$name" $row "${settings#*-}"
    done
done >"$work/models"
for turn in 1 2 3; do
    while IFS="$(printf '\t')" read -r spec model; do
        "$smoe" bench "$spec" -j 1 -q --json >"$work/bench" </dev/null || exit 1
        awk -v model="$model" '/"(infer|train)_processor_s"/ { part = $1 } part && /"min"/ { sub(/,/, "", $2); t[part] = $2; part = "" }
            END { print model "\t" t["\"infer_processor_s\":"] "\t" t["\"train_processor_s\":"] }' "$work/bench"
    done <"$work/models"
done >"$work/times" || exit 1
echo "sweep,row,settings,infer_s,train_s"
awk -F '\t' '!($1 in infer) { order[++n] = $1; infer[$1] = $2; train[$1] = $3 }
    { if ($2 < infer[$1]) infer[$1] = $2; if ($3 < train[$1]) train[$1] = $3 }
    END { for (i = 1; i <= n; i++) printf "%s,%.6f,%.6f\n", order[i], infer[order[i]], train[order[i]] }' "$work/times"
