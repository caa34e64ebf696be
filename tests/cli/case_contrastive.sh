# Images and captions: both towers trained, stopped and resumed to the same bits; the image tower taken from another run and
# frozen; the results of an evaluation.
. "$ROOT/tests/cli/lib.sh"
pairs='train.loss=contrastive text.context=40 text.width=16 text.heads=2 text.depth=1 data.limit=64 data.test_size=40'
zeroshot='eval.zeroshot=["a large {}", "{}"]'
status 0 smoe train tiny.yaml -q $pairs "$zeroshot" -o whole
stop_and_resume parts tiny.yaml -q $pairs "$zeroshot"
same_run whole parts
grep -q '"test/text_recall_5"' whole/metrics.jsonl && grep -q '"test/image_recall_10"' whole/metrics.jsonl ||
    fail "no recalls: $(tail -n 1 whole/metrics.jsonl)"

status 0 smoe eval whole --json --logits logits.npy >out
tr -d ' \n' <out | grep -q '"text_recall":{"1":[0-9.]*,"5":[0-9.]*,"10":[0-9.]*},"image_recall":{' || fail "of an evaluation: $(cat out)"
grep -aq "'shape': (40, 10)" logits.npy || fail "logits of another shape"
status 0 smoe eval whole >out
grep -q '^text recall at  *1: ' out || fail "of an evaluation: $(cat out)"
# Keys of its text tower are those of the training, but for the place of its tokenizer.
for key in text.causal=false text.heads=4 text.padding=attended text.clean=lower; do
    status 2 smoe eval whole -q $key 2>err
    grep -q "^smoe eval: ${key%=*}: cannot change after training; " err || fail "$key: $(cat err)"
done
status 0 smoe eval whole -q text.tokenizer=bytes >/dev/null
# The context cuts all captions to their first letter, a. They are equally near then, and the first ones count as nearer, but
# only the captions with the same words are true: images 0, 0 to 4 and 0 to 9 of the 40 find their own.
status 0 smoe train tiny.yaml -q $pairs text.context=3 train.steps=1 train.schedule.warmup=0 train.schedule.cooldown=0 -o cut
status 0 smoe eval cut --json >out
tr -d ' \n' <out | grep -q '"text_recall":{"1":0.025,"5":0.125,"10":0.25},' || fail "captions that are cut: $(cat out)"
status 2 smoe eval whole 'eval.zeroshot=[]' --logits none.npy 2>err
grep -q 'eval.zeroshot' err || fail "of logits without texts: $(cat err)"
status 2 smoe inspect whole 'eval.zeroshot=[]' -o none 2>err
grep -q 'eval.zeroshot' err || fail "of an inspection without texts: $(cat err)"
status 0 smoe inspect whole -q -o looked --images 1

# In pieces: all of the batch is compared, so loss and gradient are those of one piece but for rounding (sums of 24 bits in another
# order: 1e-5 is 80 units in the last place). The loss of an evaluation depends neither on pieces nor on who evaluates.
first() { sed -n '1s/.*"train\/loss":\([^,]*\),.*"train\/gradient_norm":\([^,}]*\).*/\1 \2/p' "$1/metrics.jsonl"; }
tested() { grep -o '"test/loss":[^,]*' "$1/metrics.jsonl" | tail -n 1; }
for loss in contrastive contrastive-sigmoid; do
    for G in 1 2 4; do
        status 0 smoe train tiny.yaml -q $pairs train.loss=$loss train.pieces=$G train.optimizer.lr=0 train.schedule.warmup=0 -o "pieces$G-$loss"
        echo "$(first "pieces1-$loss") $(first "pieces$G-$loss")" | awk 'NF == 4 && ($1 - $3) ^ 2 <= (1e-5 * $1) ^ 2 && ($2 - $4) ^ 2 <= (1e-5 * $2) ^ 2 { ok = 1 } END { exit !ok }' ||
            fail "$loss, $G pieces: loss and norm $(first "pieces$G-$loss"), of one piece $(first "pieces1-$loss")"
        [ "$(tested "pieces1-$loss")" = "$(tested "pieces$G-$loss")" ] || fail "$loss, $G pieces: $(tested "pieces$G-$loss")"
    done
done
stop_and_resume pieces tiny.yaml -q $pairs train.pieces=2
status 0 smoe train tiny.yaml -q $pairs train.pieces=2 -o in2
status 2 smoe compare pieces in2 --outputs 2>err
grep -q 'compares images with captions: without eval.zeroshot in its spec it has no logits of classes$' err || fail "$(cat err)"
same_run in2 pieces
if [ -f "$(dirname "$(readlink -f "$(command -v smoe)")")/smoe_mpi.so" ] && command -v mpirun >/dev/null; then
    several="mpirun --oversubscribe --allow-run-as-root -n"
    keys="$pairs train.pieces=4 model.dropout=0.1"
    status 0 smoe train tiny.yaml -q $keys "$zeroshot" -o alone
    status 0 $several 2 smoe train tiny.yaml -q -j1 $keys "$zeroshot" train.experts_over=2 -o two
    status 0 $several 4 smoe train tiny.yaml -q -j1 $keys "$zeroshot" -o four
    same_run alone two
    same_run alone four
    status 0 $several 2 smoe eval alone -q -j1 --json --logits two.npy >two.out
    status 0 smoe eval alone -q --json --logits one.npy >one.out
    cmp one.out two.out && cmp one.npy two.npy || fail "evaluated by two processes: $(cat two.out)"
fi

# LiT: the image tower of a trained classifier, with another number of threads.
status 0 smoe train tiny.yaml -q train.steps=4 -o classifier
groups='train.optimizer.groups=[{match: "text.*"}, {match: "logit_*"}, {match: "*", frozen: true}]'
status 0 smoe train tiny.yaml -q $pairs "$groups" --init classifier/ckpt/latest -o lit 2>err
grep -q 'tensors start from' lit/log.txt || fail "nothing said of what --init gave: $(cat lit/log.txt)"
status 0 smoe train tiny.yaml -q $pairs "$groups" --init classifier/ckpt/latest -o lit2 -j1 2>err
same_run lit lit2
grep -q 'router' lit/metrics.jsonl && fail "statistics of routers that are not trained"
# a merges file is stored as a path in the run; a resume reads it again
printf '#version\na n</w>\nr e\nre d</w>\n' >merges.txt
status 0 smoe train tiny.yaml -q $pairs text.tokenizer=merges.txt train.steps=4 -o merged
status 2 smoe predict merged image.png 2>err
grep -q 'merged/.* compares images with captions and has no classes' err || fail "a prediction by embeddings: $(cat err)"
grep -q 'tokenizer: .*/merges.txt' merged/spec.yaml || fail "no path of the tokenizer in $(grep tokenizer merged/spec.yaml)"
grep -aq '"text.token_embedding.weight":{"dtype":"F32","shape":\[517,' merged/ckpt/latest/model.safetensors ||
    fail "not 517 token ids"
status 2 smoe train tiny.yaml -q $pairs text.tokenizer=merges.txt text.vocabulary=500 -o none 2>err
grep -q "text.vocabulary: 500, but the tokenizer .*merges.txt has 517 ids" err || fail "$(cat err)"
status 3 smoe train tiny.yaml -q $pairs text.tokenizer=bpe.txt.gz -o none 2>err
grep -q 'text.tokenizer: bpe.txt.gz was not found' err || fail "$(cat err)"
status 0 smoe train tiny.yaml -q $pairs train.loss=contrastive-sigmoid text.embed=12 text.causal=false text.pool=mean -o sigmoid
grep -aq '"logit_bias"' sigmoid/ckpt/latest/model.safetensors || fail "no bias of the sigmoid loss"
grep -aq '"head.proj.weight"' sigmoid/ckpt/latest/model.safetensors || fail "no projection of images"
