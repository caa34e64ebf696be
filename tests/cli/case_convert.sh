# convert changes the storage type of weights. BF16 and the same values in F32 give the same bits everywhere; the file of
# init is step 0.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q -o run >/dev/null
status 0 smoe convert run half.safetensors --type bf16 >out
grep -qE '^half.safetensors: [0-9]+ tensors, [0-9]+ of them now BF16, [0-9.]+ kB$' out || fail "$(cat out)"
status 0 smoe convert half.safetensors full.safetensors --type f32 >/dev/null
half=$(wc -c <half.safetensors) full=$(wc -c <full.safetensors)
[ $((full - half)) -gt 10000 ] || fail "$half and $full bytes"
for f in half full; do
    status 0 smoe eval $f.safetensors -q data.limit=100 --logits $f.npy | sed 1d >$f.eval
    status 0 smoe inspect $f.safetensors -q data.limit=100 | sed 1d >$f.inspect
done
for kind in npy eval inspect; do cmp half.$kind full.$kind || fail "BF16 and the same values in F32 differ: $kind"; done
# values that the new type represents exactly survive a round trip, with all metadata
status 0 smoe convert full.safetensors again.safetensors --type bf16 >/dev/null
cmp half.safetensors again.safetensors || fail "there and back is another file"
status 0 smoe convert run/ckpt/latest same.safetensors --type f32 >/dev/null
cmp same.safetensors run/ckpt/latest/model.safetensors || fail "F32 to F32 is another file"
# experts only, in the three types; a file with several types is a model like any other
for type in f32 f16 bf16; do
    status 0 smoe convert run $type.safetensors --type $type --only .experts. >/dev/null
    grep -qa "experts.fc1.weight\":{\"dtype\":\"$(echo $type | tr bf BF)\"" $type.safetensors || fail "not in $type"
    status 0 smoe eval $type.safetensors -q data.limit=100 --logits $type.npy >/dev/null
done
status 2 smoe convert run none.safetensors --type bf16 --only .expert. 2>err
grep -q "no tensor has '.expert.' in its name" err || fail "$(cat err)"
status 2 smoe init tiny.yaml none.safetensors --type bf16 --only .expert. 2>err
[ ! -f none.safetensors ] || fail "a file in which nothing was changed"
cmp f32.npy bf16.npy >/dev/null && fail "rounding the experts changed no logit"
# weights of another program as the start of a run
status 0 smoe train tiny.yaml -q --init half.safetensors train.steps=4 -o more >/dev/null
# the start of a run as a file, the same that training starts from
status 0 smoe init tiny.yaml start.safetensors seed=3 >/dev/null
status 0 smoe train tiny.yaml -q seed=3 train.steps=4 train.optimizer.lr=0 -o still >/dev/null
status 0 smoe eval start.safetensors -q --logits a.npy data.limit=100 >/dev/null
status 0 smoe eval still -q --logits b.npy data.limit=100 >/dev/null
cmp a.npy b.npy || fail "init is not what training starts from"
# to Hugging Face's names and back: the same bytes; that format has no experts
status 0 smoe train tiny.yaml -q model.moe.layers=none model.head=token train.steps=4 -o dense >/dev/null
status 0 smoe convert dense hf.safetensors --type f32 --names hf >out
grep -q '^hf.safetensors: 40 tensors' out || fail "$(cat out)" # three for each of four tensors of q, k and v
head -c 8000 hf.safetensors | grep -qa '"vit.encoder.layer.1.attention.attention.key.weight":{"dtype":"F32","shape":\[16,16\]' || fail "no key"
status 0 smoe convert hf.safetensors back.safetensors --type f32 >/dev/null
cmp back.safetensors dense/ckpt/latest/model.safetensors || fail "other names and back is another file"
status 0 smoe eval hf.safetensors -q data.limit=100 >/dev/null
status 2 smoe convert run none.safetensors --type f32 --names hf 2>err
[ "$(wc -l <err)" -eq 1 ] && grep -q "run.*: Hugging Face's ViT has no tensor for blocks.1.mlp.experts.fc1.* and others" err || fail "$(cat err)"
# a copy needs no type, and a file is what its name says
status 0 smoe convert half.safetensors copy.safetensors >out
cmp copy.safetensors half.safetensors || fail "a copy is another file"
grep -q '^copy.safetensors: [0-9]* tensors, with their types unchanged, ' out || fail "$(cat out)"
status 2 smoe convert run - 2>err
grep -qx 'smoe convert: -: give the name of a file; ./- is a file of this name' err && [ ! -e - ] || fail "-: $(cat err)"
status 2 smoe convert run model.pth 2>err
grep -q 'model.pth: only safetensors files are written, not .pth; name it model.safetensors' err || fail "$(cat err)"
for ending in gguf h5 msgpack pb; do
    status 2 smoe convert run model.$ending 2>err
    grep -q "model.$ending: only safetensors files are written, not .$ending; name it model.safetensors" err && [ ! -e model.$ending ] || fail "$(cat err)"
done
# a folder of save_pretrained is a folder with such a file
mkdir saved && mv hf.safetensors saved/model.safetensors
status 0 smoe eval saved -q data.limit=100 >/dev/null
status 0 smoe train tiny.yaml -q model.moe.layers=none train.steps=4 -o mean >/dev/null
status 2 smoe convert mean none.safetensors --type f32 --names hf 2>err
grep -q "mean.*: Hugging Face's ViT has a class token, and this model has none (model.head: token)" err || fail "$(cat err)"
for position in sincos2d none; do
    status 0 smoe init tiny.yaml fixed-$position.safetensors -q model.moe.layers=none model.head=token model.position=$position >/dev/null
    status 2 smoe convert fixed-$position.safetensors none.safetensors --names hf 2>err
    grep -q "fixed-$position.safetensors: Hugging Face's ViT has learned positions, and this model has none (model.position: learned)" err && [ ! -e none.safetensors ] || fail "$(cat err)"
done
# fewer experts: the spec is that of the model, whatever images chose them, and all experts are the same file
status 0 smoe convert run all.safetensors --experts 4 eval.split=test data.limit=50 >out
grep -q '^blocks.1 *4 of 4 experts, with 1.000 of the combine weights$' out || fail "$(cat out)"
grep -q '^logits of 50 images before and after: largest difference 0, ' out || fail "$(cat out)"
status 0 smoe convert run whole.safetensors >/dev/null
cmp all.safetensors whole.safetensors || fail "all experts are another file"
# one file, also where the checkpoint has several
status 0 smoe train tiny.yaml -q train.steps=4 train.schedule.cooldown=0 train.shard_bytes=4000 -o parts >/dev/null
status 0 smoe convert parts parts.safetensors --experts 2 -q >/dev/null
[ -f parts.safetensors ] || fail "several files: $(ls parts*)"
status 0 smoe convert run two.safetensors --experts 2 -q --json >out
grep -qE '"combine_share": 0\.[0-9]+' out && grep -qE '"kept": "[0-3] [0-3]"' out && grep -q '"images": 200' out || fail "$(cat out)"
status 0 smoe train tiny.yaml -q --init two.safetensors model.moe.experts=2 train.steps=4 train.schedule.cooldown=0 -o two >/dev/null
super='model.moe.router=images-choice model.moe.balance=superclass model.moe.superclasses=[0,1,2,3,0,1,2,3,0,1]'
status 0 smoe train tiny.yaml -q -o super train.steps=2 train.schedule.warmup=0 train.schedule.cooldown=0 $super >/dev/null
status 0 smoe convert super super.safetensors --experts 2 >/dev/null # the list names experts that are gone
status 0 smoe eval super.safetensors -q >/dev/null
status 0 smoe convert run mlp.safetensors --experts mean >out
grep -q '^blocks.1 *the mean of 4 experts$' out || fail "$(cat out)"
status 0 smoe eval mlp.safetensors -q data.limit=100 >/dev/null
wide='model.moe.expert_mlp=20 train.steps=2 train.schedule.warmup=0 train.schedule.cooldown=0'
status 0 smoe train tiny.yaml -q -o wide $wide model.moe.layers=all >/dev/null
status 0 smoe convert wide narrow.safetensors --experts mean >/dev/null
status 0 smoe eval narrow.safetensors -q data.limit=100 >/dev/null
status 0 smoe train tiny.yaml -q -o other $wide >/dev/null
status 2 smoe convert other no.safetensors --experts mean 2>err
grep -q -- '--experts mean: the experts are 20 wide and the MLPs of other blocks 32: in a dense model all have one width' err || fail "$(cat err)"
status 0 smoe train tiny.yaml -q -o fixed model.moe.router=identity model.moe.slots_per_expert=4 train.steps=2 train.schedule.warmup=0 \
    train.schedule.cooldown=0 >/dev/null
status 2 smoe convert fixed no.safetensors --experts 3 2>err
grep -q -- '--experts 3: router identity binds each token to a slot, and these experts have 12 slots for 16 tokens' err || fail "$(cat err)"
for wrong in 5 0 many; do status 2 smoe convert run no.safetensors --experts $wrong 2>>err; done
grep -q -- '--experts 5: the model has 4 experts' err && grep -q -- '--experts many: expected a number of experts, or mean' err || fail "$(cat err)"
status 0 smoe train tiny.yaml -q train.steps=4 train.schedule.cooldown=0 model.moe.router=tokens-choice model.moe.k=3 -o three >/dev/null
status 2 smoe convert three no.safetensors --experts 2 2>err
grep -q '^smoe convert: --experts 2: a token of the model chooses 3 experts: keep at least as many$' err || fail "$(cat err)"
status 2 smoe convert dense no.safetensors --experts 2 2>err
grep -q -- '--experts: the model has no experts' err || fail "$(cat err)"
status 2 smoe convert run no.safetensors eval.split=val 2>err
grep -q 'eval.split=val: keys have an effect only with --experts, where they choose the images, and with --spec$' err || fail "$(cat err)"
[ ! -e no.safetensors ] || fail "a refusal left no.safetensors behind"
# refused commands leave no files behind
status 2 smoe convert run half.safetensors --type f32 2>err
grep -q 'half.safetensors exists already' err || fail "$(cat err)"
status 0 smoe convert run half.safetensors --type bf16 --force >/dev/null
cmp half.safetensors again.safetensors || fail "--force wrote another file"
status 1 smoe convert run no/such/folder.safetensors --type bf16 2>/dev/null
status 3 smoe convert tiny.yaml x.safetensors --type bf16 2>/dev/null
status 2 smoe init tiny.yaml x.safetensors model.width=x 2>/dev/null
status 0 smoe init tiny.yaml x.safetensors --dry-run >/dev/null
[ ! -e x.safetensors ] || fail "a refusal left x.safetensors behind"
# A file that is converted into the folder of a run does not stand for the run.
status 0 smoe convert run run/model.safetensors --type bf16 -q >/dev/null
for which in latest best; do
    status 0 smoe eval run -n --which $which >out
    grep -q "^would evaluate run/ckpt/.*/model.safetensors on" out || fail "a file beside a run: $(cat out)"
done
status 0 smoe verify run >out
grep -q 'run/metrics.jsonl: ' out || fail "the run is not verified: $(cat out)"
