# The kernels of every instruction set train the same model: each gives the same bits for any number of threads, and all
# give the same losses up to rounding of sums in another order. SMOE_ISA=base is what a processor without AVX uses.
. "$ROOT/tests/cli/lib.sh"
for isa in base v3 v4 v4-bf16 amx; do
    if ! SMOE_ISA=$isa smoe train tiny.yaml -q -o $isa >/dev/null 2>err; then
        [ $isa != base ] && grep -q "SMOE_ISA=$isa: expected .* only what this processor supports" err || fail "$isa: $(cat err)"
        echo "this processor has no $isa"
        continue
    fi
    grep -q "\"kernel\": *\"$isa\"" $isa/env.json || fail "$(cat $isa/env.json)"
    case $isa in amx) unit=AMX ;; v4-bf16) unit=AVX512-BF16 ;; *) unit=multiply-adds ;; esac
    grep -q "\"matrix\": *\"$unit\"" $isa/env.json || fail "$(cat $isa/env.json)"
    SMOE_ISA=$isa smoe train tiny.yaml -q -j 1 -o $isa-alone >/dev/null || fail "training with $isa on one thread"
    same_run $isa $isa-alone
    grep -o '"\(train\|test\)/loss": *[0-9.e-]*' $isa/metrics.jsonl | sed 's/.*: *//' >$isa.losses
    [ "$(wc -l <$isa.losses)" -eq 27 ] || fail "$(wc -l <$isa.losses) losses of $isa"
    # A float has a precision of 6e-8; over 24 steps of Adam with a rate of 3e-3, differences of a few hundred roundings
    # accumulate.
    paste base.losses $isa.losses | awk '{ d = $1 - $2; if (d < 0) d = -d; if (!(d <= 1e-6 * $1)) { print; bad = 1 } } END { exit bad }' ||
        fail "losses of base and $isa differ"
done
SMOE_ISA=v9 smoe cost tiny.yaml >/dev/null 2>err
[ $? -eq 2 ] || fail "an instruction set that there is not: $(cat err)"
for isa in v4-bf16 amx; do
    [ ! -d $isa ] || cmp -s v4/ckpt/latest/model.safetensors $isa/ckpt/latest/model.safetensors ||
        fail "$isa trains to other bits than v4 in F32"
done
[ ! -d v3 ] || ! cmp -s base/ckpt/latest/model.safetensors v3/ckpt/latest/model.safetensors ||
    fail "base and v3 came to the same bits: is SMOE_ISA looked at?"
exit 0
