# The tables in experiments/results/ follow from the packed cells beside them, number for number, and no interval of a difference, trend or primary contrast is narrower than
# its test images allow (images.awk).
. "$ROOT/tests/cli/lib.sh"
found=0
law=$(cat "$ROOT/experiments/csv.awk" "$ROOT/tests/cli/images.awk")
# Checks the tables that there are against the cells of the first: floor CELLS EVALUATED TABLE...
floor() {
    cells=$1 evaluated=$2
    shift 2
    for table in "$@"; do [ -f "$table" ] && echo "$table"; done >tables
    # shellcheck disable=SC2046
    [ ! -s tables ] || awk -v evaluated="$evaluated" -v count=counted "$law" "$cells" right $(cat tables) >narrow
    [ ! -s narrow ] || fail "$(cat narrow)"
    cat counted >>rows 2>/dev/null
    # the law itself: of each kind of table, with intervals a hundredth as wide, it refuses some
    for table in $(cat tables); do
        ! grep -q '[1-9]' "refused.$(basename "$table")" 2>/dev/null || continue
        awk "$(cat "$ROOT/experiments/csv.awk")"'
            NR == 1 { n = split_csv($0, f); for (i = 1; i <= n; i++) at[f[i]] = i; print; next }
            { n = split_csv($0, f); middle = (f[at["low"]] + f[at["high"]]) / 2; half = (f[at["high"]] - f[at["low"]]) / 200
              for (i = 1; i <= n; i++) printf "%s%s", i == at["low"] ? middle - half : i == at["high"] ? middle + half : f[i] ~ /,/ ? "\"" f[i] "\"" : f[i], i < n ? "," : "\n"
            }' "$table" >"false.$(basename "$table")"
        awk -v evaluated="$evaluated" "$law" "$cells" right "false.$(basename "$table")" | grep -c 'no interval narrower' >>"refused.$(basename "$table")"
    done
}
for results in "$ROOT"/experiments/results/*/; do
    [ -f "$results/trials.tar.gz" ] && [ -f "$results/results.csv" ] || continue
    rm -rf again && mkdir again && tar -xzf "$results/trials.tar.gz" -C again
    # only cells that have finished: a sweep that ended before its plan is not continued here
    finished=$(cd again/claims && ls -- *.json | sed -n '/evaluations/!s/^\([0-9]*\)-.*/\1/p' | sort -u | paste -sd,)
    status 0 smoe sweep --resume again --cells "$finished" -q >/dev/null
    if [ -f "$results/references.txt" ]; then
        rm -rf further && cp -r again further
        SMOE=smoe "$ROOT/experiments/against.sh" further "$results/references.txt" again || fail "$results/references.txt: no differences from them"
        for table in again/*against.csv; do [ -f "$results/$(basename "$table")" ] || fail "$results lacks $(basename "$table")"; done
    fi
    [ ! -f "$results/over-tables.csv" ] || "$ROOT/experiments/over-tables.sh" "$(basename "$results")" csv >again/over-tables.csv # of results.csv
    for table in "$results"*.csv; do
        cmp "$table" "again/$(basename "$table")" || fail "$table is not what its cells give"
    done
    : >right
    for outcomes in again/*/outcomes.npy again/claims/*.evaluation-*.npy; do # one line of digits per cell, or evaluation of one
        [ -f "$outcomes" ] || continue
        cell=${outcomes%/outcomes.npy} cell=${cell##*/}
        printf '%s\t' "${cell%.npy}"
        tail -n +2 "$outcomes" | tr '\0\1' '01'
        echo
    done >right
    floor "$results/results.csv" 0 "$results"differences.csv "$results"against.csv "$results"trends.csv "$results"primary.csv
    [ ! -f "$results/evaluations.csv" ] ||
        floor "$results/evaluations.csv" 1 "$results"evaluations_differences.csv "$results"evaluations_against.csv "$results"evaluations_trends.csv "$results"primary.csv
    found=$((found + 1))
done
[ $found -gt 0 ] || fail "no packed cells found"
[ "$(awk '{ n += $1 } END { print n }' rows)" -gt 50 ] || fail "the bound was computed for few rows: $(cat rows)"
for table in differences against trends primary evaluations_differences evaluations_trends; do
    grep -q '[1-9]' "refused.$table.csv" || fail "the law refuses no false interval in a $table.csv"
done
