# Several processes divide the images that they inspect: the same files as one process writes, byte for byte.
. "$ROOT/tests/cli/lib.sh"
needs_mpi

# Nine batches, the last one short: two processes do not have equally many, and of eight one gets two.
keys="eval.batch_size=7"
pairs="train.loss=contrastive text.context=40 text.width=16 text.heads=2 text.depth=1 data.limit=64"
classes="eval.zeroshot=a photo of a {}"
for kind in soft tokens-choice captions; do
    own="" further="--exchange-experts"
    set -- $keys
    case $kind in
    tokens-choice)
        own="model.moe.router=tokens-choice model.moe.capacity=0.7"
        further="$further --random-routers"
        ;;
    captions) # caption_slots too
        own=$pairs
        set -- "$@" "$classes"
        ;;
    esac
    status 0 smoe train tiny.yaml -q -j1 -o $kind $own data.test_size=60 train.steps=6 >/dev/null
    status 0 smoe inspect $kind -q -j1 -o one -f $further --dump-routing one.npy "$@" >out1
    status 0 $several -n 2 smoe inspect $kind -q -j1 -o two -f $further --dump-routing two.npy "$@" >out2
    [ $kind != captions ] || [ "$(wc -l <one/caption_slots.csv)" -gt 1 ] || fail "no slots of captions: $(ls one)"
    same_page one two || fail "$kind: other reports"
    rm one/report.html two/report.html
    diff -r one two >/dev/null || fail "$kind: other files: $(diff -rq one two)"
    cmp one.npy two.npy || fail "$kind: other weights of the images"
    # mpirun gives the processes a terminal, hence bold letters
    [ "$(sed -e 's/two/one/g' -e "s/$(printf '\033')\[[01]m//g" out2 | tr -d '\r')" = "$(cat out1)" ] || fail "$kind: of two processes: $(cat out2)"
    status 0 smoe inspect $kind -q -j2 --json "$@" >one.json
    for n in 4 8; do
        status 0 $several -n $n smoe inspect $kind -q -j1 --json "$@" >several.json
        cmp one.json several.json || fail "$kind: other numbers of $n processes"
    done
done
# Eight slots in passes of three: of four processes one has no pass.
for n in 1 4; do
    status 0 $several -n $n smoe inspect captions -q -j1 -o of$n --images 1,40 eval.batch_size=3 "$classes" >/dev/null
done
cmp of1/caption_slots.csv of4/caption_slots.csv || fail "other slots of captions"

# Mistakes and failures: one message. Only one process finds an image to be damaged.
for part in here there; do
    for class in ape bee; do
        mkdir -p $part/$class
        for i in 0 1 2 3 4 5 6 7 8 9; do png >$part/$class/$i.png; done
    done
done
status 0 smoe train tiny.yaml -q -j1 -o photos data.source=image-folder data.limit=0 data.holdout=0.5 data.path=here train.steps=1 >/dev/null
for class in ape bee; do for i in 0 1 2 3 4 5 6 7 8 9; do echo damaged >there/$class/$i.png; done; done
$several -n 1 smoe inspect photos -q -j1 -o bad eval.batch_size=4 data.path=here : -n 1 smoe inspect photos -q -j1 -o bad eval.batch_size=4 data.path=there 2>err
got=$?
[ $got -eq 3 ] || fail "status $got with damaged data: $(cat err)"
[ "$(grep -c 'smoe inspect: process 1 of 2 on .*there/' err)" -eq 1 ] && ! grep -q 'process 0 of 2' err || fail "with damaged data: $(cat err)"
[ ! -e bad ] || fail "a failed inspection wrote files"
$several -n 2 smoe inspect soft -q -o refused --images 60 2>err
got=$?
[ $got -eq 2 ] || fail "status $got for an image that is not there: $(cat err)"
[ "$(grep -c 'no image 60' err)" -eq 1 ] || fail "not one message: $(cat err)"
