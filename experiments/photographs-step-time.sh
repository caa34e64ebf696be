#!/bin/sh
# Times a training step of dense and of Soft MoE with two temperatures, the models of photographs-cost.yaml, photographs-100-time.yaml and
# photographs-200-cost-rates.yaml (least-times.sh), and prints CSV: classes, experts in the last two blocks, seconds of a training step with
# 64 images, and that as a multiple of dense, beside the 1.25 that equal training time was planned with. Four minutes.
#   SMOE_ISA=v3 SMOE_DATA=FOLDER experiments/photographs-step-time.sh >experiments/results/photographs-step-time/times.csv
here=$(dirname "$0")
echo "classes,experts,train_s,times_dense"
for model in 10:photographs-cost 100:photographs-100-time 200:photographs-200-cost-rates; do
    printf "${model%%:*},%s\t60\t$here/${model#*:}.yaml model.moe.layers=%s\n" 0 none 16 "last-2 model.moe.experts=16" 64 "last-2 model.moe.experts=64"
done | "$here/least-times.sh" 3 | awk -F, '$2 == 0 { dense = $4 } { printf "%s,%s,%s,%.3f\n", $1, $2, $4, $4 / dense }'
