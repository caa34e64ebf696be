# compare: the same run with other threads is the same; another seed differs from the first record on; sizes and
# checkpoints.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q -j2 -o a >/dev/null
status 0 smoe train tiny.yaml -q -j1 -o b >/dev/null
status 0 smoe train tiny.yaml -q seed=1 train.steps=28 -o c >/dev/null
status 0 smoe compare a b >out
grep -q '^settings  *the same$' out && grep -qE '^threads +2 +1$' out || fail "$(cat out)"
grep -qE '^records +all 2[0-9] are the same, except for times$' out || fail "$(cat out)"
grep -q '^weights  *33 of 33 tensors are the same$' out || fail "$(cat out)"
grep -q argv out && fail "the command line is no environment"
status 0 smoe compare a c >out
grep -qE '^seed +0 +1$' out && grep -qE '^train.steps +24 +28$' out || fail "$(cat out)"
grep -qE '^records +at step 1, the first one, they differ in ' out || fail "$(cat out)"
grep -qE '^weights +[0-9] of 33 tensors are the same; the largest difference is [0-9.]+, in ' out || fail "$(cat out)"
# the last values are those of the records, the number of steps is that of the common ones
last() { grep -o "\"$2\": *[0-9.e-]*" "$1/metrics.jsonl" | tail -n 1 | sed 's/.*: *//'; }
row=$(grep '^train/loss ' out)
echo "$row" | awk -v a="$(last a train/loss)" -v b="$(last c train/loss)" '
    { exit !($2 - a < 1e-5 && a - $2 < 1e-5 && $3 - b < 1e-5 && b - $3 < 1e-5 && $6 == 24) }' ||
    fail "$row; $(last a train/loss), $(last c train/loss)"
# a step with two records, of training and of an evaluation, counts once: its time is that of the last
grep -qE '^epoch .* 24$' out && grep -qE '^wall_s .* 24$' out || fail "$(grep -E '^(epoch|wall_s)' out)"
# Batches of training and evaluations have the same names for numbers of a layer, but are not paired with one another: runs whose
# records of training are of different steps have only evaluations in common, here at steps 8, 16 and 24, beside the last batch.
choice='model.moe.router=tokens-choice model.moe.capacity=0.5'
status 0 smoe train tiny.yaml -q $choice train.log_every=3 -o every3 >/dev/null
status 0 smoe train tiny.yaml -q $choice train.log_every=5 train.optimizer.lr=1e-3 -o every5 >/dev/null
status 0 smoe compare every3 every5 >out
grep -qE '^blocks.1/router/dropped .* 2$' out && grep -qE '^test/blocks.1/router/dropped .* 3$' out || fail "$(cat out)"
# one record is changed by one digit, by someone who leaves out the running checksums
cp -r a d
sed -i 's/,"chain":"[0-9a-f]*"//' d/metrics.jsonl
sed -i '12s/"train\/loss":\([0-9]\)\./"train\/loss":\1.0/' d/metrics.jsonl
cmp -s a/metrics.jsonl d/metrics.jsonl && fail "the copy was not changed"
status 0 smoe compare a d --json >json
grep -q '"records": 11,' json && grep -q '"metric": "train/loss"' json || fail "$(grep -A8 '"same"' json)"
# several runs, and checkpoints, which have no records
status 0 smoe compare a b a/ckpt/step_00000020 --json >json
[ "$(grep -c '"settings": ' json)" -eq 2 ] && grep -q '"records": null' json || fail "$(grep records json)"
status 3 smoe compare a nothing 2>err
grep -q '^smoe compare: nothing: neither a run' err || fail "$(cat err)"
status 2 smoe compare a 2>/dev/null
# models on the same images, and groups of seeds: the interval of two differences is their mean -+ 12.706 * |d1 - d2| / 2
status 0 smoe compare a b --outputs >out
grep -q '^outputs  *of 200 images 200 have the same top class; right: both [0-9]*, only a 0, only b 0, none [0-9]*$' out || fail "$(cat out)"
grep -q '^logits  *differ by 0 (root mean square), at most by 0' out || fail "$(cat out)"
status 0 smoe compare a c --outputs >out
grep -qE '^outputs +of 200 images [0-9]+ have' out && grep -qE '^logits +differ by 0?\.?[0-9.e-]+ .*, of shapes/test/[0-9]+$' out || fail "$(cat out)"
for seed in 0 1; do status 0 smoe train tiny.yaml -q seed=$seed train.optimizer.lr=1e-3 -o low$seed >/dev/null; done
status 0 smoe train tiny.yaml -q seed=1 -o a1 >/dev/null
status 0 smoe compare a a1 low0 low1 >out
sed -n '/^Seeds:$/,$p' out | grep '^a .* train/loss ' >row || fail "no groups: $(cat out)"
echo "$(last a train/loss) $(last a1 train/loss) $(last low0 train/loss) $(last low1 train/loss) $(cat row)" | awk '
    { d1 = $3 - $1; d2 = $4 - $2; mean = (d1 + d2) / 2; half = 12.7062 * sqrt((d1 - d2) ^ 2) / 2
      exit !(($11 - mean) ^ 2 < 1e-9 && ($12 - half) ^ 2 < 1e-6 && $8 == 2 && $13 == (half < sqrt(mean ^ 2) ? "yes" : "no")) }' ||
    fail "the row of the loss: $(cat row)"
# a run that is there twice is no second seed
status 0 smoe compare a a1 a low0 low1 low0 >out
sed -n '/^Seeds:$/,$p' out | grep '^a .* train/loss ' | cmp - row || fail "with runs given twice: $(cat out)"
# nor one that has not ended, whose last values are of another step than those of the others
cp -r low1 half1 && echo stopped >half1/STATUS && sed -i '12,$d' half1/metrics.jsonl
status 0 smoe compare a a1 low0 half1 >out
! grep -q '^Seeds:$' out || fail "a run of half the steps is compared: $(sed -n '/^Seeds:$/,$p' out)"
grep -qE '^seeds +half1 does not count: it has not ended: its last record is of step (9|1[0-9]) of 24$' out || fail "$(cat out)"
status 0 smoe compare a a1 low0 low1 half1 >out
sed -n '/^Seeds:$/,$p' out | grep '^a .* train/loss ' | cmp - row || fail "with a run of half the steps: $(cat out)"
# images that are not the same, although labels, classes and their number are: of files and of generated images
mkdir -p photos/train/x photos/train/y photos/test/x photos/test/y
for f in train/x/0 train/x/1 train/y/0 train/y/1 test/x/0 test/y/0; do png >"photos/$f.png"; done
cp -r photos others && for f in x/0 y/0; do printf ' ' >>"others/test/$f.png"; done
set -- tiny.yaml -q data.source=image-folder data.image_size=8 data.limit=4 train.batch_size=4 train.steps=2
status 0 smoe train "$@" data.path=photos -o p0 >/dev/null
status 0 smoe train "$@" data.path=others -o o0 >/dev/null
status 3 smoe compare p0 o0 --outputs >/dev/null 2>err
grep -q 'are not evaluated on the same images and classes$' err || fail "$(cat err)"
cp -r photos copied && status 0 smoe train "$@" data.path=copied -o c0 >/dev/null
status 0 smoe compare p0 c0 --outputs >/dev/null
status 0 smoe train tiny.yaml -q data.shapes.distractors=0 -o plain >/dev/null
status 3 smoe compare a plain --outputs >/dev/null 2>err
# images of one path that have changed between two runs: said, and no run counts that had others than the first
status 0 smoe train "$@" data.path=photos seed=1 -o p1 >/dev/null
cp others/test/x/0.png photos/test/x/0.png
for seed in 0 1; do status 0 smoe train "$@" data.path=photos train.optimizer.lr=1e-3 seed=$seed -o q$seed >/dev/null; done
status 0 smoe compare p0 p1 q0 q1 >out
[ "$(grep -cE '^images +those of evaluation are not the same, although the keys of data are$' out)" -eq 2 ] || fail "$(cat out)"
[ "$(grep -cE '^seeds +q[01] does not count: its images of evaluation are not those of p0$' out)" -eq 2 ] || fail "$(cat out)"
! grep -q '^Seeds:$' out || fail "compared: $(cat out)"
# of an image with several labels each is right, as in an evaluation
for lr in 1e-3 3e-3; do status 0 smoe train tiny.yaml -q train.loss=sigmoid train.optimizer.lr=$lr -o several$lr >/dev/null; done
status 0 smoe compare several1e-3 several3e-3 --outputs --json >json
status 0 smoe eval several1e-3 --json >evaluated
[ "$(awk '/"(both|a)_right"/ { n += $2 } END { printf "%.6f", n / 200 }' json)" = "$(awk '/"precision_at_1"/ { printf "%.6f", $2; exit }' evaluated)" ] || fail "$(cat json) $(head -n 6 evaluated)"
# the page: the sentences, the tables, the curves of both, its provenance; existing files stay
status 0 smoe compare a c -o page >out 2>err
grep -q '^files       page: compare.html, and its tables$' err || fail "$(cat err)"
for said in '<p class="kicker">smoe compare' 'at step 1, the first one, they differ in' '<td class="text">train.steps</td>' '"name":"over_steps"' 'smoe compare a c -o page'; do
    grep -q "$said" page/compare.html || fail "the page has no '$said'"
done
[ "$(sed -n 1p page/settings.csv)" = key,a,b ] && grep -q '^c,28,' page/over_steps.csv || fail "$(ls page)"
status 2 smoe compare a c -o page 2>err >out
grep -q 'exists already; --force' err || fail "$(cat err)"
status 0 smoe compare a b c -o page -f -q >out 2>err
[ -s page/settings2.csv ] && [ ! -s err ] && grep -q '<dt>b</dt><dd>c</dd>' page/compare.html || fail "$(ls page) $(cat err)"
# tables of an earlier comparison do not stay beside a page that has others; other files do
touch page/notes.csv
status 0 smoe compare a/ckpt/latest c/ckpt/latest -o page -f -q >/dev/null
[ "$(ls page | tr '\n' ' ')" = 'compare.html environment.csv notes.csv seeds.csv settings.csv ' ] || fail "$(ls page)"
