# smoe convert --onnx: ONNX Runtime computes the logits of smoe. What has no such graph is refused. PYTHON names an interpreter that
# has onnxruntime and NumPy.
. "$ROOT/tests/cli/lib.sh"
# refused PATTERN KEYS ...: a model with these keys has no graph, and no file is written.
refused() {
    pattern=$1
    shift
    status 0 smoe init tiny.yaml refused.safetensors -q -f "$@" >/dev/null
    status 2 smoe convert refused.safetensors refused.onnx --onnx 2>err
    grep -q "$pattern" err && [ ! -e refused.onnx ] || fail "$*: $(cat err)"
}
refused 'router tokens-choice sorts tokens into buffers' model.moe.router=tokens-choice
refused 'router identity sorts tokens' model.moe.router=identity model.moe.slots_per_expert=0
refused 'no operator for model.moe.combine=entmax' model.moe.router=soft-temperatures model.moe.combine=entmax
refused 'model.moe.mix_precision is bf16' model.moe.mix_precision=bf16
status 0 smoe init tiny.yaml plain.safetensors -q >/dev/null
status 2 smoe convert plain.safetensors plain.onnx 2>err
grep -q -- 'an ONNX graph is written with --onnx' err || fail "$(cat err)"
status 2 smoe convert plain.safetensors plain.safetensors --onnx 2>err
grep -q -- 'the name of an ONNX graph must end in .onnx' err || fail "$(cat err)"

python=${PYTHON:-python3}
"$python" -c 'import onnxruntime, numpy' 2>/dev/null || skip "$python has no ONNX Runtime or no NumPy: the graphs"
"$python" - <<'END'
import os, struct, numpy
for folder in "noise", "grey": os.mkdir(folder)
pixels = numpy.random.default_rng(1).integers(0, 256, (24, 12, 12), dtype=numpy.uint8)
numpy.save("pixels.npy", (pixels[:, None] / 127.5 - 1).astype("float32"))
for split in "train", "t10k":
    for folder, values in ("noise", pixels.tobytes()), ("grey", bytes([200] * 24 * 12 * 12)):
        open(f"{folder}/{split}-images-idx3-ubyte", "wb").write(struct.pack(">4i", 0x803, 24, 12, 12) + values)
        open(f"{folder}/{split}-labels-idx1-ubyte", "wb").write(struct.pack(">2i", 0x801, 24) + bytes(i % 3 for i in range(24)))
END
cat >spec.yaml <<'END'
data: {source: idx, path: noise, image_size: 12, channels: 1}
model: {variant: none, width: 16, depth: 3, mlp: 24, heads: 2, patch_size: 4, moe: {layers: last-2, experts: 3}}
train: {steps: 6, batch_size: 8, optimizer: {lr: 1e-2}, schedule: {name: constant}, eval_every: 0, checkpoint_every: 0}
eval: {batch_size: 8, order: file}
END
found=0
while read -r keys; do
    # shellcheck disable=SC2086
    status 0 smoe train spec.yaml -q -o "run-$found" $keys >/dev/null
    status 0 smoe eval "run-$found" -q --logits "$found.npy" >/dev/null
    status 0 smoe convert "run-$found" "$found.onnx" --onnx -q >/dev/null
    found=$((found + 1))
done <<'END'
model.moe.layers=none
model.moe.layers=none model.head=token model.gelu=tanh model.qk_norm=true
model.moe.layers=none model.head=map model.position=sincos2d
model.moe.layers=none model.head=map model.registers=2 model.pre_norm=true model.qk_norm=true model.qk_norm_form=vmoe
model.moe.layers=none model.head=token model.registers=2 model.gelu=quick model.position=sincos2d
model.moe.layers=none model.head=gap model.registers=3 model.position=none
model.head=gap-norm model.norm_eps=1e-3
model.head=gap-norm model.registers=1 model.moe.slots_per_expert=2
model.moe.normalize=false
model.moe.l2_eps=vmoe model.moe.scale_form=exp model.moe.expert_mlp=20
model.moe.router=soft-uniform model.moe.total_slots=6
model.moe.router=uniform-soft
model.moe.router=uniform
model.moe.router=soft-temperatures model.moe.slots_per_expert=3
model.moe.slots_per_expert=2 model.moe.universal_experts=1 model.moe.universal_mlp=9 model.moe.shared_experts=2
model.moe.experts=1 model.moe.slots_per_expert=4
model.width=64 model.heads=4 model.depth=4 model.mlp=100 model.patch_size=2 model.moe.experts=16
END
[ $found = 17 ] || fail "only $found models"
# position embeddings of another grid are resized, as for evaluation
status 0 smoe eval run-1 -q --logits grey.npy data.path=grey data.image_size=24 >/dev/null
sed 's/image_size: 12/image_size: 24/' run-1/spec.yaml >grey.yaml
status 0 smoe convert run-1 grey.onnx --onnx -q --spec grey.yaml >/dev/null
cat >check.py <<'END'
import json, sys, numpy, onnxruntime
pixels = numpy.load("pixels.npy")
for i in range(int(sys.argv[1])):
    session = onnxruntime.InferenceSession(f"{i}.onnx", providers=["CPUExecutionProvider"])
    theirs = lambda n: session.run(["logits"], {"pixels": pixels[:n]})[0]
    ours = numpy.load(f"{i}.npy")
    assert ours.shape == (24, 3) and ours.std() > 0.01, (i, ours)
    for n in (24, 1):
        assert abs(theirs(n) - ours[:n]).max() < 1e-5 * max(1, abs(ours).max()), (i, n, abs(theirs(n) - ours[:n]).max())
    assert "smoe.spec" in session.get_modelmeta().custom_metadata_map
grey = onnxruntime.InferenceSession("grey.onnx", providers=["CPUExecutionProvider"])
assert json.loads(grey.get_modelmeta().custom_metadata_map["smoe.spec"])["data"]["image_size"] == 24
theirs = grey.run(None, {"pixels": numpy.full((1, 1, 24, 24), 200 / 127.5 - 1, "float32")})[0]
assert abs(theirs - numpy.load("grey.npy")[0]).max() < 1e-5, (theirs, numpy.load("grey.npy")[0])
END
"$python" check.py "$found" 2>err || fail "$(tail -n 1 err)"
