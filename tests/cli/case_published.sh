# The tables in experiments/results/ follow from the packed cells beside them, number for number.
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
    found=$((found + 1))
done
[ $found -gt 0 ] || fail "no packed cells found"
