# The same seed gives the same bits with one thread and with two.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q -j1 -o one
status 0 smoe train tiny.yaml -q -j2 -o two
same_run one two
