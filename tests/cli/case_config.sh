# What --print-config prints is a spec with the same meaning, and so is the spec.yaml of a run.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml train.steps=5 --print-config >resolved.yaml
status 0 smoe train resolved.yaml --print-config | sed 's/ *#.*//' >again
sed 's/ *#.*//' resolved.yaml | cmp - again || fail "printed twice, it differs"
grep -q 'steps: 5 .*override' resolved.yaml || fail "no origin for an override"
status 0 smoe train resolved.yaml -q -o run
[ "$(sed '1{/^# resolved: /d}; s/ *#.*//' run/spec.yaml)" = "$(cat again)" ] || fail "spec.yaml of the run differs"
