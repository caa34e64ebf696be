# A disk that is really full: status 1, and the checkpoint before it survives. Needs permission to mount.
. "$ROOT/tests/cli/lib.sh"
mkdir disk
mount -t tmpfs -o size=400k tmpfs disk 2>/dev/null || skip "mounting a small disk is not allowed here"
trap 'umount disk' EXIT
smoe train tiny.yaml -q train.steps=100000 train.keep=1000 train.eval_every=0 -o disk/run 2>err
got=$?
[ $got -eq 1 ] || fail "status $got, not 1: $(cat err)"
grep -q 'No space left on device' err || fail "$(cat err)"
status 0 smoe eval disk/run -q >/dev/null
# Pictures are whole or not there, though gnuplot does not notice that the disk is full.
smoe train tiny.yaml -q -o run >/dev/null
for size in 16 20 28 36 44 52; do
    umount disk && mount -t tmpfs -o size=${size}k tmpfs disk
    smoe eval run -q -o disk/tables >/dev/null 2>err
    got=$?
    [ $got -eq 0 ] || { [ $got -eq 1 ] && grep -qE 'disk/tables/.*(No space left on device|gnuplot could not write all of it; the disk may be full)' err; } || fail "$size kB: status $got: $(cat err)"
    [ ! -e disk/tables/confusion.svg ] || tail -n 1 disk/tables/confusion.svg | grep -q '</svg>' || fail "$size kB: half a picture"
done
# A sweep ends too, whatever does not fit: it must not start its cells again and again.
for size in 8 12 16 24 40; do
    umount disk && mount -t tmpfs -o size=${size}k tmpfs disk
    timeout 120 smoe sweep tiny.yaml -q -j1 train.steps=2 seed=0,1 -o disk/sweep >/dev/null 2>err
    got=$?
    [ $got -eq 1 ] || [ $got -eq 5 ] || fail "$size kB: status $got: $(cat err)"
    grep -q 'No space left on device' err || fail "$size kB: $(cat err)"
done
