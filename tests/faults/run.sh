#!/bin/sh
# Failing memory, failing disks and kills. In each command, every N-th allocation, call that changes a file, or call that
# reads one fails once; and the process is killed before every N-th call that changes a file. No command may end by another
# signal, hang, or fail without a message. After a fault in training, a resume without faults must give the bits of a run
# without any; the same holds for a sweep. A sweep that was being replaced (--force) can be replaced again. Usage: run.sh
# SMOE FAULTS.so [STRIDE [KINDS [NAMES]]]; a stride of 7 tries the numbers 1, 8, 15 ... KINDS: some of disk, read, kill, memory, interrupt;
# the last, calls that a signal interrupts (EINTR), may end no command.
smoe=$(realpath "$1") faults=$(realpath "$2") stride=${3:-1} kinds=${4:-disk read kill memory interrupt}
names=${5:-train eval inspect convert soup repair sweep force}
. "$(dirname "$0")/work.sh"

# faulty KIND N COMMAND ...: its exit status; its output is in out and err
faulty() {
    kind=$1 number=$2
    shift 2
    timeout 60 env FAULT_KIND="$kind" FAULT_AT="$number" FAULT_COUNT="$work/count" LD_PRELOAD="$faults" \
        "$smoe" "$@" -q -j1 >out 2>err
}

bad() { failed=$((failed + 1)); echo "FAILED: $*: $(head -n 3 err)"; }

# A run that a fault ended is continued without faults, or started anew if there was none yet.
finish() {
    if [ -d run ]; then
        "$smoe" train tiny.yaml train.steps=8 --resume -o run -q -j1 >out 2>err
    else
        "$smoe" train tiny.yaml train.steps=8 -o run -q -j1 >out 2>err
    fi || return 1
    for f in model state; do cmp "whole/ckpt/latest/$f.safetensors" "run/ckpt/latest/$f.safetensors" >>err || return 1; done
    "$smoe" verify run -q >>err 2>&1
}

# A sweep that met a fault is finished with the results of an undisturbed one; failed cells run again.
grid="tiny.yaml train.steps=4 model.moe.experts=2,4 -o grid -q -j1"
measured() { cut -d, -f 1-9 "$1/results.csv"; }
finish_sweep() {
    if [ -e grid/cells.jsonl ]; then
        "$smoe" sweep --resume grid --retry-failed -q -j1 >out 2>err
    else
        "$smoe" sweep $grid $1 >out 2>err
    fi || return 1
    [ "$(measured grid)" = "$(measured all)" ] || { measured grid >err; return 1; }
    "$smoe" verify grid -q >>err 2>&1
}

"$smoe" train tiny.yaml train.steps=8 -o whole -q -j1 >/dev/null || exit 1
"$smoe" sweep $grid >/dev/null && mv grid all || exit 1
head -n 1 all/results.csv | cut -d, -f 1-9 | grep -qE 'step_s|_s,' && exit 1
prepare() {
    rm -rf run grid ./*.npy half.safetensors souped hurt
    [ $name != repair ] || { cp -r whole hurt && rm hurt/spec.yaml; }
    [ $name != force ] || { cp -r all grid && echo mine >grid/notes; }
}

for kind in $kinds; do
    for name in $names; do
        case $name in
        train) set -- train tiny.yaml train.steps=8 -o run ;;
        eval) set -- eval whole --logits logits.npy ;;
        inspect) set -- inspect whole data.limit=20 --dump-routing routing.npy ;;
        convert) set -- convert whole half.safetensors --type bf16 ;;
        soup) set -- soup whole whole -o souped ;;
        repair) set -- verify --repair hurt ;;
        sweep) set -- sweep $grid ;;
        force) set -- sweep $grid --force ;;
        esac
        tried=0 ended=0 n=1 before=$failed
        prepare
        faulty $kind 0 "$@" || bad "$kind $name without a fault"
        most=$(cat count)
        while [ "$n" -le "$most" ]; do
            prepare
            faulty $kind $n "$@"
            got=$?
            tried=$((tried + 1))
            [ $got -eq 0 ] || ended=$((ended + 1))
            [ $got -lt 124 ] || [ $kind$got = kill137 ] || bad "$kind $n of $name: status $got"
            [ $kind$got = interrupt0 ] || [ $kind != interrupt ] || bad "interrupt $n of $name: status $got"
            [ $got -eq 0 ] || [ $got -eq 137 ] || [ -s err ] || bad "$kind $n of $name: status $got without a message"
            case $name in
            train) finish || bad "$kind $n of $name: the run cannot be finished" ;;
            repair) "$smoe" verify --repair -q hurt >out 2>err || bad "$kind $n of $name: the run cannot be repaired" ;;
            sweep) finish_sweep || bad "$kind $n of $name: the sweep cannot be finished" ;;
            force)
                finish_sweep --force || bad "$kind $n of $name: the sweep cannot be replaced again"
                [ "$(cat grid/notes)" = mine ] || bad "$kind $n of $name: a file of the user is lost"
                ;;
            esac
            n=$((n + stride))
        done
        echo "$kind $name: $tried of $most tried, $ended ended the command, $((failed - before)) failed"
    done
done
[ $failed -eq 0 ]
