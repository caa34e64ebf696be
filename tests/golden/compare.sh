#!/bin/sh
# Compares the lines that golden.sh wrote with the table, for the instruction sets of this processor; the table has others
# too.
#   tests/golden/compare.sh runs/golden.txt
set -eu
table=$(dirname "$0")/golden.txt
sets=$(awk 'NF > 3 && $1 != "#" { print $2 }' "$1" | sort -u | tr '\n' ' ')
awk -v sets=" $sets" 'NF <= 3 || $1 == "#" || index(sets, " " $2 " ")' "$table" | diff - "$1"
echo "the same bits as tests/golden/golden.txt, with the instruction sets $sets"
