# The same seed gives the same bits with one thread and with two.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q -j1 -o one
status 0 smoe train tiny.yaml -q -j2 -o two
same_run one two

# Threads with small stacks.
(
    ulimit -S -s 128
    status 0 env OMP_STACKSIZE=64k smoe train tiny.yaml -q -j2 -o stacks
    status 0 smoe train tiny.yaml -q -j2 -o stack
)
same_run one stacks
same_run one stack

# Threads whose stacks do not fit into memory: the message says why they do not start.
(
    ulimit -s 4000000000000
    status 1 smoe train tiny.yaml -q -j1 -o none 2>err
    grep -q 'cannot start a loader thread: Resource temporarily unavailable' err || fail "$(cat err)"
    status 5 smoe sweep tiny.yaml seed=0,1 -q -j1 -o nones >/dev/null 2>err
    [ "$(grep -c '=[01]: cannot start a thread: Resource temporarily unavailable' err)" -eq 2 ] || fail "$(cat err)"
) || exit 1
