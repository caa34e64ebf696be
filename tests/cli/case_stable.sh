# What smoe-stable(7) promises is still there: the lines of tests/stable/promised.txt, which are only added to.
. "$ROOT/tests/cli/lib.sh"
"$ROOT/tests/stable/now.sh" "$(command -v smoe)" >now
[ "$(wc -l <now)" -gt 300 ] || fail "only $(wc -l <now) lines: $(head now)"
LC_ALL=C comm -23 "$ROOT/tests/stable/promised.txt" now >gone
[ ! -s gone ] || fail "smoe-stable(7) promises what is no longer there, or has changed. Keep the old name beside the new one, or make it version 2: $(cat gone)"
exit 0
