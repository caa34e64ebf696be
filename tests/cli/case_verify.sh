#!/bin/sh
# Bytes that change are seen: by `smoe verify`, and by every command that reads a checkpoint or records.
. "$ROOT/tests/cli/lib.sh"

# flip FILE OFFSET: changes a bit of the byte at the offset
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

# A file of another program has no digest: read, and said to be not verified.
cp good foreign.safetensors && foreign foreign.safetensors
status 0 smoe eval foreign.safetensors >out 2>err
grep -q 'foreign.safetensors: not verified: it has no digest$' err || fail "$(cat err)"
status 0 smoe verify foreign.safetensors >out
grep -q 'not verified: it has no digest' out || fail "$(cat out)"

# Records: a digit, a line less in the middle, a checksum less.
cp run/metrics.jsonl records
for edit in '3s/"step":3/"step":4/' '4d' '5s/,"chain":"[0-9a-f]*"//' '2s/"train.loss":/&1/'; do
    sed "$edit" records >run/metrics.jsonl
    cmp -s records run/metrics.jsonl && fail "$edit changes nothing"
    status 3 smoe verify -q run >out 2>&1
    grep -q '^BAD  run/metrics.jsonl: ' out || fail "$edit: $(cat out)"
    status 3 smoe train --resume run -q train.steps=30 2>err
done
# Those of an older version have none; a resume goes on with checksums over them too.
sed 's/,"chain":"[0-9a-f]*"//' records >run/metrics.jsonl
status 0 smoe verify run >out
grep -q 'metrics.jsonl: [0-9]* records, not verified' out || fail "$(cat out)"
status 0 smoe train --resume run -q train.steps=16 >/dev/null
status 0 smoe verify run >out
grep -q 'metrics.jsonl: [0-9]* records, the first of them without checksums$' out || fail "$(cat out)"
sed -i '2s/"train.loss":/&1/' run/metrics.jsonl
status 3 smoe verify -q run >out 2>&1

# A lost spec is in the checkpoint; links are not followed; leftovers go.
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

# Sweeps, archives, JSON.
status 0 smoe sweep tiny.yaml train.steps=4 model.moe.experts=2,4 -q -o grid >/dev/null
status 0 smoe verify grid >out
grep -q '^ok   grid: the ledger of 2 cells$' out || fail "$(cat out)"
rm grid/summary.csv
status 0 smoe verify --repair grid >out
[ -s grid/summary.csv ] || fail "no table: $(cat out)"
status 3 smoe verify --json nowhere >out 2>err
tr -d ' \n' <out | grep -q '^\[{"path":"nowhere","good":false,"found":' || fail "$(cat out)"

# A --force that was killed half-way can be forced again.
rm -r grid/claims grid/000-*
status 0 smoe sweep tiny.yaml train.steps=4 model.moe.experts=2,4 -q -o grid --force >/dev/null
