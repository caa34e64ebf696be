# The rule that installs Debian packages. If nothing is missing, it does nothing; as root it installs; with sudo it uses
# sudo; otherwise it prints exactly the command to type. Its tools are replaced by stand-ins here.
. "$ROOT/tests/cli/lib.sh"
mkdir stand
stand() { printf '#!/bin/sh\n%s\n' "$2" >"stand/$1" && chmod +x "stand/$1"; }
# dpkg-query -W -f=FORMAT PACKAGE: two packages are missing
stand dpkg-query 'case $3 in libyaml-dev) exit 1 ;; libpng-dev) echo "deinstall ok config-files" ;; *) echo "install ok installed" ;; esac'
stand apt-get 'echo "apt-get $*" >>calls'
stand sudo '[ "$1" = -n ] && shift; [ -f sudo-works ] || exit 1; echo sudo >>calls; exec "$@"'
here=$PWD
deps() { PATH="$here/stand:$PATH" make -s -f "$ROOT/Makefile" deps MAKEFLAGS= >out 2>err; }
cp "$ROOT/packages.txt" .

stand id 'echo 1000'
deps && fail "no root, no sudo, yet status 0"
grep -q "sudo apt-get install.* libyaml-dev.* libpng-dev" err || fail "$(cat err)"
[ -f calls ] && fail "called: $(cat calls)"

touch sudo-works
deps || fail "$(cat err)"
grep -q '^sudo$' calls && grep -qE '^apt-get install .*libyaml-dev.* libpng-dev$' calls || fail "$(cat calls)"
grep -q gcc calls && fail "installs what is there: $(cat calls)"

rm calls
stand id 'echo 0'
deps || fail "$(cat err)"
head -n 1 calls | grep -q '^apt-get update' || fail "$(cat calls)"
grep -q sudo calls && fail "sudo for root"

rm calls
stand dpkg-query 'echo "install ok installed"'
deps || fail "$(cat err)"
[ -f calls ] && fail "nothing is missing, yet: $(cat calls)"
exit 0
