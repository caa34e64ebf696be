#!/bin/sh
# Kills training and sweeps by SIGKILL at random moments, trains on disks of many sizes that become full, and starts two processes at
# one run at the same time. Each time the work is then continued, and must give the bits of an undisturbed run.
# Usage: random.sh SMOE [N]: N trials of each kind; full disks need permission to mount. The moments follow from the number of the
# trial and from the time that an undisturbed run takes.
smoe=$(realpath "$1") most=${2:-100}
. "$(dirname "$0")/work.sh"
trap 'umount "$work/disk" 2>/dev/null; rm -rf "$work"' EXIT
# A constant rate: more steps do not change the first ones.
train="train $work/tiny.yaml train.steps=60 train.schedule.name=constant -q -j1"
sweep="sweep tiny.yaml train.steps=6 model.moe.experts=2,4 -q -j1"

bad() { failed=$((failed + 1)); echo "FAILED: $*: $(head -n 3 err)"; }

same() { # the run has the weights of the undisturbed one, and smoe verify accepts its files
    for f in model state; do cmp "whole/ckpt/latest/$f.safetensors" "$1/ckpt/latest/$f.safetensors" >>err || return 1; done
    "$smoe" verify -q "$1" >>err 2>&1
}
measured() { cut -d, -f 1-9 "$1/results.csv"; }

# killed SECONDS N COMMAND ...: kills the command after a fraction of the seconds, another one for each N; returns its exit status
killed() {
    seconds=$(awk -v most="$1" -v n="$2" 'BEGIN { x = n * 0.61803398875; print (x - int(x)) * most + 0.001 }')
    shift 2
    timeout --foreground -s KILL "$seconds" "$@" >out 2>err
}
# lasts COMMAND ...: prints the seconds that the command takes on this machine with its present load
lasts() {
    begin=$(date +%s.%N)
    "$@" >/dev/null || exit 1
    date +%s.%N | awk -v begin="$begin" '{ print $1 - begin }'
}

training=$(lasts "$smoe" $train -o whole) && sweeping=$(lasts "$smoe" $sweep -o all) || exit 1

n=0 kills=0 runs=0
while [ $n -lt "$most" ]; do
    rm -rf run
    while :; do
        n=$((n + 1))
        more=$([ -d run ] && echo --resume)
        killed $training $n "$smoe" $train -o run $more
        got=$?
        [ $got -eq 137 ] || [ $got -eq 124 ] || break # 124: the run ended by itself just before it was to be killed
        kills=$((kills + 1))
    done
    runs=$((runs + 1))
    [ $got -eq 0 ] && same run || bad "run $runs after kill $kills: status $got"
done
echo "kills in training: $kills, in $runs runs, $failed failed"

n=0 kills=0 runs=0 before=$failed
while [ $n -lt "$most" ]; do
    rm -rf grid
    while :; do
        n=$((n + 1))
        if [ -e grid/cells.jsonl ]; then killed $sweeping $n "$smoe" sweep --resume grid --retry-failed -q -j1; else killed $sweeping $n "$smoe" $sweep -o grid; fi
        got=$?
        [ $got -eq 137 ] || [ $got -eq 124 ] || break # 124: the run ended by itself just before it was to be killed
        kills=$((kills + 1))
    done
    runs=$((runs + 1))
    # Cells whose parent was killed go on training; the process that continues the sweep waits for them.
    [ $got -eq 0 ] && [ "$(measured grid)" = "$(measured all)" ] && "$smoe" verify -q grid >out 2>err || bad "sweep $runs after kill $kills: status $got"
done
echo "kills in sweeps: $kills, in $runs sweeps, $((failed - before)) failed"

n=0 before=$failed full=0
mkdir disk
if mount -t tmpfs -o size=1m tmpfs disk 2>/dev/null; then
    umount disk
    while [ $n -lt "$most" ]; do
        n=$((n + 1))
        mount -t tmpfs -o size=$((12 + n * 900 / most))k tmpfs disk
        "$smoe" $train -o disk/run >out 2>err
        got=$?
        [ $got -eq 0 ] || full=$((full + 1))
        [ $got -le 1 ] && { [ $got -eq 0 ] || [ -s err ]; } || bad "full disk $n: status $got"
        mount -o remount,size=4m disk
        "$smoe" $train -o disk/run $([ -d disk/run ] && echo --resume) >out 2>err && same disk/run || bad "full disk $n: not continued"
        umount disk
    done
    echo "full disks: $n sizes, $full of them full, $((failed - before)) failed"
else
    echo "full disks: mounting is not allowed here"
fi

n=0 before=$failed refused=0
while [ $n -lt "$most" ]; do
    n=$((n + 1))
    rm -rf run
    [ $((n % 2)) -eq 0 ] || killed $training $n "$smoe" $train -o run
    more=$([ -d run ] && echo --resume)
    "$smoe" $train -o run $more >out1 2>err1 &
    "$smoe" $train -o run $more >out2 2>err2
    second=$?
    wait $!
    first=$?
    [ $first -le 2 ] && [ $second -le 2 ] && { [ $first -eq 0 ] || [ $second -eq 0 ]; } || { cat err1 err2 >err; bad "pair $n: status $first and $second"; }
    [ $first -eq 0 ] && [ $second -eq 0 ] || refused=$((refused + 1))
    : >err
    same run || bad "pair $n"
done
echo "pairs at one run: $n, one of them refused $refused times, $((failed - before)) failed"
[ $failed -eq 0 ]
