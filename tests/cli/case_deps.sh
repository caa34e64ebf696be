# The rule that installs Debian packages. If nothing is missing, it does nothing; as root it installs; with sudo it uses
# sudo; otherwise it prints exactly the command to type. Its tools are replaced by stand-ins here.
. "$ROOT/tests/cli/lib.sh"
mkdir stand
export here=$PWD
stand() { printf '#!/bin/sh\n%s\n' "$2" >"stand/$1" && chmod +x "stand/$1"; }
# dpkg-query -W -f=FORMAT PACKAGE: two packages are missing
stand dpkg-query 'case $3 in libyaml-dev) exit 1 ;; libpng-dev) echo "deinstall ok config-files" ;; *) echo "install ok installed" ;; esac'
stand apt-get 'echo "apt-get $*" >>$here/calls'
stand sudo '[ "$1" = -n ] && shift; [ -f $here/sudo-works ] || exit 1; echo sudo >>$here/calls; exec "$@"'
deps() { PATH="$here/stand:$PATH" make -s -C "$ROOT" deps "$@" MAKEFLAGS= >out 2>err; }

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
deps OPTIONAL= || fail "$(cat err)"
grep -q 'libyaml-dev' calls || fail "$(cat calls)"
stand dpkg-query 'case $3 in libyaml-dev | libmicrohttpd-dev | libcmocka-dev) exit 1 ;; *) echo "install ok installed" ;; esac'
rm calls
deps OPTIONAL= || fail "$(cat err)"
grep -qE '^apt-get install .*recommends libyaml-dev$' calls || fail "not only what is needed: $(cat calls)"
rm calls
deps || fail "$(cat err)"
grep -qE '^apt-get install .*recommends libyaml-dev libmicrohttpd-dev$' calls || fail "not what is needed and optional: $(cat calls)"

rm calls
stand dpkg-query 'echo "install ok installed"'
deps || fail "$(cat err)"
[ -f calls ] && fail "nothing is missing, yet: $(cat calls)"

# The Debian source package has the version of the program, and builds with the same libraries.
version=$(sed -n 's/^#define SMOE_VERSION "\(.*\)"/\1/p' "$ROOT/lib/include/smoe/smoe.h")
head -1 "$ROOT/debian/changelog" | grep -qF "smoe ($version-" || fail "debian/changelog: its first line is not of version $version"
for package in $(sed -n 's/^\([^ ]*-dev\) .*/\1/p' "$ROOT/packages.txt"); do
    grep -q "^  *$package,$" "$ROOT/debian/control" || fail "debian/control: Build-Depends lacks $package, which packages.txt has"
done
exit 0
