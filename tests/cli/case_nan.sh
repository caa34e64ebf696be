# A loss that is no number: status 4, naming the step, the layer and the parameter; STATUS says failed.
. "$ROOT/tests/cli/lib.sh"
smoe train tiny.yaml -q train.optimizer.lr=1000 train.optimizer.clip=0 train.optimizer.weight_decay=1000000 train.schedule.name=constant -o run 2>err
got=$?
[ $got -eq 4 ] || fail "status $got, not 4: $(cat err)"
grep -q 'step' err || fail "no step in: $(cat err)"
grep -qE '(blocks|head|norm|patch_embed|pos_embed)' err || fail "no layer in: $(cat err)"
[ "$(cut -c1-6 run/STATUS)" = failed ] || fail "STATUS is $(cat run/STATUS)"
