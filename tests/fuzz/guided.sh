#!/bin/sh
# Fuzzing with coverage feedback (libFuzzer). Each target runs over its corpus and the inputs that earlier runs
# found (FOUND, runs/fuzz). The number of executed inputs is added up in TOTALS, tests/fuzz/totals.txt; a parser that has the
# ten million executions that are aimed at is left out. Inputs that crash are kept in FOUND; they become inputs of the corpus
# (pack.sh) when the defect is fixed. Usage: guided.sh SECONDS PROGRAM ...
# An input takes 0.1 to 0.3 ms, so what the sanitizer keeps about memory counts: freed blocks are kept for a short time only, to
# detect their use, with the two innermost callers (a failure is repeated with more); pages are not given back to the system.
export ASAN_OPTIONS=quarantine_size_mb=1:malloc_context_size=2:allocator_release_to_os_interval_ms=-1:detect_stack_use_after_return=0
# Inputs are small: a second thread would only add waiting, above all on a busy machine.
export OMP_NUM_THREADS=1
here=$(dirname "$0")
totals=${TOTALS:-$here/totals.txt} found=${FOUND:-runs/fuzz}
seconds=$1 failed=0 aim=10000000
shift
for program; do
    name=$(basename "$program") && name=${name#fuzz_}
    left=$(awk -v name="$name" -v left=$aim '$1 == name { left -= $2 } END { print left }' "$totals")
    [ "$left" -gt 0 ] || continue
    mkdir -p "$found/$name"
    log=$found/$name.log
    SMOE_ISA=base "$program" -max_total_time="$seconds" -runs="$left" -timeout=150 -rss_limit_mb=2048 -reload=0 -print_final_stats=1 \
        -artifact_prefix="$found/$name-" "$found/$name" "build/corpus/$name" >"$log" 2>&1 || failed=$((failed + 1))
    done=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
    failures=$(grep -c '^SUMMARY: ' "$log")
    # name, total inputs, total failures, inputs per second of the last run
    (
        flock 9
        awk -v name="$name" -v done="${done:-0}" -v rate="${rate:-0}" -v failures="$failures" '
            $1 == name { print name, $2 + done, $3 + failures, rate; seen = 1; next }
            { print }
            END { if (!seen) print name, done, failures, rate }' "$totals" >"$totals.new" && cat "$totals.new" >"$totals"
        rm -f "$totals.new"
    ) 9<"$totals"
    echo "$name: ${done:-0} inputs, ${rate:-0} per second, $failures failures"
    [ "$failures" -eq 0 ] || grep -aE '^SUMMARY: |Test unit written' "$log"
done
[ $failed -eq 0 ]
