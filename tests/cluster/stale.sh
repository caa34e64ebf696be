#!/bin/sh
# Sweeps and training by two machines on a file system that shows changes of the other machine seconds later and refuses
# locks, hard links and exchanges (tests/cluster/stale.c). The machines are namespaces of this one, so that neither sees
# the other's processes, each with its own mount. Needs root and libfuse3: `make check-stale`, three minutes.
cd "$(dirname "$0")/../.." || exit 1
ROOT=$PWD
. tests/cluster/nodes.sh
alone "$@"
. tests/cli/lib.sh
pkg-config --exists fuse3 && [ -e /dev/fuse ] || skip "no FUSE: apt-get install libfuse3-dev fuse3"
PATH=$ROOT/build:$PATH
work=$(mktemp -d) || exit 1
ip link set lo up
"${CC:-cc}" -std=c11 -D_GNU_SOURCE -O2 $(pkg-config --cflags fuse3) -o "$work/stale" tests/cluster/stale.c $(pkg-config --libs fuse3) || fail "no file system"
mkdir "$work/shared" "$work/node1" "$work/node2"
for i in 1 2; do "$work/stale" "$work/shared" "$work/node$i" & done
trap 'umount "$work/node1" "$work/node2"; rm -rf "$work"' EXIT
tries=0
until mountpoint -q "$work/node1" && mountpoint -q "$work/node2"; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || fail "not mounted"
    sleep 0.1
done

# The file system is what it should be: late, and without locks and links.
cd "$work" || exit 1
[ ! -e node2/late ] || fail "a file that nobody has made"
echo 1 >node1/late
[ ! -e node2/late ] || fail "the other machine sees a new file at once"
sleep 4
[ -e node2/late ] || fail "the other machine never sees a file"
flock -n node1/late true 2>/dev/null && fail "locks are not refused"
ln node1/late node1/link 2>/dev/null && fail "hard links are not refused"

# at I COMMAND ...: on that machine, in its mount
at() {
    machine=$1
    shift
    exec unshare -upf --mount-proc --kill-child sh -c 'hostname '"node$machine"' && cd "'"$work/node$machine"'" && exec "$@"' at "$@"
}
same_cells() { # same_cells SWEEP: with the weights of a sweep on one machine
    for cell in alone/0*; do
        cmp "$cell/ckpt/latest/model.safetensors" "shared/$1/${cell##*/}/ckpt/latest/model.safetensors" || fail "$1: another ${cell##*/}"
    done
    ls "shared/$1/claims" | grep -v '\.json$' && fail "$1: claims are left"
}
cp "$ROOT/tests/cli/tiny.yaml" shared
sweep="tiny.yaml model.moe.experts=2,4 seed=0,1,2 train.steps=100 train.log_every=10 train.eval_every=0"
(cd shared && exec smoe sweep $sweep -q -j1 -o ../alone) >/dev/null || fail "the sweep on one machine"

# Two machines share a sweep: the same cells, each begun once. A machine that does not yet see that a cell is finished may
# resume it, and finds after the last step that nothing is left to do.
(at 1 smoe sweep $sweep -q -j1 -o both --resume) >/dev/null 2>err1 &
first=$!
(at 2 smoe sweep $sweep -q -j1 -o both --resume) >/dev/null 2>err2
second=$?
wait $first
got=$?
[ $got -eq 0 ] && [ $second -eq 0 ] || fail "status $got and $second: $(cat err1 err2)"
same_cells both
[ "$(cat shared/both/0*/log.txt | grep -c started)" -eq 6 ] && ! grep -h 'resumed after' shared/both/0*/log.txt | grep -v 'step 100$' ||
    fail "steps were done twice: $(cat shared/both/0*/log.txt)"
for i in 1 2; do echo "node$i was in $(grep -l "\"host\": *\"node$i\"" shared/both/0*/env.json | wc -l) of 6 cells"; done

# A machine is lost in the middle of a cell: the other one waits for the lease of its claim, then does the rest.
(at 1 smoe sweep $sweep -q -j1 -o lost --resume) >/dev/null 2>&1 &
first=$!
tries=0
until [ -n "$(ls shared/lost/claims/*.claim 2>/dev/null)" ] && [ -d "shared/lost/$(basename "$(ls -d alone/001-*)")" ]; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || fail "never came to its second cell"
    sleep 0.05
done
kill -KILL $first # and with it all processes of its namespace
wait $first
[ -n "$(ls shared/lost/claims/*.claim 2>/dev/null)" ] || fail "the lost machine has no claim"
begin=$(date +%s)
(at 2 smoe sweep $sweep -q -j1 -o lost --resume) >/dev/null 2>err2 || fail "the other machine: $(cat err2)"
echo "after a lost machine: $(($(date +%s) - begin)) s"
[ $(($(date +%s) - begin)) -ge 100 ] || fail "it did not wait for the lease"
same_cells lost

# Training by two processes, each through its own mount: the checkpoint of one process.
command -v mpirun >/dev/null && [ -f "$(dirname "$(readlink -f "$ROOT/build/smoe")")/smoe_mpi.so" ] || skip "no MPI for the last part"
keys="-q -j1 train.pieces=2 train.experts_over=all train.checkpoint_every=5 train.shard_bytes=20000"
smoe train shared/tiny.yaml $keys -o one >/dev/null || fail "training by one process"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun --oversubscribe -n 1 --wdir "$work/node1" smoe train tiny.yaml $keys -o two : -n 1 --wdir "$work/node2" smoe train tiny.yaml $keys -o two >/dev/null 2>err || fail "training by two: $(cat err)"
for f in one/ckpt/latest/*; do cmp "$f" "shared/two/ckpt/latest/${f##*/}" || fail "another ${f##*/}"; done
smoe verify shared/two -q >/dev/null || fail "the run of two is not whole"
echo "ok"
