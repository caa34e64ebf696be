# Where no file can be written: said before the work where that can be known; else the result is printed all the same. Status 1.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q train.steps=4 -o run >/dev/null
: >file
long=$(printf '%0300d' 0)
while read -r command; do
    # shellcheck disable=SC2086
    status 1 smoe $command >out 2>err
    [ ! -s out ] && [ "$(wc -l <err)" -eq 1 ] || fail "$command: after the work: $(cat out err)"
    grep -qE ': (file|nowhere)/.*: cannot write: No|: 0*: cannot write: File name too long' err || fail "$command: $(cat err)"
done <<END
eval run --logits file/x
eval run --labels nowhere/x
eval run --predictions nowhere/x
eval run -o file/x
inspect run -o file/x
inspect run --dump-routing nowhere/x
compare run run -o file/x
data tiny.yaml -o file/x
soup run run -o file/x
convert run nowhere/x
init tiny.yaml nowhere/x
bench tiny.yaml --append file/x
eval run --logits $long
convert run $long
END
# folders that are links to nowhere
ln -s nowhere dangling
while read -r command; do
    # shellcheck disable=SC2086
    status 1 smoe $command -q >out 2>err
    [ ! -s out ] && grep -q ': dangling.*a symbolic link that leads nowhere$' err || fail "$command: $(cat out err)"
done <<'END'
train tiny.yaml -o dangling
train tiny.yaml -o dangling/x
sweep tiny.yaml seed=0,1 -o dangling
eval run -o dangling
eval run --logits dangling/x.npy
inspect run -o dangling
compare run run -o dangling
soup run run -o dangling
data tiny.yaml -o dangling
convert run dangling/x
END
[ ! -e nowhere ] || fail "$(ls nowhere)"
# A folder in which another command writes; one that is made for nothing is removed.
mkdir held
while read -r command; do
    # shellcheck disable=SC2086
    status 1 flock held smoe $command -o held >out 2>err
    [ ! -s out ] && grep -q ': held: another command is writing there' err && [ -z "$(ls held)" ] || fail "$command: $(cat out err; ls held)"
done <<'END'
eval run
inspect run
compare run run
data tiny.yaml
END
status 3 smoe compare run nowhere -o in-vain 2>err
[ ! -e in-vain ] || fail "a folder in vain: $(ls in-vain)"
# A file that another command has written meanwhile is kept.
rm -f err
smoe eval run data.limit=100000 data.test_size=40000 --logits meanwhile.npy --labels its-labels.npy --no-progress >out 2>err &
wait_for err 1
kill -STOP $! || fail "it ended too early"
: >meanwhile.npy
kill -CONT $!
wait $!
[ $? -eq 2 ] && grep -q 'meanwhile.npy exists already; --force replaces it' err && grep -q '^loss ' out || fail "$(cat err out)"
[ ! -s meanwhile.npy ] && [ ! -e its-labels.npy ] || fail "written over the file of another command: $(ls -l ./*.npy)"
# folders of -o and of --append are made
status 0 smoe eval run -q data.limit=20 -o a/b/c >/dev/null
status 0 smoe bench tiny.yaml -q --rounds 1 --append d/e/f.md >/dev/null
status 0 smoe sweep tiny.yaml seed=0,1 train.steps=2 -o grid -q >/dev/null

# What cannot be read is not absent: cells that are done would run again, or be left out.
mv grid/claims kept && : >grid/claims
for command in 'verify grid' 'sweep --status grid' 'sweep grid --pack p.tar.gz'; do
    smoe $command -q >out 2>&1 && fail "$command: $(cat out)"
    grep -q 'grid/claims.*Not a directory' out || fail "$command: $(cat out)"
done
rm grid/claims && mv kept grid/claims
status 0 smoe verify grid -q >/dev/null
# A folder that was removed is not made again for tables.
smoe sweep tiny.yaml seed=0,1 train.steps=100000 -o gone -q -j1 >/dev/null 2>err &
wait_for gone/000-seed=0/metrics.jsonl 3
mv gone away
wait $!
grep -q '^smoe sweep: gone: its cells.jsonl is no longer there: the folder was moved or removed' err && [ ! -e gone ] || fail "$(cat err; ls gone)"
# What a full disk does not take
while read -r word command; do
    # shellcheck disable=SC2086
    (ulimit -f 4 && exec smoe $command -q) >out 2>err
    got=$?
    [ $got -eq 1 ] || fail "$command: status $got: $(cat err)"
    grep -qE 'cannot write: (File too large|No space left on device)$' err || fail "$command: $(cat err)"
    grep -q -- "$word" out || fail "$command: the result is lost: $(cat out)"
done <<'END'
top-1 eval run --logits big
"loss" eval run --logits big --json
top-1 eval run --predictions /dev/full -f
dispatch inspect run -o big data.limit=20
"tables" inspect run -o big2 data.limit=20 --json
dispatch inspect run --dump-routing /dev/full -f data.limit=20
train.seed\|loss compare run run -o big3
"members" soup run run -o big4 --json
END

# A run of another user is read, and not resumed or replaced: that is no damage of its data.
[ "$(id -u)" -eq 0 ] || { chmod a-w run/* grid; as=; }
if [ "$(id -u)" -eq 0 ]; then
    command -v setpriv >/dev/null || skip "no setpriv to be another user"
    cp "$(command -v smoe)" program && chmod -R a+rX .. 2>/dev/null
    as="setpriv --reuid=65534 --regid=65534 --clear-groups"
fi
program=$([ -n "$as" ] && echo ./program || echo smoe)
status 0 $as $program eval run -q data.limit=20 >/dev/null
for way in "--resume run" "tiny.yaml --force -o run"; do
    # shellcheck disable=SC2086
    status 1 $as $program train $way -q 2>err
    grep -q 'run/metrics.jsonl: cannot write: Permission denied' err || fail "$way: $(cat err)"
done
# A folder of images that cannot be read is not empty.
for folder in train/ape train/bee test/ape test/bee; do mkdir -p photos/$folder && png >photos/$folder/1.png; done
chmod 0 photos/train/ape
status 3 $as $program data photos 2>err
grep -q ': empty class: no images in train/ape/$' err && grep -q ': left out: .*photos/train/ape: Permission denied$' err || fail "an unreadable folder: $(cat err)"
chmod 755 photos/train/ape
# What cannot be read is not gone: verify says why.
chmod 0 run/log.txt run/ckpt
status 3 $as $program verify run >out 2>err
grep -qx 'BAD  run/log.txt: Permission denied' out && grep -qx 'BAD  run/ckpt: Permission denied' out && ! grep 'no longer there' out || fail "verify of what cannot be read: $(cat out err)"
chmod u+rwx run/log.txt run/ckpt
# A folder that cannot be searched is no folder without a run or a sweep.
chmod 644 run grid
for command in "verify run" "train --resume run" "eval run" "watch grid" "sweep --status grid" "sweep --resume grid"; do
    # shellcheck disable=SC2086
    status 3 $as $program $command >out 2>err
    grep -qE ': (run|grid): cannot be searched: Permission denied$' err || fail "$command: $(cat out err)"
done
chmod 311 run grid
for command in "train --resume run" "train tiny.yaml --resume -o run" "train tiny.yaml --force -o run" "sweep --status grid" "sweep tiny.yaml seed=0,1 -o grid"; do
    # shellcheck disable=SC2086
    $as $program $command >out 2>err
    grep -qE ': (run|grid): cannot .*: Permission denied$|: grid: exists already' err || fail "311, $command: $(cat out err)"
done
chmod 0 run grid
for command in "train tiny.yaml --resume -o run" "sweep tiny.yaml seed=0,1 -o grid"; do
    # shellcheck disable=SC2086
    status 3 $as $program $command >out 2>err
    grep -qE ': (run|grid): cannot be read: Permission denied$' err || fail "000, $command: $(cat out err)"
done
chmod 755 run grid
status 1 $as $program verify --repair grid >out 2>err
grep -q 'could not be read or repaired' err || fail "verify of what cannot be written: $(cat out err)"
# The results of a sweep are printed even if its tables cannot be written.
rm -f grid/results.csv && mkdir grid/results.csv
status 1 smoe sweep --resume grid -q >out 2>err
grep -q ' precision_at_1 ' out && grep -q 'grid/results.csv: ' err && grep -q 'smoe sweep --resume grid. writes its tables$' err || fail "$(cat out err)"
rmdir grid/results.csv && status 0 smoe sweep --resume grid -q >out
[ -s grid/results.csv ] || fail "no table: $(ls grid)"
status 0 smoe ablate tiny.yaml --routers soft,uniform --seeds 1 train.steps=2 -q -o ablated >/dev/null
rm ablated/results.csv && mkdir ablated/results.csv
status 1 smoe ablate --resume ablated -q >out 2>err
grep -q 'smoe ablate --resume ablated. writes its tables$' err || fail "$(cat err)"
rmdir ablated/results.csv && status 0 smoe ablate --resume ablated -q >out
# A table that cannot be written loses no checkpoint; a log that cannot be written is no secret.
rm -rf run && status 0 smoe train tiny.yaml -q train.steps=4 -o run >/dev/null
rm run/metrics.csv && mkdir run/metrics.csv
status 1 smoe train --resume run -q train.steps=8 2>err
grep -q 'run/metrics.csv: cannot write: Is a directory' err && [ "$(readlink run/ckpt/latest)" = step_00000008 ] || fail "the checkpoint: $(cat err; ls run/ckpt)"
rmdir run/metrics.csv && status 0 smoe train --resume run -q >/dev/null
[ -s run/metrics.csv ] && [ "$(cut -d' ' -f1 run/STATUS)" = done ] || fail "$(ls run; cat run/STATUS)"
truncate -s 4M run/log.txt
(ulimit -f 2048 && exec smoe train --resume run --no-progress train.steps=12) >out 2>err || fail "a full log: $(cat err)"
[ "$(grep -c 'run/log.txt: cannot write: File too large$' err)" -eq 1 ] || fail "a full log: $(cat err)"
# Outcomes that cannot be written cost no checkpoint; a resume of the finished run writes them.
one="tiny.yaml train.checkpoint_every=0 train.eval_every=3000 train.log_every=1000 train.steps=3000"
status 0 smoe train $one -q -o whole >/dev/null
smoe train $one -q -o lacks >/dev/null 2>err &
wait_for lacks/metrics.jsonl 1
mkdir -p lacks/outcomes.npy/x
wait $! && fail "outcomes that cannot be written: status 0"
grep -q '^smoe train: lacks/outcomes.npy: cannot write' err && [ -d lacks/ckpt/step_00003000 ] || fail "$(cat err; ls lacks lacks/ckpt)"
status 1 smoe train --resume lacks -q >/dev/null 2>err
rm -r lacks/outcomes.npy
status 0 smoe train --resume lacks -q >/dev/null
cmp lacks/outcomes.npy whole/outcomes.npy || fail "other outcomes"
