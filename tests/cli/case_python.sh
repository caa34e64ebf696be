# The lines of Python in smoe-checkpoint(5) compute a layer as smoe does: a model of one block, whose other layers are
# written out here.
. "$ROOT/tests/cli/lib.sh"
python=${PYTHON:-python3}
$python -c 'import torch, safetensors.torch' 2>/dev/null || skip "no PyTorch with safetensors for $python: the lines of smoe-checkpoint(5) were not run"
sed -n '/^import torch$/,/^\.fi$/p' "$ROOT/man/smoe-checkpoint.5" | sed -e '/^\.fi$/d' -e 's/\\-/-/g' -e 's/\\e/\\/g' >layer.py
grep -q 'def soft_moe' layer.py || fail "no lines of Python in smoe-checkpoint(5)"
cat >check.py <<'EOF'
import os, struct, sys, zlib
from layer import *
SIDE, PATCH, D, HEADS, IMAGES = 8, 4, 16, 2, 4

def png(path, pixels):
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(row) for row in pixels.reshape(SIDE, SIDE * 3).tolist())
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    open(path, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))

torch.manual_seed(0)
pixels = torch.randint(0, 256, (IMAGES, SIDE, SIDE, 3))
if sys.argv[1] == "images":
    for i in range(IMAGES):
        for split in ("train", "test"):
            os.makedirs(f"photos/{split}/{'ab'[i // 2]}", exist_ok=True)
            png(f"photos/{split}/{'ab'[i // 2]}/{i}.png", pixels[i])
    sys.exit()
w = load_file("run/ckpt/latest/model.safetensors")
norm = lambda name, x: torch.nn.functional.layer_norm(x, (D,), w[name + ".weight"], w[name + ".bias"], 1e-6)
x = (pixels / 127.5 - 1).permute(0, 3, 1, 2)
x = torch.nn.functional.conv2d(x, w["patch_embed.proj.weight"], w["patch_embed.proj.bias"], stride=PATCH)
x = x.flatten(2).mT + w["pos_embed"]
qkv = norm("blocks.0.norm1", x) @ w["blocks.0.attn.qkv.weight"].mT + w["blocks.0.attn.qkv.bias"]
q, k, v = qkv.unflatten(2, (3, HEADS, D // HEADS)).permute(2, 0, 3, 1, 4)
y = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
x = x + y @ w["blocks.0.attn.proj.weight"].mT + w["blocks.0.attn.proj.bias"]
x = x + soft_moe(layer("run/ckpt/latest/model.safetensors", 0), norm("blocks.0.norm2", x))
want = norm("norm", x).mean(1) @ w["head.weight"].mT + w["head.bias"]
data = open("logits.npy", "rb").read()
got = torch.frombuffer(bytearray(data[-4 * IMAGES * 2:]), dtype=torch.float32).reshape(IMAGES, 2)
apart = (want - got).abs().max().item() / want.abs().max().item()
print(f"{apart:.2g} apart; logits up to {want.abs().max().item():.3g}")
# sums of at most 64 products in single precision, a few layers deep
sys.exit(not apart < 1e-5)
EOF
$python check.py images || fail "no images"
status 0 smoe train tiny.yaml -q data.source=image-folder data.path=photos data.image_size=8 data.limit=0 model.depth=1 model.moe.layers=all \
    train.steps=4 train.batch_size=4 train.optimizer.lr=0.05 -o run >/dev/null
status 0 smoe eval run -q --logits logits.npy >/dev/null
$python check.py logits || fail "the layer of smoe-checkpoint(5) is not smoe's"
# and a change in it is detected
sed -i 's/logits.softmax(2)/logits.softmax(1)/' layer.py
$python check.py logits >/dev/null && fail "the comparison sees nothing"
exit 0
