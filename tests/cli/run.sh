#!/bin/sh
# The program as a user sees it. There are two kinds of cases: the blocks of cases.txt (a command, its exit status and its
# output) and the scripts case_*.sh. Each gets a fresh folder and `smoe` on its PATH. Usage: tests/cli/run.sh [NAME ...]
# runs only the cases whose name or command contains one of the words; "cases.txt" means all of its blocks.
cd "$(dirname "$0")/../.." || exit 1
ROOT=$PWD
SMOE_UNDER_TEST=${SMOE_UNDER_TEST:-$ROOT/build/release/smoe}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$SMOE_UNDER_TEST" "$work/bin/smoe"
PATH=$work/bin:$PATH
# Waiting threads sleep, since other tests run at the same time.
OMP_WAIT_POLICY=passive
export ROOT PATH OMP_WAIT_POLICY
unset SMOE_DATA NO_COLOR CLICOLOR_FORCE SMOE_ISA
passed=0 failed=0 skipped=0
words=$*

wanted() {
    [ -z "$words" ] && return 0
    for word in $words; do case $1 in *"$word"*) return 0 ;; esac; done
    return 1
}

# Every pattern of the file $1 (an extended regular expression per line) matches a line of $2; without patterns $2 must be
# empty.
matches() {
    [ -s "$1" ] || { [ ! -s "$2" ]; return; }
    while IFS= read -r pattern; do
        [ "$pattern" = "*" ] || grep -qE -e "$pattern" "$2" || { echo "no line matches: $pattern"; return 1; }
    done <"$1"
}

# Plurals after a single 1: "1 cells". The output of every block is searched for them.
ONES='(^|[ (])1 (axes|bits|blocks|cells|channels|classes|columns|distractors|epochs|evaluations|experts|files|heads|images|items|layers'
ONES="$ONES|numbers|pieces|processes|records|rows|runs|seconds|seeds|shards|slots|steps|tensors|threads|tokens|MoE layers)([^a-z]|\$)"
ones() { ! cat "$@" | grep -aE -e "$ONES"; }

# One block: command in $command, status in $status, patterns in $work/want.out and $work/want.err.
judge() {
    [ -n "$command" ] && wanted "cases.txt: $command" || return 0
    mkdir "$work/case" && cp tests/cli/tiny.yaml "$work/case/"
    (cd "$work/case" && timeout 60 sh -c "$command") >"$work/out" 2>"$work/err" </dev/null
    got=$?
    if why=$([ $got -eq "$status" ] || { echo "exit status $got, not $status"; exit 1; }
             echo "standard output:"; matches "$work/want.out" "$work/out" &&
             echo "standard error:" && matches "$work/want.err" "$work/err" &&
             echo "not plural:" && ones "$work/out" "$work/err"); then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $command"
        echo "$why" | tail -n 2
        sed 's/^/  > /' "$work/out" | head -n 20
        sed 's/^/  ! /' "$work/err" | head -n 20
    fi
    rm -rf "$work/case"
}

begin() { command=$1 status=0; : >"$work/want.out"; : >"$work/want.err"; }

begin ""
while IFS= read -r line; do
    case $line in
    '$ '*) judge; begin "${line#??}" ;;
    '? '*) status=${line#??} ;;
    '> '*) echo "${line#??}" >>"$work/want.out" ;;
    '! '*) echo "${line#??}" >>"$work/want.err" ;;
    '' | '#'*) ;;
    *) echo "tests/cli/cases.txt: not a line of a case: $line"; exit 1 ;;
    esac
done <tests/cli/cases.txt
judge

for script in tests/cli/case_*.sh; do
    wanted "$script" || continue
    mkdir "$work/case" && cp tests/cli/tiny.yaml "$work/case/"
    (cd "$work/case" && timeout 900 sh "$ROOT/$script") >"$work/out" 2>&1 </dev/null
    case $? in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)); echo "skipped: $script: $(tail -n 1 "$work/out")" ;;
    *) failed=$((failed + 1)); echo "FAILED: $script"; tail -n 30 "$work/out" | sed 's/^/  /' ;;
    esac
    rm -rf "$work/case"
done

echo "$passed passed, $failed failed$([ $skipped -gt 0 ] && echo ", $skipped skipped")"
[ $failed -eq 0 ]
