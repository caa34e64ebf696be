# An event in one process ends or saves the run in all, with experts divided over them: a signal, a full disk, damaged data,
# a kill. There is one message, which names the process if only one has failed, and the last checkpoint is complete.
. "$ROOT/tests/cli/lib.sh"
needs_mpi
. "$ROOT/tests/support/children.sh"
one_of() { children_of "$1" | tail -n 1; } # of the processes that mpirun has started
await() { n=0; until eval "$1"; do n=$((n + 1)); [ $n -lt 1200 ] || fail "never: $1"; sleep 0.05; done; }
keys="train.pieces=4 train.experts_over=all train.eval_every=0 train.schedule.name=constant train.steps=1000000"

# SIGUSR1 to one of them: all save a checkpoint and continue. SIGHUP: a checkpoint, then the end.
$several -n 2 smoe train tiny.yaml -q -j1 -o run $keys train.checkpoint_every=0 2>err &
mpi=$!
await '[ -s run/metrics.jsonl ]'
kill -USR1 "$(one_of $mpi)"
await '[ -e run/ckpt/latest ]'
first=$(readlink run/ckpt/latest)
kill -0 $mpi || fail "SIGUSR1 ended it: $(cat err)"
kill -USR1 "$(one_of $mpi)"
await '[ "$(readlink run/ckpt/latest)" != "$first" ]'
kill -HUP "$(one_of $mpi)"
wait $mpi
got=$?
[ $got -eq 75 ] || fail "status $got after SIGHUP: $(cat err)"
status 0 smoe verify run -q >/dev/null

# No space for the moments, a file of the checkpoint that process 1 writes: all of them end.
before=$(readlink run/ckpt/latest)
size=$(wc -c <run/ckpt/latest/state.safetensors)
small="ulimit -f $((size / 512 - 2)) && exec smoe train --resume run -q -j1 train.checkpoint_every=5"
$several -n 1 smoe train --resume run -q -j1 train.checkpoint_every=5 : -n 1 sh -c "$small" 2>err
got=$?
[ $got -eq 1 ] || fail "status $got on a full disk: $(cat err)"
[ "$(grep -c 'smoe train:' err)" -eq 1 ] && grep -qE 'process 1 of 2 on .*run/.*state.*: .*(File too large|No space)' err || fail "on a full disk: $(cat err)"
[ "$(readlink run/ckpt/latest)" = "$before" ] || fail "latest moved from $before to $(readlink run/ckpt/latest)"
status 0 smoe eval run -q >/dev/null
[ -z "$(ls -A run/ckpt | grep tmp)" ] || fail "left behind: $(ls -A run/ckpt)"

# An image that only process 1 finds to be damaged.
for part in here there; do
    for class in ape bee; do
        mkdir -p $part/photos/$class
        for i in 0 1 2 3 4 5 6 7 8 9; do png >$part/photos/$class/$i.png; done
    done
done
for class in ape bee; do for i in 0 1 2 3 4 5 6 7 8 9; do echo damaged >there/photos/$class/$i.png; done; done
own="data.source=image-folder data.limit=0 data.holdout=0.25 train.pieces=2 train.steps=4 train.eval_every=0 train.experts_over=2"
$several -n 1 smoe train tiny.yaml -q -j1 -o photos $own data.path=here/photos : -n 1 smoe train tiny.yaml -q -j1 -o photos $own data.path=there/photos 2>err
got=$?
[ $got -eq 3 ] || fail "status $got with damaged data: $(cat err)"
[ "$(grep -c 'smoe train: process 1 of 2 on .*there/photos' err)" -eq 1 ] && ! grep -q 'process 0 of 2' err || fail "with damaged data: $(cat err)"

# A kill of one process ends the others.
$several -n 4 smoe train --resume run -q -j1 train.checkpoint_every=5 2>err &
mpi=$!
await '[ "$(readlink run/ckpt/latest)" != "$before" ]'
kill -KILL "$(one_of $mpi)"
wait $mpi
[ $? -ne 0 ] || fail "status 0 after SIGKILL of one"
status 0 smoe verify run -q >/dev/null

# Commands that one process does would write the same files, or open the same port: refused by all, with one message. Three
# processes could not train together.
status 0 smoe train tiny.yaml -q -o other train.steps=4 train.eval_every=0
refused() { # COMMAND ARGUMENT ...
    $several -n 3 smoe "$@" 2>err >out </dev/null
    got=$?
    [ $got -eq 2 ] || fail "status $got of smoe $* by three processes: $(cat err)"
    [ "$(grep -c "^smoe $1: several processes were started together, but one does this command" err)" -eq 1 ] || fail "smoe $*: $(cat err)"
    [ "$(grep -c '^smoe ' err)" -eq 1 ] && [ ! -s out ] && [ ! -e no ] || fail "smoe $*: $(cat out err)"
}
refused sweep tiny.yaml seed=0,1 -o no
grep -q 'with --resume they share the cells$' err || fail "$(cat err)"
refused ablate tiny.yaml -o no
refused convert other no
refused soup other other -o no
refused init tiny.yaml no
refused data tiny.yaml -o no
refused compare other run -o no
refused verify-resume tiny.yaml -o no
refused serve other --port 18765

# With --resume they share the cells of a sweep.
status 0 $several -n 2 smoe sweep tiny.yaml -q -j1 seed=0,1,2 train.eval_every=0 -o shared --resume >/dev/null
[ "$(tail -n +2 shared/results.csv | grep -c ',done')" -eq 3 ] || fail "$(cat shared/results.csv)"
