"""safetensors according to its specification, with only the standard library: a reference for smoe's files.

    layout.py write FOLDER      writes timm-style ViT state dicts: token_f32, gap_bf16, gap_f16 .safetensors
    layout.py check FILE STEP   checks the byte layout of a model.safetensors that smoe wrote, and its values

Element i of tensor NAME is ((7 i + sum of NAME's bytes) mod 255 - 127) / 64, exact in every type used here.
"""
import json
import struct
import sys

WIDTH, HIDDEN, DEPTH, PATCH, CHANNELS, TOKENS, CLASSES = 8, 12, 2, 2, 3, 4, 5
BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}


def value(name, i):
    return ((7 * i + sum(name.encode())) % 255 - 127) / 64


def shapes(token):
    """timm's VisionTransformer, in the order of its state dict."""
    yield from {"cls_token": [1, 1, WIDTH]}.items() if token else ()
    yield "pos_embed", [1, TOKENS + token, WIDTH]
    yield "patch_embed.proj.weight", [WIDTH, CHANNELS, PATCH, PATCH]
    yield "patch_embed.proj.bias", [WIDTH]
    for block in range(DEPTH):
        for name, shape in (
            ("norm1.weight", [WIDTH]),
            ("norm1.bias", [WIDTH]),
            ("attn.qkv.weight", [3 * WIDTH, WIDTH]),
            ("attn.qkv.bias", [3 * WIDTH]),
            ("attn.proj.weight", [WIDTH, WIDTH]),
            ("attn.proj.bias", [WIDTH]),
            ("norm2.weight", [WIDTH]),
            ("norm2.bias", [WIDTH]),
            ("mlp.fc1.weight", [HIDDEN, WIDTH]),
            ("mlp.fc1.bias", [HIDDEN]),
            ("mlp.fc2.weight", [WIDTH, HIDDEN]),
            ("mlp.fc2.bias", [WIDTH]),
        ):
            yield f"blocks.{block}.{name}", shape
    yield "norm.weight", [WIDTH]
    yield "norm.bias", [WIDTH]
    yield "head.weight", [CLASSES, WIDTH]
    yield "head.bias", [CLASSES]


def elements(shape):
    n = 1
    for axis in shape:
        n *= axis
    return n


def encode(dtype, x):
    if dtype == "F32":
        return struct.pack("<f", x)
    if dtype == "F16":
        return struct.pack("<e", x)
    return struct.pack("<f", x)[2:]  # BF16: the upper half, exact for our values


def decode(dtype, raw):
    return struct.unpack("<d" if dtype == "F64" else "<f", raw)[0]


def write(path, token, dtype):
    """No padding and the state dict's own order: the data starts wherever the header ends."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, shape in shapes(token):
        raw = b"".join(encode(dtype, value(name, i)) for i in range(elements(shape)))
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, indent=1).encode()
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


def no_duplicates(pairs):
    keys = [key for key, _ in pairs]
    assert len(keys) == len(set(keys)), "duplicate keys"
    return dict(pairs)


def check(path, step):
    raw = open(path, "rb").read()
    (length,) = struct.unpack("<Q", raw[:8])
    text = raw[8 : 8 + length].decode()
    assert (8 + length) % 64 == 0, f"data starts at {8 + length}"
    assert text[0] == "{" and text.rstrip(" ")[-1] == "}", "padded with something else than spaces"
    header = json.loads(text, object_pairs_hook=no_duplicates)
    metadata = header.pop("__metadata__")
    assert all(isinstance(v, str) for v in metadata.values()), "metadata is not all strings"
    assert metadata["format"] == "pt" and metadata["smoe.step"] == step, metadata
    assert isinstance(json.loads(metadata["smoe.spec"]), dict), "smoe.spec is no object"
    assert metadata["smoe.version"], "no version"
    order = sorted(header, key=lambda name: (-BYTES[header[name]["dtype"]], name))
    assert list(header) == order, "tensors out of order"
    at, data = 0, raw[8 + length :]
    for name in order:
        entry = header[name]
        begin, end = entry["data_offsets"]
        size = BYTES[entry["dtype"]]
        assert set(entry) == {"dtype", "shape", "data_offsets"}, f"{name}: {set(entry)}"
        assert begin == at and end - begin == size * elements(entry["shape"]), f"{name}: bad offsets"
        assert (8 + length + begin) % size == 0, f"{name}: unaligned"
        for i in range(elements(entry["shape"])):
            x = decode(entry["dtype"], data[begin + i * size : begin + (i + 1) * size])
            assert x == value(name, i), f"{name}[{i}]: {x} is not {value(name, i)}"
        at = end
    assert at == len(data), "bytes after the last tensor"
    assert {n: header[n]["shape"] for n in header} == dict(shapes(True)), "names or shapes"


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2] + "/token_f32.safetensors", True, "F32")
        write(sys.argv[2] + "/gap_bf16.safetensors", False, "BF16")
        write(sys.argv[2] + "/gap_f16.safetensors", False, "F16")
    else:
        check(sys.argv[2], sys.argv[3])
