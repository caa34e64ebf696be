# The tables in experiments/results/ follow from the packed cells beside them, number for number, and no interval of a difference is narrower than
# its test images allow (images.awk).
. "$ROOT/tests/cli/lib.sh"
found=0
for results in "$ROOT"/experiments/results/*/; do
    [ -f "$results/trials.tar.gz" ] && [ -f "$results/results.csv" ] || continue
    rm -rf again && mkdir again && tar -xzf "$results/trials.tar.gz" -C again
    status 0 smoe sweep --resume again -q >/dev/null
    if [ -f "$results/references.txt" ]; then
        rm -rf further && cp -r again further
        SMOE=smoe "$ROOT/experiments/against.sh" further "$results/references.txt" again || fail "$results/references.txt: no differences from them"
        for table in again/*against.csv; do [ -f "$results/$(basename "$table")" ] || fail "$results lacks $(basename "$table")"; done
    fi
    for table in "$results"*.csv; do
        cmp "$table" "again/$(basename "$table")" || fail "$table is not what its cells give"
    done
    if [ -f "$results/differences.csv" ]; then
        for outcomes in again/*/outcomes.npy; do # one line of digits per cell
            printf '%s\t' "$(basename "$(dirname "$outcomes")")"
            tail -n +2 "$outcomes" | tr '\0\1' '01'
            echo
        done >right
        find "$results" -name differences.csv -o -name against.csv | xargs awk "$(cat "$ROOT/experiments/csv.awk" "$ROOT/tests/cli/images.awk")" "$results/results.csv" right >narrow
        [ ! -s narrow ] || fail "$(cat narrow)"
    fi
    found=$((found + 1))
done
[ $found -gt 0 ] || fail "no packed cells found"
