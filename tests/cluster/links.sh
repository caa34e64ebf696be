#!/bin/sh
# The step time that `smoe cost --processes 2` predicts against measured ones, with links of known rates: two machines that
# are namespaces of this one, with tc's token bucket filter, and a module that delays messages for latencies. One thread each.
# Needs an idle machine with two processors, and root: `make check-links`, two minutes.
cd "$(dirname "$0")/../.." || exit 1
ROOT=$PWD
. tests/cluster/nodes.sh
alone "$@"
. tests/cli/lib.sh
for tool in mpirun tc; do command -v $tool >/dev/null || skip "no $tool: apt-get install openmpi-bin iproute2"; done
PATH=$ROOT/build:$PATH
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
machines 2
echo "$node1" >"$work/node1"
echo "$node2" >"$work/node2"
cat >"$work/agent" <<END
#!/bin/sh
at=\$(cat $work/\$1)
shift
exec nsenter -t \$at -n -u sh -c "\$*"
END
chmod +x "$work/agent"
mkdir "$work/delay"
"${CC:-cc}" -std=c11 -D_GNU_SOURCE -O2 -fPIC -shared -Ilib -Ilib/include -o "$work/delay/smoe_mpi.so" tests/cluster/delay.c -ldl || fail "no module"
real=$(dirname "$(readlink -f build/smoe)")/smoe_mpi.so
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
net="--mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24"
# mpirun takes both namespaces for machines, and would bind the process of each to processor 0.
several="mpirun -n 2 --bind-to none --host node1,node2 --mca plm_rsh_agent $work/agent $net"

rate() { # rate GBIT: of both links; 0: unlimited
    for i in 1 2; do
        on $i tc qdisc del dev eth0 root 2>/dev/null
        [ "$1" = 0 ] || on $i tc qdisc add dev eth0 root tbf rate "$1gbit" burst 256kb latency 100ms || fail "no tbf"
    done
}

# median of the seconds of a step of the run $1, the first steps excepted
step_of() { sed -n 's/.*"train\/images_per_s": *\([0-9.e+]*\).*/\1/p' "$work/$1/metrics.jsonl" | tail -n +3 | sort -g |
    awk -v B="$batch" '{x[NR] = $1} END {printf "%.4f", B / x[int((NR + 1) / 2)]}'; }

number() { tr -d ' \n' | sed "s/.*\"$1\":\([0-9.e+-]*\).*/\1/"; }

bad=0
# compare SPEC GBIT US KEYS ...: a row of the table
compare() {
    spec=experiments/bench/$1.yaml gbit=$2 us=$3
    shift 3
    rm -rf "$work/two"
    rate "$gbit"
    if [ "$us" = 0 ]; then modules="-x SMOE_MODULES=$(dirname "$real")"; else
        modules="-x SMOE_MODULES=$work/delay -x SMOE_DELAYED=$real -x SMOE_DELAY_US=$us"; fi
    status 0 $several $modules smoe train $spec -q -j1 -o "$work/two" $run "$@" >/dev/null
    predicted=$(smoe cost $spec --json --processes 2 --link "$(awk "BEGIN {print $gbit / 8}")" --latency "$(awk "BEGIN {print $us + $own}")" \
        --gflops "$gflops" $pieces "$@" | number step_s)
    measured=$(step_of two)
    verdict=$(awk "BEGIN {r = $measured / $predicted; printf \"%.2f\", r; exit !(r < 0.8 || r > 1.2)}") && bad=$((bad + 1))
    printf '| %s %s | %s Gbit/s | %s us | %s s | %.3f s | %s |\n' "$(basename $spec .yaml)" "$*" "$gbit" "$us" "$measured" "$predicted" "$verdict"
}

# calibrate SPEC KEYS ...: what one thread computes beside another one, from two runs of one process with the same pieces
calibrate() {
    spec=experiments/bench/$1.yaml
    shift
    rm -rf "$work/one" "$work/other"
    smoe train $spec -q -j1 -o "$work/other" $run "$@" >/dev/null &
    status 0 smoe train $spec -q -j1 -o "$work/one" $run "$@" >/dev/null
    wait $! || fail "the other run"
    flops=$(smoe cost $spec --json $pieces "$@" | number flops_train_per_image)
    gflops=$(awk "BEGIN {print $flops * $batch / $(step_of one) / 1e9}")
    echo "$(basename $spec .yaml): one process with one thread, beside another one, takes $(step_of one) s per step, $gflops GFLOP/s"
}

own=30 # microseconds that a message takes here without a delay
pieces=train.pieces=2
run="$pieces train.log_every=1 train.eval_every=0 train.checkpoint_every=0 data.limit=640"
echo "| spec | rate | latency | measured | predicted | measured / predicted |"
echo "|---|---|---|---|---|---|"
run="$run train.steps=${STEPS:-8}"
for case in ${*:-s16-dense tiny-soft64}; do
    case $case in
    s16-dense)
        batch=8
        calibrate $case
        compare $case 10 0
        compare $case 1 0
        ;;
    *)
        batch=64
        calibrate $case
        compare $case 10 0 train.experts_over=2
        compare $case 1 0 train.experts_over=2
        compare $case 10 2000 train.experts_over=2
        ;;
    esac
done
[ $bad -eq 0 ] || fail "$bad predictions are off by more than 20%"
