# Every spec of experiments/ is valid, can be costed, and states its purpose in its first line. Where a page shows a command
# `smoe cost`, the lines below it are what it prints.
. "$ROOT/tests/cli/lib.sh"
found=0
for spec in $(find "$ROOT/experiments" -name '*.yaml'); do
    smoe cost "$spec" --print-config >/dev/null || fail "$spec is not valid"
    smoe cost "$spec" --classes 1000 --json >/dev/null || fail "$spec cannot be costed"
    head -n 1 "$spec" | grep -q '^# ' || fail "$spec does not begin with what it shows"
    found=$((found + 1))
done
[ $found -gt 5 ] || fail "only $found specs found"

shown=0
for page in "$ROOT"/README.md "$ROOT"/experiments/*.md; do
    command=$(sed -n 's/^ *\$ \(smoe cost .*\)/\1/p' "$page" | head -n 1)
    [ "$command" ] || continue
    awk 'on && !/^    ./ { exit } on { sub(/^    /, ""); print } /^ *\$ smoe cost / { on = 1 }' "$page" >wanted
    (cd "$ROOT" && export SMOE_ISA=base && eval "$command") >printed || fail "$page: $command fails"
    cmp -s wanted printed || fail "$page: not what $command prints (>): $(diff wanted printed)"
    shown=$((shown + 1))
done
[ $shown -gt 0 ] || fail "no page shows what smoe cost prints"
