#!/bin/sh
# Which lines the tests executed, from the counts that programs of FLAVOUR=cov leave beside their objects: a table per room
# of lines that contain code. A line of a file that is compiled several times (kernels, inline functions of headers) counts
# once, and as executed if any of its copies was. `make coverage` builds, runs the tests and calls this script.
cd "$(dirname "$0")/.." || exit 1
list=build/cov/uncovered.txt
find build/cov/lib build/cov/cmd -name '*.gcno' | while read -r notes; do
    ${GCOV:-gcov} --stdout -o "$notes" "$notes" 2>/dev/null
done | awk -F: -v list="$list" '
    # count:line:text, where count is "-" for no code, "#####" or "=====" for code that did not run; line 0 names the source
    { count = $1; gsub(/[ *]/, "", count); line = $2 + 0 }
    line == 0 && $3 == "Source" { file = $4; next }
    line == 0 || count == "-" || file !~ /^(lib|cmd)\// { next }
    {
        place = file ":" line
        if (!(place in ran)) ran[place] = 0
        if (count !~ /^[#=]/) ran[place] = 1
    }
    END {
        for (place in ran) {
            n = split(place, part, "[/:]")
            room = n == 4 ? part[1] "/" part[2] : part[1]
            lines[room]++; all++
            if (ran[place]) { run[room]++; run_all++ } else print place > list
        }
        close(list)
        if (!all) { print "no counts in build/cov: run make coverage" | "cat >&2"; exit 1 }
        sort = "sort"
        for (room in lines) printf "%-14s %7d %7d %6.1f%%\n", room, lines[room], run[room], 100 * run[room] / lines[room] | sort
        close(sort)
        printf "%-14s %7d %7d %6.1f%%\n", "all", all, run_all, 100 * run_all / all
    }' >build/cov/rooms.txt || exit 1
sort -t: -k1,1 -k2,2n -o "$list" "$list"
printf '%-14s %7s %7s %7s\n' room lines run share
cat build/cov/rooms.txt
echo "lines that did not run: $list"
