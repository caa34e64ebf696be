#!/bin/sh
# Times a training step of each router against the number of experts (least-times.sh), and prints CSV: width of the MLPs of the experts, router,
# experts, seconds of a training step. Experts 64 wide are those of experts-step-time.yaml, 768 wide those of
# bench/routers-*.yaml (13 GB). Ten minutes.
#   SMOE_ISA=v3 experiments/experts-step-time.sh >experiments/results/experts-step-time/times.csv
here=$(dirname "$0")
narrow=$here/experts-step-time.yaml
echo "expert_mlp,router,experts,train_s"
for experts in 16 64 256 1024; do
    printf '64,%s,%s\t40\t%s model.moe.experts=%s %s\n' \
        soft $experts "$narrow" $experts model.moe.router=soft \
        experts-choice $experts "$narrow" $experts "model.moe.router=experts-choice model.moe.capacity=4" \
        tokens-choice $experts "$narrow" $experts "model.moe.router=tokens-choice model.moe.k=4"
    printf '768,%s,%s\t4\t%s model.moe.experts=%s\n' \
        soft $experts "$here/bench/routers-soft.yaml" $experts \
        experts-choice $experts "$here/bench/routers-experts.yaml" $experts \
        tokens-choice $experts "$here/bench/routers-tokens.yaml" $experts
done | "$here/least-times.sh" 2 | cut -d, -f 1-3,5 | sort -t, -k1,1n -k2,2 -k3,3n
