#!/bin/sh
# Fuzzing with coverage feedback (libFuzzer). Each target runs over its corpus in the tree and the inputs that earlier runs
# found (runs/fuzz). The number of executed inputs is added up in tests/fuzz/totals.txt. Inputs that crash are kept in
# runs/fuzz; they become files of the corpus when the defect is fixed. Usage: guided.sh SECONDS PROGRAM ...
# Freed blocks are kept for a short time only, to detect their use: with the default of 256 MB most time is spent on page faults.
export ASAN_OPTIONS=quarantine_size_mb=16:malloc_context_size=8
# Inputs are small: a second thread would only add waiting, above all on a busy machine.
export OMP_NUM_THREADS=1
here=$(dirname "$0") totals=$(dirname "$0")/totals.txt
seconds=$1 failed=0
shift
for program; do
    name=$(basename "$program") && name=${name#fuzz_}
    mkdir -p "runs/fuzz/$name"
    log=runs/fuzz/$name.log
    SMOE_ISA=base "$program" -max_total_time="$seconds" -timeout=150 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="runs/fuzz/$name-" "runs/fuzz/$name" "$here/corpus/$name" >"$log" 2>&1 || failed=$((failed + 1))
    done=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
    found=$(grep -c '^SUMMARY: ' "$log")
    # name, total inputs, total failures, inputs per second of the last run
    awk -v name="$name" -v done="${done:-0}" -v rate="${rate:-0}" -v found="$found" '
        $1 == name { print name, $2 + done, $3 + found, rate; seen = 1; next }
        { print }
        END { if (!seen) print name, done, found, rate }' "$totals" >"$totals.new" && mv "$totals.new" "$totals"
    echo "$name: ${done:-0} inputs, ${rate:-0} per second, $found failures"
    [ "$found" -eq 0 ] || grep -aE '^SUMMARY: |Test unit written' "$log"
done
[ $failed -eq 0 ]
