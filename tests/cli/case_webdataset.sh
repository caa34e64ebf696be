# Images and captions in shards: trained, stopped in the middle of a pass and resumed to the same bits, evaluated. A sample
# that cannot be used stops the run, or is left out and named.
. "$ROOT/tests/cli/lib.sh"
mkdir data shard
i=0
while [ $i -lt 120 ]; do
    key=$(printf 'shard/%04d' $i)
    png >"$key.png"
    echo "caption number $i" >"$key.txt"
    echo "{\"url\": \"\", \"caption\": \"caption number $i\"}" >"$key.json"
    i=$((i + 1))
done
for part in 0 1 2 3; do (cd shard && tar -cf "../data/s-0$part.tar" $(ls | sed -n "$((part * 90 + 1)),$((part * 90 + 90))p")); done
path='data.source=webdataset data.path=data/s-{00..03}.tar data.holdout=1 data.limit=0'
pairs='train.loss=contrastive text.context=24 text.width=16 text.heads=2 text.depth=1'
status 0 smoe train tiny.yaml -q $path $pairs -o whole
stop_and_resume parts tiny.yaml -q $path $pairs
same_run whole parts
(cd data && status 0 smoe train ../tiny.yaml -n -q $path $pairs 'data.path={s-00,s-01,s-02,s-03}.tar' >/dev/null) || fail "a list of shards"
# The same captions in json. Through a buffer the images of a step are others, and a resume takes the same ones.
status 0 smoe train tiny.yaml -q $path $pairs data.caption=json.caption -o json
[ "$(timeless whole)" = "$(timeless json)" ] || fail "captions in json: $(timeless json | tail -n 1)"
status 0 smoe train tiny.yaml -q $path $pairs data.shuffle_buffer=8 -o buffer
stop_and_resume buffers tiny.yaml -q $path $pairs data.shuffle_buffer=8
same_run buffer buffers
[ "$(timeless whole)" != "$(timeless buffer)" ] || fail "a buffer changes nothing"
status 0 smoe eval whole >out
grep -q '^images  *30$' out || fail "of an evaluation: $(cat out)"
# Without classes, or with numbers for them, zero-shot classification means something else, and a remark says so; with names not.
status 0 smoe eval whole 'eval.zeroshot=a photo of a {}' >out 2>err
grep -q 'eval.zeroshot has no effect, because .* has no classes: top-1 accuracy is the text recall at 1$' err || fail "no classes: $(cat err)"
for names in '0 1' 'cat dog'; do
    for n in $(seq -w 0 119); do set -- $names && shift $((1$n % 2)) && echo "$1" >shard/0$n.cls; done
    for part in 0 1 2 3; do (cd shard && tar -cf "../data/c-0$part.tar" $(ls | sed -n "$((part * 120 + 1)),$((part * 120 + 120))p")); done
    status 0 smoe eval whole data.path='data/c-{00..03}.tar' 'eval.zeroshot=a photo of a {}' >out 2>"err.${names%% *}"
done
grep -q 'eval.zeroshot: the classes of .* are numbers without names' err.0 || fail "numbers: $(cat err.0)"
! grep -q zeroshot err.cat || fail "names: $(cat err.cat)"
rm shard/*.cls
# Three captions per image: one is drawn in each pass, beside the augmentation of the image, and retrieval counts any of them.
for key in shard/*.txt; do
    n=${key#shard/}
    printf 'caption of %s\nanother %s\nthird of %s\n' "$n" "$n" "$n" >"$key"
    printf '{"c": ["caption of %s", "another %s", "third of %s"]}' "$n" "$n" "$n" >"${key%.txt}.json"
done
for part in 0 1 2 3; do (cd shard && tar -cf "../data/s-0$part.tar" $(ls | sed -n "$((part * 90 + 1)),$((part * 90 + 90))p")); done
crops='data.augment.crop=inception data.augment.flip=true data.augment.randaugment.n=1 data.augment.randaugment.m=5'
status 0 smoe train tiny.yaml -q $path $pairs $crops -o three
stop_and_resume threes tiny.yaml -q $path $pairs $crops
same_run three threes
status 0 smoe train tiny.yaml -q $path $pairs $crops data.caption=json.c -o list
[ "$(timeless three)" = "$(timeless list)" ] || fail "three captions in json: $(timeless list | tail -n 1)"
status 0 smoe eval three --json >three.json
grep -q '"image_recall"' three.json || fail "recall: $(cat three.json)"
if command -v mpirun >/dev/null && [ -f "$(dirname "$(readlink -f "$(command -v smoe)")")/smoe_mpi.so" ]; then
    needs_mpi
    status 0 $several -n 2 smoe eval three --json -j1 eval.batch_size=8 >two.json
    status 0 smoe eval three --json -j1 eval.batch_size=8 >one.json
    cmp -s one.json two.json || fail "of two processes: $(diff one.json two.json)"
fi
# Classes with names, of which an image has several.
for n in $(seq -w 0 119); do [ $((1$n % 2)) -eq 0 ] && echo 'cat;ape' >shard/0$n.cls || echo dog >shard/0$n.cls; done
for part in 0 1 2 3; do (cd shard && tar -cf "../data/s-0$part.tar" $(ls | sed -n "$((part * 120 + 1)),$((part * 120 + 120))p")); done
status 0 smoe train tiny.yaml $path train.loss=sigmoid -o tags >/dev/null 2>err
grep -q '3 classes' err || fail "names of classes: $(cat err)"
status 0 smoe eval tags --predictions p.csv >out
cut -d, -f4 p.csv | sort -u | tr '\n' ' ' | grep -q '^cat dog label_name ' || fail "main classes: $(head p.csv)"
# what can be done with one shard, and what a suggestion says of several
for suggest in '' --suggest; do
    status 3 smoe data data/s-00.tar $suggest 2>err
    grep -q 'shards of images with .cls files are read by data.source=webdataset' err || fail "a shard $suggest: $(cat err)"
done
status 2 smoe data data/s-00.tar data.source=webdataset data.holdout=1 2>err
grep -q '1 of 1 shard held out, none left to train: divide the images over two tars or more$' err || fail "$(cat err)"
status 2 smoe data 'data/s-{00..03}.tar' data.source=webdataset data.holdout=0.5 2>err
grep -q 'data.holdout is a whole number, 0 with a path that has {split}; found 0.5$' err || fail "$(cat err)"
status 0 smoe data 'data/s-{00..03}.tar' data.source=webdataset data.holdout=1 --suggest >suggested.yaml
grep -qx 'name: s' suggested.yaml && grep -q '^  holdout: 1  # this number of tars, the last ones, is for evaluations$' suggested.yaml || fail "$(cat suggested.yaml)"
status 0 smoe train suggested.yaml -n >/dev/null
rm shard/*.cls
for part in 0 1 2 3; do (cd shard && tar -cf "../data/s-0$part.tar" $(ls | sed -n "$((part * 90 + 1)),$((part * 90 + 90))p")); done
: >shard/0007.png
(cd shard && tar -cf ../data/s-00.tar $(ls | sed -n 1,90p))
status 3 smoe train tiny.yaml -q $path $pairs -o stopped 2>err
grep -q 's-00.tar: 0007: ' err || fail "of a bad image: $(cat err)"
status 3 smoe train tiny.yaml -q $path $pairs data.on_error=skip -o few 2>err
grep -q '1 of 90 images cannot be used' err || fail "of too many bad images: $(cat err)"
status 0 smoe train tiny.yaml -q 'data.source=webdataset' 'data.path=data/s-{00..03}.tar' $pairs data.on_error=skip train.eval_every=0 -o most
grep -q 'left out: .*s-00.tar: 0007' most/log.txt || fail "of a sample left out: $(cat most/log.txt)"
# Classes as numbers, of which test has some that train has not: they are counted, named and refused, or with data.classes
# evaluated by `smoe eval` as by training.
mkdir numbers
for split in train test; do
    mkdir $split
    for n in $(seq -w 0 29); do png >$split/$n.png && echo $((1$n % $([ $split = train ] && echo 4 || echo 6))) >$split/$n.cls; done
    (cd $split && tar -cf ../numbers/$split.tar $(ls))
done
numbers='data.source=webdataset data.path=numbers/{split}.tar data.limit=0'
status 3 smoe data 'numbers/{split}.tar' >out 2>err
grep -q ': webdataset, 6 classes$' out && grep -qE '^5 +0 +5$' out || fail "classes of test alone: $(cat out)"
grep -q '^remark  test has 10 images of 2 classes of which train has none, so that no model can learn them: 4, 5$' out || fail "$(cat out)"
grep -q "split 'test' has 6 classes, split 'train' has 4; if a split lacks the last ones, data.classes=6 says how many there are$" err || fail "$(cat err)"
status 0 smoe train tiny.yaml $numbers data.classes=6 train.steps=8 -o numbered >/dev/null 2>err
grep -q '^test has 10 images of 2 classes of which train has none, ' err || fail "$(cat err)"
status 0 smoe eval numbered --json >out 2>err
grep -q '"images": 30,' out && ! grep -q 'does not know' err || fail "evaluated on all images: $(cat out err)"
[ "$(sed -n 's/.*"test\/precision_at_1":\([0-9.]*\),.*/\1/p' numbered/metrics.jsonl | tail -n 1)" = \
    "$(sed -n 's/^  "precision_at_1": \([0-9.]*\),/\1/p' out)" ] || fail "as in training: $(cat out)"
# Few-shot evaluation has no examples of them either.
status 0 smoe eval numbered --no-progress eval.fewshot.shots=[1] >/dev/null 2>err
grep -q '^eval.fewshot: test has 10 images of 2 classes of which train has none, ' err || fail "$(cat err)"
