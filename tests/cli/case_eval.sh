# eval gives the result of the last evaluation of training; logits do not depend on the batch; --init starts from weights.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q -o run --json >result.json
status 0 smoe eval run -q --json >eval.json
for key in split images loss precision_at_1 fewshot; do
    grep -q "\"$key\"" eval.json || fail "eval --json has no $key"
done
last=$(grep -o '"test/precision_at_1": *[0-9.e-]*' run/metrics.jsonl | tail -n 1 | sed 's/.*: *//')
grep -q "\"precision_at_1\": $last" eval.json || fail "precision $last in training, $(cat eval.json)"
status 0 smoe eval run -q eval.batch_size=7 data.limit=100 --logits a.npy --labels al.npy >/dev/null
status 0 smoe eval run/ckpt/latest/model.safetensors -q -j1 eval.batch_size=100 data.limit=100 --logits b.npy --labels bl.npy >/dev/null
cmp a.npy b.npy || fail "logits depend on the batch"
cmp al.npy bl.npy || fail "labels depend on the batch"
# 100 images of 10 classes, float32 and int64, after a header of a multiple of 64 bytes
size=$(wc -c <a.npy); [ $((size % 64)) -eq $((100 * 10 * 4 % 64)) ] && [ "$size" -gt 4000 ] || fail "a.npy: $size bytes"
head -c 100 a.npy | grep -aq "'descr': '<f4'.*'shape': (100, 10)" || fail "a.npy: $(head -c 100 a.npy)"
head -c 100 al.npy | grep -aq "'descr': '<i8'.*'shape': (100,)" || fail "al.npy: $(head -c 100 al.npy)"
status 2 smoe eval run -q --logits a.npy 2>/dev/null
status 0 smoe eval run -q --logits a.npy --force data.limit=10 >/dev/null
# one file for two outputs is refused, however its path is spelt; a link to nothing counts as existing
for pair in "--logits x --labels" "--logits x --predictions" "--labels x --predictions"; do
    status 2 smoe eval run -q $pair ./x 2>err
    grep -q '^smoe eval: x and ./x are the same file$' err || fail "$pair: $(cat err)"
done
# files in the folder of -o, which is made, and which has files of its own
status 0 smoe eval run -q data.limit=10 -o made --logits made/l.npy --labels made/more/y.npy --predictions made/p.csv >/dev/null
for file in l.npy more/y.npy p.csv classes.csv; do [ -s made/$file ] || fail "no $file: $(ls made)"; done
for pair in "--logits new/x.npy --labels new/x.npy" "--predictions new/confusion.csv"; do
    status 2 smoe eval run -q -o new $pair 2>err
    grep -q ' are the same file$' err && [ ! -e new ] || fail "$pair: $(cat err)"
done
status 0 smoe inspect run -q data.limit=10 -o seen --dump-routing seen/more/d.npy >/dev/null
[ -s seen/more/d.npy ] || fail "no d.npy: $(ls seen)"
ln -s a.npy alias.npy
status 2 smoe eval run -q --logits a.npy --labels alias.npy --force 2>/dev/null
# Devices and pipes have nothing to lose; a link to a file would be replaced and not the file.
status 0 smoe eval run -q --logits /dev/null --labels /dev/null data.limit=10 >/dev/null
ln -s /proc/self/fd/1 stdout
smoe eval run -q --predictions stdout data.limit=10 | grep -q '^image,path,' || fail "no predictions in a pipe"
for link in alias.npy stdout; do
    status 2 smoe eval run -q --logits $link --force >out 2>err
    grep -q "$link is a link to a file; give the name of that file$" err && [ -L $link ] || fail "$link: $(cat err)"
done
ln -s nowhere.npy dangling.npy
status 2 smoe eval run -q --logits dangling.npy 2>err
grep -q 'dangling.npy: a symbolic link that leads nowhere$' err && [ -L dangling.npy ] || fail "$(cat err)"
# the steps of a run, in several spellings
for which in 24 step_24 step_00000024 latest best; do
    status 0 smoe eval run -q --dry-run --which $which >/dev/null
done
status 0 smoe eval run -q --dry-run --json >out
[ "$(tr -d ' \n' <out)" = '{"checkpoint":"run/ckpt/step_00000024/model.safetensors","split":"test"}' ] || fail "dry run: $(cat out)"
status 0 smoe eval run -q --which 20 --logits 20.npy data.limit=10 >/dev/null
cmp 20.npy a.npy >/dev/null && fail "steps 20 and 24 have the same logits"
status 3 smoe eval run -q --which step_7 2>/dev/null
status 2 smoe eval run -q --which step_x 2>/dev/null
# a sweep is not a run; one of its cells is
status 0 smoe sweep tiny.yaml train.steps=4,8 -q -o grid >/dev/null
for command in eval inspect; do
    status 2 smoe $command grid 2>err
    grep -q 'grid: is a sweep: name one of its cells, as grid/000-steps=4$' err || fail "$(cat err)"
done
status 0 smoe eval grid/001-steps=8 -q >/dev/null
status 2 smoe train --resume grid 2>err
grep -q 'grid: is a sweep: name one of its cells, as grid/000-steps=4; `smoe sweep --resume grid`' err || fail "$(cat err)"
# a limit on images that leaves too few examples is not an error of the data
status 2 smoe eval run -q eval.fewshot.shots=[5] data.limit=20 2>err
grep -q 'eval.fewshot.shots: 5 images per class needed' err || fail "$(cat err)"
grep -q 'data.limit is 20: raise it, or give eval.fewshot.shots=\[\]$' err || fail "$(cat err)"
# --init takes what eval takes
status 0 smoe train tiny.yaml -q --init run train.steps=4 train.optimizer.lr=0 train.eval_every=1 -o from-run >/dev/null
grep -q "\"test/precision_at_1\": *$last" from-run/metrics.jsonl || fail "--init RUN did not take the weights over"
# weights of a run as the start of another: its first evaluation equals the last one of the run
status 0 smoe train tiny.yaml -q --init run/ckpt/latest/model.safetensors train.steps=4 train.optimizer.lr=0 train.eval_every=1 -o more
grep -q "\"test/precision_at_1\": *$last" more/metrics.jsonl || fail "--init did not take the weights over"
# a model of other sizes: the message names the size
status 3 smoe eval run -q --spec tiny.yaml model.width=32 2>err
grep -q '^smoe eval: run/ckpt/step_00000024/model.safetensors: width 16, the spec says 32$' err || fail "$(cat err)"
# routers that choose: loss and counts as in training's own evaluation, although groups of 8 do not divide batches of 100; random routers at evaluation
status 0 smoe train tiny.yaml -q -o choice model.moe.router=tokens-choice model.moe.capacity=0.5 >/dev/null
status 0 smoe eval choice -q --json >eval.json
grep -q "\"loss\": $(grep -o '"test/loss":[0-9.]*' choice/metrics.jsonl | tail -n 1 | cut -d: -f2)," eval.json || fail "$(cat eval.json; tail -n 1 choice/metrics.jsonl)"
tr -d ' \n' <eval.json | grep -o '"test/dropped".*\]' >counts || fail "$(cat eval.json)"
tail -n 1 choice/metrics.jsonl | tr -d ' \n' | grep -o '"test/dropped".*\]' | cmp - counts || fail "$(cat counts; tail -n 1 choice/metrics.jsonl)"
# 7 registers and 16 positions, which are 4x4 patches and not 3x3 and the registers
status 0 smoe train tiny.yaml -q -o seven model.registers=7 train.steps=4 train.schedule.cooldown=0 >/dev/null
status 0 smoe eval seven --json >eval.json 2>err
grep -q resized err && fail "$(cat err)"
grep -q "\"loss\": $(grep -o '"test/loss":[0-9.]*' seven/metrics.jsonl | tail -n 1 | cut -d: -f2)," eval.json || fail "$(cat eval.json; tail -n 1 seven/metrics.jsonl)"
status 0 smoe eval choice -q model.moe.router=random --logits r8.npy eval.batch_size=8 >random
grep -q '^dropped  *0\.[0-9]*' random || fail "$(cat random)"
status 0 smoe eval choice -q -j1 model.moe.random_layers=[1] --logits r40.npy eval.batch_size=40 >/dev/null
cmp r8.npy r40.npy || fail "random scores depend on the batch"
status 0 smoe eval choice -q --logits l8.npy eval.batch_size=8 >/dev/null
cmp -s r8.npy l8.npy && fail "random routers change nothing"
# keys that only training checks do not matter in evaluation: groups that divide the batch, a warm-up that fits the steps
status 2 smoe eval choice -q eval.batch_size=8 train.batch_size=7 2>err
grep -q 'train.batch_size: has no effect: it needs a model that is trained here' err || fail "$(cat err)"
status 0 smoe eval choice -q eval.batch_size=8 model.moe.group_images=3 >/dev/null
# a batch holds at least one group, so that groups do not depend on eval.batch_size
for batch in 10 29 100; do
    status 0 smoe eval choice -q eval.batch_size=$batch model.moe.group_images=29 --logits g$batch.npy >/dev/null
    cmp g$batch.npy g10.npy || fail "groups of 29 images depend on batches of $batch"
done
status 0 smoe eval choice -q eval.batch_size=10 model.moe.group_images=10 --logits ten.npy >/dev/null
cmp -s ten.npy g10.npy && fail "groups of 10 and 29 images are the same"
status 2 smoe train tiny.yaml -n model.moe.router=tokens-choice model.moe.group_images=3 2>err
grep -q 'groups of 3 images do not divide the batch' err || fail "$(cat err)"
status 2 smoe eval run -q model.moe.random_layers=all 2>err
grep -q 'router soft makes no choices' err || fail "$(cat err)"
# errors in the spec that a checkpoint contains are damage to the checkpoint; errors in an override belong to the override
status 0 smoe init tiny.yaml own.safetensors -q >/dev/null
sed 's/\\"aux_weight\\"/\\"aux_weighs\\"/' own.safetensors >hurt.safetensors
foreign hurt.safetensors
status 3 smoe eval hurt.safetensors eval.batch_size=10 2>err
grep -q '^smoe eval: hurt.safetensors:1:[0-9]*: model.moe.aux_weighs: unknown key' err || fail "$(cat err)"
status 3 smoe eval hurt.safetensors eval.batch_sise=10 2>err
status 2 smoe eval own.safetensors eval.batch_sise=10 2>err
status 0 smoe eval hurt.safetensors -q --spec tiny.yaml eval.batch_size=10 >/dev/null
# Values of a router that chooses are not left out because they are 0. Here: one token per image and group, of which half
# take part, rounded to even; one expert, which is balanced.
status 0 smoe train tiny.yaml -q model.patch_size=16 model.moe.router=tokens-choice model.moe.experts=1 model.moe.k=1 model.moe.group_images=1 \
    model.moe.skip_patch=0.5 -o nobody >/dev/null
grep -q '"train/aux_loss": *0\(\.0\)*[,}]' nobody/metrics.jsonl || fail "$(cat nobody/metrics.jsonl)"
status 0 smoe eval nobody -q --json >out
tr -d ' \n' <out | grep -q '"blocks.1/router/chosen":\[0\],"blocks.1/router/placed":\[0\],"blocks.1/router/lost":\[0\]' || fail "$(cat out)"
# which classes are mistaken for which: tables, their figure, and agreement with the result
status 0 smoe eval run -q --json --predictions said.csv -o tables >eval.json
[ "$(head -n 1 said.csv)" = image,path,label,label_name,prediction,prediction_name,correct,probability ] || fail "$(head -n 1 said.csv)"
[ "$(wc -l <said.csv)" -eq 201 ] || fail "$(wc -l <said.csv) lines of predictions"
precision=$(awk -F, 'NR > 1 { n += $7 } END { printf "%.10g", n / (NR - 1) }' said.csv)
grep -q "\"precision_at_1\": $precision," eval.json || fail "$precision of the predictions, $(head -n 8 eval.json)"
[ "$(awk -F, 'NR > 1 { n += $6 } END { print n }' tables/confusion.csv)" -eq 200 ] || fail "$(cat tables/confusion.csv)"
[ "$(awk -F, 'NR > 1 { n += $3 } END { print n }' tables/classes.csv)" -eq 200 ] || fail "$(cat tables/classes.csv)"
awk -F, 'NR > 1 && $3 > 0 { e += $3 * ($4 > $5 ? $4 - $5 : $5 - $4); n += $3 } END { print e / n }' tables/calibration.csv >error
grep -o '"calibration_error": *[0-9.e-]*' eval.json | sed 's/.*: *//' | cat - error | tr '\n' ' ' | awk '{ exit !($1 - $2 < 1e-5 && $2 - $1 < 1e-5) }' ||
    fail "calibration error: $(cat error), $(grep calibration eval.json)"
[ -s tables/confusion.gp ] || fail "no script of the confusion"
command -v gnuplot >/dev/null && { grep -q '<svg' tables/confusion.svg || fail "no figure of the confusion"; }
# super-classes, as the router takes them
status 0 smoe eval run -q --superclasses 4 >out
list=$(sed -n 's/^superclasses  *//p' out | tr -d ' ')
status 0 smoe eval run -q --json --superclasses 4 >super.json
[ "$(tr -d ' \n' <super.json | grep -o '"superclasses":\[[0-9,]*\]')" = "\"superclasses\":$list" ] || fail "$list, $(cat super.json)"
status 0 smoe train run/spec.yaml --dry-run model.moe.router=images-choice model.moe.balance=superclass model.moe.experts=4 "model.moe.superclasses=$list" 2>err >out
status 2 smoe eval run -q --superclasses 11 2>err
grep -q -- '--superclasses 11: the data has 10 classes$' err || fail "$(cat err)"
status 2 smoe eval run -q -o tables 2>err
grep -q 'tables/classes.csv exists already; --force replaces it$' err || fail "$(cat err)"
status 2 smoe eval run -q --predictions said.csv 2>err
