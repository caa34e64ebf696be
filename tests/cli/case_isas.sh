# The kernels of every instruction set train the same model: each gives the same bits for any number of threads, and all
# give the same losses up to rounding of sums in another order. SMOE_ISA=base is what a processor without AVX uses.
# What this processor lacks is run by the program that models wide vectors and matrix units in C (tests/modelled/), if it is
# built. What the processor has is run by both, and the bits are the same.
. "$ROOT/tests/cli/lib.sh"
modelled=$ROOT/build/modelled/smoe
[ -x "$modelled" ] || echo "the program with modelled units is not built: make FLAVOUR=modelled"
for isa in base v3 v4 v4-bf16 amx; do
    export SMOE_ISA=$isa
    program=smoe other=
    [ -x "$modelled" ] && case $isa in v4* | amx) other=$modelled ;; esac
    if ! smoe version >/dev/null 2>err; then
        [ $isa != base ] && grep -q "SMOE_ISA=$isa: expected .* if this processor supports it" err || fail "$isa: $(cat err)"
        echo "this processor has no $isa"
        { [ -n "$other" ] && "$other" version >/dev/null 2>&1; } || continue
        program=$other other=
    fi
    for precision in f32 bf16; do
        run=$isa.$precision
        "$program" train tiny.yaml -q -o $run train.precision=$precision >/dev/null || fail "training $run"
        "$program" train tiny.yaml -q -j 1 -o $run.alone train.precision=$precision >/dev/null || fail "training $run on one thread"
        same_run $run $run.alone
        [ -n "$other" ] || continue
        "$other" train tiny.yaml -q -o $run.modelled train.precision=$precision >/dev/null || fail "training $run, modelled"
        same_run $run $run.modelled
    done
    grep -q "\"kernel\": *\"$isa\"" $isa.f32/env.json || fail "$(cat $isa.f32/env.json)"
    case $isa in amx) unit=AMX ;; v4-bf16) unit=AVX512-BF16 ;; *) unit=multiply-adds ;; esac
    grep -q "\"matrix\": *\"$unit\"" $isa.f32/env.json || fail "$(cat $isa.f32/env.json)"
    grep -o '"\(train\|test\)/loss": *[0-9.e-]*' $isa.f32/metrics.jsonl | sed 's/.*: *//' >$isa.losses
    [ "$(wc -l <$isa.losses)" -eq 27 ] || fail "$(wc -l <$isa.losses) losses of $isa"
    # A float has a precision of 6e-8; over 24 steps of Adam with a rate of 3e-3, differences of a few hundred roundings
    # accumulate.
    paste base.losses $isa.losses | awk '{ d = $1 - $2; if (d < 0) d = -d; if (!(d <= 1e-6 * $1)) { print; bad = 1 } } END { exit bad }' ||
        fail "losses of base and $isa differ"
done
unset SMOE_ISA
SMOE_ISA=v9 smoe cost tiny.yaml >/dev/null 2>err
[ $? -eq 2 ] || fail "an instruction set that there is not: $(cat err)"

# same RUN RUN: whether their models have the same bits
same() { cmp -s $1/ckpt/latest/model.safetensors $2/ckpt/latest/model.safetensors; }
for isa in v4-bf16 amx; do
    [ -d $isa.f32 ] || continue
    same v4.f32 $isa.f32 || fail "$isa trains to other bits than v4 in F32"
    ! same v4.bf16 $isa.bf16 || fail "$isa trains to the bits of v4 in BF16, although its unit sums in another order"
done
[ ! -d v3.f32 ] || ! same base.f32 v3.f32 || fail "base and v3 came to the same bits: is SMOE_ISA looked at?"
exit 0
