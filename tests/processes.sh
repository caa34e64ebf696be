#!/bin/sh
# Faults that several processes must survive; too long for `make check`: `make check-processes KILLS=100`.
# One process of a run with four is killed by SIGKILL at a random moment. The run is resumed with one, two or four
# processes, again and again, with experts divided over the processes or not. Every checkpoint must be complete, and the
# final result must equal that of an undisturbed run.
# Prints a line per kill and a summary.
cd "$(dirname "$0")/.." || exit 1
. tests/support/children.sh
kills=${KILLS:-100} seed=${SEED:-1}
smoe=$PWD/build/release/smoe
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
several="mpirun --oversubscribe --allow-run-as-root -n"
# one slot per expert: processes exchange factors of gradients (lib/train/sharded.h), and gradients of the other tensors
keys="-q -j1 train.pieces=4 model.moe.slots_per_expert=1 train.steps=${STEPS:-400} train.checkpoint_every=5 train.eval_every=50 data.test_size=40"
random() { seed=$(((seed * 1103515245 + 12345) % 2147483648)); number=$((seed / 65536 % $1)); }

sums() { (cd "$1/ckpt/latest" && cksum model.safetensors state.safetensors); }

"$smoe" train tests/cli/tiny.yaml $keys -o "$work/whole" >/dev/null || exit 1
ended=0 done=0
while [ $done -lt "$kills" ]; do
    if [ ! -d "$work/run" ]; then what="tests/cli/tiny.yaml $keys -o $work/run"; else what="--resume $work/run -q -j1"; fi
    random 3
    what="$what train.experts_over=$((over = 1 << number))"
    random 3
    R=$((1 << number))
    if [ $R -eq 1 ]; then "$smoe" train $what >/dev/null 2>"$work/err" & else $several $R "$smoe" train $what >/dev/null 2>"$work/err" & fi
    job=$!
    random 3000
    sleep $((1 + number / 1000)).$(printf %03d $((number % 1000)))
    random $R
    if [ $R -eq 1 ]; then victim=$job; else victim=$(children_of $job | sed -n "$((number + 1))p"); fi
    [ -n "$victim" ] && kill -KILL "$victim" 2>/dev/null && killed=yes || killed=no
    wait $job 2>/dev/null
    status=$?
    [ $killed = yes ] && done=$((done + 1))
    step=none
    if [ -e "$work/run/ckpt/latest" ]; then
        step=$(readlink "$work/run/ckpt/latest")
        "$smoe" eval "$work/run" -q >/dev/null 2>"$work/err" || { echo "a checkpoint that is not whole:"; cat "$work/err"; exit 1; }
    elif [ -d "$work/run" ]; then
        rm -rf "$work/run"
    fi
    echo "kill $done: R=$R experts_over=$over victim=$number killed=$killed status=$status latest=$step"
    if [ $status -eq 0 ]; then
        ended=$((ended + 1))
        [ "$(sums "$work/run")" = "$(sums "$work/whole")" ] || { echo "other bits at the end"; exit 1; }
        rm -rf "$work/run"
    fi
done
if [ -d "$work/run" ]; then
    "$smoe" train --resume "$work/run" -q -j1 >/dev/null || exit 1
    [ "$(sums "$work/run")" = "$(sums "$work/whole")" ] || { echo "other bits at the end"; exit 1; }
    ended=$((ended + 1))
fi
echo "$done kills, $ended runs ended, all with the bits of a run without kills"
