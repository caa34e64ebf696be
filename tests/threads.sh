#!/bin/sh
# Data races: training, evaluation and inspection under clang's thread sanitizer, with an OpenMP runtime that reports its
# barriers to it (Archer). First the tools themselves are checked: a loop with a race must be reported, one without must
# not. Then come tests of processes that exchange bytes in the background.
# Usage: threads.sh SMOE ARCHER TEST...; SMOE and the tests are of flavour tsan.
smoe=$(realpath "$1") archer=$2
shift 2
tests=$(realpath "$@") || exit 1
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
cp "$here/cli/tiny.yaml" .
# The BLAS that comes with LAPACK, and other libraries, are not instrumented. The kernels of base are.
export OMP_TOOL_LIBRARIES="$archer" SMOE_ISA=base OMP_WAIT_POLICY=passive
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 exitcode=66"

loop='int x[1000]; int main(void) {
#pragma omp parallel for num_threads(3)
for (int i = 0; i < 1000; i++) x[%s] += i;
return x[1] < 0; }'
for at in 0 i; do
    printf "$loop" $at >loop.c
    ${CC:-clang} -g -fopenmp -fsanitize=thread loop.c -o loop || exit 1
    ./loop >/dev/null 2>&1
    [ $? -eq "$([ $at = 0 ] && echo 66 || echo 0)" ] || { echo "the thread sanitizer does not work here: x[$at]"; exit 1; }
done

tried=0 failed=0
# Runs a command; what it writes is printed if it fails.
try() {
    tried=$((tried + 1))
    timeout 900 "$@" >out 2>err && return
    failed=$((failed + 1))
    echo "FAILED: $*"
    grep -A 20 'WARNING: ThreadSanitizer' err | head -n 40
    grep -q ThreadSanitizer err || cat err
}

while read -r command; do
    try "$smoe" $command -q -j3
done <<'END'
train tiny.yaml train.steps=6 train.eval_every=3 train.checkpoint_every=3 -o soft
train tiny.yaml train.steps=6 model.moe.router=tokens-choice model.moe.k=2 model.moe.noise=1 -o tokens
train tiny.yaml train.steps=6 model.moe.router=experts-choice data.augment.flip=true data.augment.crop=pad train.pieces=2 -o experts
train tiny.yaml train.steps=4 train.loss=contrastive text.width=8 text.heads=2 text.depth=1 text.context=20 -o pairs
train tiny.yaml train.steps=4 train.optimizer.name=adafactor train.precision=bf16 model.dropout=0.1 train.ema=0.9 -o rest
train --resume soft train.steps=8
eval soft eval.fewshot.shots=[1] --logits logits.npy
eval tokens
eval experts eval.order=file
eval pairs
inspect soft -o figures
inspect tokens --dump-routing routing.npy
inspect experts
END
for test in $tests; do try "$test"; done
echo "thread sanitizer: $tried commands, $failed with a race or a failure"
[ $failed -eq 0 ]
