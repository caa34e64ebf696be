#!/bin/sh
# The golden table: the results of 20 training steps, to the bit, for every router, optimiser and type of moments, with
# dropout, and for every instruction set of this processor. Each line has the configuration, the instruction set, and the
# CRC-32 of the weights, of the optimiser's state and of the logits on 200 test images.
#     tests/golden/golden.sh [SMOE TENSORS]          prints the table
#     make golden                                    compares it with tests/golden/golden.txt
# The table is valid for the compiler that its first line names.
here=$(cd "$(dirname "$0")" && pwd)
smoe=${1:-build/release/smoe} tensors=${2:-build/release/tests/tools/tensors}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

line() { # line NAME KEY=VALUE ...
    name=$1
    shift
    for isa in $sets; do
        export SMOE_ISA=$isa
        "$smoe" cost "$here/spec.yaml" data.classes=10 >/dev/null 2>&1 || continue
        rm -rf "$work/run" "$work/logits.npy"
        if "$smoe" train "$here/spec.yaml" -q -j 2 -o "$work/run" "$@" >/dev/null 2>"$work/err" &&
            "$smoe" eval "$work/run" -q data.limit=200 --logits "$work/logits.npy" >/dev/null 2>"$work/err"; then
            last=$work/run/ckpt/latest
            echo "$name $isa $("$tensors" --sum "$last/model.safetensors") $("$tensors" --sum "$last/state.safetensors")" \
                "$(tail -c 8000 "$work/logits.npy" | cksum | cut -d ' ' -f 1)"
        else
            echo "$name $isa failed: $(head -n 1 "$work/err")"
        fi
    done
}

sets='v4 v3 base'
echo "compiler: $("$smoe" version | grep -i -m 1 -o 'gcc.*\|clang.*')"
line dense model.moe.layers=none
identity=model.moe.slots_per_expert=10 # one slot for each of the 37 tokens
for entry in $(sed -n 's/^ROUTER("\([^"]*\)", [a-z0-9_]*, \([A-Z_]*\),.*/\1:\2/p' "$here"/../../lib/spec/routers.def); do
    router=${entry%:*}
    case $entry in *:FIXED) slots=$identity ;; *) slots= ;; esac
    line "$router" model.moe.router="$router" $slots
    line "$router-dropout" model.moe.router="$router" $slots model.dropout=0.1 model.moe.expert_dropout=0.2
done
line tokens-choice-k2 model.moe.router=tokens-choice model.moe.k=2 model.moe.capacity=0.6
line tokens-choice-vanilla model.moe.router=tokens-choice model.moe.priority=vanilla model.moe.capacity=0.5
for optimizer in adam sgd; do
    for moments in f32 bf16-first bf16; do
        [ "$optimizer$moments" = sgdbf16 ] ||
            line "$optimizer-$moments" train.optimizer.name=$optimizer train.optimizer.moments=$moments
    done
done
line head-map model.head=map model.qk_norm=true
line head-gap-sincos model.head=gap model.position=sincos2d model.gelu=tanh
line sigmoid train.loss=sigmoid
line skinny-experts model.moe.experts=24 model.moe.slots_per_expert=1 train.batch_size=8
line mixup data.augment.mixup=0.5 data.augment.crop=inception data.augment.randaugment.n=2 data.augment.randaugment.m=10
line groups 'train.optimizer.groups=[{match: "*.attn.*", lr: 0.5, decay: 0.1}, {match: "patch_embed.*", frozen: true}]'
line scale-exp model.moe.scale_form=exp model.moe.scale_init=sqrt_d model.moe.experts_init=shared
line soft-noise model.moe.soft_noise=0.5
line drop-path model.drop_path=0.3
line cutmix data.augment.cutmix=1 train.label_smoothing=0.1
line mix-bf16 model.moe.mix_precision=bf16
line tokens-choice-random model.moe.router=tokens-choice model.moe.priority=random model.moe.capacity=0.5
line tokens-choice-before model.moe.router=tokens-choice 'model.moe.k=[2, 1]' model.moe.topk=before
line qk-norm-vmoe model.qk_norm=true model.qk_norm_form=vmoe model.head=map train.schedule.start=0
line facts data.source=facts data.image_size=24 data.facts.cells=9
line adafactor train.optimizer.name=adafactor
line adafactor-bf16 train.optimizer.name=adafactor train.optimizer.moments=bf16-first
zeroshot='eval.zeroshot=["a large {}"]'
line contrastive data.augment.flip=false train.loss=contrastive text.context=32 "$zeroshot"
line contrastive-sigmoid data.augment.flip=false train.loss=contrastive-sigmoid text.context=32 text.embed=20 text.causal=false text.pool=mean "$zeroshot"
line experts-shared model.moe.shared_experts=2 model.moe.expert_mlp=20 model.moe.expert_dropout=0.1
line experts-universal model.moe.router=experts-choice model.moe.universal_experts=1 model.moe.universal_mlp=30 model.moe.expert_dropout=0.1
line tokens-choice-bias model.moe.router=tokens-choice model.moe.balance=bias model.moe.gate=sigmoid model.moe.renormalize=true model.moe.k=2
line experts-choice-renormalized model.moe.router=experts-choice model.moe.renormalize=true model.moe.capacity=1.5
line soft-temperatures-entmax model.moe.router=soft-temperatures model.moe.combine=entmax model.moe.slots_per_expert=2
line tokens-choice-z model.moe.router=tokens-choice model.moe.z_weight=0.01 model.moe.gate=sigmoid
line tokens-choice-unbalanced model.moe.router=tokens-choice model.moe.balance=none
line tokens-choice-renormalized model.moe.router=tokens-choice model.moe.renormalize=true model.moe.k=2
line images-choice-sigmoid model.moe.router=images-choice model.moe.gate=sigmoid model.moe.renormalize=true model.moe.k=2
line images-choice-bias model.moe.router=images-choice model.moe.balance=bias
line images-choice-superclass model.moe.router=images-choice model.moe.balance=superclass 'model.moe.superclasses=[3, 1, 2, 0, 0, 1, 2, 3, 1, 2]' model.moe.gate=sigmoid data.augment.mixup=0.3
line images-choice-unbalanced model.moe.router=images-choice model.moe.balance=none
line remoe-unbalanced model.moe.router=remoe model.moe.balance=none
line experts-choice-z model.moe.router=experts-choice model.moe.z_weight=0.01
for priority in learnt learnt-sigmoid patch-expert; do
    line "tokens-choice-$priority" model.moe.router=tokens-choice model.moe.priority=$priority model.moe.k=2 model.moe.capacity=0.6
done
line tokens-choice-aux-batch model.moe.router=tokens-choice model.moe.aux_over=batch train.pieces=2 model.moe.group_images=2
# Matrix units have instruction sets of their own, which differ from v4 only in products of BF16.
sets='amx v4-bf16 v4 v3 base'
for precision in bf16 bf16x3; do
    line "dense-$precision" train.precision=$precision model.moe.layers=none
    for router in soft tokens-choice experts-choice; do
        line "$router-$precision" train.precision=$precision model.moe.router=$router
    done
    line "skinny-experts-$precision" train.precision=$precision model.moe.experts=24 model.moe.slots_per_expert=1 train.batch_size=8
done
