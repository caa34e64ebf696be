# Several processes divide the images of a few-shot evaluation: the numbers of one process, in training and in eval.
. "$ROOT/tests/cli/lib.sh"
needs_mpi

# Batches of which the processes have different numbers, the last one short; of eight processes some have none of a draw.
keys="train.pieces=4 train.steps=6 train.eval_every=3 data.test_size=60 eval.batch_size=7 eval.fewshot.shots=[1,3] eval.fewshot.seeds=2"
for router in soft tokens-choice; do
    own="model.moe.router=$router"
    [ $router = soft ] || own="$own model.moe.capacity=0.7 train.experts_over=all" # images of a batch influence one another
    status 0 smoe train tiny.yaml -q -j1 -o $router $keys $own >/dev/null
    grep -q '"test/fewshot_3":' $router/metrics.jsonl || fail "$router: not measured"
    status 0 smoe eval $router -q -j2 --json >one.json
    for n in 2 4 8; do
        if [ $n -lt 8 ]; then
            status 0 $several -n $n smoe train tiny.yaml -q -j1 -o $router-$n $keys $own >/dev/null
            same_run $router $router-$n
        fi
        status 0 $several -n $n smoe eval $router -q -j1 --json >several.json
        cmp one.json several.json || fail "$router: other numbers of $n processes: $(cat several.json)"
    done
done

# Only one process finds an image of the few-shot data to be damaged, as it decodes it: one message.
for part in here there; do
    for class in train/ape train/bee test/ape test/bee; do
        mkdir -p $part/$class
        for i in 0 1 2 3 4 5 6 7 8 9; do png >$part/$class/$i.png; done
    done
done
few="eval.batch_size=2 eval.fewshot.shots=[2] eval.fewshot.data.source=image-folder"
status 0 $several -n 2 smoe eval soft -q $few eval.fewshot.data.path=here >out
grep -q 'fewshot 2' out || fail "$(cat out)"
for damaged in train test; do
    for class in ape bee; do for i in 0 1 2 3 4 5 6 7 8 9; do png | head -c 45 >there/$damaged/$class/$i.png; done; done
    $several -n 1 smoe eval soft -q $few eval.fewshot.data.path=here : -n 1 smoe eval soft -q $few eval.fewshot.data.path=there 2>err
    got=$?
    [ $got -eq 3 ] || fail "status $got with damaged data: $(cat err)"
    [ "$(grep -c "smoe eval: process 1 of 2 on .*there/$damaged" err)" -eq 1 ] && ! grep -q 'process 0 of 2' err || fail "with damaged data: $(cat err)"
    for class in ape bee; do for i in 0 1 2 3 4 5 6 7 8 9; do png >there/$damaged/$class/$i.png; done; done
done
