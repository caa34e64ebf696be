#!/bin/sh
# Runs test programs in parallel, each with a timeout, and sums up. Usage: tests/run.sh PROGRAM ...
# A program reports as cmocka does, or with a last line "N passed, N failed[, N skipped]", or by its exit status alone. A
# file of tests/cli is a case of tests/cli/run.sh. Each program has a line when it finishes. Its output is kept in
# build/check, and shown if it failed. At the end are the reasons of skips, the names of failed tests, and in the last line
# the totals.
TIMEOUT=${TIMEOUT:-900}
LOGS=build/check

# The counts in a log, as "passed failed skipped".
count() {
    awk '
        /^\[  PASSED  \] [0-9]+ test\(s\)/ { passed += tests($0) }
        /^\[  FAILED  \] .*[0-9]+ test\(s\)/ { failed += tests($0) }
        /^\[  SKIPPED \] .*[0-9]+ test\(s\)/ { skipped += tests($0) }
        /^[0-9]+ passed, [0-9]+ failed/ { passed += $1; failed += $3; skipped += $5 }
        function tests(s) { sub(/ test\(s\).*/, "", s); sub(/.* /, "", s); return s + 0 }
        END { print passed + 0, failed + 0, skipped + 0 }' "$1"
}

# Reasons of skips: what a cmocka test printed before it skipped, or the lines "skipped: ..." of a script.
reasons() {
    awk '
        /^skipped: / { sub(/^skipped: /, ""); print; next }
        /^\[ RUN      \]/ { said = "no reason given" }
        /^\[  SKIPPED \] [^ ]*$/ && said { print $4 ": " said; said = "" }
        !/^\[/ { said = $0 }
        /^\[==========\].*run/ { exit }' "$1"
}

if [ "$1" = --one ]; then
    program=$2
    log=$LOGS/$(echo "$program" | tr / _).log
    start=$(date +%s)
    case $program in
    tests/cli/*) timeout -k 10 "$TIMEOUT" tests/cli/run.sh "${program#tests/cli/}" ;;
    *) SMOE_MODULES=${program%%/tests/*} timeout -k 10 "$TIMEOUT" "$program" ;;
    esac >"$log" 2>&1 </dev/null
    status=$?
    set -- $(count "$log")
    passed=$1 failed=$2 skipped=$3
    [ $status -eq 0 ] && [ "$((passed + failed + skipped))" -eq 0 ] && passed=1
    [ $status -ne 0 ] && [ "$failed" -eq 0 ] && failed=1
    verdict=ok
    [ "$passed" -eq 0 ] && [ "$skipped" -ne 0 ] && verdict=skipped
    [ "$failed" -ne 0 ] && verdict=FAILED
    [ $status -eq 124 ] && verdict="FAILED (no end after $TIMEOUT s)"
    seconds=$(($(date +%s) - start))
    echo "$seconds $program" >>"$LOGS/times"
    printf '%-44s %5s passed  %4s s  %s\n' "$program" "$passed" "$seconds" "$verdict"
    if [ "$failed" -ne 0 ]; then
        sed 's/^/    /' "$log"
        echo "failed: $program" >>"$LOGS/remarks"
    fi
    [ "$skipped" -eq 0 ] || reasons "$log" | sed "s,^,skipped: $program: ," >>"$LOGS/remarks"
    echo "$passed $failed $skipped" >>"$LOGS/tally"
    exit 0
fi

# AFTER_CHECK=1: the totals include those of the last time.
mkdir -p "$LOGS" || exit 1
[ -n "$AFTER_CHECK" ] || rm -f "$LOGS"/*.log "$LOGS/tally" "$LOGS/remarks" "$LOGS/times" "$LOGS/programs"
touch "$LOGS/remarks" "$LOGS/tally"
echo $# >>"$LOGS/programs"
# Waiting threads sleep, since the programs share the processors.
OMP_WAIT_POLICY=passive
ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:allocator_may_return_null=1}
UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TIMEOUT OMP_WAIT_POLICY ASAN_OPTIONS UBSAN_OPTIONS
echo "$@" | tr ' ' '\n' | xargs -P "$(nproc 2>/dev/null || echo 1)" -I PROGRAM sh "$0" --one PROGRAM
sort -ru "$LOGS/remarks"
echo "slowest: $(sort -nr "$LOGS/times" | head -n 8 | awk '{ printf "%s%s %d s", (NR > 1 ? ", " : ""), $2, $1 }')"
awk -v programs="$(awk '{ n += $1 } END { print n }' "$LOGS/programs")" '
    { passed += $1; failed += $2; skipped += $3; seen++ }
    END {
        if (seen != programs) { print programs - seen " programs did not report"; failed += programs - seen }
        printf "%d passed, %d failed", passed, failed
        if (skipped) printf ", %d skipped", skipped
        print ""
        exit failed > 0
    }' "$LOGS/tally"
