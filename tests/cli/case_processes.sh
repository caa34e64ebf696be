# Several processes train together under mpirun: the same bits as one process, and any number may resume; a failure of one
# ends all.
. "$ROOT/tests/cli/lib.sh"
needs_mpi
# one_of PID: a process of the mpirun PID
. "$ROOT/tests/support/children.sh"
one_of() { children_of "$1" | tail -n 1; } # of the processes that mpirun has started
keys="train.pieces=4 data.test_size=60 model.dropout=0.1 data.augment.mixup=0.5"
status 0 smoe train tiny.yaml -q -j1 -o one $keys >one.out
status 0 $several -n 2 smoe train tiny.yaml -q -j1 -o two $keys >two.out
same_run one two
sed s/one/two/ one.out | cmp - two.out || fail "of two processes: $(cat two.out)"
[ "$(grep -c resumed two/log.txt)" -eq 0 ] && [ "$(cut -c1-4 two/STATUS)" = "done" ] || fail "STATUS is $(cat two/STATUS)"
cmp one/outcomes.npy two/outcomes.npy || fail "other outcomes"
# The bytes sent are those that smoe cost states: 24 steps, of which only the last is logged. In BF16, where no factors of
# gradients are sent, both processes send as much.
model="train.precision=bf16 train.pieces=4 model.width=64 model.mlp=256"
quiet="$model train.log_every=24 train.eval_every=0 train.checkpoint_every=0"
status 0 $several -n 2 smoe train tiny.yaml -q -j1 -o counted $quiet >/dev/null
smoe cost tiny.yaml --json --processes 2 $model | tr -d ' \n' |
    sed 's/.*"sent_per_step":{"gradients":{"bytes":\([0-9]*\),"messages":\([0-9]*\)}.*/\1 \2/' >costs
read -r bytes messages <costs
grep -q "gradients: $((24 * bytes)) bytes in $((24 * messages)) messages," counted/log.txt ||
    fail "smoe cost says $(cat costs) per step, the run: $(grep sent counted/log.txt)"
# Where experts have few rows, processes send factors of different numbers of them: no kind has more messages than smoe cost states.
model="train.pieces=2 model.moe.experts=8 model.moe.slots_per_expert=1 model.width=32 model.mlp=128"
status 0 $several -n 2 smoe train tiny.yaml -q -j1 -o factors $model train.log_every=24 train.eval_every=0 train.checkpoint_every=0 >/dev/null
most=$(smoe cost tiny.yaml --json --processes 2 $model | tr -d ' \n' | sed 's/.*"sent_per_step":{"gradients":{"bytes":[0-9]*,"messages":\([0-9]*\)}.*/\1/')
sent=$(sed -n 's/.* gradients: [0-9]* bytes in \([0-9]*\) messages,.*/\1/p' factors/log.txt)
[ "$sent" -le $((24 * most)) ] || fail "smoe cost says $most messages per step, the run: $(grep sent factors/log.txt)"
# Evaluation: the same numbers and files, with logits; batches of 7 leave a short one.
eval="eval one -q eval.batch_size=7 eval.fewshot.shots=[1]"
smoe $eval --json --logits logits1.npy --labels labels1.npy >eval1 || fail "no evaluation"
status 0 $several -n 2 smoe $eval --json --logits logits2.npy --labels labels2.npy >eval2
for f in logits labels; do cmp ${f}1.npy ${f}2.npy || fail "other $f"; done
cmp eval1 eval2 || fail "of two processes: $(cat eval2)"
# Adafactor, whose step cannot be divided among processes, and the average of the weights.
other="train.optimizer.name=adafactor train.ema=0.9"
status 0 smoe train tiny.yaml -q -j1 -o ada1 $keys $other >/dev/null
status 0 $several -n 2 smoe train tiny.yaml -q -j1 -o ada2 $keys $other >/dev/null
same_run ada1 ada2
cmp ada1/ckpt/latest/ema.safetensors ada2/ckpt/latest/ema.safetensors || fail "another average"
# Moments of another run, as Adam and as Adafactor has them, also with experts divided over the processes.
for from in one ada1; do
    moments="$keys --init $from --moments"
    [ $from = one ] || moments="$moments $other"
    status 0 smoe train tiny.yaml -q -j1 -o carried1 $moments >/dev/null
    grep -q '^[^ ]* moments of 33 of 33 tensors start from' carried1/log.txt || fail "$(cat carried1/log.txt)"
    for over in 1 2; do
        status 0 $several -n 2 smoe train tiny.yaml -q -j1 -o carried2 $moments train.experts_over=$over >/dev/null
        same_run carried1 carried2
        rm -r carried2
    done
    rm -r carried1
done
keys="$keys model.moe.router=tokens-choice model.moe.capacity=0.5"
status 0 smoe train tiny.yaml -q -j2 -o choice1 $keys >/dev/null
status 0 $several -n 4 smoe train tiny.yaml -q -j1 -o choice4 $keys >/dev/null
same_run choice1 choice4

# SIGTERM to one process: all write a checkpoint and exit with status 75; one process continues, then two. The run must not
# end before the signal, even on a fast machine, so its last step is set only when the last signal has been sent.
keys="train.pieces=2 train.checkpoint_every=10 train.eval_every=0 train.schedule.name=constant"
endless="train.steps=1000000"
$several -n 2 smoe train tiny.yaml -q -j1 -o parts $keys $endless >/dev/null 2>err &
wait_for parts/metrics.jsonl 15
kill -TERM "$(one_of $!)"
wait $!
got=$?
[ $got -eq 75 ] || fail "status $got after SIGTERM, not 75: $(cat err)"
[ "$(grep -c 'smoe train:' err)" -eq 2 ] && grep -q 'stopped on request after step' err || fail "after SIGTERM: $(cat err)"
[ "$(cut -c1-7 parts/STATUS)" = stopped ] || fail "STATUS is $(cat parts/STATUS)"
more() { echo $(($(wc -l <parts/metrics.jsonl) + 20)); } # lines of metrics after 20 more steps
lines=$(more)
smoe train --resume parts -q -j1 >/dev/null &
wait_for parts/metrics.jsonl "$lines"
kill -KILL $!
wait $!
# SIGKILL to one process ends both.
lines=$(more)
$several -n 2 smoe train --resume parts -q -j1 >/dev/null 2>err &
wait_for parts/metrics.jsonl "$lines"
kill -KILL "$(one_of $!)"
wait $!
[ $? -ne 0 ] || fail "status 0 after SIGKILL of one"
grep -q 'rank 1' err || fail "who was killed is not said: $(cat err)"
steps=$(more)
status 0 $several -n 2 smoe train --resume parts -q -j1 "train.steps=$steps" >/dev/null
status 0 smoe train tiny.yaml -q -j1 -o whole $keys "train.steps=$steps" >/dev/null
same_run whole parts

# Processes that do not match are refused, with one message that names the one that differs.
refused() { # refused STATUS PATTERN: of the last command, whose messages are in err
    [ "$got" -eq "$1" ] || fail "status $got, not $1: $(cat err)"
    [ "$(grep -c 'smoe train:' err)" -eq 1 ] && grep -q "$2" err || fail "not \"$2\": $(cat err)"
    [ ! -e bad ] || fail "a run directory was made"
}
sed 's/^name:.*/&\nseed: 1/' tiny.yaml >other.yaml
$several -n 1 smoe train tiny.yaml -q -o bad train.pieces=2 : -n 1 smoe train other.yaml -q -o bad train.pieces=2 2>err
got=$?
refused 2 'process 1 of 2 on .*: another spec than process 0 has'
$several -n 1 smoe train tiny.yaml -q -o bad train.pieces=2 : -n 1 smoe train tiny.yaml -q -o bad train.pieces=2 seed=1 2>err
got=$?
refused 2 'process 1 of 2 on .*: another set of options and settings than process 0 has'
isa=$(smoe version --json | sed -n 's/.*"kernel": "\([a-z0-9-]*\)".*/\1/p')
if [ "$isa" != base ]; then
    $several -n 1 smoe train tiny.yaml -q -o bad train.pieces=2 : -n 1 env SMOE_ISA=base smoe train tiny.yaml -q -o bad train.pieces=2 2>err
    got=$?
    refused 2 "process 1 of 2 on .*: instruction set base, but process 0 has $isa; SMOE_ISA"
fi
status 0 smoe train tiny.yaml -q -o alone train.steps=4 >/dev/null
timeout 60 $several -n 1 smoe train tiny.yaml -q -o bad train.pieces=2 : -n 1 smoe eval alone -q 2>err
got=$?
refused 2 'process 1 of 2 on .*: command eval, but process 0 has train; all run the same one'
for other in "smoe eval alone -q eval.precision=bf16" "smoe eval alone -q --logits x.npy"; do
    timeout 60 $several -n 1 smoe eval alone -q : -n 1 $other 2>err
    got=$?
    [ $got -eq 2 ] && grep -q 'another set of options and settings than process 0 has' err || fail "$other: status $got: $(cat err)"
done
$several -n 2 smoe train tiny.yaml -q -o bad 2>err
got=$?
refused 2 'train.pieces: 1 piece cannot be shared by 2 processes'
$several -n 3 smoe train tiny.yaml -q -o bad train.pieces=4 2>err
got=$?
refused 2 '3 processes: their number must be a power of two'
$several -n 1 smoe train tiny.yaml -q -o bad train.pieces=2 : -n 1 smoe train nowhere.yaml -q -o bad train.pieces=2 2>err
got=$?
refused 2 'process 1 of 2 on .*nowhere.yaml'
# Process 0 waits for one that ends at once: the launcher ends it by a signal, and it has nothing to add.
timeout 60 $several -n 1 smoe train tiny.yaml -q -o bad train.pieces=2 : -n 1 env SMOE_SEED=1 smoe train tiny.yaml -q -o bad 2>err
got=$?
refused 2 "SMOE_SEED: keys are not read from the environment"
# an srun that does not connect its processes (needs --mpi=pmix)
SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4 smoe train tiny.yaml -q -o bad 2>err
got=$?
refused 2 'srun --mpi=pmix'
