# make install into a folder: the program runs, a program of somebody else builds against the library, uninstall leaves
# nothing.
. "$ROOT/tests/cli/lib.sh"
make -s -C "$ROOT" install DESTDIR="$PWD/root" prefix=/usr MAKEFLAGS= >log 2>&1 || fail "$(cat log)"
status 0 root/usr/bin/smoe --version >/dev/null
for f in bash-completion/completions/smoe zsh/site-functions/_smoe fish/vendor_completions.d/smoe.fish man/man1/smoe.1; do
    [ -s "root/usr/share/$f" ] || fail "not installed: $f"
done
cat >prog.c <<'END'
#include <smoe/smoe.h>
#include <stdio.h>
int main(void) {
    static smoe_err err;
    smoe_spec *spec;
    if (smoe_spec_open(&spec, "tiny.yaml", NULL, 0, &err)) return puts(err.text), 1;
    puts(smoe_spec_json(spec));
    smoe_spec_close(spec);
    return 0;
}
END
PKG_CONFIG_SYSROOT_DIR=$PWD/root PKG_CONFIG_PATH=$PWD/root/usr/lib/pkgconfig pkg-config --cflags --libs smoe >flags 2>log ||
    fail "$(cat log)"
# The sysroot belongs to our folder alone, not to the system's libraries.
${CC:-cc} -std=c11 prog.c -I"$PWD/root/usr/include" -L"$PWD/root/usr/lib" $(tr ' ' '\n' <flags | grep -E '^-(l|f|p)') -o prog 2>log ||
    fail "$(cat log)"
./prog | grep -q '"name":"tiny"' || fail "$(./prog)"
make -s -C "$ROOT" uninstall DESTDIR="$PWD/root" prefix=/usr MAKEFLAGS= >log 2>&1 || fail "$(cat log)"
[ -z "$(find root -type f)" ] || fail "left behind: $(find root -type f)"
# A blank would be the end of one path and the beginning of another, which rm does not know.
for target in install uninstall; do
    make -s -C "$ROOT" $target DESTDIR="$PWD/a b" MAKEFLAGS= >log 2>&1 && fail "$target took a folder with a blank"
    grep -q 'DESTDIR and prefix cannot have blanks' log || fail "$(cat log)"
done
[ ! -e a ] && [ ! -e "a b" ] || fail "something was installed"
