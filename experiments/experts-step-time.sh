#!/bin/sh
# Times a training step of each router against the number of experts, with one thread, and prints CSV: width of the MLPs of the experts, router,
# experts, seconds of a step. These are processor time of the thread, the least of two turns over all models, so that other programs
# beside it disturb little. Experts 64 wide are those of experts-step-time.yaml, 768 wide those of bench/routers-*.yaml (13 GB). Ten minutes.
#   SMOE_ISA=v3 experiments/experts-step-time.sh >experiments/results/experts-step-time/times.csv
here=$(dirname "$0")
smoe=${SMOE:-$here/../build/smoe}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
for experts in 16 64 256 1024; do
    echo "64,soft,$experts experts-step-time.yaml model.moe.router=soft model.moe.experts=$experts"
    echo "64,experts-choice,$experts experts-step-time.yaml model.moe.router=experts-choice model.moe.capacity=4 model.moe.experts=$experts"
    echo "64,tokens-choice,$experts experts-step-time.yaml model.moe.router=tokens-choice model.moe.k=4 model.moe.experts=$experts"
    for router in soft experts tokens; do
        name=$router-choice
        echo "768,${name#soft-choice},$experts bench/routers-$router.yaml model.moe.experts=$experts"
    done
done | sed 's/^768,,/768,soft,/' >"$work/models"
for turn in 1 2; do
    while read -r model spec overrides; do
        rounds=4
        [ "${model%%,*}" = 768 ] || rounds=40
        # shellcheck disable=SC2086 # overrides have no spaces of their own
        "$smoe" bench "$here/$spec" $overrides -j 1 -q --rounds $rounds --json >"$work/bench" </dev/null || exit 1
        awk -v model="$model" '/"train_processor_s"/ { part = 1 } part && /"min"/ { sub(/,/, "", $2); print model "\t" $2; exit }' "$work/bench"
    done <"$work/models"
done >"$work/times" || exit 1
echo "expert_mlp,router,experts,train_s"
awk -F '\t' '!($1 in least) { order[++n] = $1; least[$1] = $2 } $2 < least[$1] { least[$1] = $2 }
    END { for (i = 1; i <= n; i++) printf "%s,%.6f\n", order[i], least[order[i]] }' "$work/times" | sort -t, -k1,1n -k2,2 -k3,3n
