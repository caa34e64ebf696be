#!/bin/sh
# Training and sweeps under a real Slurm: munge, slurmctld and two slurmd, each with its own network and host name, on this
# machine. `make check-slurm` (installs slurm-wlm; as root; four minutes).
cd "$(dirname "$0")/../.." || exit 1
ROOT=$PWD
. tests/cluster/nodes.sh
alone "$@"
. tests/cli/lib.sh
for tool in slurmctld slurmd munged srun mpirun; do
    PATH=$PATH:/usr/sbin command -v $tool >/dev/null || skip "no $tool: apt-get install slurm-wlm openmpi-bin"
done
PATH=$ROOT/build:/usr/sbin:$PATH
export PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
machines 2

# ---- the cluster: files, then the programs

dd if=/dev/urandom of="$work/key" bs=1024 count=1 2>/dev/null
chmod 700 "$work"
chmod 600 "$work/key"
mkdir "$work/state" "$work/munge" "$work/node1" "$work/node2"
chmod 755 "$work" "$work/munge"
cat >"$work/slurm.conf" <<END
ClusterName=test
SlurmctldHost=head
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket=$work/munge/socket
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/%n
TmpFS=$work/%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/%n.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
KillWait=10
NodeName=node[1-2] Sockets=1 CoresPerSocket=2 RealMemory=4000 State=UNKNOWN
PartitionName=all Nodes=node[1-2] Default=YES MaxTime=INFINITE State=UP
END
export SLURM_CONF="$work/slurm.conf"
munged --key-file="$work/key" --socket="$work/munge/socket" --pid-file="$work/munge/pid" --log-file="$work/munge/log" \
    --seed-file="$work/munge/seed" --force || fail "no munged"
slurmctld || fail "no slurmctld"
for i in 1 2; do on $i slurmd -N node$i || fail "no slurmd on node$i"; done
tries=0
until [ "$(sinfo -h -t idle -o %D 2>/dev/null)" = 2 ]; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || fail "no idle nodes: $(sinfo 2>&1; tail -n 3 "$work"/*.log)"
    sleep 0.1
done
echo "Slurm $(sinfo --version | cut -d' ' -f2), two nodes"

# over JOB: waits until the job and all of its tasks are done (a failed call of squeue does not count as done)
over() { until [ "$(squeue -a -j "$1" -o %T 2>/dev/null)" = STATE ]; do sleep 0.5; done; }

# ---- training

cp tests/cli/tiny.yaml "$work"
cd "$work" || exit 1
keys="train.pieces=4 data.test_size=60 model.dropout=0.1"
status 0 smoe train tiny.yaml -q -j1 -o one $keys >/dev/null
status 0 srun --mpi=pmix -N2 -n2 smoe train tiny.yaml -q -j1 -o two $keys train.experts_over=2 >/dev/null
same_run one two
grep -q '2 processes' two/log.txt || fail "not two processes: $(cat two/log.txt)"
echo "srun --mpi=pmix -N2 -n2: the bits of one process"
status 0 srun --mpi=pmix -N2 -n4 --overcommit smoe train tiny.yaml -q -j1 -o four $keys >/dev/null
same_run one four
echo "srun --mpi=pmix -N2 -n4: the bits of one process"
status 0 salloc -Q -N2 --ntasks-per-node=1 mpirun smoe train tiny.yaml -q -j1 -o allocated $keys >/dev/null
same_run one allocated
grep -q '2 processes' allocated/log.txt || fail "not two processes: $(cat allocated/log.txt)"
echo "salloc -N2 mpirun: the bits of one process"

srun -N2 -n2 smoe train tiny.yaml -q -o bad $keys 2>err
got=$?
[ $got -eq 2 ] && grep -q 'use srun --mpi=pmix' err && [ ! -e bad ] || fail "status $got without PMIx: $(cat err)"
echo "srun -n2 without --mpi=pmix: refused, exit status 2"

# SIGUSR1 a minute before the limit, or earlier, as Slurm looks every 30 seconds; SIGTERM at the limit of one minute.
endless="train.eval_every=0 train.checkpoint_every=0 train.schedule.name=constant train.steps=1000000 train.log_every=1000"
cat >limit.sh <<END
#!/bin/sh
#SBATCH --nodes=2 --ntasks=2 --time=1 --signal=USR1@50 --output=limit.out
srun --mpi=pmix smoe train tiny.yaml -q -j1 -o limit $keys $endless
echo "status \$?"
END
begin=$(date +%s)
job=$(sbatch --parsable limit.sh)
tries=0
until [ -e limit/ckpt/latest ]; do
    tries=$((tries + 1))
    [ $tries -lt 1200 ] || fail "no checkpoint after SIGUSR1: $(cat limit.out)"
    sleep 0.1
done
[ "$(cut -c1-7 limit/STATUS)" = running ] || fail "SIGUSR1 ended the run: $(cat limit/STATUS)"
first=$(readlink limit/ckpt/latest)
echo "--signal=USR1@50: a checkpoint after $(($(date +%s) - begin)) s, and the run goes on"
over "$job"
[ "$(cut -c1-7 limit/STATUS)" = stopped ] && [ "$(readlink limit/ckpt/latest)" != "$first" ] ||
    fail "at the limit: $(cat limit/STATUS limit.out)"
echo "the time limit: stopped with a checkpoint after $(($(date +%s) - begin)) s"
steps=$(($(sed 's/.*step_0*//' <<END
$(readlink limit/ckpt/latest)
END
) + 5))
status 0 smoe train --resume limit -q -j2 train.steps=$steps >/dev/null
grep -q resumed limit/log.txt || fail "not resumed"
echo "resumed by one process"

# ---- a sweep

sweep="tiny.yaml model.moe.experts=2,4 seed=0,1,2 train.steps=200 train.eval_every=0"
status 0 smoe sweep $sweep -q -j1 -o alone >/dev/null
status 0 smoe sweep $sweep -q -j1 -o cells --slurm array.sh >/dev/null
status 0 sbatch --wait --output=array.%a.out array.sh >/dev/null
for cell in alone/0*; do
    cmp "$cell/ckpt/latest/model.safetensors" "cells/${cell##*/}/ckpt/latest/model.safetensors" || fail "another ${cell##*/}"
done
nodes=$(cat cells/0*/env.json | grep -o 'node[12]' | sort -u | tr '\n' ' ')
[ -z "$nodes" ] || echo "cells were run on $nodes"
echo "an array of $(ls array.*.out | wc -l) tasks: $(ls -d cells/0* | wc -l) cells, the bits of a sweep without Slurm"

# One task is cancelled in the middle: the others do its cell.
sweep="$sweep train.steps=1500 train.checkpoint_every=100"
status 0 smoe sweep $sweep -q -j1 -o again --slurm again.sh >/dev/null
job=$(sbatch --parsable --array=1-2 --output=again.%a.out again.sh)
wait_for again/cells.jsonl 7
tries=0
until smoe sweep --status again | grep -q 'running: process .* on node'; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || fail "nothing runs: $(smoe sweep --status again)"
    sleep 0.1
done
smoe sweep --status again | grep running
scancel --signal=KILL "${job}_1"
over "$job"
smoe sweep --status again >table
[ "$(grep -c 'running\|waiting' table)" -eq 0 ] || fail "$(cat table again.*.out)"
echo "a task of an array is killed: the other one does all $(ls -d again/0* | wc -l) cells"
echo passed
