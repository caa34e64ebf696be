#!/bin/sh
# Compares the lines that golden.sh wrote with the table, for the instruction sets of this processor; the table has others
# too. A line of an instruction set that no processor has added to the table yet is named and is no failure.
#   tests/golden/compare.sh runs/golden.txt
set -eu
table=$(dirname "$0")/golden.txt
sets=$(awk 'NF > 3 && $1 != "#" { print $2 }' "$1" | sort -u | tr '\n' ' ')
new=$(awk 'NR == FNR { known[$1 " " $2]; next } NF > 3 && !($1 " " $2 in known)' "$table" "$1")
awk -v sets=" $sets" 'NF <= 3 || $1 == "#" || index(sets, " " $2 " ")' "$table" |
    { cat; [ -z "$new" ] || echo "$new"; } | sort > "$1.table"
sort "$1" | diff "$1.table" - || exit 1
rm "$1.table"
echo "the same bits as tests/golden/golden.txt, with the instruction sets $sets"
[ -z "$new" ] || printf 'not in the table yet:\n%s\n' "$new"
