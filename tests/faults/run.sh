#!/bin/sh
# Failing memory and failing disks: every N-th allocation, and every N-th call that changes a file, fails once, in each
# command. Whatever happens, no command ends by a signal or hangs, or fails without a message; and after a fault in training a
# resume without faults comes to the bits of a run without any. Usage: run.sh SMOE FAULTS.so [STRIDE [KIND]]; a stride
# of 7 tries the numbers 1, 8, 15 ... KIND: disk or memory.
smoe=$(realpath "$1") faults=$(realpath "$2") stride=${3:-1} kinds=${4:-disk memory}
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
cp "$here/../cli/tiny.yaml" .
export OMP_WAIT_POLICY=passive
failed=0

# faulty KIND N COMMAND ...: its status; what it says is in out and err
faulty() {
    kind=$1 number=$2
    shift 2
    timeout 60 env FAULT_KIND="$kind" FAULT_AT="$number" FAULT_COUNT="$work/count" LD_PRELOAD="$faults" \
        "$smoe" "$@" -q -j1 >out 2>err
}

bad() { failed=$((failed + 1)); echo "FAILED: $*: $(head -n 3 err)"; }

# A run that a fault ended continues without one, or is made anew where there was none yet.
finish() {
    if [ -d run ]; then
        "$smoe" train tiny.yaml train.steps=8 --resume -o run -q -j1 >out 2>err
    else
        "$smoe" train tiny.yaml train.steps=8 -o run -q -j1 >out 2>err
    fi || return 1
    for f in model state; do cmp "whole/ckpt/latest/$f.safetensors" "run/ckpt/latest/$f.safetensors" >>err || return 1; done
    "$smoe" verify run -q >>err 2>&1
}

"$smoe" train tiny.yaml train.steps=8 -o whole -q -j1 >/dev/null || exit 1
for kind in $kinds; do
    for name in train eval inspect convert sweep; do
        case $name in
        train) set -- train tiny.yaml train.steps=8 -o run ;;
        eval) set -- eval whole --logits logits.npy ;;
        inspect) set -- inspect whole data.limit=20 --dump-routing routing.npy ;;
        convert) set -- convert whole half.safetensors --type bf16 ;;
        sweep) set -- sweep tiny.yaml train.steps=4 model.moe.experts=2,4 -o grid ;;
        esac
        tried=0 ended=0 n=1 before=$failed
        rm -rf run grid ./*.npy half.safetensors
        faulty $kind 0 "$@" || bad "$kind $name without a fault"
        most=$(cat count)
        while [ "$n" -le "$most" ]; do
            rm -rf run grid ./*.npy half.safetensors
            faulty $kind $n "$@"
            got=$?
            tried=$((tried + 1))
            [ $got -eq 0 ] || ended=$((ended + 1))
            [ $got -lt 124 ] || bad "$kind $n of $name: status $got"
            [ $got -eq 0 ] || [ -s err ] || bad "$kind $n of $name: status $got without a message"
            if [ $name = train ]; then finish || bad "$kind $n of $name: the run cannot be finished"; fi
            n=$((n + stride))
        done
        echo "$kind $name: $tried of $most tried, $ended ended the command, $((failed - before)) failed"
    done
done
[ $failed -eq 0 ]
