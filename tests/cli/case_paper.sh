# Every sweep of experiments/paper runs dry, and the table of its README has the cells, parameters and FLOPs of that run.
. "$ROOT/tests/cli/lib.sh"
readme=$ROOT/experiments/paper/README.md found=0
for spec in "$ROOT"/experiments/paper/*.yaml; do
    grep -q '^sweep:' "$spec" || continue
    name=$(basename "$spec" .yaml)
    status 0 smoe sweep "$spec" --dry-run >plan
    cells=$(grep -cE '^[0-9]{3}-' plan || true)
    [ "$cells" -gt 0 ] || cells=1 # a single model, evaluated at many settings
    cost=$(sed -n 's/^all: at most \([0-9.]* [MB]\) parameters .*; \([0-9.]* [EZ]FLOP\) of training.*/\1 | \2/p' plan)
    [ -n "$cost" ] || fail "$name: no cost in: $(tail -n 2 plan)"
    grep -qE "^\| \[$name\]\($name.yaml\) \| .* \| $cells(, at [0-9]+ settings)? \| $cost \|\$" "$readme" ||
        fail "experiments/paper/README.md: the row of $name should end with: $cells | $cost |"
    found=$((found + 1))
done
[ $found -gt 20 ] || fail "only $found sweeps found"
