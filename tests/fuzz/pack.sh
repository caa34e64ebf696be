#!/bin/sh
# Packs the inputs of build/corpus/NAME, and those that lie loose in tests/fuzz/corpus/NAME, into tests/fuzz/corpus/NAME.tar.gz.
# Usage: pack.sh [NAME ...]
cd "$(dirname "$0")/../.." || exit 1
[ $# -gt 0 ] || set -- $(ls tests/fuzz/fuzz_*.c | sed 's/.*fuzz_//; s/\.c$//')
for name; do
    archive=tests/fuzz/corpus/$name.tar.gz
    make -s "build/corpus/$name/.unpacked" || exit 1
    tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=644 --format=ustar --exclude=.unpacked \
        -C "build/corpus/$name" --transform='s,^\./,,' --no-recursion -cf - $(cd "build/corpus/$name" && find . -type f | sed 's,^\./,,' | LC_ALL=C sort) |
        gzip -9n >"$archive.new" && mv "$archive.new" "$archive" && rm -rf "tests/fuzz/corpus/$name" || exit 1
    touch "build/corpus/$name/.unpacked"
    echo "$archive: $(tar -tzf "$archive" | wc -l) inputs"
done
