# Commands that are killed before calls that change a file: what they leave under temporary names is removed by the next command
# that writes into the folder, however young it is.
. "$ROOT/tests/cli/lib.sh"
command -v "${CC:-cc}" >/dev/null || skip "no compiler"
"${CC:-cc}" -shared -fPIC -o faults.so "$ROOT/tests/faults/faults.c" -ldl 2>err || skip "no library: $(head -n 1 err)"
status 0 smoe train tiny.yaml -q -j1 train.steps=4 -o run >/dev/null

# killed STRIDE AGAIN NAME ...: kills the command NAME ... before every STRIDE-th call, then gives it again, with the option AGAIN.
# A sweep whose cells are killed ends with 5.
killed() {
    stride=$1 again=$2 n=1 left=0
    shift 2
    while :; do
        rm -rf out
        mkdir out
        env FAULT_KIND=kill FAULT_AT=$n LD_PRELOAD="$PWD/faults.so" smoe "$@" -q -j1 >text 2>err
        got=$?
        [ $got -ne 0 ] || break
        [ $got -eq 137 ] || [ $got -eq 5 ] || fail "status $got of call $n of $*: $(cat err)"
        [ -z "$(find out -name '*.tmp-*')" ] || left=$((left + 1))
        status 0 smoe "$@" $([ ! -e out/new ] || echo $again) -q -j1 >text 2>err
        [ -z "$(find out -name '*.tmp-*')" ] || fail "call $n of $*: left $(find out -name '*.tmp-*')"
        n=$((n + stride))
    done
    [ $left -gt 0 ] || fail "$*: no call of $n left anything"
}
killed 1 --force eval run --logits out/new --labels out/labels
killed 1 --force convert run out/new --type bf16
killed 1 --force soup run run -o out/new
killed 23 --force inspect run data.limit=20 -o out/new
killed 2 --force compare run run -o out/new
killed 19 --resume train tiny.yaml train.steps=4 -o out/new
killed 43 --resume sweep tiny.yaml train.steps=2 seed=0,1 -o out/new

# Signals that end a command let it remove what is temporary: SIGHUP, SIGINT, SIGQUIT, SIGTERM and SIGXCPU.
# ended SIGNAL STRIDE NAME ...: sends it before every STRIDE-th call
ended() {
    number=$1 stride=$2 n=1
    shift 2
    while :; do
        rm -rf out
        mkdir out
        (ulimit -c 0; exec env FAULT_KIND=kill FAULT_SIGNAL=$number FAULT_AT=$n LD_PRELOAD="$PWD/faults.so" smoe "$@" -q -j1) >text 2>err
        got=$?
        [ $got -ne 0 ] || break
        [ $got -eq $((128 + number)) ] || fail "signal $number: status $got of call $n of $*: $(cat err)"
        [ -z "$(find out -name '*.tmp-*')" ] || fail "signal $number, call $n of $*: left $(find out -name '*.tmp-*')"
        n=$((n + stride))
    done
    [ $n -gt 1 ] || fail "$*: not ended by signal $number"
}
for number in 1 2 3 15 24; do ended $number 1 convert run out/new --type bf16; done
ended 15 3 eval run --logits out/new --labels out/labels --predictions out/predictions
ended 15 3 soup run run -o out/new
ended 1 47 inspect run data.limit=20 -o out/new
ended 1 5 compare run run -o out/new

# A cell that cannot write down why it failed, on a disk where nothing can be written any more, tells it all the same.
n=1
while rm -rf out; ! env FAULT_KIND=broken FAULT_AT=$n LD_PRELOAD="$PWD/faults.so" smoe sweep tiny.yaml train.steps=2 train.eval_every=0 seed=0,1 -o out -q -j1 >text 2>err; do
    grep -q 'Input/output error' err || fail "from call $n on: $(cat err)"
    n=$((n + 9))
done
[ $n -gt 20 ] || fail "only $n calls"
