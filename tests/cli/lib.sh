# For the scripts beside this file: `. "$ROOT/tests/cli/lib.sh"`.
set -u

fail() {
    echo "$*"
    exit 1
}

# Status 77: skipped, for a reason that is printed.
skip() {
    echo "$*"
    exit 77
}

# Skips if there is no MPI. Otherwise "$several -n 2 COMMAND" starts two processes. More processes than cores, and by root in
# a container, are allowed for tests.
needs_mpi() {
    command -v mpirun >/dev/null || skip "no mpirun"
    [ -f "$(dirname "$(readlink -f "$(command -v smoe)")")/smoe_mpi.so" ] || skip "built without MPI"
    several="mpirun --oversubscribe --allow-run-as-root"
}

# An image of one pixel, on standard output.
png() { printf '\211PNG\r\n\032\n\0\0\0\rIHDR\0\0\0\001\0\0\0\001\010\0\0\0\0:~\233U\0\0\0\nIDATx\332c`\0\0\0\002\0\001\345\047\336\374\0\0\0\0IEND\256B`\202'; }

# python3 that can import png.py, which lies beside this file; no other file is left there.
python_png() { PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$ROOT/tests/cli python3 "$@"; }

# status WANTED COMMAND ...: runs the command and fails unless it has that exit status
status() {
    wanted=$1
    shift
    "$@"
    got=$?
    [ $got -eq "$wanted" ] || fail "status $got, not $wanted: $*"
}

# Metrics without the fields that depend on the clock; the checksums depend on all of them.
# The evaluations of a sweep, without their time
evaluated() {
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "infer_s") after = NF - i + 1 }
        { line = $1; for (i = 2; i <= NF; i++) if (i != NF - after + 1) line = line "," $i; print line }' "$1/evaluations.csv"
}
timeless() { sed -E 's/"[^"]*(wall_s|_per_s|waited_s|infer_s|chain)": *[^,}]*(, *|)//g' "$1/metrics.jsonl"; }

# Two runs have the same result: weights, optimiser and metrics, byte for byte.
same_run() {
    for f in model state; do
        cmp "$1/ckpt/latest/$f.safetensors" "$2/ckpt/latest/$f.safetensors" ||
            fail "$1 and $2 differ in their last $f"
    done
    timeless "$1" >"$1.metrics"
    timeless "$2" >"$2.metrics"
    cmp "$1.metrics" "$2.metrics" || { diff "$1.metrics" "$2.metrics" | head -n 6; fail "$1 and $2 differ in their metrics"; }
}

# wait_for FILE LINES: waits until the file has that many lines (at most five minutes: a hang, not a busy machine, takes longer)
wait_for() {
    tries=0
    until [ -f "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]; do
        tries=$((tries + 1))
        [ $tries -lt 6000 ] || fail "$1 did not grow to $2 lines"
        sleep 0.05
    done
}

# wait_for_text FILE PATTERN: waits until a line of the file matches (at most five minutes: a hang, not a busy machine, takes longer)
wait_for_text() {
    tries=0
    until grep -aq -e "$2" "$1" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 6000 ] || fail "$1 did not get: $2"
        sleep 0.05
    done
}

# The reports of two folders are the same but for their provenance, which has the time and the command.
same_page() {
    for folder in "$1" "$2"; do sed '/^<section id="provenance">/,/^<.section>/d' "$folder/report.html" >"$folder.page"; done
    cmp "$1.page" "$2.page"
}

# stop_and_resume DIR ARG ...: trains into DIR, stops after five records by SIGTERM, and resumes
stop_and_resume() {
    dir=$1
    shift
    smoe train "$@" -o "$dir" &
    wait_for "$dir/metrics.jsonl" 5
    kill -TERM $!
    wait $!
    got=$?
    [ $got -eq 75 ] || [ $got -eq 0 ] || fail "status $got after SIGTERM"
    status 0 smoe train --resume "$dir" -q -j1
}

# A checkpoint as another program writes it: without the digest of its bytes.
foreign() { for f in "$@"; do LC_ALL=C sed -i 's/"smoe\.digest":/"some.digest":/; s/"smoe\.xxh3":/"some.xxh3":/' "$f"; done; }
