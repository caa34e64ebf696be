# make quickstart trains both models. With SMOE_ISA=v3 their evaluations are those of README.md, and what smoe inspect prints is that of
# the page, digit for digit; a processor without AVX2 must agree in the first digit.
. "$ROOT/tests/cli/lib.sh"
exact=
SMOE_ISA=v3 smoe version >/dev/null 2>&1 && exact=v3
env -u MAKEFLAGS -u MAKELEVEL ${exact:+SMOE_ISA=v3} make -C "$ROOT" -s quickstart QUICK="$PWD/quick" >out 2>err || fail "$(tail -n 5 out err)"
grep -qE '/quick +top-1 accuracy +0\.8' out && grep -qE '/quick-dense +top-1 accuracy +0\.[78]' out || fail "$(tail -n 12 out)"
[ "$exact" ] || exit 0

sed -n 's/^    \(step .* images)\)$/\1/p' "$ROOT/README.md" >wanted
[ "$(wc -l <wanted)" -eq 2 ] || fail "README.md shows evaluations of $(wc -l <wanted) models, not of 2"
grep -xF -f wanted err | cmp -s wanted - || fail "README.md shows other evaluations than (>): $(grep '^step' err | diff wanted -)"
sed -n 's/^    \(layer .*\|blocks\..*\)$/\1/p' "$ROOT/experiments/quickstart.md" >wanted
SMOE_ISA=v3 smoe inspect -q quick | grep -E '^(layer|blocks)' >printed
cmp -s wanted printed || fail "experiments/quickstart.md: not what smoe inspect prints (>): $(diff wanted printed)"
