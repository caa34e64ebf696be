# Several processes on one sweep, without locks: one is killed, a machine disappears, the file system refuses locks.
. "$ROOT/tests/cli/lib.sh"
sweep="tiny.yaml model.moe.experts=2,4 seed=0,1,2 train.steps=100 train.log_every=10 train.eval_every=0"
same_cells() { # both sweeps have the same weights
    for cell in "$1"/0*; do
        cmp "$cell/ckpt/latest/model.safetensors" "$2/${cell##*/}/ckpt/latest/model.safetensors" || fail "another ${cell##*/}"
    done
}
status 0 smoe sweep $sweep -q -j1 -o alone >/dev/null

# Two processes; one is killed in the middle of a cell, and the other does all the rest.
smoe sweep $sweep -q -j1 -o both --resume >/dev/null 2>&1 &
first=$!
wait_for both/cells.jsonl 7
smoe sweep both -q -j1 --resume >out 2>err &
second=$!
tries=0
until smoe sweep --status both >table 2>/dev/null && grep -q "running: process $first on $(hostname)" table; do
    tries=$((tries + 1))
    [ $tries -lt 400 ] && kill -0 $first 2>/dev/null || break
done
kill -KILL $first
wait $first
wait $second
got=$?
[ $got -eq 0 ] || fail "status $got of the second: $(cat err)"
[ $tries -lt 400 ] || fail "no cell of $first: $(cat table)"
same_cells alone both
ls both/claims | grep -v '\.json$' && fail "claims are left"

# The claim of a machine that is gone: respected until its lease ends, then taken over.
rm -rf both/claims/000-*.json both/000-*
cell=$(ls -d alone/000-*)
cell=${cell##*/}
echo '{"node":"elsewhere","place":"x","pid":7,"began":1,"worker":0,"token":"t","beat":3,"lease_s":2}' >"both/claims/$cell.claim"
smoe sweep --status both >table
grep -q "$cell .*running: process 7 on elsewhere" table || fail "$(cat table)"
status 1 smoe sweep $sweep -q -o both --force 2>err
grep -q 'another process runs cell' err || fail "$(cat err)"
begin=$(date +%s)
status 0 smoe sweep both -q -j1 --resume >out
[ $(($(date +%s) - begin)) -ge 2 ] || fail "another machine's cell was not waited for"
same_cells alone both

# Single cells, run at once: who ends last has also the cells that others have finished and added meanwhile.
few="tiny.yaml model.moe.experts=2,4 train.steps=20 train.eval_every=0"
status 0 smoe sweep $few seed=0,1 -q -j1 --cells 1,2 -o single >/dev/null
smoe sweep single -q -j1 --resume --cells 0 >/dev/null 2>err &
first=$!
tries=0
until ls single/claims/000-*.claim >/dev/null 2>&1 || [ $tries -ge 2000 ]; do
    tries=$((tries + 1))
    sleep 0.01
done
kill -STOP $first || fail "it ended too early"
status 0 smoe sweep $few seed=0,1,2 -q -j1 --extend --cells 3-5 -o single >/dev/null
kill -CONT $first
wait $first || fail "$(cat err)"
[ "$(grep -c ',done,' single/results.csv)" -eq 6 ] || fail "$(cat single/results.csv)"

# One that is stopped counts the cells that are left, not those that others have finished.
smoe sweep tiny.yaml train.steps=100000,4,5 train.log_every=1000 train.eval_every=0 -q -j1 -o left >/dev/null 2>err &
first=$!
wait_for left/000-steps=100000/ckpt/latest/model.safetensors 1
status 0 smoe sweep left -q -j1 --resume --cells 1,2 >/dev/null
kill -TERM $first
wait $first
[ $? -eq 75 ] && grep -q 'with 1 of 3 cells left' err || fail "$(cat err)"
[ "$(grep -c ',done,' left/results.csv)" -eq 2 ] || fail "$(cat left/results.csv)"

# A file system without locks.
if command -v "${CC:-cc}" >/dev/null; then
    printf '#include <errno.h>\nint flock(int f, int o) { (void)f; (void)o; errno = ENOLCK; return -1; }\n' >no.c
    "${CC:-cc}" -shared -fPIC -o no.so no.c || fail "no library"
    LD_PRELOAD=$PWD/no.so status 0 smoe sweep $sweep -q -j1 -o bare >/dev/null
    same_cells alone bare
fi

# A job array. Its script replaces no other file, and nothing is begun.
cp tiny.yaml mine.yaml
status 2 smoe sweep $sweep -o jobs --slurm mine.yaml 2>err
grep -q 'mine.yaml exists already, and is no script; choose another name$' err && cmp -s tiny.yaml mine.yaml && [ ! -e jobs ] || fail "$(cat err)"
echo '#!/bin/sh' >job.sh
status 0 smoe sweep $sweep -j2 -o jobs --slurm job.sh >out
[ "$(wc -l <jobs/cells.jsonl)" -eq 7 ] && [ ! -e jobs/000* ] || fail "not a folder without cells begun: $(ls jobs)"
grep -q '^#SBATCH --signal=USR1@120$' job.sh && grep -q '^#SBATCH --array=1-6$' job.sh || fail "$(cat job.sh)"
grep -q '^#SBATCH --cpus-per-task=2$' job.sh && grep -Eq '^#SBATCH --mem=10[2-9][0-9]M$' job.sh || fail "$(cat job.sh)"
status 0 smoe sweep jobs --resume --slurm 'a job.sh' >out
grep -q "; sbatch 'a job.sh'\$" out || fail "$(cat out)"
# Slurm is simulated by two shells, whose srun runs the program.
mkdir bin
printf '#!/bin/sh\nshift\nexec "$@"\n' >bin/srun
chmod +x bin/srun
PATH=$PWD/bin:$PATH sh job.sh >/dev/null 2>err1 &
PATH=$PWD/bin:$PATH sh job.sh >/dev/null 2>err2 || fail "$(cat err2)"
wait $! || fail "$(cat err1)"
same_cells alone jobs
status 2 smoe sweep jobs --resume --slurm job.sh 2>err
grep -q 'every cell is done' err || fail "$(cat err)"
