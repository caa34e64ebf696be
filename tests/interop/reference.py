"""A second implementation of smoe's models, in PyTorch and double precision, with the equations of smoe-routers(7) and autograd.

    reference.py > expected.def      logits and losses of every case, with which tests/vit/test_interop.c compares smoe

Needs PyTorch; if timm is installed, the dense cases are compared with its VisionTransformer as well. Weights and
pixels are formulas (below, and again in test_interop.c), so the two share only numbers.
"""
import math
import sys
import textwrap

try:
    import torch
except ImportError:
    sys.exit("reference.py: needs PyTorch: python3 -m pip install torch")
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)

IMAGES, STEPS, LABELS = 4, 4, [0, 3, 1, 4]
BASE = {"width": 8, "depth": 2, "mlp": 6, "heads": 2, "patch_size": 4, "head": "gap", "position": "learned",
        "registers": 0, "pre_norm": "false", "norm_eps": 1e-6, "gelu": "erf", "qk_norm": "false", "layers": "last-1", "router": "soft", "experts": 3, "slots_per_expert": 0,
        "total_slots": 0, "group_images": 1, "normalize": "true", "l2_eps": "paper", "k": 1, "capacity": 1.0,
        "priority": "bpr", "skip_patch": 1.0, "noise": 1.0, "aux_weight": 0.01, "loss": "softmax", "name": "adam",
        "shared_experts": 0, "expert_mlp": 0, "universal_experts": 0, "universal_mlp": 0,
        "gate": "softmax", "renormalize": "false", "balance": "loss", "z_weight": 0.0, "transport_steps": 20,
        "temperature_init": 0.5, "combine": "softmax", "l1_init": 1e-8}
SIZE, CLASSES, RATE, MOMENTUM, DECAY, HEAD_DECAY, CLIP = 8, 5, 0.01, 0.9, 0.03, 3.0, 1.0
BETA1, BETA2, EPS = 0.9, 0.999, 1e-3

CHOICE = "model.patch_size=2 model.moe.noise=0 model.moe.aux_weight=0.5 "
TOKENS = CHOICE + "model.moe.router=tokens-choice "
EXPERTS = CHOICE + "model.moe.router=experts-choice "
CASES = [
    "model.moe.layers=none",
    "model.moe.layers=none model.head=token model.gelu=tanh train.loss=sigmoid",
    "model.moe.layers=none model.head=map model.qk_norm=true",
    "model.moe.layers=none model.head=token model.position=sincos2d model.qk_norm=true",
    "model.moe.layers=none model.patch_size=2 train.optimizer.name=sgd",
    "model.head=token model.registers=2 model.pre_norm=true model.norm_eps=0.01 model.moe.slots_per_expert=2",
    "model.moe.layers=none model.head=gap-norm model.registers=1 model.position=none",
    "model.moe.layers=none model.head=map model.registers=1 model.pre_norm=true model.qk_norm=true",
    "model.moe.layers=none model.head=gap model.registers=3",
    "model.moe.slots_per_expert=1 model.patch_size=2",
    "model.moe.slots_per_expert=3 model.moe.l2_eps=vmoe train.optimizer.name=sgd",
    "model.moe.total_slots=6 model.moe.normalize=false model.head=token",
    "model.moe.slots_per_expert=2 model.moe.layers=every-1 model.patch_size=2 train.loss=sigmoid",
    "model.moe.router=soft-uniform model.moe.slots_per_expert=2",
    "model.moe.router=uniform-soft model.moe.slots_per_expert=2",
    "model.moe.router=uniform model.moe.slots_per_expert=2",
    "model.moe.router=identity model.moe.slots_per_expert=2",
    TOKENS + "model.moe.k=1 model.moe.priority=vanilla",
    TOKENS + "model.moe.k=1 model.moe.group_images=4 model.moe.capacity=0.5",
    TOKENS + "model.moe.k=2 model.moe.group_images=2 model.moe.capacity=0.6 train.optimizer.name=sgd",
    TOKENS + "model.moe.k=2 model.moe.priority=bpr-sum model.moe.skip_patch=0.7",
    TOKENS + "model.moe.k=3 model.moe.priority=vanilla model.moe.skip_patch=0.4 model.moe.group_images=2",
    EXPERTS + "model.moe.capacity=0.7",
    EXPERTS + "model.moe.capacity=2 model.moe.group_images=4 train.loss=sigmoid",
    TOKENS + "model.moe.k=2 model.moe.gate=sigmoid model.moe.group_images=2 model.moe.z_weight=0.1",
    TOKENS + "model.moe.k=2 model.moe.gate=sigmoid model.moe.renormalize=true model.moe.balance=bias",
    TOKENS + "model.moe.k=2 model.moe.renormalize=true model.moe.balance=none model.moe.capacity=0.6",
    CHOICE + "model.moe.router=images-choice model.moe.k=2 model.moe.group_images=4 model.moe.capacity=0.6",
    CHOICE + "model.moe.router=images-choice model.moe.group_images=2 model.moe.gate=sigmoid",
    "model.patch_size=2 model.moe.router=remoe model.moe.k=2",
    "model.patch_size=2 model.moe.router=remoe model.moe.balance=none train.optimizer.name=sgd",
    CHOICE + "model.moe.router=experts-choice-sinkhorn model.moe.group_images=2 model.moe.capacity=0.8",
    CHOICE + "model.moe.router=experts-choice-sparse model.moe.group_images=2 model.moe.z_weight=0.1",
    "model.moe.router=soft-temperatures model.moe.slots_per_expert=2 model.patch_size=2",
    "model.moe.router=hash model.moe.experts=1 model.moe.slots_per_expert=4",
    EXPERTS + "model.moe.shared_experts=2 model.moe.expert_mlp=5",
    EXPERTS + "model.moe.renormalize=true model.moe.capacity=1.4 model.moe.group_images=2",
    CHOICE + "model.moe.router=experts-choice-sparse model.moe.renormalize=true model.moe.capacity=1.7",
    "model.moe.router=soft-temperatures model.moe.combine=entmax model.moe.slots_per_expert=2 model.patch_size=2",
    "model.moe.slots_per_expert=2 model.moe.universal_experts=1 model.moe.universal_mlp=9 model.moe.shared_experts=1",
]


def case_spec(keys):
    spec = dict(BASE)
    for key in keys.split():
        name, value = key.split("=")
        leaf = name.rsplit(".", 1)[-1]
        spec[leaf] = type(BASE[leaf])(value)
    return spec


# ---- weights and pixels

def shapes(spec):
    d, h, E, dh = spec["width"], spec["mlp"], spec["experts"], spec["width"] // spec["heads"]
    T, p = (SIZE // spec["patch_size"]) ** 2, spec["patch_size"]
    norm = lambda name, n: [(name + ".weight", [n]), (name + ".bias", [n])]
    linear = lambda name, n, m: [(name + ".weight", [n, m]), (name + ".bias", [n])]
    rows = [("patch_embed.proj.weight", [d, 1, p, p]), ("patch_embed.proj.bias", [d])]
    token = spec["head"] == "token"
    T += token
    rows += [("cls_token", [1, 1, d])] if token else []
    rows += [("reg_token", [1, spec["registers"], d])] if spec["registers"] else []
    rows += [("pos_embed", [1, T, d])] if spec["position"] == "learned" else []
    rows += norm("norm_pre", d) if spec["pre_norm"] == "true" else []
    sparse = {"none": [], "last-1": [spec["depth"] - 1], "every-1": range(spec["depth"])}[spec["layers"]]
    P = spec["total_slots"] // E or spec["slots_per_expert"]
    for i in range(spec["depth"]):
        b = f"blocks.{i}."
        rows += norm(b + "norm1", d) + linear(b + "attn.qkv", 3 * d, d) + linear(b + "attn.proj", d, d)
        rows += norm(b + "attn.q_norm", dh) + norm(b + "attn.k_norm", dh) if spec["qk_norm"] == "true" else []
        rows += norm(b + "norm2", d)
        m = b + "mlp."
        if i not in sparse:
            rows += linear(m + "fc1", h, d) + linear(m + "fc2", d, h)
            continue
        if "choice" in spec["router"] or spec["router"] == "remoe":
            rows += [(m + "router.weight", [E, d])]
            rows += [(m + "router.bias", [E])] if spec["balance"] == "bias" else []
            rows += [(m + "router.l1", [])] if spec["router"] == "remoe" else []
        elif spec["router"] == "soft-temperatures":
            rows += [(m + "router.phi", [d, E, P])]
            rows += [(m + f"router.log_{side}_temperature", []) for side in ("dispatch", "combine")]
        elif "soft" in spec["router"]:
            rows += [(m + "router.phi", [d, E, P])]
            rows += [(m + "router.scale", [])] if spec["normalize"] == "true" else []
        he, U = spec["expert_mlp"] or h, spec["universal_experts"]
        stack = lambda name, n, h: [(name + ".fc1.weight", [n, h, d]), (name + ".fc1.bias", [n, h]),
                                    (name + ".fc2.weight", [n, d, h]), (name + ".fc2.bias", [n, d])]
        rows += stack(m + "experts", E - U, he)
        rows += stack(m + "universal", U, spec["universal_mlp"] or he) if U else []
        hs = spec["shared_experts"] * he
        rows += linear(m + "shared.fc1", hs, d) + linear(m + "shared.fc2", d, hs) if hs else []
    rows += norm("fc_norm" if spec["head"] == "gap-norm" else "norm", d) + linear("head", CLASSES, d)
    if spec["head"] == "map":
        a = "attn_pool."
        rows += [(a + "latent", [1, 1, d])] + linear(a + "q", d, d) + linear(a + "kv", 2 * d, d)
        rows += linear(a + "proj", d, d) + norm(a + "norm", d) + linear(a + "mlp.fc1", h, d) + linear(a + "mlp.fc2", d, h)
    return dict(rows)


def weights(spec):
    """Element i of a tensor: ((3 i^2 + 7 i + sum of the name's bytes) mod 251 - 125)/n, exact in single precision;
    n is 128 for kernels and 512 for the rest; weights of norms are larger by 1, the scale of a router by 4."""
    out = {}
    for name, shape in shapes(spec).items():
        i = torch.arange(math.prod(shape))
        v = ((3 * i * i + 7 * i + sum(name.encode())) % 251 - 125).double()
        kernel = name.endswith((".weight", ".phi")) and "norm" not in name
        v = v / (128 if kernel else 512)
        v += 4 if name.endswith(".scale") else "norm" in name and name.endswith(".weight")
        out[name] = v.reshape(shape).requires_grad_()
    return out


def pixels():
    i = torch.arange(IMAGES * SIZE * SIZE)
    return (((5 * i * i + 11 * i + i // 64 * 77) % 256).double() / 127.5 - 1).reshape(IMAGES, 1, SIZE, SIZE)


# ---- the model

def norm(x, w, name, spec):
    return F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], spec["norm_eps"])


def linear(x, w, name):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def mlp(x, w, name, spec, expert=None):
    core = spec["experts"] - spec["universal_experts"]

    def at(n):
        if expert is None:
            return w[name + n]
        return w[name + "experts." + n][expert] if expert < core else w[name + "universal." + n][expert - core]
    gelu = F.gelu(x @ at("fc1.weight").T + at("fc1.bias"), approximate="tanh" if spec["gelu"] == "tanh" else "none")
    return gelu @ at("fc2.weight").T + at("fc2.bias")


def positions(side, d):
    row, column = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    omega = 10000 ** (-torch.arange(d // 4) / (d // 4 - 1))
    x, y = column.reshape(-1, 1) * omega, row.reshape(-1, 1) * omega
    return torch.cat([x.sin(), x.cos(), y.sin(), y.cos()], 1)


def attend(q, k, v, H):
    split = lambda x: x.unflatten(-1, (H, -1)).transpose(-2, -3)
    q, k, v = split(q), split(k), split(v)
    return (torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v).transpose(-2, -3).flatten(-2)


def attention(x, w, name, spec):
    q, k, v = linear(x, w, name + "qkv").chunk(3, -1)
    if spec["qk_norm"] == "true":
        heads = lambda x: x.unflatten(-1, (spec["heads"], -1))
        q = norm(heads(q), w, name + "q_norm", spec).flatten(-2)
        k = norm(heads(k), w, name + "k_norm", spec).flatten(-2)
    return linear(attend(q, k, v, spec["heads"]), w, name + "proj")


def soft(X, w, name, spec):
    """Soft MoE, algorithm 2, for one image [T,d], and its ablations."""
    T, E = X.shape[0], spec["experts"]
    P = spec["total_slots"] // E or spec["slots_per_expert"]
    logits = torch.zeros(T, E * P)
    if "soft" in spec["router"]:
        phi = w[name + "router.phi"].flatten(1)
        two = spec["router"] == "soft-temperatures"
        if spec["normalize"] == "true" or two:
            if spec["l2_eps"] == "paper":
                unit = lambda v, axis: v / (v.norm(dim=axis, keepdim=True) + 1e-6)
            else:
                unit = lambda v, axis: v * torch.rsqrt((v * v).sum(axis, keepdim=True) + 1e-6)
            logits = unit(X, 1) @ unit(phi, 0)
            logits = logits if two else w[name + "router.scale"] * logits
        else:
            logits = X @ phi
    if spec["router"] == "soft-temperatures":
        D = torch.softmax(logits / w[name + "router.log_dispatch_temperature"].exp(), 0)
        normalise = entmax if spec["combine"] == "entmax" else lambda x: torch.softmax(x, 1)
        C = normalise(logits / w[name + "router.log_combine_temperature"].exp())
    else:
        D, C = torch.softmax(logits, 0), torch.softmax(logits, 1)
    if spec["router"].startswith("uniform"):
        D = torch.full_like(D, 1 / T)
    if spec["router"].endswith("uniform"):
        C = torch.full_like(C, 1 / (E * P))
    return C @ torch.cat([mlp(x, w, name, spec, e) for e, x in enumerate((D.T @ X).split(P))])


def entmax(z):
    """1.5-entmax of each row, by sorting (algorithm 2 of arXiv 1905.05702)."""
    x, k = (z / 2).sort(1, descending=True).values, torch.arange(1, z.shape[1] + 1)
    mean, square = x.cumsum(1) / k, (x * x).cumsum(1) / k
    tau = mean - ((1 - k * (square - mean * mean)) / k).clamp(min=1e-300).sqrt()
    last = (tau <= x).sum(1, keepdim=True) - 1
    return torch.relu(z / 2 - tau.gather(1, last)) ** 2


def sinkhorn(z, steps):
    """Logarithm of the plan's row factors, up to a term that is the same for all experts."""
    n, E = z.shape
    u, v = torch.zeros(n, 1), torch.zeros(1, E)
    for _ in range(steps):
        v = math.log(n / E) - torch.logsumexp(z + u, 0, keepdim=True)
        u = -torch.logsumexp(z + v, 1, keepdim=True)
    return z + u


def sparse(z, k, steps):
    n, E = z.shape
    price = torch.zeros(n, 1)
    for step in range(steps):
        plan = torch.zeros(n, E)
        for e in range(E):
            x, at = (z[:, e] - price[:, 0]).topk(min(k, n))
            tau = (x.cumsum(0) - n / E) / torch.arange(1, len(x) + 1)
            plan[at, e] = (x - tau[(x > tau).nonzero().max()]).clamp(min=0)
        price = price + (plan.sum(1, keepdim=True) - 1) / 2
    return plan


def choose(score, g, spec):
    """From a group's scores and g [tokens, E]: the placed (token, expert) pairs, and the K choices."""
    n, E = g.shape
    if spec["router"].startswith("experts-choice"):
        room = min(n, max(1, round(n * spec["capacity"] / E)))
        if spec["router"].endswith("sinkhorn"):
            score = sinkhorn(score, spec["transport_steps"])
        if spec["router"].endswith("sparse"):
            return sparse(score, room, spec["transport_steps"]).nonzero().tolist(), None
        by = score if spec["router"].endswith("sinkhorn") else g
        return [(t, e) for e in range(E) for t in by[:, e].argsort(descending=True, stable=True)[:room].tolist()], None
    K = spec["k"]
    order = score.argsort(dim=1, descending=True, stable=True)[:, :K]
    return None, order


def place(order, g, spec):
    (n, K), E = order.shape, g.shape[1]
    room = max(1, round(K * n * spec["capacity"] / E))
    top = g.gather(1, order)
    score = top.sum(1) if spec["priority"] == "bpr-sum" else top[:, 0]
    turn = score.argsort(descending=True, stable=True)[: round(spec["skip_patch"] * n)].tolist()
    if spec["priority"] == "vanilla":
        turn.sort()
    placed, used = [], [0] * E
    for k in range(K):
        for t in turn:
            e = int(order[t, k])
            if used[e] < room:
                placed.append((t, e))
                used[e] += 1
    return placed


def choice(X, w, name, spec):
    """A choice router on one group [images, T, d], without noise: the output [tokens, d], aux and z-loss."""
    whole = spec["router"] == "images-choice"
    tokens = X.flatten(0, 1)
    z = (X.mean(1) if whole else tokens) @ w[name + "router.weight"].T
    sigmoid = spec["gate"] == "sigmoid"
    g = torch.sigmoid(z) if sigmoid else torch.softmax(z, 1)
    share = g / g.sum(1, keepdim=True)
    experts = spec["router"].startswith("experts-choice")
    score = z + 0 if experts else g + w[name + "router.bias"] if spec["balance"] == "bias" else z
    placed, order = choose(score.detach(), g.detach(), spec)
    if order is not None and spec["renormalize"] == "true":
        mask = torch.zeros_like(g).scatter(1, order, 1)
        g = g * mask / (g * mask).sum(1, keepdim=True)
    if experts and spec["renormalize"] == "true":
        mask = torch.zeros_like(g)
        for t, e in placed:
            mask[t, e] = 1
        g = g * mask / (g * mask).sum(1, keepdim=True).clamp(min=1e-300)  # a dropped token has none
    placed = place(order, g.detach(), spec) if placed is None else placed
    y, unit = [torch.zeros(X.shape[2]) for _ in tokens], X.shape[1] if whole else 1
    for u, e in placed:
        for t in range(u * unit, (u + 1) * unit):
            y[t] = y[t] + g[u, e] * mlp(tokens[t], w, name, spec, e)
    importance = share.sum(0)
    aux = importance.var(unbiased=False) / importance.mean() ** 2 / 2
    return torch.stack(y), 0 * aux if experts or spec["balance"] != "loss" else aux, z.logsumexp(1).square().mean()


def remoe(X, w, name, spec):
    """For one image [T, d]: the output and the L1 term times lambda."""
    (T, d), E = X.shape, spec["experts"]
    g = torch.relu(X @ w[name + "router.weight"].T)
    f = E / (spec["k"] * T) * (g > 0).sum(0) if spec["balance"] == "loss" else torch.ones(E)
    y = sum(g[:, e:e + 1] * mlp(X, w, name, spec, e) for e in range(E))
    return y, w[name + "router.l1"].detach() * (f * g).sum() / T


def mixture(x, w, name, spec):
    """[B,T,d] through a MoE layer with its shared experts: the output and what is added to the loss."""
    y, aux = routed(x, w, name, spec)
    return y + mlp(x, w, name + "shared.", spec) if spec["shared_experts"] else y, aux


def routed(x, w, name, spec):
    B, T, _ = x.shape
    if spec["router"] in ("identity", "hash"):
        return torch.stack([mlp(x[:, t], w, name, spec, t % spec["experts"]) for t in range(T)], 1), 0
    if spec["router"] == "remoe":
        images = [remoe(image, w, name, spec) for image in x]
        return torch.stack([y for y, _ in images]), sum(l1 for _, l1 in images) / B
    if "choice" not in spec["router"]:
        return torch.stack([soft(image, w, name, spec) for image in x]), 0
    groups = [choice(group, w, name, spec) for group in x.split(spec["group_images"])]
    aux, z = (sum(group[i] for group in groups) / len(groups) for i in (1, 2))
    added = spec["aux_weight"] * aux + spec["z_weight"] * z
    return torch.cat([group[0] for group in groups]).reshape(x.shape), added


def forward(images, w, spec):
    """Logits [B,N] and what is added to the loss."""
    p, d, aux = spec["patch_size"], spec["width"], 0
    x = F.conv2d(images, w["patch_embed.proj.weight"], w["patch_embed.proj.bias"], stride=p).flatten(2).mT
    if spec["position"] == "sincos2d":
        x = x + positions(SIZE // p, d)
    if spec["head"] == "token":
        x = torch.cat([w["cls_token"].expand(len(x), 1, d), x], 1)
    if spec["position"] == "learned":
        x = x + w["pos_embed"]
    if spec["registers"]:
        at = int(spec["head"] == "token")
        x = torch.cat([x[:, :at], w["reg_token"].expand(len(x), -1, d), x[:, at:]], 1)
    if spec["pre_norm"] == "true":
        x = norm(x, w, "norm_pre", spec)
    for i in range(spec["depth"]):
        b = f"blocks.{i}."
        x = x + attention(norm(x, w, b + "norm1", spec), w, b + "attn.", spec)
        y, more = norm(x, w, b + "norm2", spec), 0
        if b + "mlp.fc1.weight" in w:
            y = mlp(y, w, b + "mlp.", spec)
        else:
            y, more = mixture(y, w, b + "mlp.", spec)
        x, aux = x + y, aux + more
    if spec["head"] != "gap-norm":
        x = norm(x, w, "norm", spec)
    if spec["head"] != "token":
        x = x[:, spec["registers"]:]
    if spec["head"] == "token":
        x = x[:, 0]
    elif spec["head"] == "gap":
        x = x.mean(1)
    elif spec["head"] == "gap-norm":
        x = norm(x.mean(1), w, "fc_norm", spec)
    else:
        k, v = linear(x, w, "attn_pool.kv").chunk(2, -1)
        q = linear(w["attn_pool.latent"], w, "attn_pool.q").expand(len(x), 1, d)
        x = linear(attend(q, k, v, spec["heads"])[:, 0], w, "attn_pool.proj")
        x = x + mlp(norm(x, w, "attn_pool.norm", spec), w, "attn_pool.mlp.", spec)
    return linear(x, w, "head"), aux


# ---- training

def decay(name):
    """Phi decays too: the spec of the test has a group for it."""
    if name == "head.weight":
        return HEAD_DECAY
    return DECAY if name.endswith((".weight", ".phi")) and "norm" not in name else 0


def train(images, w, spec):
    """The losses before each of STEPS updates."""
    labels, losses = torch.tensor(LABELS), []
    m, v = {k: 0 * x.detach() for k, x in w.items()}, {k: 0 * x.detach() for k, x in w.items()}
    for step in range(1, STEPS + 1):
        logits, aux = forward(images, w, spec)
        if spec["loss"] == "softmax":
            loss = F.cross_entropy(logits, labels)
        else:
            target = F.one_hot(labels, CLASSES).double()
            loss = F.binary_cross_entropy_with_logits(logits, target, reduction="sum") / len(labels)
        loss = loss + aux
        losses.append(loss.item())
        found = torch.autograd.grad(loss, list(w.values()), allow_unused=True)
        grads = {k: torch.zeros_like(x) if g is None else g for (k, x), g in zip(w.items(), found)}
        clip = min(1, CLIP / math.sqrt(sum(g.square().sum().item() for g in grads.values())))
        for name, x in w.items():
            if name.endswith(("router.bias", "router.l1")):
                continue  # states of routers
            g = clip * grads[name]
            if spec["name"] == "sgd":
                move = m[name] = MOMENTUM * m[name] + g
            else:
                m[name] = BETA1 * m[name] + (1 - BETA1) * g
                v[name] = BETA2 * v[name] + (1 - BETA2) * g * g
                move = m[name] / (1 - BETA1**step) / ((v[name] / (1 - BETA2**step)).sqrt() + EPS)
            x.data -= RATE * (move + decay(name) * x.data)
    return losses


def agrees_with_timm(images, w, spec, logits):
    try:
        from timm.models.vision_transformer import VisionTransformer
    except ImportError:
        return
    if spec["layers"] != "none" or spec["position"] == "sincos2d" or spec["pre_norm"] == "true":
        return  # with pre_norm timm's patch embedding has no bias
    approximate = "tanh" if spec["gelu"] == "tanh" else "none"
    model = VisionTransformer(
        img_size=SIZE, patch_size=spec["patch_size"], in_chans=1, num_classes=CLASSES, embed_dim=spec["width"],
        depth=spec["depth"], num_heads=spec["heads"], mlp_ratio=spec["mlp"] / spec["width"],
        qk_norm=spec["qk_norm"] == "true", class_token=spec["head"] == "token",
        fc_norm=spec["head"] == "gap-norm",
        pos_embed="none" if spec["position"] == "none" else "learn",
        global_pool={"gap": "avg", "gap-norm": "avg"}.get(spec["head"], spec["head"]), reg_tokens=spec["registers"],
        no_embed_class=spec["head"] != "token",
        act_layer=lambda: torch.nn.GELU(approximate=approximate)).eval()
    model.load_state_dict({k: x.detach() for k, x in w.items()})
    off = (model(images) - logits).abs().max().item()
    if not off < 1e-12:
        sys.exit(f"timm's logits differ by {off:g}")


def row(numbers):
    return ", ".join(f"{x:.9g}" for x in numbers)


print("/* Written by tests/interop/reference.py. CASE(overrides of models_base, logits [images, classes],\n"
      " * losses before each step): see tests/vit/test_interop.c. */")
for keys in CASES:
    spec, images = case_spec(keys), pixels()
    w = weights(spec)
    with torch.no_grad():
        logits, _ = forward(images, w, spec)
        agrees_with_timm(images, w, spec, logits)
    rows = ",\n      ".join(row(image.tolist()) for image in logits)
    text = ' "\n     "'.join(textwrap.wrap(keys, 90, break_on_hyphens=False))
    print(f'CASE("{text}",\n     ({rows}),\n     ({row(train(images, w, spec))}))')
