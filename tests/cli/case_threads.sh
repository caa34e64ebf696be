# The same seed gives the same bits with one thread and with two.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q -j1 -o one
status 0 smoe train tiny.yaml -q -j2 -o two
same_run one two

# Threads with small stacks.
(
    ulimit -S -s 128
    status 0 env OMP_STACKSIZE=128k smoe train tiny.yaml -q -j2 -o stacks
    status 0 smoe train tiny.yaml -q -j2 -o stack
)
same_run one stacks
same_run one stack

# Smaller ones are refused, however they are asked for; without threads they do not matter.
for setting in OMP_STACKSIZE=16k GOMP_STACKSIZE=64; do
    status 2 env "$setting" smoe train tiny.yaml -q -j2 -o none 2>err
    grep -qx "smoe train: $setting: threads need stacks of at least 128 kB: \`unset ${setting%=*}\`" err || fail "$(cat err)"
done
# A small soft limit is raised for them too.
(
    ulimit -S -s 64
    status 0 smoe train tiny.yaml -q -j2 -o raised
)
same_run one raised
OMP_STACKSIZE=16k status 0 smoe train tiny.yaml -q -j1 -o single
same_run one single

# Threads whose stacks do not fit into memory: the message says why they do not start.
(
    ulimit -s 4000000000000
    status 1 smoe train tiny.yaml -q -j1 -o none 2>err
    grep -q 'cannot start a loader thread: Resource temporarily unavailable' err || fail "$(cat err)"
    status 5 smoe sweep tiny.yaml seed=0,1 -q -j1 -o nones >/dev/null 2>err
    [ "$(grep -c '=[01]: cannot start a thread: Resource temporarily unavailable' err)" -eq 2 ] || fail "$(cat err)"
) || exit 1
