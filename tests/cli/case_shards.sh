# Checkpoints in several files: the same weights and moments, read by every command, merged by convert. Files that do not
# belong together are refused.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q -o one >/dev/null
status 0 smoe train tiny.yaml -q -o many train.shard_bytes=12000 train.ema=0.9 >/dev/null
[ -f many/ckpt/latest/model-00002-of-00004.safetensors ] || fail "not four files: $(ls many/ckpt/latest)"
[ -e many/ckpt/latest/model.safetensors ] && fail "one file beside several"
[ -f many/ckpt/latest/ema.safetensors.index.json ] || fail "no average in several files"
for run in one many; do smoe eval $run --json --logits $run.npy | grep -v checkpoint >$run.eval; done
cmp one.npy many.npy && cmp one.eval many.eval || fail "other logits"
# in several files, it has the same name
smoe eval many --json | grep -q '"checkpoint": "many/ckpt/step_00000024/model.safetensors",' || fail "another name"
for path in many/ckpt/latest many/ckpt/latest/model.safetensors many/ckpt/latest/model.safetensors.index.json; do
    status 0 smoe eval $path -q --logits again.npy --force >/dev/null
    cmp one.npy again.npy || fail "other logits of $path"
done
status 0 smoe eval many -q --which ema >/dev/null
status 0 smoe inspect many -q >/dev/null
status 0 smoe verify many >/dev/null
status 0 smoe convert many merged.safetensors --type f32 -q
status 0 smoe eval merged.safetensors -q --logits again.npy --force >/dev/null
cmp one.npy again.npy || fail "other logits of the files put together"
status 0 smoe train tiny.yaml -q --init many/ckpt/latest/model.safetensors.index.json -o started train.steps=4 train.schedule.cooldown=0
# a resume may continue with one file or with several
status 0 smoe train --resume many -q train.steps=28 train.shard_bytes=1000000 >/dev/null
status 0 smoe train tiny.yaml -q -o whole train.steps=24 train.ema=0.9 >/dev/null
status 0 smoe train --resume whole -q train.steps=28 >/dev/null
for f in model state ema; do
    smoe compare many/ckpt/latest/$f.safetensors whole/ckpt/latest/$f.safetensors >differ 2>&1
    grep -q 'tensors.*same\|same.*tensors' differ || fail "$f: $(cat differ)"
done

ckpt=many/ckpt/step_00000024
refused() { # refused PATTERN: the checkpoint in its present state
    status 3 smoe eval $ckpt -q >out 2>err
    grep -q "$1" err || fail "not \"$1\": $(cat err)"
}
cp -r $ckpt kept
restore() { rm -rf $ckpt && cp -r kept $ckpt; }
rm $ckpt/model-00003-of-00004.safetensors
refused "$ckpt/model.safetensors.index.json: tensor blocks[a-z0-9.]*: its file $ckpt/model-00003-of-00004.safetensors is not there"
restore
cp many/ckpt/step_00000008/model-00003-of-00004.safetensors $ckpt
refused 'model-00001-of-00004.safetensors and model-00003-of-00004.safetensors differ in smoe.step: they do not belong together'
restore
sed -i 's/"total_size": /"total_size": 1/' $ckpt/model.safetensors.index.json
refused 'total_size is 1[0-9]*, but the tensors have'
restore
sed -i '/pos_embed/d' $ckpt/model.safetensors.index.json
refused '32 tensors, but its files have 33\|not an index of shards'
restore
sed -i 's/"model-00001-of/"..\/model-00001-of/' $ckpt/model.safetensors.index.json
refused 'is not the name of a safetensors or .bin file in the same folder'
restore
# a flipped bit in one of them
f=$ckpt/model-00002-of-00004.safetensors
printf 'X' | dd of=$f bs=1 seek=$(($(wc -c <$f) - 9)) conv=notrunc 2>/dev/null
refused 'model-00002-of-00004.safetensors.*digest'
