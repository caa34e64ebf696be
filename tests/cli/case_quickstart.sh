# make quickstart prints the accuracy of both models, which is that of the page in its first digit.
. "$ROOT/tests/cli/lib.sh"
env -u MAKEFLAGS -u MAKELEVEL make -C "$ROOT" -s quickstart QUICK="$PWD/quick" >out 2>err || fail "$(tail -n 5 out err)"
grep -qE '/quick +top-1 accuracy +0\.8' out && grep -qE '/quick-dense +top-1 accuracy +0\.[78]' out || fail "$(tail -n 12 out)"
