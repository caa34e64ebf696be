"""The models of smoe as PyTorch modules: dense, Soft MoE with its ablations, Tokens Choice, Experts Choice.

    model = load("model.safetensors")            # what `smoe train` and `smoe convert` write, or the folder of a checkpoint
    logits = model(pixels)                       # pixels [B, channels, image, image], (x/255 - mean)/std

As a program it compares with smoe: logits of the images in PIXELS, both .npy, go to LOGITS (needs NumPy):
    soft_moe.py CHECKPOINT PIXELS LOGITS

Needs only PyTorch. Tensors have the names of the file, so state_dict() and load_state_dict() work both ways. Routers compute as in
evaluation (no noise); gradients pass through all weights. The equations are those of smoe-routers(7) and smoe-model(7). Not here:
towers of texts, registers, shared and universal experts, and the routers since; load() says so.
"""
import json
import math
import os
import struct
import sys

import torch
import torch.nn.functional as F
from torch import nn

DTYPES = {"F32": torch.float32, "F64": torch.float64, "F16": torch.float16, "BF16": torch.bfloat16}
ROUTERS = ("soft", "soft-uniform", "uniform-soft", "uniform", "identity", "tokens-choice", "experts-choice")


def read(path):
    """Tensors and metadata of a safetensors file, as F32."""
    if os.path.isdir(path):
        path = os.path.join(path, "model.safetensors")
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = bytearray(file.read())
    meta = header.pop("__metadata__", {})
    view = lambda t: torch.frombuffer(data, dtype=DTYPES[t["dtype"]], count=math.prod(t["shape"]), offset=t["data_offsets"][0])
    return {name: view(t).reshape(t["shape"]).float() for name, t in header.items()}, meta


def gelu(x, form):
    if form == "quick":
        return x * torch.sigmoid(1.702 * x)
    return F.gelu(x, approximate="tanh" if form == "tanh" else "none")


def unit(x, axis, form):
    if form == "paper":
        return x / (x.norm(dim=axis, keepdim=True) + 1e-6)
    return x * torch.rsqrt((x * x).sum(axis, keepdim=True) + 1e-6)


class Experts(nn.Module):
    """E MLPs, each for its own rows: [E, rows, d] to the same."""

    def __init__(self, E, d, h, gelu):
        super().__init__()
        self.fc1, self.fc2, self.gelu = nn.Module(), nn.Module(), gelu
        for layer, n, m in ((self.fc1, h, d), (self.fc2, d, h)):
            layer.weight = nn.Parameter(torch.randn(E, n, m) / math.sqrt(m))
            layer.bias = nn.Parameter(torch.zeros(E, n))

    def forward(self, x):
        x = torch.baddbmm(self.fc1.bias[:, None], x, self.fc1.weight.mT)
        return torch.baddbmm(self.fc2.bias[:, None], gelu(x, self.gelu), self.fc2.weight.mT)


class SoftMoE(nn.Module):
    """Soft MoE (algorithms 1 and 2 of the paper): X~ = D^T X, Y = C Y~, for each image by itself. With router uniform, D or C or both are
    means instead; with identity slot t is token t."""

    def __init__(self, d, h, T, moe, gelu):
        super().__init__()
        self.moe, self.E = moe, moe["experts"]
        self.P = moe["total_slots"] // self.E or moe["slots_per_expert"]
        self.experts, self.router = Experts(self.E, d, h, gelu), nn.Module()
        if "soft" in moe["router"]:
            self.router.phi = nn.Parameter(torch.randn(d, self.E, self.P) / math.sqrt(d))
            if moe["normalize"]:
                self.router.scale = nn.Parameter(torch.ones(()))

    def weights(self, x):
        """D, C [B, T, S]."""
        router, S = self.moe["router"], self.E * self.P
        logits = x.new_zeros(*x.shape[:2], S)
        if "soft" in router:
            phi = self.router.phi.flatten(1)
            if self.moe["normalize"]:
                form = self.moe["l2_eps"]
                logits = unit(x, -1, form) @ (self.factor() * unit(phi, 0, form))
            else:
                logits = x @ phi
        D, C = logits.softmax(1), logits.softmax(2)
        if router.startswith("uniform"):
            D = torch.full_like(D, 1 / x.shape[1])
        if router.endswith("uniform"):
            C = torch.full_like(C, 1 / S)
        return D, C

    def factor(self):
        return self.router.scale.exp() if self.moe["scale_form"] == "exp" else self.router.scale

    def forward(self, x):
        B, T, d = x.shape
        if self.moe["router"] == "identity":  # token t goes to expert t mod E
            slots = x.reshape(B, self.P, self.E, d).permute(2, 0, 1, 3).reshape(self.E, -1, d)
            return self.experts(slots).reshape(self.E, B, self.P, d).permute(1, 2, 0, 3).reshape(B, T, d)
        D, C = self.weights(x)
        slots = (D.mT @ x).reshape(B, self.E, self.P, d).transpose(0, 1).reshape(self.E, -1, d)
        out = self.experts(slots).reshape(self.E, B, self.P, d).transpose(0, 1).reshape(B, -1, d)
        return C @ out


class ChoiceMoE(nn.Module):
    """Tokens Choice (each token chooses K experts) and Experts Choice (each expert chooses tokens), in groups of images, with buffers of
    limited capacity. Batch Priority Routing lets tokens with a high gate choose first; `vanilla` is the order of tokens."""

    def __init__(self, d, h, T, moe, gelu, layer):
        super().__init__()
        of_layer = lambda x: x[layer] if isinstance(x, list) else x
        self.moe, self.E, self.K, self.C = moe, moe["experts"], of_layer(moe["k"]), of_layer(moe["capacity"])
        self.experts, self.router = Experts(self.E, d, h, gelu), nn.Module()
        self.router.weight = nn.Parameter(torch.randn(self.E, d) / math.sqrt(d))

    def place(self, g, z):
        """Who is where, from gates and logits [tokens, E]: (token, expert) pairs in the order of the buffers."""
        n, E = g.shape
        if self.moe["router"] == "experts-choice":
            room = min(n, max(1, round(n * self.C / E)))
            return [(t, e) for e in range(E) for t in g[:, e].argsort(descending=True, stable=True)[:room].tolist()]
        room = max(1, round(self.K * n * self.C / E))
        by = g if self.moe["topk"] == "after" else z
        order = by.argsort(dim=1, descending=True, stable=True)[:, : self.K]
        top = g.gather(1, order)
        score = top.sum(1) if self.moe["priority"] == "bpr-sum" else top[:, 0]
        turn = score.argsort(descending=True, stable=True)[: round(self.moe["skip_patch"] * n)].tolist()
        if self.moe["priority"] == "vanilla":
            turn.sort()
        placed, used = [], [0] * E
        for k in range(self.K):  # all first choices before second ones
            for t in turn:
                e = int(order[t, k])
                if used[e] < room:
                    placed.append((t, e))
                    used[e] += 1
        return placed

    def group(self, x):
        z = x @ self.router.weight.mT
        g = z.sigmoid() if self.moe["gate"] == "sigmoid" else z.softmax(1)
        if self.moe["router"] == "tokens-choice" and (self.moe["topk"] == "before" or self.moe["renormalize"]):
            kept = torch.zeros_like(g).scatter(1, z.detach().argsort(dim=1, descending=True, stable=True)[:, : self.K], 1)
            g = g * kept / (g * kept).sum(1, keepdim=True)
        placed = self.place(g.detach(), z.detach())
        mask = torch.zeros_like(g)
        for t, e in placed:
            mask[t, e] = 1
        if self.moe["router"] == "experts-choice" and self.moe["renormalize"]:
            g = g * mask / (g * mask).sum(1, keepdim=True).clamp(min=1e-30)
        y = torch.zeros_like(x)
        for e in range(self.E):  # only the rows that the expert has
            rows = mask[:, e].nonzero().flatten()
            if len(rows):
                one = lambda w: w[e]
                hidden = gelu(F.linear(x[rows], one(self.experts.fc1.weight), one(self.experts.fc1.bias)), self.experts.gelu)
                out = F.linear(hidden, one(self.experts.fc2.weight), one(self.experts.fc2.bias))
                y = y.index_add(0, rows, g[rows, e, None] * out)
        return y

    def forward(self, x):
        groups = x.split(self.moe["group_images"])
        return torch.cat([self.group(group.flatten(0, 1)).reshape(group.shape) for group in groups])


class MLP(nn.Module):
    def __init__(self, d, h, gelu):
        super().__init__()
        self.fc1, self.fc2, self.gelu = nn.Linear(d, h), nn.Linear(h, d), gelu

    def forward(self, x):
        return self.fc2(gelu(self.fc1(x), self.gelu))


class Attention(nn.Module):
    def __init__(self, d, heads, qk_norm, eps):
        super().__init__()
        self.qkv, self.proj, self.heads = nn.Linear(d, 3 * d), nn.Linear(d, d), heads
        self.q_norm = nn.LayerNorm(d // heads, eps=eps) if qk_norm else nn.Identity()
        self.k_norm = nn.LayerNorm(d // heads, eps=eps) if qk_norm else nn.Identity()

    def forward(self, x):
        B, T, d = x.shape
        q, k, v = self.qkv(x).reshape(B, T, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v)
        return self.proj(x.transpose(1, 2).reshape(B, T, d))


class Block(nn.Module):
    def __init__(self, model, T, layer):
        super().__init__()
        d, h, eps, moe = model["width"], model["mlp"], model["norm_eps"], model["moe"]
        self.norm1, self.norm2 = nn.LayerNorm(d, eps=eps), nn.LayerNorm(d, eps=eps)
        self.attn = Attention(d, model["heads"], model["qk_norm"], eps)
        h_expert = moe["expert_mlp"] or h
        if layer is None:
            self.mlp = MLP(d, h, model["gelu"])
        elif moe["router"].endswith("choice"):
            self.mlp = ChoiceMoE(d, h_expert, T, moe, model["gelu"], layer)
        else:
            self.mlp = SoftMoE(d, h_expert, T, moe, model["gelu"])

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Pool(nn.Module):
    """Attention pooling: a learnt query looks at all tokens."""

    def __init__(self, model):
        super().__init__()
        d = model["width"]
        self.latent, self.heads = nn.Parameter(torch.randn(1, 1, d) / math.sqrt(d)), model["heads"]
        self.q, self.kv, self.proj = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)
        self.norm = nn.LayerNorm(d, eps=model["norm_eps"])
        self.mlp = MLP(d, model["mlp"], model["gelu"])

    def forward(self, x):
        B, T, d = x.shape
        k, v = self.kv(x).reshape(B, T, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        q = self.q(self.latent).expand(B, 1, d).reshape(B, 1, self.heads, -1).transpose(1, 2)
        x = self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, d))
        return x + self.mlp(self.norm(x))


def sincos2d(side, d):
    row, column = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    omega = 10000 ** (-torch.arange(d // 4) / (d // 4 - 1))
    x, y = column.reshape(-1, 1) * omega, row.reshape(-1, 1) * omega
    return torch.cat([x.sin(), x.cos(), y.sin(), y.cos()], 1)


class VisionTransformer(nn.Module):
    """From the sections data and model of a resolved spec; moe_blocks are the blocks that have experts."""

    def __init__(self, data, model, classes, moe_blocks):
        super().__init__()
        d, p, side = model["width"], model["patch_size"], data["image_size"] // model["patch_size"]
        T, self.head_kind = side * side + (model["head"] == "token"), model["head"]
        self.patch_embed = nn.Module()
        self.patch_embed.proj = nn.Conv2d(data["channels"], d, p, stride=p)
        if model["head"] == "token":
            self.cls_token = nn.Parameter(torch.zeros(1, 1, d))
        self.pos_embed = nn.Parameter(torch.randn(1, T, d) / math.sqrt(d)) if model["position"] == "learned" else None
        self.grid = sincos2d(side, d) if model["position"] == "sincos2d" else None
        layer = lambda i: moe_blocks.index(i) if i in moe_blocks else None
        self.blocks = nn.ModuleList(Block(model, T, layer(i)) for i in range(model["depth"]))
        last = nn.LayerNorm(d, eps=model["norm_eps"])
        self.norm, self.fc_norm = (None, last) if model["head"] == "gap-norm" else (last, None)
        self.attn_pool = Pool(model) if model["head"] == "map" else None
        self.head = nn.Linear(d, classes)

    def features(self, pixels):
        x = self.patch_embed.proj(pixels).flatten(2).mT
        if self.grid is not None:
            x = x + self.grid.to(x)
        if self.head_kind == "token":
            x = torch.cat([self.cls_token.expand(len(x), 1, -1), x], 1)
        if self.pos_embed is not None:
            x = x + self.pos_embed
        for block in self.blocks:
            x = block(x)
        if self.head_kind == "gap-norm":
            return self.fc_norm(x.mean(1))
        x = self.norm(x)
        return x[:, 0] if self.head_kind == "token" else x.mean(1) if self.head_kind == "gap" else self.attn_pool(x)

    def forward(self, pixels):
        return self.head(self.features(pixels))


def load(path):
    """The model of a file, with its weights."""
    tensors, meta = read(path)
    if "smoe.spec" not in meta:
        raise ValueError(f"{path}: has no spec; smoe writes it into its files")
    spec = json.loads(meta["smoe.spec"])
    model, moe = spec["model"], spec["model"]["moe"]
    blocks = [i for i in range(model["depth"]) if f"blocks.{i}.mlp.experts.fc1.weight" in tensors]
    beyond = [key for key in ("shared_experts", "universal_experts") if blocks and moe[key]]
    beyond += [key for key in ("registers",) if model[key]] + [key for key in ("pre_norm",) if model[key]]
    if blocks and moe["router"] not in ROUTERS:
        beyond.append(f"router {moe['router']}")
    if blocks and moe["router"] == "tokens-choice" and moe["priority"] not in ("vanilla", "bpr", "bpr-sum"):
        beyond.append(f"priority {moe['priority']}")
    plain = {"capacity_rounding": "round", "capacity_multiple_of": 1, "mix_precision": "f32"}
    beyond += [f"{key}: {moe[key]}" for key in plain if blocks and moe[key] != plain[key]]
    beyond += ["qk_norm_form: vmoe"] if model["qk_norm"] and model["qk_norm_form"] == "vmoe" else []
    beyond += ["balance: bias"] if blocks and any(name.endswith("router.bias") for name in tensors) else []
    if "head.weight" not in tensors:
        beyond.append("a text tower")
    if beyond:
        raise ValueError(f"{path}: this module does not have {', '.join(beyond)}")
    out = VisionTransformer(spec["data"], model, len(tensors["head.weight"]), blocks)
    out.load_state_dict(tensors)
    return out.eval()


if __name__ == "__main__":
    import numpy

    if len(sys.argv) != 4:
        sys.exit("usage: soft_moe.py CHECKPOINT PIXELS.npy LOGITS.npy")
    with torch.no_grad():
        numpy.save(sys.argv[3], load(sys.argv[1])(torch.from_numpy(numpy.load(sys.argv[2])).float()).numpy())
