#!/bin/sh
# What other processors need. Everything but the kernels made for AVX runs on any x86-64, as the instructions in the objects
# show. All of it compiles for aarch64 without a warning, and the numerical tests pass there under qemu (Debian packages
# gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user-static; without them this part is skipped). CC, HEADER_FLAGS,
# STRICT and KERNEL come from the Makefile, the objects from `make`.
checks=portable
. "$(dirname "$0")/verdict.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
out=$work/out

# Instructions in the objects $@ that not every x86-64 has: those with VEX and EVEX encodings, and bit manipulation.
# (Compilers write tzcnt for bsf: older processors execute it as bsf.)
beyond() {
    objdump -d --no-show-raw-insn "$@" | awk '
        /file format/ { file = $1 }
        $1 ~ /^[0-9a-f]+:$/ && (($2 ~ /^v/ && /%[xyz]mm/) ||
            $2 ~ /^(andn|bextr|blsi|blsr|blsmsk|bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx|lzcnt|popcnt|movbe)[lq]?$/) {
            if (!(file in seen)) print file " " $0
            seen[file]
        }'
}

case $(${CC:-cc} -dumpmachine) in
x86_64-*)
    if ! command -v objdump >/dev/null; then
        skip "instructions: no objdump"
    elif tr ' ' '\n' <build/release/flags | grep '^-m' |
        grep -qvxF -e "$(sed -n 's/^ISA_FLAGS_[a-z0-9]* *:= *//p' Makefile | tr ' ' '\n')"; then
        skip "instructions: the flags ask for another processor: $(cat build/release/flags)"
    else
        objects=$(find build/release/lib build/release/cmd -name '*.o')
        plain=$(echo "$objects" | grep -v '\.\(v[34]\|bf16\|amx\)\.o$')
        [ "$(echo "$plain" | wc -l)" -gt 50 ] || echo "only these objects are there: $plain" >"$out"
        beyond $plain >>"$out"
        verdict "instructions that not every x86-64 has"
        # The check itself must find such instructions where they are: one line per file.
        wide=$(echo "$objects" | grep '\.\(v[34]\|bf16\|amx\)\.o$')
        [ "$(beyond $wide | wc -l)" -eq "$(echo "$wide" | wc -l)" ] || echo "no AVX found in some of: $wide" >"$out"
        verdict "the kernels for AVX have none"
        # Nothing else shows that the compiler removed some of them, and the peak is then too high.
        for object in build/release/lib/math/kern_gemm.v*.o; do
            objdump -d --no-show-raw-insn "$object" | awk -v object="$object" '
                /^[0-9a-f]+ </ { here = /<kern_gemm_peak>/ }
                here && $2 ~ /^vfmadd/ { n++ }
                END { if (n != 12) print object ": kern_gemm_peak has " n + 0 " multiply-adds, not 12" }'
        done >"$out"
        verdict "the loop that measures the peak has all of its multiply-adds"
    fi
    ;;
*) skip "instructions: this is no x86-64" ;;
esac

cross=aarch64-linux-gnu-gcc
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64)
if ! command -v $cross >/dev/null; then
    skip "aarch64: no $cross"
else
    # Headers of libraries that are the same for every processor.
    mkdir "$work/include"
    for h in Random123 yaml jansson jansson_config turbojpeg archive archive_entry zlib zconf lapack lapacke \
        lapacke_config lapacke_mangling lapacke_utils; do
        for f in /usr/include/$h /usr/include/$h.h; do [ -e "$f" ] && ln -s "$f" "$work/include/"; done
    done
    cat >"$work/compile" <<EOF
for f; do
    case \$f in lib/math/kern_*) how='$KERNEL' ;; *) how='$STRICT' ;; esac
    $cross $HEADER_FLAGS \$how -isystem $work/include -Itests/portable -DXXH_INLINE_ALL \
        -Wno-unknown-pragmas -ffunction-sections -c -o $work/\$(echo \$f | tr / _).o \$f 2>&1
done
EOF
    # Programs link statically with the library alone; parts of it that need other libraries are left out by the linker.
    tests="base/test_base math/test_gemm math/test_kernels math/test_matrix math/test_stats tensors/test_npy train/test_task train/test_optim vit/test_grad"
    helpers=$(ls tests/support/*.c tests/portable/*.c)
    ls lib/*/*.c cmd/*.c $helpers $(for t in $tests; do echo tests/$t.c; done) |
        xargs -P "$(nproc 2>/dev/null || echo 1)" -n 8 sh "$work/compile" >"$out"
    verdict "sources that do not compile for aarch64, or with warnings"
    if [ -z "$qemu" ]; then
        skip "running aarch64: no qemu-aarch64-static"
    else
        aarch64-linux-gnu-ar rcs "$work/all.a" "$work"/lib_*.o $(for h in $helpers; do echo "$work/$(echo $h | tr / _).o"; done)
        for t in $tests; do
            $cross -static -fopenmp -pthread -Wl,--gc-sections -o "$work/test" "$work/tests_$(echo $t | tr / _).c.o" "$work/all.a" -lm >"$out" 2>&1 &&
                : >"$out" && { "$qemu" "$work/test" >"$work/log" 2>&1 || tail -n 5 "$work/log" >"$out"; }
            verdict "$t on aarch64"
        done
    fi
fi

echo "$passed passed, $failed failed$([ $skipped -gt 0 ] && echo ", $skipped skipped")"
[ $failed -eq 0 ]
