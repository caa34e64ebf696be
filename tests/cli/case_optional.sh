# Without the optional libraries the program builds and works: serve says what it needs, doctor what is missing. pkg-config is a
# stand-in that does not know them.
. "$ROOT/tests/cli/lib.sh"
mkdir stand
real=$(command -v pkg-config) || skip "no pkg-config"
cat >stand/pkg-config <<END
#!/bin/sh
case "\$*" in *libmicrohttpd* | *ompi* | *sentencepiece*) exit 1 ;; esac
exec "$real" "\$@"
END
chmod +x stand/pkg-config
# The objects are those of the ordinary build, but for the two files that differ: a copy of the tree of objects with their times.
mkdir tree && (cd "$ROOT" && tar -cf - Makefile packages.txt lib cmd man tests/Makefile experiments/Makefile) | tar -xf - -C tree
mkdir -p tree/build/release
for part in lib cmd libsmoe.a libcmd.a flags; do cp -Rp "$ROOT/build/release/$part" tree/build/release/ || fail "no build/release/$part"; done
make() { PATH="$PWD/stand:$PATH" command make -s -C tree MAKEFLAGS= "$@"; }
make -o build/release/flags build/release/cmd/doctor.o -W cmd/doctor.c >log 2>&1 || fail "$(cat log)"
make -o build/release/flags all >log 2>&1 || fail "$(cat log)"
smoe=tree/build/smoe
[ ! -e tree/build/release/smoe_mpi.so ] && [ ! -e tree/build/release/smoe_sentencepiece.so ] || fail "modules were built"
readelf -d "$smoe" 2>/dev/null | grep -q microhttpd && fail "linked with libmicrohttpd"
status 0 $smoe train tiny.yaml -q -o run train.steps=4 >/dev/null
status 1 $smoe serve run 2>err
grep -q 'cannot serve: install libmicrohttpd-dev and build again' err || fail "$(cat err)"
status 0 $smoe doctor >out 2>err
for name in 'smoe serve' MPI SentencePiece; do grep -q "^$name .*not in this build" out || fail "$name: $(cat out)"; done
grep -q 'libmicrohttpd-dev' out && grep -q 'libopenmpi-dev' out && grep -q 'libsentencepiece-dev' out || fail "$(cat out)"
exit 0
