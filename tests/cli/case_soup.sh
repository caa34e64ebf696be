# Soups: means of weights, greedy ones by a held-out split; models that do not belong together are refused.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q train.steps=40 -o start >/dev/null
for seed in 1 2; do
    status 0 smoe train tiny.yaml -q --init start train.steps=8 train.schedule.cooldown=0 seed=$seed -o fine$seed >/dev/null
done
status 0 smoe train tiny.yaml -q seed=7 train.steps=40 -o apart >/dev/null
number() { tr -d ' \n' <"$1" | sed -n "s/.*$2\"*:\([0-9.e-]*\).*/\1/p"; }
# The soup of a model with itself is the model.
status 0 smoe soup start start -q -o same >/dev/null
status 0 smoe eval same -q --logits a.npy >/dev/null
status 0 smoe eval start -q --logits b.npy >/dev/null
cmp a.npy b.npy || fail "the mean of two equal models is another"
head -c 5000 same/model.safetensors | grep -qa 'smoe.soup":"\[.*start/ckpt/step_00000040/model.safetensors' || fail "no members in the file"
# A model that is given twice, by any name, is named.
status 0 smoe soup start start/ckpt/latest --no-progress >/dev/null 2>err
grep -qx 'start/ckpt/step_00000040/model.safetensors and start/ckpt/latest/model.safetensors are one model, and both count in the mean' err || fail "$(cat err)"
# From one start: experts are matched by their number. The evaluation of the soup is that of its file.
status 0 smoe soup fine1 fine2 -q --json -o two >out
grep -q '"experts_aligned": 1,' out || fail "$(cat out)"
status 0 smoe eval two -q --json >eval
[ "$(tr -d ' \n' <out | sed 's/.*"soup":{"loss":\([0-9.]*\).*/\1/')" = "$(sed -n 's/.*"loss": *\([0-9.]*\).*/\1/p' eval)" ] || fail "$(cat out eval)"
# Independent runs: a barrier, and experts that are not aligned. Greedy leaves out harmful members, and says on which split
# it chose.
status 0 smoe soup start apart --no-progress >out 2>err
[ "$(wc -l <err)" -eq 2 ] && grep -q "^models      2$" err || fail "$(cat err)"
awk '/^apart/ { exit !($7 < 0.9 && $8 < 0.5 && $5 > $2) }' out || fail "no barrier: $(cat out)"
status 0 smoe soup apart fine1 fine2 --greedy --no-progress -o chosen >out 2>err
grep -q 'were chosen by the test split' err || fail "$(cat err)"
grep -q '^greedy soup of [12] of 3 on ' out || fail "$(cat out)"
best=$(sed -n 2,4p out | awk '$3 > best { best = $3 } END { print best }')
awk -v best=$best '/^greedy/ { sub(/.*top-1 accuracy /, ""); exit !($1 + 0 >= best) }' out || fail "worse than its best member: $(cat out)"
status 0 smoe soup apart fine1 fine2 --greedy -q eval.split=val >out 2>err
grep -q 'of the val split' out || fail "$(cat out)"
# Refusals.
status 2 smoe soup start 2>err
status 2 smoe soup fine1 fine2 -o two 2>err
grep -q 'two/model.safetensors exists already; --force replaces it' err || fail "$(cat err)"
status 2 smoe soup fine1 fine2 -o start 2>err
grep -q 'start is a run; -o DIR names another folder' err || fail "$(cat err)"
status 0 smoe train tiny.yaml -q model.moe.router=soft-uniform train.steps=4 -o other >/dev/null
status 2 smoe soup start other 2>err
grep -q 'other/ckpt/step_00000004/model.safetensors: model.moe.router differs from that of start/' err || fail "$(cat err)"
status 0 smoe train tiny.yaml -q data.mean=0.3 train.steps=4 -o brighter >/dev/null
status 2 smoe soup start brighter 2>err
grep -q 'brighter/ckpt/step_00000004/model.safetensors: data.mean differs from that of start/' err || fail "$(cat err)"
status 0 smoe init tiny.yaml wide.safetensors model.width=8 -q >/dev/null
status 2 smoe soup start wide.safetensors 2>err
grep -q 'wide.safetensors: model.width differs from that of' err || fail "$(cat err)"
# Keys of training, and of batches that have no effect, may differ, and so may the way to write a value: last-1, or 0.5 for each channel.
for key in model.dropout=0.1 model.drop_path=0.1 model.moe.soft_noise=1 train.batch_size=4 model.moe.layers=[1] data.mean=[0.5,0.5,0.5]; do
    status 0 smoe train tiny.yaml -q $key train.steps=4 -f -o trained >/dev/null
    status 0 smoe soup start trained -q >/dev/null 2>err
done
# A capacity without effect may differ; one with an effect may not, however it is written.
sed 's/slots_per_expert: 2/slots_per_expert: 2, capacity: 2/' tiny.yaml >idle.yaml
status 0 smoe train idle.yaml -q train.steps=4 -o idle >/dev/null 2>err
status 0 smoe soup start idle -q >/dev/null 2>err
chooses="model.moe.router=tokens-choice model.moe.capacity"
status 0 smoe train tiny.yaml -q $chooses=2 train.steps=2 -o alone >/dev/null
status 0 smoe train tiny.yaml -q $chooses=[2] model.moe.k=[1] train.steps=2 -o listed >/dev/null
status 0 smoe soup alone listed -q >/dev/null 2>err
status 0 smoe train tiny.yaml -q $chooses=[1] train.steps=2 -o narrow >/dev/null
status 2 smoe soup alone narrow -q 2>err
grep -q 'model.moe.capacity differs from that of alone/' err || fail "$(cat err)"
# a model of another shape is found before any is evaluated
status 0 smoe train tiny.yaml -q data.image_size=48 train.steps=4 -o large >/dev/null
status 3 smoe soup start large -v 2>err >out
grep -q 'large/ckpt/step_00000004/model.safetensors: tensor pos_embed: shape ' err && ! grep -q evaluations err || fail "$(cat err)"
status 3 smoe soup start nothing 2>err
# With --spec, the configuration beside each file counts, not only that of the first.
keys='model.head=token model.moe.layers=none'
status 0 smoe init tiny.yaml plain.safetensors -q $keys >/dev/null && foreign plain.safetensors
LC_ALL=C sed -i 's/"smoe\.spec":/"some.spec":/; s/"smoe\.version":/"some.version":/' plain.safetensors
mkdir one two-of && cp plain.safetensors one/model.safetensors && cp plain.safetensors two-of/model.safetensors
echo '{"hidden_size": 16, "num_attention_heads": 2, "layer_norm_eps": 1e-6}' >one/config.json
echo '{"hidden_size": 16, "num_attention_heads": 4, "layer_norm_eps": 1e-6}' >two-of/config.json
status 2 smoe soup one two-of --spec tiny.yaml $keys 2>err
grep -q 'two-of/model.safetensors: config.json beside it says model.heads=4, and the spec has 2' err || fail "$(cat err)"
