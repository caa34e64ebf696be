# Every spec of experiments/ is valid, can be costed, and states its purpose in its first line.
. "$ROOT/tests/cli/lib.sh"
found=0
for spec in $(find "$ROOT/experiments" -name '*.yaml'); do
    smoe cost "$spec" --print-config >/dev/null || fail "$spec is not valid"
    smoe cost "$spec" --classes 1000 --json >/dev/null || fail "$spec cannot be costed"
    head -n 1 "$spec" | grep -q '^# ' || fail "$spec does not begin with what it shows"
    found=$((found + 1))
done
[ $found -gt 5 ] || fail "only $found specs found"
