#!/bin/sh
# Corrupted bytes: in every kind of file that smoe reads back, one bit is changed at N places over the file. Every command
# that reads the file must refuse it (exit 3, or 5 for a sweep whose cell fails). Usage: bytes.sh SMOE [N]
smoe=$(realpath "$1") places=${2:-20}
. "$(dirname "$0")/work.sh"

flip() {
    byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    printf "\\$(printf %03o $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

# refused FILE COMMAND ...: the command reads the file
refused() {
    file=$1 accepted=0 n=0
    shift
    size=$(stat -c %s "$file")
    cp "$file" kept
    while [ $n -lt "$places" ]; do
        at=$((n * (size - 1) / (places - 1)))
        flip "$file" $at
        "$smoe" "$@" -q -j1 >out 2>err
        got=$?
        cp kept "$file"
        rm -rf new
        n=$((n + 1))
        [ $got -eq 3 ] || [ $got -eq 5 ] && continue
        accepted=$((accepted + 1))
        echo "FAILED: byte $at of $file, status $got of smoe $*: $(head -n 1 err)"
    done
    failed=$((failed + accepted))
    echo "bytes $file: smoe $1: $n of $size tried, $accepted accepted"
}

"$smoe" train tiny.yaml train.steps=8 -o run -q -j1 >/dev/null || exit 1
"$smoe" sweep tiny.yaml train.steps=4 model.moe.experts=2,4 evaluate.eval.batch_size=50,100 -o grid -q -j1 >/dev/null || exit 1
step=run/ckpt/step_00000008
for command in "eval run" "inspect run" "convert run new --type bf16" "train tiny.yaml -o new --init run" "predict run x.png" \
    "compare run run" "soup run run" "bench run" "sweep run eval.batch_size=50,100 -o new" "verify run" \
    "train --resume run train.steps=9"; do
    refused $step/model.safetensors $command
done
for command in "verify run" "train --resume run train.steps=9"; do
    refused $step/state.safetensors $command
    refused run/metrics.jsonl $command
done
for command in "inspect run" "compare run run" "watch run"; do refused run/metrics.jsonl $command; done
refused run/outcomes.npy verify run
for name in cells.jsonl claims/000-experts=2.json claims/001-experts=4.evaluations.json; do
    refused grid/$name verify grid
    refused grid/$name sweep --resume grid
done
refused grid/claims/001-experts=4.evaluation-1.npy verify grid
[ $failed -eq 0 ]
