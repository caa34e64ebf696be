# Starting from a file: the program always reports what comes from it and what does not. A file that does not fit is refused
# before anything is changed, and so does not block the use of the right one.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe init tiny.yaml soft.safetensors -q >/dev/null
status 3 smoe train tiny.yaml -q --init soft.safetensors model.width=8 -o run 2>err
grep -q 'soft.safetensors: width 16, the spec says 8' err || fail "$(cat err)"
[ ! -e run ] || fail "a refused file left a run: $(ls run)"
status 0 smoe train tiny.yaml --no-progress --init soft.safetensors model.moe.router=identity model.moe.slots_per_expert=4 -o run >/dev/null 2>err
want='31 of 31 tensors start from soft.safetensors; not used from the file: blocks.1.mlp.router.phi, blocks.1.mlp.router.scale'
grep -qx "$want" err || fail "$(cat err)"
grep -q " $want\$" run/log.txt || fail "$(cat run/log.txt)"
# An existing run is not replaced by a start that fails.
status 3 smoe train tiny.yaml -q --force --init soft.safetensors model.width=8 -o run 2>err
[ "$(cut -c1-4 run/STATUS)" = "done" ] || fail "STATUS is $(cat run/STATUS)"
[ -f run/ckpt/latest/model.safetensors ] || fail "the old run's checkpoint is gone"
status 0 smoe train tiny.yaml -q --force --init run/ckpt/latest/model.safetensors -o run >/dev/null 2>err
[ ! -s err ] || fail "quiet, and yet: $(cat err)"
# Upcycling: with the identity router each token has its own expert, a copy of the dense MLP, so the model computes the
# function of the dense one up to the order of sums.
status 0 smoe train tiny.yaml -q model.moe.layers=none -o dense >/dev/null
status 0 smoe train tiny.yaml --no-progress --init dense --upcycle model.moe.router=identity model.moe.slots_per_expert=4 \
    train.steps=4 train.optimizer.lr=0 -o copies >/dev/null 2>err
grep -q '^31 of 31 tensors start from dense/ckpt/step_00000024/model.safetensors; copied into each expert: blocks.1.mlp.experts.fc1.weight, ' err ||
    fail "$(cat err)"
loss() { sed -n 's/.*"test\/loss": *\([0-9.]*\).*/\1/p' "$1/metrics.jsonl" | tail -n 1; }
awk "BEGIN { d = $(loss copies) - $(loss dense); exit !(d * d < 1e-12) }" || fail "dense $(loss dense), its copies $(loss copies)"
# Which routers keep the function: identity, and tokens-choice if its weights sum to 1 and all tokens have room.
grep -q '^upcycled block 1: the combine weights of a token sum to 1.000 on average, 0.000 of the tokens are dropped' err || fail "$(cat err)"
upcycle() { # upcycle WANTED OPTIONS: the largest difference of logits is below WANTED; with -WANTED, it is not below
    wanted=$1
    shift
    status 0 smoe train tiny.yaml --no-progress --force --init dense --upcycle train.steps=4 train.schedule.cooldown=0 -o up "$@" >/dev/null 2>err
    awk -v wanted="$wanted" '/^upcycled: logits of 8 images/ { seen = 1; sub(/.*largest difference /, ""); d = $1 + 0 }
        END { exit !(seen && (wanted > 0 ? d < wanted : d >= -wanted)) }' err || fail "$*: $(cat err)"
}
choice='model.moe.router=tokens-choice model.moe.capacity=4 model.moe.noise=0'
upcycle 1e-4 $choice model.moe.topk=before
upcycle 1e-4 $choice model.moe.topk=before model.moe.k=2
upcycle -1e-3 $choice
grep -q 'model.moe.topk=before makes weights sum to 1' err || fail "$(cat err)"
upcycle -1e-3 $choice model.moe.topk=before model.moe.capacity=0.2
upcycle -1e-3
grep -q '^upcycled block 1: .* sum to 1.000 on average, a slot mixes [0-9.]* tokens' err || fail "$(cat err)"
upcycle -1e-3 $choice model.moe.topk=before --upcycle-noise 0.1
status 2 smoe train tiny.yaml -q --init dense --upcycle --upcycle-noise much -o x 2>err
grep -q -- '--upcycle-noise much: expected a number in \[0, 100\]' err || fail "$(cat err)"
status 2 smoe train tiny.yaml -q --init dense --upcycle-noise 0.1 -o x 2>err
grep -q -- '--upcycle-noise needs --upcycle' err || fail "$(cat err)"
status 2 smoe train tiny.yaml -q --upcycle -o x 2>err
grep -q 'train: --upcycle needs --init' err || fail "$(cat err)"
status 3 smoe train tiny.yaml -q --upcycle --init soft.safetensors -o x 2>err
grep -q 'soft.safetensors: no dense MLP that experts of this model replace' err || fail "$(cat err)"
# Experts Choice keeps the function too, if its weights sum to 1 and every token is taken.
experts='model.moe.router=experts-choice model.moe.noise=0 model.moe.capacity=3'
upcycle -1e-3 $experts
grep -q 'model.moe.renormalize=true makes weights sum to 1' err || fail "$(cat err)"
upcycle 1e-4 $experts model.moe.renormalize=true
# With a new head all logits are the same before training, so they show no change, and the report says so.
status 0 smoe init tiny.yaml model.moe.layers=none new.safetensors -q >/dev/null
status 0 smoe train tiny.yaml --no-progress --force --init new.safetensors --upcycle train.steps=1 -o up >/dev/null 2>err
grep -q '^upcycled: the logits of 8 images are all the same before, as with a new head' err || fail "$(cat err)"
# Moments start from the other run too: with one image, so that all batches are the same, a run that goes on with them has the
# bits of one that never ended. Without them it does not.
one='data.limit=1 train.batch_size=1 train.schedule.name=constant train.eval_every=0 model.moe.router=tokens-choice model.moe.noise=0 model.moe.group_images=1'
weights() { smoe compare "$1" "$2" | grep -q '^weights  *\([0-9]*\) of \1 tensors are the same'; }
status 0 smoe train tiny.yaml -q $one train.steps=14 -o long >/dev/null
status 0 smoe train tiny.yaml -q $one train.steps=6 -o first >/dev/null
status 0 smoe train tiny.yaml --no-progress $one train.steps=8 --init first --moments -o second >/dev/null 2>err
grep -qx 'moments of 32 of 32 tensors start from first/ckpt/step_00000006/state.safetensors, after 6 updates' err || fail "$(cat err)"
status 0 smoe train tiny.yaml -q $one train.steps=8 --init first -o without >/dev/null
for type in bf16-first bf16; do
    status 0 smoe train tiny.yaml -q $one train.steps=6 train.optimizer.moments=$type -o first-$type >/dev/null
    status 0 smoe train tiny.yaml -q $one train.steps=8 train.optimizer.moments=$type --init first-$type --moments -o second-$type >/dev/null
done
smoe compare long second >out
weights long second || fail "moments carried: $(grep -i weights out)"
! weights long without || fail "moments not carried, and yet: the same weights"
# SGD, which has momentum alone.
sgd="$one train.optimizer.name=sgd"
status 0 smoe train tiny.yaml -q $sgd train.steps=14 -o long-sgd >/dev/null
status 0 smoe train tiny.yaml -q $sgd train.steps=6 -o first-sgd >/dev/null
status 0 smoe train tiny.yaml -q $sgd train.steps=8 --init first-sgd --moments -o second-sgd >/dev/null
weights long-sgd second-sgd || fail "momentum: $(smoe compare long-sgd second-sgd)"
# Adafactor, with second moments that are factored and others that are not.
ada="$one train.optimizer.name=adafactor model.width=32 model.mlp=64" small_ada="train.optimizer.name=adafactor train.steps=4 train.schedule.cooldown=0"
status 0 smoe train tiny.yaml -q $ada train.steps=14 -o long-ada >/dev/null
status 0 smoe train tiny.yaml -q $ada train.steps=6 -o first-ada >/dev/null
status 0 smoe train tiny.yaml -q $ada train.steps=8 --init first-ada --moments -o second-ada >/dev/null
weights long-ada second-ada || fail "Adafactor's moments: $(smoe compare long-ada second-ada)"
status 0 smoe train tiny.yaml -q $small_ada model.moe.layers=none -o dense-ada >/dev/null
status 2 smoe train tiny.yaml -q $small_ada --init dense-ada --moments --upcycle -o x 2>err
grep -q -- '--moments: with --upcycle, train.optimizer.name must be adam or sgd' err || fail "$(cat err)"
# Moments that start from a run which itself started from one; and after a stop and a resume.
status 0 smoe train tiny.yaml --no-progress $one train.steps=2 --init second --moments -o third >/dev/null 2>err
grep -q ', after 14 updates$' err || fail "$(cat err)"
stop_and_resume parts tiny.yaml -q $one train.steps=40 --init first --moments >/dev/null
status 0 smoe train tiny.yaml -q $one train.steps=40 --init first --moments -o whole >/dev/null
same_run whole parts
# Upcycled: the experts have the moments of the MLP, and the router none.
status 0 smoe train tiny.yaml --no-progress --init dense --upcycle --moments train.steps=4 train.schedule.cooldown=0 -o warm >/dev/null 2>err
grep -qx 'moments of 31 of 33 tensors start from dense/ckpt/step_00000024/state.safetensors, after 24 updates' err || fail "$(cat err)"
# The same with SGD, which has one moment; with frozen experts, which have none.
sgd="train.optimizer.name=sgd train.steps=4 train.schedule.cooldown=0"
status 0 smoe train tiny.yaml -q $sgd model.moe.layers=none -o dense-sgd >/dev/null
status 0 smoe train tiny.yaml --no-progress $sgd --init dense-sgd --upcycle --moments -o warm-sgd >/dev/null 2>err
grep -qx 'moments of 31 of 33 tensors start from dense-sgd/ckpt/step_00000004/state.safetensors, after 4 updates' err || fail "$(cat err)"
status 0 smoe train tiny.yaml --no-progress --init dense --upcycle --moments train.steps=4 train.schedule.cooldown=0 \
    'train.optimizer.groups=[{match: "*experts*", frozen: true}]' -o cold >/dev/null 2>err
grep -qx 'moments of 27 of 29 tensors start from dense/ckpt/step_00000024/state.safetensors, after 24 updates' err || fail "$(cat err)"
# The dense model has no shared experts, and --partial is not for --upcycle.
status 3 smoe train tiny.yaml -q --init dense --upcycle model.moe.shared_experts=1 -o x 2>err
grep -q 'missing: blocks.1.mlp.shared.fc1.weight, .*\. --upcycle makes experts from an MLP, but no shared or universal ones$' err || fail "$(cat err)"
status 2 smoe train tiny.yaml -q --init soft.safetensors --moments -o x 2>err
grep -q -- '--moments: soft.safetensors is not a checkpoint of a run, so it has no optimiser state' err || fail "$(cat err)"
status 2 smoe train tiny.yaml -n --init soft.safetensors --moments 2>err
grep -q -- '--moments: soft.safetensors is not a checkpoint of a run' err || fail "$(cat err)"
status 2 smoe train tiny.yaml -q --init first --moments train.optimizer.name=sgd -o x 2>err
grep -q -- '--moments: .* is of a run with another train.optimizer.name' err || fail "$(cat err)"
status 2 smoe train tiny.yaml -q --moments -o x 2>err
grep -q 'train: --moments needs --init' err || fail "$(cat err)"
mkdir alone && cp first/ckpt/latest/model.safetensors alone
status 3 smoe train tiny.yaml -q $one --init alone --moments -o x 2>err
grep -q 'alone/state.safetensors' err || fail "$(cat err)"
cp long/ckpt/latest/state.safetensors alone
status 3 smoe train tiny.yaml -q $one --init alone --moments -o x 2>err
grep -q 'alone/state.safetensors: is not of the step of alone/model.safetensors' err || fail "$(cat err)"
# Moments of the same step, but of other weights
status 0 smoe train tiny.yaml -q $one seed=7 train.steps=6 -o seven >/dev/null
cp seven/ckpt/latest/state.safetensors alone
status 3 smoe train tiny.yaml -q $one --init alone --moments -o x 2>err
grep -q 'alone/model.safetensors: its data is not what was saved (.*alone/state.safetensors is .*): damaged, or from another checkpoint$' err || fail "$(cat err)"
# The whole model up to its head, unless --partial says that less is meant.
status 0 smoe init tiny.yaml token.safetensors -q model.head=token model.moe.layers=none >/dev/null
status 3 smoe train tiny.yaml -q --init token.safetensors model.moe.layers=none -o x 2>err
grep -q 'token.safetensors: differs from the model of the spec before the head: not used from the file: cls_token. model.head=token has a class token; --partial starts from the parts in common' err || fail "$(cat err)"
status 0 smoe init tiny.yaml more.safetensors -q model.head=token model.registers=1 model.moe.layers=none >/dev/null
status 3 smoe train tiny.yaml -q --init more.safetensors --upcycle model.head=token -o x 2>err
grep -q 'not used from the file: reg_token. model.registers=1 has registers or a distillation token; with --upcycle nothing else may be left out' err || fail "$(cat err)"
status 0 smoe train tiny.yaml -n --init more.safetensors --upcycle model.head=token model.registers=1 >/dev/null
status 3 smoe train tiny.yaml -q --init dense -o x 2>err
grep -q 'missing: blocks.1.mlp.experts.fc1.weight, .*; not used from the file: blocks.1.mlp.fc1.bias, .*\. --upcycle makes experts' err || fail "$(cat err)"
status 3 smoe train tiny.yaml -q --init soft.safetensors model.moe.layers=none -o x 2>err
grep -q 'not used from the file: blocks.1.mlp.experts.fc1.bias, .*\. smoe convert --experts mean makes an MLP' err || fail "$(cat err)"
status 3 smoe train tiny.yaml -q --init token.safetensors model.head=token model.moe.layers=none model.depth=3 -o x 2>err
grep -q 'token.safetensors: depth 2, the spec says 3' err || fail "$(cat err)"
status 0 smoe train tiny.yaml -n --init token.safetensors --partial >out 2>err
grep -q 'start .* tensors start from token.safetensors; .*initialised: blocks.1.mlp.router.phi, .*; not used from the file: .*cls_token' out || fail "$(cat out)"
status 2 smoe train tiny.yaml -n --init token.safetensors --partial --upcycle 2>err
status 2 smoe eval token.safetensors --grid 4 2>err
grep -q -- '--grid 4: expected ROWSxCOLUMNS, as 14x14' err || fail "$(cat err)"
# and where it has no effect
grid=of-other && mkdir $grid && cp token.safetensors $grid/model.safetensors && foreign $grid/model.safetensors
LC_ALL=C sed -i 's/"smoe\.spec":/"some.spec":/; s/"smoe\.version":/"some.version":/' $grid/model.safetensors
token='model.head=token model.moe.layers=none'
png >pixel.png
smoe train tiny.yaml $token --print-config >token.yaml
smoe train tiny.yaml $token model.position=sincos2d --print-config >placed.yaml
status 2 smoe eval soft.safetensors --grid 4x4 2>err
grep -q 'soft.safetensors: --grid has no effect: grids of this program are squares' err || fail "$(cat err)"
status 0 smoe predict $grid pixel.png --spec token.yaml --grid 2x8 -q >/dev/null
status 3 smoe predict $grid pixel.png --spec token.yaml --grid 3x5 -q 2>err
grep -q 'pos_embed: 17 positions are not 3x5 patches' err || fail "$(cat err)"
status 0 smoe init tiny.yaml unplaced.safetensors -q $token model.position=sincos2d >/dev/null
cp unplaced.safetensors $grid/model.safetensors && foreign $grid/model.safetensors
LC_ALL=C sed -i 's/"smoe\.spec":/"some.spec":/; s/"smoe\.version":/"some.version":/' $grid/model.safetensors
status 2 smoe predict $grid pixel.png --spec placed.yaml --grid 4x4 2>err
grep -q -- '--grid has no effect: the file has no position embeddings' err || fail "$(cat err)"
status 2 smoe eval token.safetensors --weights ema 2>err
grep -q 'token.safetensors: it has no averaged weights, which --weights ema asks for' err || fail "$(cat err)"
# A new head replaces attention pooling as a whole, or keeps it as a whole.
status 0 smoe init tiny.yaml map.safetensors -q model.head=map model.moe.layers=none >/dev/null
other='model.moe.layers=none data.shapes.classes=shape-hue'
status 0 smoe train tiny.yaml -n --init map.safetensors $other model.head=map >/dev/null
status 0 smoe train tiny.yaml -n --init map.safetensors $other >/dev/null
LC_ALL=C sed -i 's/"attn_pool.latent"/"attn_pool.patent"/' map.safetensors && foreign map.safetensors
status 3 smoe train tiny.yaml -n --init map.safetensors $other model.head=map 2>err
grep -q 'map.safetensors: differs .*: missing: attn_pool.latent; not used from the file: attn_pool.patent. --partial' err || fail "$(cat err)"
# A file without a head cannot be evaluated; the message says what can be done with it.
status 0 smoe init tiny.yaml headless.safetensors -q model.moe.layers=none >/dev/null
LC_ALL=C sed -i 's/"head.weight"/"face.weight"/' headless.safetensors && foreign headless.safetensors
status 3 smoe eval headless.safetensors 2>err
grep -q 'tensor head.weight .*: missing; smoe train --init starts from it with a new head, and with .* it measures' err || fail "$(cat err)"
png >image.png
status 3 smoe predict headless.safetensors image.png 2>err
grep -q 'no tensor head.weight .* smoe train --init starts from it with a new head$' err || fail "$(cat err)"
# Another resolution: positions are interpolated.
status 0 smoe train tiny.yaml --no-progress --init dense data.image_size=24 model.moe.layers=none train.steps=4 -o larger >/dev/null 2>err
grep -qx '31 of 31 tensors start from dense/ckpt/step_00000024/model.safetensors; resized: pos_embed' err || fail "$(cat err)"
# Slots keep their vectors while the tokens grow, 8 for 36 tokens instead of 16; with another number of slots they are
# initialised anew.
status 0 smoe train tiny.yaml --no-progress --init soft.safetensors data.image_size=24 train.steps=4 train.schedule.cooldown=0 -o kept >/dev/null 2>err
grep -qx '33 of 33 tensors start from soft.safetensors; resized: pos_embed' err || fail "$(cat err)"
status 0 smoe train tiny.yaml --no-progress --init soft.safetensors data.image_size=24 model.moe.slots_per_expert=4 train.steps=4 train.schedule.cooldown=0 -o anew >/dev/null 2>err
grep -qx '32 of 33 tensors start from soft.safetensors; resized: pos_embed; initialised: blocks.1.mlp.router.phi; not used from the file: blocks.1.mlp.router.phi' err || fail "$(cat err)"
status 3 smoe train tiny.yaml -q --init soft.safetensors model.moe.experts=8 -o x 2>err
grep -q 'soft.safetensors: experts 4, the spec says 8' err || fail "$(cat err)"
# Another head, another loss, frozen layers and momentum: all reported before the start.
status 0 smoe train tiny.yaml --dry-run --init dense model.moe.layers=none data.shapes.classes=shape-hue train.loss=sigmoid \
    train.optimizer.name=sgd train.schedule.name=cosine train.schedule.warmup=2 'train.optimizer.groups=[{match: "blocks.0.*", frozen: true}]' -o dry >out
grep -q '^start .*29 of 31 tensors .* initialised: head.weight, head.bias; not used from the file: head.bias, head.weight' out || fail "$(cat out)"
grep -qx 'optimizer   sgd, momentum 0.9; rate 0.003, cosine, 2 steps of warm-up; 12 of 31 tensors frozen' out || fail "$(cat out)"
grep -qx 'tensors     blocks.0.\*: 12, frozen' out || fail "$(cat out)"
status 0 smoe train tiny.yaml --no-progress --init dense model.moe.layers=none train.steps=8 -o told \
    'train.optimizer.groups=[{match: "head.*", lr: 10, decay: 0}, {match: "*.bias", lr: 2}, {match: "pos_embed", until: 1}]' >/dev/null 2>err
for line in 'optimizer   adam; rate 0.003, rsqrt, 2 steps of warm-up' 'tensors     head.\*: 2, rate times 10, decay 0' \
    'tensors     \*.bias: 14, rate times 2' 'tensors     pos_embed: 1, rate times 1, frozen from step 1 on'; do
    grep -qx "$line" err || fail "not said: $line: $(cat err)"
done
# The dry run reports this before, and refuses what training would refuse.
status 0 smoe train tiny.yaml --dry-run --init dense data.image_size=24 model.moe.layers=none -o dry >out
grep -qx 'start       31 of 31 tensors start from dense/ckpt/step_00000024/model.safetensors; resized: pos_embed' out || fail "$(cat out)"
status 0 smoe train tiny.yaml --dry-run --json --init dense --upcycle -o dry >out
grep -q '"start": *"31 of 33 tensors start from dense/ckpt/step_00000024/model.safetensors; copied into each expert: ' out || fail "$(cat out)"
status 0 smoe train tiny.yaml --dry-run -o dry >out
! grep -q start out || fail "$(cat out)"
status 3 smoe train tiny.yaml --dry-run --init dense model.width=8 -o dry 2>err
grep -q 'dense.*: width 16, the spec says 8' err || fail "$(cat err)"
