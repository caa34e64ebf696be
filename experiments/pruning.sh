#!/bin/sh
# Keeps fewer and fewer experts of trained Soft MoEs, at last their mean, and evaluates each on test; see pruning.md.
#   SMOE_ISA=v3 SMOE_DATA=FOLDER experiments/pruning.sh RUNS     (archives.sh makes FOLDER; the models are trained into RUNS)
# writes experiments/results/pruning/pruning.csv: per model and number of experts (0: the mean) the share of the combine weights that
# the kept experts had, of 256 images of training those whose top class stays, and precision and loss on test.
set -eu
[ $# -eq 1 ] || { echo "usage: pruning.sh RUNS" >&2; exit 2; }
here=$(dirname "$0") runs=$1
smoe=${SMOE:-$here/../build/smoe} out=$here/results/pruning
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out" "$runs"

number() { sed -n "s/^ *\"$1\": \([0-9.e+-]*\),*$/\1/p" "$2"; } # FIELD FILE: all that have this name

models() { # NAME SPEC KEYS: three seeds
    name=$1 spec=$2
    shift 2
    for seed in 0 1 2; do
        run=$runs/$name-$seed
        [ -f "$run/MANIFEST.sha256" ] || "$smoe" train "$here/$spec" -q -f -o "$run" model.moe.layers=last-2 seed=$seed "$@" >/dev/null
        for experts in 16 14 12 8 4 2 1 mean; do
            "$smoe" convert "$run" "$work/model.safetensors" -q -f --json --experts $experts >"$work/convert.json"
            "$smoe" eval "$work/model.safetensors" -q --json >"$work/eval.json"
            share=$(number combine_share "$work/convert.json" | awk '{ sum += $1 } END { print sum / NR }')
            echo "$name,$seed,$(number experts "$work/convert.json"),$share,$(number same_class "$work/convert.json"),$(number precision_at_1 "$work/eval.json" | head -n 1),$(number loss "$work/eval.json" | head -n 1)"
        done
    done
}

echo data,seed,experts,combine_share,same_class,precision_at_1,loss >"$work/pruning.csv"
models facts facts-ablation.yaml >>"$work/pruning.csv"
models photographs photographs.yaml train.steps=3125 train.schedule.cooldown=600 >>"$work/pruning.csv"
mv "$work/pruning.csv" "$out/"
