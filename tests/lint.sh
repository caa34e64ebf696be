#!/bin/sh
# Style checks. CC and HEADER_FLAGS come from the Makefile. Tools that are not installed are skipped. A check that fails
# prints its rule and the remedy, then the places; the last line counts the checks.
CC=${CC:-cc}
checks=lint
. "$(dirname "$0")/verdict.sh"
out=$(mktemp) || exit 1
trap 'rm -f "$out"' EXIT

public=$(ls lib/include/*/*.h)
sources=$(ls $public lib/*/*.c lib/*/*.h lib/*/*.def cmd/*.c cmd/*.h cmd/*.def examples/*.c tests/*/*.[ch] experiments/*/*.c 2>/dev/null)
pages=$(ls README.md NEWS.md HISTORY.md CONTRIBUTING.md */README.md */*/README.md tests/LOG.md experiments/*.md experiments/notes/*.md 2>/dev/null | sort -u)
texts="$sources $pages $(ls Makefile tests/Makefile experiments/Makefile packages.txt .ci/run man/*.[1-9] tests/*.sh tests/cluster/*.sh experiments/*/*.sh tests/cli/* tests/golden/* 2>/dev/null)"

for f in $texts; do [ -f "$f" ] && grep -nH '[[:space:]]$' "$f"; done >"$out"
verdict "no line ends with a blank: remove them"

# Links from the pages to files of the tree.
for page in $pages; do
    grep -oE '\]\([^)#: ]+[^): ]*\)' "$page" | sed 's/^](//; s/[#)].*//' | while read -r link; do
        [ -e "$(dirname "$page")/$link" ] || echo "$page: $link"
    done
done >"$out"
verdict "links lead to files of the tree: correct the path, or remove the link"

tab=$(printf '\t')
for f in $sources; do grep -nH "$tab" "$f"; done >"$out"
verdict "sources have no tabs: indent by four spaces"

# Rooms from the top down; a file may include its own room and those below.
awk '
    BEGIN {
        n = split("cmd api inspect sweep compare bench draw train vit route store comm data text spec math tensors base", room, " ")
        for (i = 1; i <= n; i++) level[room[i]] = i
    }
    FNR == 1 { here = FILENAME; sub(/^lib\//, "", here); sub(/\/.*/, "", here) }
    /^#include "/ {
        there = $2; gsub(/"/, "", there)
        if (!sub(/\/.*/, "", there)) there = here
        if (there in level && here in level && level[there] < level[here])
            print FILENAME ":" FNR ": " here " includes " $2
    }' $(ls lib/*/*.[ch] lib/*/*.def cmd/*.c cmd/*.h) >"$out"
verdict "a room includes only rooms below it (the list is in this script, and in lib/README.md): move the function down, or pass it in"

# Only one file knows MPI: the module that is loaded under a launcher.
grep -nE 'mpi\.h|(^|[^O])MPI_[A-Z]' lib/*/*.[ch] cmd/*.[ch] | grep -v '^lib/comm/link_mpi.c:' >"$out"
verdict "only lib/comm/link_mpi.c knows MPI: use lib/comm/comm.h"

# The two lowest rooms know nothing of what is built on them; only base.h explains the letters. math/ has a kernel of attention,
# which is products and a softmax, but knows no layer.
grep -niEw 'moe|softmoe|routers?|experts?' lib/base/*.[ch] lib/math/*.[ch] |
    grep -v '^lib/base/base.h:[0-9]*: \*   E experts' >"$out"
verdict "base/ and math/ know no layer of the model: move the code to route/ or vit/, or use a general word"

# The same within a room: a file and its header count as one, and no chain of includes leads back to its start.
rooms=$(ls lib/*/*.c cmd/*.c | sed 's,/[^/]*$,,' | sort -u)
for room in $rooms; do
    awk -v room="${room#lib/}/" '
        function stem(path) { sub(/.*\//, "", path); sub(/\.[a-z]+$/, "", path); return path }
        /^#include "/ {
            there = $2; gsub(/"/, "", there)
            inside = index(there, room) == 1 || there !~ /\//
            if (inside && there !~ /\.def$/ && stem(there) != stem(FILENAME))
                print stem(FILENAME), stem(there)
        }' $room/*.[ch] | tsort 2>&1 >/dev/null | sed "s,^,$room: ,"
done >"$out"
verdict "includes within a room have no circle: move what both need to a header of its own"

# And of calls and tables, as the linker sees them: the objects of the files that are there, those of a kernel as one.
if [ -f build/release/libsmoe.a ]; then
    for room in $rooms; do
        nm -A $(ls $room/*.c | sed 's,^,build/release/,; s,c$,*o,') 2>/dev/null | awk '
            {
                file = $0
                sub(/:.*/, "", file); gsub(/.*\/|\..*/, "", file)
                sub(/^[^:]*:/, "")
                if ($1 == "U") uses[file " " $2]
                else if ($2 ~ /[A-Z]/) home[$3] = file
            }
            END {
                for (use in uses) {
                    split(use, word)
                    if (word[2] in home && home[word[2]] != word[1]) print word[1], home[word[2]]
                }
            }' | tsort 2>&1 >/dev/null | sed "s,^,$room: ,"
    done >"$out"
    verdict "calls between files of a room have no circle: move the function to the file that calls it, or below both"
else
    skip "no build/release: circles of calls"
fi

# The public headers are below all rooms: they include only system headers, and compile as C++ too.
for h in $public; do
    grep -nH '#include "' "$h"
    printf '#include "%s"\n' "$h" | $CC -I. -Wall -Wextra -Wpedantic -fsyntax-only -x c++ - 2>&1 | sed "s,^,$h: ,"
    grep -nHw real "$h"
done >"$out"
verdict "public headers include only system headers, are C++ too, and say float: move what they need into them"

# The library neither prints nor exits. Comments are ignored; the runner of sweeps may end the processes that it started, and
# base/alloc.c ends the program where there is no memory.
for f in lib/*/*.c; do
    awk -v file="$f" '
        { line = $0; gsub(/\/\*.*\*\//, "", line); gsub(/"([^"\\]|\\.)*"/, "\"\"", line) }
        file ~ /sweep\/runner.c|base\/alloc.c/ { gsub(/_exit\(/, "", line) }
        line ~ /(^|[^a-z_])(printf|puts|putchar|perror|exit|_exit|abort)[ ]*\(/ ||
        line ~ /[^a-z_](stdout|stderr)[^a-z_]/ { print file ":" FNR ": " $0 }' "$f"
done >"$out"
verdict "only cmd/ prints and exits: return an error by smoe_fail"

for h in $public lib/*/*.h cmd/*.h tests/*/*.h; do
    [ -f "$h" ] || continue
    printf '#include "%s"\n' "$h" |
        $CC $HEADER_FLAGS -I. -Wno-unused-function -Wno-psabi -fsyntax-only -x c - 2>&1 | sed "s,^,$h: ,"
done >"$out"
verdict "a header compiles alone: include what it uses"

# A function whose name begins with the name of a header, as smoe_plan_measure with that of plan.h, is declared in this
# header or in one that belongs to it: plans.h, plan_view.h.
ls lib/*/*.h cmd/*.h | xargs awk '
    FNR == 1 { here = FILENAME; gsub(/.*\/|\.h$/, "", here); header[here] }
    /^([a-z].*[ *])?smoe_[a-z0-9_]+\(/ && !/^(static|typedef)/ {
        match($0, /smoe_[a-z0-9_]+\(/)
        declared[FILENAME ":" FNR ": " substr($0, RSTART, RLENGTH - 1)] = here
    }
    END {
        for (what in declared) {
            n = split(substr(what, index(what, ": smoe_") + 7), word, "_")
            noun = best = word[1]
            for (i = 2; i <= n; i++) {
                noun = noun "_" word[i]
                if (noun in header) best = noun
            }
            here = declared[what]
            if (best in header && here != best && here != best "s" && index(here, best "_") != 1 && index(here, best "s_") != 1)
                print what " belongs to " best ".h"
        }
    }' | sort >"$out"
verdict "a function is declared in the header that its name begins with: rename or move it"

# Names of metrics occur only in their table and in tables of columns. Names that are one plain word are not searched for.
awk '
    FILENAME ~ /metrics\.def$/ {
        while (match($0, /\.(name|column) = "[^"]*"/)) {
            name = substr($0, RSTART, RLENGTH)
            $0 = substr($0, RSTART + RLENGTH)
            gsub(/.* = "|"$/, "", name)
            sub(/_K$/, "_", name)
            known[name]
            sub(/.*\//, "", name)
            known[name]
        }
        next
    }
    {
        line = $0
        gsub(/\/\*.*\*\//, "", line)
        while (match(line, /"([^"\\]|\\.)*"|\047[^\047]*\047/)) {
            text = substr(line, RSTART + 1, RLENGTH - 2)
            line = substr(line, RSTART + RLENGTH)
            n = split(text, word, /[^A-Za-z0-9_.\/]+/)
            for (i = 1; i <= n; i++) {
                sub(/_[0-9]+$/, "_", word[i])
                if ((word[i] ~ /[_\/]/ && word[i] in known) || word[i] ~ /\/router\//)
                    print FILENAME ":" FNR ": " word[i]
            }
        }
    }' lib/spec/metrics.def $(ls lib/*/*.[ch] lib/*/*.js cmd/*.[ch]) >"$out"
verdict "names of metrics are written in lib/spec/metrics.def alone: use smoe_metric_name or smoe_metrics[...]"

if command -v groff >/dev/null; then
    for m in man/*.[1-9]; do
        [ -f "$m" ] && groff -man -ww -Tutf8 -z "$m" 2>&1
    done >"$out"
    verdict "groff accepts the man pages: correct the markup"
    for m in man/*.[1-9]; do
        groff -man -Tascii -rLL=80n -P-cbou "$m" 2>/dev/null | awk -v m="$m" 'length($0) > 80 { print m ": " $0 }'
    done >"$out"
    verdict "man pages fit 80 columns: break the example or the table"
else
    skip "no groff: man pages, their width"
fi

if command -v clang-format >/dev/null; then
    for f in $(ls $public lib/*/*.c lib/*/*.h cmd/*.c cmd/*.h examples/*.c tests/*/*.[ch] experiments/*/*.c 2>/dev/null); do
        clang-format "$f" | cmp -s - "$f" || echo "$f"
    done >"$out"
    verdict "sources are as clang-format writes them: clang-format -i FILE"
else
    skip "no clang-format: layout of the code"
fi

awk 'length > 100 { print FILENAME ":" FNR }' $public lib/*/*.[ch] cmd/*.[ch] experiments/*/*.c lib/*/*.def cmd/*.def \
    tests/*/*.def >"$out"
verdict "lines of code and of tables have at most 100 columns: break them"

# shellcheck disable=SC2046
awk -v check=1 -f tests/wrap.awk $pages >"$out"
verdict "lines of prose in Markdown have at most 100 columns: awk -f tests/wrap.awk PAGE >WRAPPED, then replace the page"

if command -v clang-tidy >/dev/null; then
    ls lib/*/*.c cmd/*.c | xargs -P "$(nproc)" -n 4 sh -c \
        'clang-tidy --quiet "$@" -- $HEADER_FLAGS -Wno-unknown-pragmas 2>/dev/null' tidy |
        grep -E '(warning|error):' | sort -u >"$out"
    verdict "clang-tidy finds nothing: mend it, or say in .clang-tidy why a check does not fit"
else
    skip "no clang-tidy: what clang-tidy finds"
fi

echo "$passed passed, $failed failed$([ $skipped -gt 0 ] && echo ", $skipped skipped")"
[ $failed -eq 0 ]
