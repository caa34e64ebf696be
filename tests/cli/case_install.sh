# make install into a folder: the program runs, a program of another author builds against the libraries, uninstall leaves
# nothing.
. "$ROOT/tests/cli/lib.sh"
make -s -C "$ROOT" install DESTDIR="$PWD/root" prefix=/usr MAKEFLAGS= >log 2>&1 || fail "$(cat log)"
status 0 root/usr/bin/smoe --version >version
version=$(sed 's/^smoe //' version)
for f in bash-completion/completions/smoe zsh/site-functions/_smoe fish/vendor_completions.d/smoe.fish man/man1/smoe.1 \
    smoe/README.md smoe/experiments/quickstart.yaml smoe/experiments/README.md smoe/examples/predict.c; do
    [ -s "root/usr/share/$f" ] || fail "not installed: $f"
done
[ "$(cd root/usr/include && find . -type f)" = ./smoe/smoe.h ] || fail "headers: $(find root/usr/include -type f)"

# The README's commands outside the tree: the first spec that it names.
(cd root/usr/share/smoe && status 0 ../../bin/smoe train experiments/quickstart.yaml --dry-run --json) >log 2>&1 || fail "$(cat log)"

# The functions of the shared library are those of the header.
lib=$PWD/root/usr/lib
[ "$(readlink "$lib/libsmoe.so")" = "libsmoe.so.${version%%.*}" ] || fail "libsmoe.so: $(readlink "$lib/libsmoe.so")"
[ "$(readlink "$lib/libsmoe.so.${version%%.*}")" = "libsmoe.so.$version" ] || fail "$(ls -l "$lib")"
nm -D --defined-only "$lib/libsmoe.so" | grep -v " A SMOE_0$" | sed "s/.* T \(.*\)@@SMOE_0$/\1/" | sort >exported
sed -n '/^SMOE_API/s/.*[ *]\(smoe_[a-z0-9_]*\)(.*/\1/p' root/usr/include/smoe/smoe.h | sort >declared
cmp -s declared exported || fail "declared and exported: $(diff declared exported)"

# The example against both libraries, as C and as C++. The sysroot is for our folder only.
below="$(sed -n 's/^Libs.private: //p' "$lib/pkgconfig/smoe.pc") $(pkg-config --libs $(sed -n 's/^Requires.private: //p' "$lib/pkgconfig/smoe.pc"))"
export PKG_CONFIG_SYSROOT_DIR="$PWD/root" PKG_CONFIG_PATH="$lib/pkgconfig"
include=$(pkg-config --cflags smoe)
shared=$(pkg-config --libs smoe)
[ "$(pkg-config --modversion smoe)" = "$version" ] || fail "pkg-config says $(pkg-config --modversion smoe)"
example=root/usr/share/smoe/examples/predict.c
${CC:-cc} -std=c11 -Wall -Wextra -Werror $include $example -L"$lib" $shared -o in_c 2>log || fail "$(cat log)"
${CC:-cc} -x c++ -Wall -Wextra -Werror $include $example -x none -L"$lib" $shared -o in_cc 2>log || fail "$(cat log)"
${CC:-cc} -std=c11 $include $example "$lib/libsmoe.a" $below -o alone 2>log || fail "$(cat log)"

# An image of the viewer of one run is a PNG of its data; the three programs print the same.
cp "$ROOT/tests/cli/tiny.yaml" .
status 0 smoe train tiny.yaml -q -o run train.steps=4 >log
status 0 smoe inspect run -q -o pages >log
image=$(find pages -name '*.png' | sort | head -n 1)
for program in in_c in_cc alone; do
    LD_LIBRARY_PATH=$lib status 0 ./$program run "$image" "$image" >$program.out
    grep -qE '^pages/.*: class [0-9], probability [01]\.[0-9]{3}$' $program.out || fail "$(cat $program.out)"
    cmp -s in_c.out $program.out || fail "$(cat in_c.out $program.out)"
done
ldd alone | grep libsmoe && fail "the static program has the shared library"
LD_LIBRARY_PATH=$lib ldd in_c | grep -q "libsmoe.so.${version%%.*} " || fail "$(ldd in_c)"
LD_LIBRARY_PATH=$lib status 3 ./in_c run tiny.yaml 2>err
grep -q '^tiny.yaml: unknown format' err || fail "$(cat err)"

unset PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_PATH # for the programs above, not for ours
make -s -C "$ROOT" uninstall DESTDIR="$PWD/root" prefix=/usr MAKEFLAGS= >log 2>&1 || fail "$(cat log)"
[ "$(find root)" = root ] || fail "left behind: $(find root)"
# In a folder of its own: the example runs without LD_LIBRARY_PATH, and what others put there stays.
own=$PWD/own
make -s -C "$ROOT" install prefix="$own" MAKEFLAGS= >log 2>&1 || fail "$(cat log)"
${CC:-cc} "$own/share/smoe/examples/predict.c" $(PKG_CONFIG_PATH="$own/lib/pkgconfig" pkg-config --cflags --libs smoe) -o in_own 2>log || fail "$(cat log)"
status 0 ./in_own run "$image" "$image" >own.out
cmp in_c.out own.out || fail "$(cat own.out)"
: >own/bin/theirs
make -s -C "$ROOT" uninstall prefix="$own" MAKEFLAGS= >log 2>&1 || fail "$(cat log)"
[ "$(find own | sort | tr '\n' ' ')" = 'own own/bin own/bin/theirs ' ] || fail "left behind: $(find own)"
# In a path with a blank, rm would see the end of one path and the beginning of another.
for target in install uninstall; do
    make -s -C "$ROOT" $target DESTDIR="$PWD/a b" MAKEFLAGS= >log 2>&1 && fail "$target took a folder with a blank"
    grep -q 'DESTDIR and prefix cannot have blanks' log || fail "$(cat log)"
done
[ ! -e a ] && [ ! -e "a b" ] || fail "something was installed"

# PREFIX is taken for prefix, as in other Makefiles: such an installation must not go to /usr/local
make -n -C "$ROOT" install PREFIX=/opt/own MAKEFLAGS= 2>/dev/null >log
grep -q '/opt/own/bin' log && ! grep '/usr/local/bin' log || fail "$(cat log)"
