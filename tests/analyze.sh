#!/bin/sh
# What gcc -fanalyzer and cppcheck remark about lib/ and cmd/, but for the kinds that tests/analyze.txt answers. CC and ANALYZE_FLAGS
# come from the Makefile: `make analyze`, a quarter of an hour. With the macro of clang's analyser, that of gcc knows too
# what smoe_fail returns (base.h).
checks=analyze
. "$(dirname "$0")/verdict.sh"
out=$(mktemp) || exit 1
trap 'rm -f "$out" "$out.all"' EXIT

# answered TOOL: passes on remarks "FILE:LINE: KIND: TEXT" to which no line "TOOL FILE KIND reason" answers
answered() {
    awk -v tool="$1" 'NR == FNR { if ($1 == tool) answer[$2 " " $3]; next }
        { split($0, part, ":"); file = part[1]; kind = part[3]; gsub(/ /, "", kind) }
        !((file " " kind) in answer || ("* " kind) in answer) { print $0 ": mend it, or answer it in tests/analyze.txt" }' tests/analyze.txt -
}

ls lib/*/*.c cmd/*.c | grep -v -e lib/math/kern_ -e lib/comm/link_mpi.c |
    xargs -P "$(nproc)" -n 1 "${CC:-cc}" $ANALYZE_FLAGS -O1 -fanalyzer -D__clang_analyzer__ -DSMOE_CFLAGS='""' -c -o /dev/null 2>"$out.all"
sed -n 's/^\([a-z][^:]*:[0-9]*\):.* warning: \(.*\) \[-Wanalyzer-\([a-z-]*\)\]$/\1: \3: \2/p' "$out.all" | sort -u | answered gcc >"$out"
verdict "gcc -fanalyzer"

if command -v cppcheck >/dev/null; then
    cppcheck -j "$(nproc)" --enable=warning,portability --std=c11 --quiet -Ilib -Ilib/include -Icmd -D_GNU_SOURCE= \
        --template='{file}:{line}: {id}: {message}' --suppress=missingIncludeSystem lib cmd 2>&1 | answered cppcheck >"$out"
    verdict "cppcheck"
else
    skip "no cppcheck"
fi
echo "$passed passed, $failed failed$([ $skipped -gt 0 ] && echo ", $skipped skipped")"
[ $failed -eq 0 ]
