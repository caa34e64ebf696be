# A short training run without a memory error. valgrind does not support AVX-512, so narrower kernels are used.
. "$ROOT/tests/cli/lib.sh"
command -v valgrind >/dev/null || skip "no valgrind"
# Thread pools live until the end of the process, so reachable memory is not a leak.
SMOE_ISA=base OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive valgrind -q --error-exitcode=99 --leak-check=full --show-leak-kinds=definite \
    --errors-for-leak-kinds=definite "$(command -v smoe)" train tiny.yaml -q train.steps=4 train.eval_every=4 data.limit=20 -o run >log 2>&1 ||
    fail "$(cat log)"
