#!/bin/sh
# Changed bytes are detected: by `smoe verify`, and by every command that reads a checkpoint or records.
. "$ROOT/tests/cli/lib.sh"

# flip FILE OFFSET: changes one bit of the byte at the offset
flip() {
    byte=$(od -An -tu1 -j "$2" -N 1 "$1" | tr -d ' ')
    printf "\\$(printf %03o $((byte ^ 1)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

status 0 smoe train tiny.yaml -q train.steps=8 -o run >/dev/null
status 0 smoe verify run >out
grep -q '^BAD' out && fail "$(cat out)"
grep -q '^ok   run/spec.yaml: a valid spec$' out && grep -q '^ok   run/metrics.jsonl: [0-9]* records, unchanged$' out &&
    [ "$(grep -c 'safetensors: unchanged$' out)" -eq 4 ] || fail "$(cat out)"

# Any byte of a checkpoint: 40 places over the file, in header, metadata and tensors; every reader refuses it.
cp run/ckpt/latest/model.safetensors good
size=$(stat -c %s good) n=0
while [ $n -lt 40 ]; do
    cp good bad.safetensors
    flip bad.safetensors $((n * (size - 1) / 39))
    status 3 smoe verify -q bad.safetensors >out 2>&1
    n=$((n + 1))
done
cp good run/ckpt/latest/model.safetensors && flip run/ckpt/latest/model.safetensors $((size - 5))
for command in "eval run" "inspect run" "convert run x --type bf16" "train tiny.yaml -o new --init run" "bench run/ckpt/latest" \
    "sweep run eval.batch_size=50,100 -o points" "verify run/ckpt/latest" "train --resume run train.steps=30"; do
    smoe $command -q >out 2>err
    got=$?
    [ $got -eq 3 ] || [ $got -eq 5 ] || fail "status $got of smoe $command: $(cat err)"
    cat out err | grep -q 'changed since it was written' || [ $got -eq 5 ] || fail "smoe $command: $(cat err)"
done
cp good run/ckpt/latest/model.safetensors

# Among several, as runs/*, folders that are no runs are left out; alone they are refused, and a run that has lost files is damaged.
mkdir report && : >report/report.html && mkdir bare && : >bare/metrics.jsonl
status 0 smoe verify run report >out 2>err
grep -qx 'report: left out: neither a run, a sweep nor a checkpoint' err && ! grep -q report out || fail "a report: $(cat out err)"
status 3 smoe verify report >out 2>&1
status 3 smoe verify report report >out 2>&1
status 3 smoe verify run bare -q >out 2>&1
grep -q '^BAD  bare' out || fail "a run that has lost its files: $(cat out)"
# A file without a digest is read, and a line says so.
cp good foreign.safetensors && foreign foreign.safetensors
for command in "eval foreign.safetensors" "train tiny.yaml -o begun --init foreign.safetensors" "compare foreign.safetensors run" \
    "train tiny.yaml -n --init foreign.safetensors" "convert foreign.safetensors x.safetensors --type bf16" "inspect foreign.safetensors"; do
    status 0 smoe $command >out 2>err
    grep -q 'foreign.safetensors: without a digest; contents not checked$' err || fail "$command: $(cat err)"
done
status 0 smoe verify foreign.safetensors >out
grep -q 'well formed, without a digest; contents not checked$' out || fail "$(cat out)"

# Records: a changed digit, a line missing in the middle, a missing checksum.
cp run/metrics.jsonl records
for edit in '3s/"step":3/"step":4/' '4d' '5s/,"chain":"[0-9a-f]*"//' '2s/"train.loss":/&1/'; do
    sed "$edit" records >run/metrics.jsonl
    cmp -s records run/metrics.jsonl && fail "$edit changes nothing"
    status 3 smoe verify -q run >out 2>&1
    grep -q '^BAD  run/metrics.jsonl: ' out || fail "$edit: $(cat out)"
    status 3 smoe train --resume run -q train.steps=30 2>err
done
# Missing at the end: the last line, or only its newline; a line without newline counts as unfinished.
for cut in 1 0; do
    printf %s "$(cat records)" >run/metrics.jsonl
    [ $cut -eq 0 ] || sed '$d' records >run/metrics.jsonl
    status 3 smoe verify -q run >out 2>&1
    grep -q 'metrics.jsonl: records are missing at the end: [0-9]*, and there were [0-9]*$' out || fail "$(cat out)"
    status 3 smoe train --resume run -q train.steps=30 2>err
    grep -q 'records are missing at the end' err || fail "$(cat err)"
done
# Another byte in the place of the last newline is damage, and no unfinished line.
{ printf %s "$(cat records)" && printf '\v'; } >run/metrics.jsonl
status 3 smoe inspect run -q >out 2>err
grep -q 'metrics.jsonl:[0-9]*: the byte after this record is not a newline$' err || fail "$(cat err)"
# Records of an older version have no checksums; a resume continues with checksums that include those records.
sed 's/,"chain":"[0-9a-f]*"//' records >run/metrics.jsonl
rm run/MANIFEST.sha256
status 0 smoe verify run >out
grep -q 'metrics.jsonl: [0-9]* records, not verified' out || fail "$(cat out)"
status 0 smoe train --resume run -q train.steps=16 >/dev/null
status 0 smoe verify run >out
grep -q 'metrics.jsonl: [0-9]* records, the first of them without checksums$' out || fail "$(cat out)"
sed -i '2s/"train.loss":/&1/' run/metrics.jsonl
status 3 smoe verify -q run >out 2>&1

# Files of another step, and others than the state knows: each is intact, and together they are no checkpoint.
status 0 smoe train tiny.yaml -q train.steps=8 -o mixed >/dev/null
for name in model state; do
    cp -r mixed other && cp other/ckpt/step_00000004/$name.safetensors other/ckpt/step_00000008/
    status 3 smoe verify -q other >out 2>&1
    grep -qx "BAD  other/ckpt/step_00000008/$name.safetensors: is of step 4, not of step 8" out || fail "$name of another step: $(cat out)"
    grep -qx "BAD  other/ckpt/step_00000008/$name.safetensors: changed since the run ended" out || fail "$name is not compared with the list: $(cat out)"
    for command in "eval other" "inspect other" "eval other/ckpt/latest" "eval other/ckpt/latest/model.safetensors"; do
        [ $name = model ] || break
        status 3 smoe $command -q >out 2>err
        grep -q 'is of step 4, not of step 8$' err || fail "$command: $(cat err)"
    done
    rm -r other
done
cp -r mixed other && status 0 smoe convert mixed bf16.safetensors --type bf16 -q >/dev/null && cp bf16.safetensors other/ckpt/latest/model.safetensors
status 3 smoe verify -q other >out 2>&1
grep -q '^BAD  other/ckpt/step_00000008/model.safetensors: its data is not what was saved' out || fail "other weights: $(cat out)"
rm -r other
status 2 smoe convert mixed mixed/ckpt/latest/model.safetensors -f --type bf16 2>err
grep -q 'model.safetensors is among the checkpoints of the run .*/mixed, whose files belong together; give a name outside its ckpt/$' err || fail "$(cat err)"
# A resume that is refused changes nothing.
flip mixed/ckpt/latest/state.safetensors 5000
cp -r mixed before
status 3 smoe train --resume mixed train.steps=12 train.keep=1 -q 2>err
diff -r before mixed || fail "a refused resume changed the run"
rm -r mixed before

# A lost spec is restored from the checkpoint; links are not followed; leftover files are removed.
status 0 smoe train tiny.yaml -q train.steps=8 -o lost >/dev/null
cp lost/spec.yaml spec && rm lost/spec.yaml && mkdir lost/x.tmp-1
status 3 smoe verify -q lost >out 2>&1
status 0 smoe verify --repair lost >out
grep -q 'spec.yaml: restored from the latest checkpoint' out && cmp spec lost/spec.yaml && [ ! -e lost/x.tmp-1 ] || fail "$(cat out)"
for name in log.txt metrics.jsonl STATUS; do
    cp -r lost linked && echo mine >victim && rm linked/$name && ln -s ../victim linked/$name
    smoe train --resume linked -q train.steps=16 2>err && fail "$name is followed"
    [ "$(cat victim)" = mine ] || fail "a run wrote through the link $name"
    rm -r linked
done
cp -r lost linked && mkdir theirs && ln -s ../theirs linked/tb
status 3 smoe train --resume linked -q train.steps=16 train.tensorboard=true 2>err
grep -q 'linked/tb: a symbolic link' err && [ -z "$(ls theirs)" ] || fail "events were written through a link: $(cat err)"
rm -r linked theirs
# A checkpoint of another run is not read through a link either.
step=ckpt/step_00000008
for name in $step $step/model.safetensors $step/state.safetensors ckpt spec.yaml metrics.jsonl outcomes.npy; do
    cp -r lost linked && mv linked/$name theirs && ln -s "$PWD/theirs" linked/$name
    for command in "eval linked" "eval linked --which 8" "train --resume linked train.steps=16" "verify linked"; do
        status 3 smoe $command -q >out 2>&1
        grep -q "linked/$name: a symbolic link" out || fail "$command read $name: $(cat out)"
    done
    rm -r linked theirs
done

# Sweeps, archives, JSON.
status 0 smoe sweep tiny.yaml train.steps=4 model.moe.experts=2,4 -q -o grid >/dev/null
status 0 smoe verify grid >out
grep -q '^ok   grid: the ledger of 2 cells, unchanged$' out || fail "$(cat out)"
# The run of another cell in the place of one
cp -r grid swapped && rm -r swapped/001-* && cp -r swapped/000-* swapped/001-experts=4
status 3 smoe verify swapped -q >out 2>&1
[ "$(grep BAD out)" = "BAD  swapped/001-experts=4/spec.yaml: model.moe.experts is not that of this cell: it is another run" ] || fail "a cell of another: $(cat out)"
rm -r swapped
# The cells of two machines whose specs differ in a key that is not swept
cp -r grid joined && rm -r joined/001-* joined/claims/001-*
status 0 smoe sweep tiny.yaml train.steps=4 model.moe.experts=2,4 train.optimizer.lr=0.01 --cells 1 -q -o theirs >/dev/null
cp -r theirs/001-* joined && cp theirs/claims/001-* joined/claims
status 3 smoe verify joined -q >out 2>&1
[ "$(grep BAD out)" = "BAD  joined/001-experts=4/spec.yaml: train.optimizer.lr is not that of this cell: it is another run" ] || fail "a cell of another sweep: $(cat out)"
cp joined/results.csv before.csv
for wish in "--resume joined" "joined --pack joined.tar.gz"; do
    status 3 smoe sweep $wish -q >out 2>&1
    grep -q "joined/001-experts=4: the run of another cell: its spec.yaml has another train.optimizer.lr; remove it and joined/claims/001-experts=4.json" out || fail "$wish: $(cat out)"
done
cmp -s joined/results.csv before.csv && [ ! -e joined.tar.gz ] || fail "written: $(cat joined/results.csv)"
rm -r joined theirs
# A cell that was trained further, and what killed processes left: of a run that nobody writes all that is temporary, of a sweep what has
# the name of a process that is gone.
cp -r grid more && status 0 smoe train --resume more/000-* -q train.steps=6 >/dev/null
gone=.tmp-00000000-1-1-0 && mkdir more/001-experts=4/ckpt/.tmp-newstep_00000008 && touch more/001-experts=4/STATUS$gone && touch -d '1 hour ago' more/results.csv$gone more/claims/x$gone
status 3 smoe verify more >out 2>&1
[ "$(grep BAD out)" = "BAD  more/000-experts=2/spec.yaml: train.steps is not that of this cell: it was trained further" ] || fail "trained further: $(cat out)"
for left in results.csv$gone claims/x$gone 001-experts=4/STATUS$gone 001-experts=4/ckpt/.tmp-newstep_00000008; do
    grep -qxF "ok   more/$left: left over by a killed process; --repair removes it" out || fail "not named: $left: $(cat out)"
done
# once, where the number of steps is swept
status 0 smoe sweep tiny.yaml train.steps=2,4 -q -o steps >/dev/null && status 0 smoe train --resume steps/000-* -q train.steps=6 >/dev/null
status 3 smoe verify steps >out 2>&1
[ "$(grep BAD out)" = "BAD  steps/000-steps=2/spec.yaml: train.steps is not that of this cell: it was trained further" ] || fail "swept steps: $(cat out)"
rm -r steps
status 3 smoe verify --repair more >out 2>&1
[ -z "$(find more -name '*.tmp-*')" ] && ! grep -q 'left over' out || fail "not removed: $(cat out; find more)"
rm -r more
# Links below a sweep are followed by none of its readers and writers: folders of cells, what is in them, outcomes, tables, figures.
cell=$(cd grid && ls -d 000-*)
for name in $cell claims cells.jsonl claims/$cell.json results.csv sweep.svg sweep.gp differences.csv $cell/metrics.jsonl $cell/outcomes.npy $cell/ckpt; do
    cp -r grid linked && if [ -e linked/$name ]; then mv linked/$name theirs; else echo mine >theirs; fi
    cp -r theirs before && ln -s "$PWD/theirs" linked/$name
    for command in "sweep --resume linked" "sweep --status linked" "sweep linked --pack p.tar.gz" "sweep linked --power" "verify linked" \
        "sweep tiny.yaml train.steps=4 model.moe.experts=2,4,8 --extend -o linked" "sweep tiny.yaml train.steps=4 model.moe.experts=2,4 --force -o linked"; do
        status 3 smoe $command -q >out 2>&1
        grep -q "linked/$name: a symbolic link" out || fail "$command followed $name: $(cat out)"
    done
    case $name in */*) ;; *) status 3 smoe watch --once linked >out 2>&1 && grep -q "linked/$name: a symbolic link" out || fail "watch followed $name: $(cat out)" ;; esac
    diff -r theirs before || fail "$name was changed through a link"
    rm -r linked theirs before
done
# Nor is a claim of the folder that a new sweep is to get.
mkdir new theirs && ln -s ../theirs new/claims
status 3 smoe sweep tiny.yaml train.steps=4 model.moe.experts=2,4 -q -o new >out 2>&1
grep -q 'new/claims: a symbolic link' out && [ -z "$(ls theirs)" ] || fail "a sweep began through a link: $(cat out)"
rm -r new theirs
rm grid/summary.csv
status 0 smoe verify --repair grid >out
[ -s grid/summary.csv ] || fail "no table: $(cat out)"
status 3 smoe verify --json nowhere >out 2>err
tr -d ' \n' <out | grep -q '^\[{"path":"nowhere","good":false,"found":' || fail "$(cat out)"

# Every file that a sweep reads back: the ledger with its first line, the states of cells, evaluations and their images.
status 0 smoe sweep tiny.yaml train.steps=4 model.moe.experts=2,4 evaluate.eval.batch_size=50,100 -q -o grid2 >/dev/null
status 0 smoe verify grid2 >out
[ "$(grep -c 'experts=.: done, unchanged$' out)" -eq 2 ] && [ "$(grep -c ': 2 of 2 evaluations$' out)" -eq 2 ] || fail "$(cat out)"
for file in cells.jsonl claims/000-experts=2.json claims/000-experts=2.evaluations.json claims/001-experts=4.evaluation-1.npy \
    001-experts=4/outcomes.npy; do
    size=$(stat -c %s "grid2/$file") n=0
    cp "grid2/$file" kept
    while [ $n -lt 10 ]; do # the first byte, the last one, and others
        flip "grid2/$file" $((n * (size - 1) / 9))
        smoe verify -q grid2 >out 2>&1
        [ $? -eq 3 ] || fail "byte $((n * (size - 1) / 9)) of $file: $(cat out)"
        cp kept "grid2/$file"
        n=$((n + 1))
    done
done
# Lost evaluations of a finished cell do not make n smaller: they are an error, and are computed again.
evaluated grid2 >before
rm grid2/claims/000-experts=2.evaluations.json
status 3 smoe sweep --resume grid2 -q >out 2>err
grep -q '000-experts=2: 0 of 2 evaluations are there' err || fail "$(cat err)"
flip grid2/claims/001-experts=4.evaluations.json 40
status 0 smoe verify --repair grid2 >out
[ "$(grep -c 'evaluated again$' out)" -eq 2 ] && evaluated grid2 | cmp before - || fail "$(cat out)"
status 0 smoe verify -q grid2
# What a run that has ended lists, and what it needs to go on, must be there.
status 0 smoe train tiny.yaml -q train.steps=8 -o listed >/dev/null
for file in outcomes.npy env.json STATUS ckpt/step_00000004/state.safetensors; do
    mv "listed/$file" kept
    status 3 smoe verify -q listed >out 2>&1
    grep -q "no longer there$" out || fail "$file: $(cat out)"
    mv kept "listed/$file"
done
echo >>listed/metrics.csv
status 3 smoe verify -q listed >out 2>&1
grep -q 'metrics.csv: changed since the run ended$' out || fail "$(cat out)"
status 0 smoe verify --repair -q listed
rm listed/MANIFEST.sha256 listed/ckpt/latest/state.safetensors
status 3 smoe verify -q listed >out 2>&1
grep -q 'step_00000008: has no state.safetensors: it cannot be resumed from$' out || fail "$(cat out)"
rm grid2/claims/001-experts=4.evaluation-1.npy
status 3 smoe verify -q grid2 >out 2>&1
grep -q '001-experts=4: the images of 1 of 2 evaluations are lost$' out || fail "$(cat out)"
status 0 smoe verify --repair -q grid2

# Those of older versions have no digests, and are still read.
sed -i 's/,"xxh3":"[0-9a-f]*"//' grid2/cells.jsonl
sed -i '/"xxh3"/d; s/^  },$/  }/' grid2/claims/000-experts=2.json
status 0 smoe verify grid2 >out
grep -q 'cells, its first line not verified$' out && grep -q '000-experts=2: done, without a digest; contents not checked$' out || fail "$(cat out)"

# A --force that was killed half-way can be repeated.
rm -r grid/claims grid/000-*
echo mine >grid/notes
status 0 smoe sweep tiny.yaml train.steps=4 model.moe.experts=2,4 -q -o grid --force >/dev/null
mv grid/cells.jsonl grid/cells.jsonl.tmp-removed && rm -r grid/0* grid/claims
status 0 smoe sweep tiny.yaml train.steps=4 model.moe.experts=2,4 -q -o grid --force >/dev/null
[ "$(cat grid/notes)" = mine ] && [ ! -e grid/cells.jsonl.tmp-removed ] || fail "$(ls grid)"

# Files of processes of another machine are removed when they are old and the sweep continues; files of users stay.
there=0000000a-7-1f-0
touch -d '10 minutes ago' grid/sweep.gp.tmp-$there grid/notes.tmp-2026-11-1 grid/claims/x.json.tmp-$there
touch grid/summary.md.tmp-$there
status 0 smoe sweep --resume grid -q >/dev/null
[ "$(cd grid && echo *.tmp-* claims/*.tmp-*)" = "notes.tmp-2026-11-1 summary.md.tmp-$there claims/*.tmp-*" ] || fail "$(ls grid grid/claims)"

# a spec that was cut at the end of a line, or changed: refused, found, restored
status 0 smoe train tiny.yaml -q train.steps=8 -o cut >/dev/null
cp cut/spec.yaml whole
for line in 2 60 $(($(wc -l <whole) - 1)); do
    head -n "$line" whole >cut/spec.yaml
    status 2 smoe train --resume cut -q train.steps=12 2>err
    grep -q 'cut/spec.yaml:1:1: [0-9]* of the [0-9]* keys of this resolved spec are missing' err || fail "line $line: $(cat err)"
    status 3 smoe verify cut >out 2>/dev/null
    grep -q '^BAD  cut/spec.yaml: 1:1: ' out && grep -q '^BAD  cut/spec.yaml: changed since the run ended' out || fail "line $line: $(cat out)"
done
# of an older version, which does not say how many keys it has
sed '/^# resolved/d' whole | head -n 60 >cut/spec.yaml
status 2 smoe train --resume cut -q train.steps=12 2>err
grep -q 'cut: cannot resume: model.moe.experts was 4, now it is 64' err || fail "$(cat err)"
status 3 smoe verify cut >out 2>/dev/null
grep -q '^BAD  cut/spec.yaml: cut: cannot resume: model.moe.experts was 4' out && grep -q '^BAD  cut/spec.yaml: changed since the run ended' out || fail "$(cat out)"
sed 's/^# resolved.*/#/; s/lr: 0.003/lr: 0.3/' whole >cut/spec.yaml
status 3 smoe verify cut >out 2>/dev/null
grep -q '^BAD  cut/spec.yaml: cut: cannot resume: train.optimizer.lr was 0.003' out || fail "a changed key: $(cat out)"
status 0 smoe verify --repair cut >out
cmp whole cut/spec.yaml || fail "the restored spec"
