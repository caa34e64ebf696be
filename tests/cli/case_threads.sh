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
