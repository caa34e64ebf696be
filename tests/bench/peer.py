#!/usr/bin/env python3
"""Times other programs on smoe's benchmark models, alternating with smoe, and prints how they compare.

    tests/bench/peer.py                              all cases, every peer that can be imported
    tests/bench/peer.py tiny-dense tiny-soft64       some cases
    tests/bench/peer.py --peers torch --turns 5 --rounds 10 --threads 2
    tests/bench/peer.py --precision bf16             smoe in BF16, every peer in BF16 and in single precision
    tests/bench/peer.py --isa v3 --into runs/peers   every program with AVX2; rows for performance.csv and .md
    make bench-peers                                 the tables of experiments/performance.md: an hour on an idle machine

Optional: nothing else here needs it, and make check never runs it. It needs Python 3.9 and the peers to be timed:
    torch      PyTorch, eager            pip install torch   (or Debian's python3-torch)
    compile    PyTorch, torch.compile    version 2, and a C++ compiler
    jax        JAX, jit                  pip install jax
A peer that is not installed is left out, with a message. s16-soft128 takes 16 GB of memory; only one process runs at a time.

Every case is the model of experiments/bench/CASE.yaml: same shapes, batch, threads, cross-entropy and Adam; the numbers
of parameters are compared. A peer uses its fast paths: fused attention, batched experts, fused Adam. Only smoe has weight
decay and clipping by the global norm. Weights and moments are always in single precision. BF16 is what users of a peer
write: torch.autocast for PyTorch, weights and activations cast for JAX, with the statistics of LayerNorm and the loss in
single precision.
smoe bench and the peers alternate, each in a process of its own, so that noise of the machine affects all of them. A turn
is one such process: it warms up and then times several rounds. The results are the minimum over all turns and the median
of the turns' medians. A ratio above 1 says how many times faster smoe is.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CASES = {  # image, patch, width, depth, MLP, heads, classes, batch, number of MoE blocks (the last ones), number of experts with one slot each
    "s16-dense": dict(image=224, patch=16, d=384, L=12, h=1536, H=6, N=1000, B=8, moe=0, E=0),
    "s16-soft128": dict(image=224, patch=16, d=384, L=12, h=1536, H=6, N=1000, B=8, moe=6, E=128),
    "tiny-dense": dict(image=32, patch=4, d=192, L=6, h=768, H=3, N=10, B=64, moe=0, E=0),
    "tiny-soft64": dict(image=32, patch=4, d=192, L=6, h=768, H=3, N=10, B=64, moe=3, E=64),
    "small-32": dict(image=32, patch=8, d=32, L=4, h=128, H=2, N=10, B=64, moe=2, E=16),
    "small-32-experts128": dict(image=32, patch=8, d=32, L=4, h=128, H=2, N=10, B=64, moe=2, E=128),
    "small-64": dict(image=32, patch=4, d=64, L=4, h=256, H=2, N=10, B=64, moe=2, E=16),
    "small-96": dict(image=32, patch=8, d=96, L=4, h=384, H=3, N=10, B=64, moe=2, E=16),
}


def timed(run, rounds, warmup=2):
    """run() must return only when its work is done."""
    for _ in range(warmup):
        run()
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return {"min": min(seconds), "median": statistics.median(seconds)}


# ---- PyTorch

def torch_model(case):
    import torch
    import torch.nn.functional as F
    from torch import nn

    d, h, H, E = case["d"], case["h"], case["H"], case["E"]

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)

        def forward(self, x):
            B, T, _ = x.shape
            q, k, v = self.qkv(x).view(B, T, 3, H, d // H).permute(2, 0, 3, 1, 4)
            if hasattr(F, "scaled_dot_product_attention"):
                y = F.scaled_dot_product_attention(q, k, v)
            else:
                y = torch.softmax(q @ k.transpose(-1, -2) * (d // H) ** -0.5, -1) @ v
            return self.proj(y.transpose(1, 2).reshape(B, T, d))

    class Soft(nn.Module):
        def __init__(self):
            super().__init__()
            self.phi, self.scale = nn.Parameter(torch.randn(d, E) / d**0.5), nn.Parameter(torch.ones(()))
            self.w1, self.b1 = nn.Parameter(torch.randn(E, d, h) / d**0.5), nn.Parameter(torch.zeros(E, 1, h))
            self.w2, self.b2 = nn.Parameter(torch.randn(E, h, d) / h**0.5), nn.Parameter(torch.zeros(E, 1, d))

        def forward(self, x):
            phi = self.scale * self.phi / (self.phi.norm(dim=0, keepdim=True) + 1e-6)
            logits = (x / (x.norm(dim=2, keepdim=True) + 1e-6)) @ phi
            slots = torch.softmax(logits, 1).transpose(1, 2) @ x
            y = F.gelu(torch.baddbmm(self.b1, slots.transpose(0, 1), self.w1))
            y = torch.baddbmm(self.b2, y, self.w2)
            return torch.softmax(logits, 2) @ y.transpose(0, 1)

    class Block(nn.Module):
        def __init__(self, sparse):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(d, eps=1e-6), nn.LayerNorm(d, eps=1e-6)
            self.attention = Attention()
            self.mlp = Soft() if sparse else nn.Sequential(nn.Linear(d, h), nn.GELU(), nn.Linear(h, d))

        def forward(self, x):
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, d, case["patch"], case["patch"])
            self.position = nn.Parameter(0.02 * torch.randn(1, (case["image"] // case["patch"]) ** 2, d))
            self.blocks = nn.Sequential(*[Block(i >= case["L"] - case["moe"]) for i in range(case["L"])])
            self.norm, self.head = nn.LayerNorm(d, eps=1e-6), nn.Linear(d, case["N"])

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose(1, 2) + self.position
            return self.head(self.norm(self.blocks(x)).mean(1))

    return Model()


def torch_adam(parameters):
    import torch

    try:
        return torch.optim.Adam(parameters, lr=1e-3, fused=True)
    except (TypeError, RuntimeError):  # versions without it for CPUs
        return torch.optim.Adam(parameters, lr=1e-3, foreach=True)


def time_torch(case, rounds, threads, precision, compiled):
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = torch_model(case)
    x = torch.rand(case["B"], 3, case["image"], case["image"]) * 2 - 1
    labels = torch.randint(case["N"], (case["B"],))
    if compiled and os.environ.get("ATEN_CPU_CAPABILITY") == "avx2":
        torch._inductor.config.cpp.simdlen = 256
    forward = torch.compile(model) if compiled else model
    cast = lambda: torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16")
    no_gradient = getattr(torch, "inference_mode", torch.no_grad)

    def infer():
        with no_gradient(), cast():
            forward(x)

    out = {"version": torch.__version__, "params": sum(p.numel() for p in model.parameters())}
    out["infer_s"] = timed(infer, rounds)
    adam = torch_adam(list(model.parameters()))

    def step():
        adam.zero_grad(set_to_none=True)
        with cast():
            loss = F.cross_entropy(forward(x), labels)
        loss.backward()
        adam.step()

    out["train_s"] = timed(step, rounds)
    return out


# ---- JAX

def jax_weights(case, key):
    import jax
    import jax.numpy as jnp

    d, h, E, p = case["d"], case["h"], case["E"], case["patch"]
    keys = iter(jax.random.split(key, 1000))
    normal = lambda *shape: jax.random.normal(next(keys), shape) / shape[-2] ** 0.5
    norm = lambda: (jnp.ones(d), jnp.zeros(d))
    w = {"patches": (normal(3 * p * p, d), jnp.zeros(d)), "norm": norm(), "head": (normal(d, case["N"]), jnp.zeros(case["N"])),
         "position": normal((case["image"] // p) ** 2, d), "blocks": []}
    for i in range(case["L"]):
        block = {"norm1": norm(), "norm2": norm(), "qkv": (normal(d, 3 * d), jnp.zeros(3 * d)), "proj": (normal(d, d), jnp.zeros(d))}
        if i >= case["L"] - case["moe"]:
            block |= {"phi": normal(d, E), "scale": jnp.ones(()), "fc1": (normal(E, d, h), jnp.zeros((E, 1, h))),
                      "fc2": (normal(E, h, d), jnp.zeros((E, 1, d)))}
        else:
            block |= {"fc1": (normal(d, h), jnp.zeros(h)), "fc2": (normal(h, d), jnp.zeros(d))}
        w["blocks"].append(block)
    return w


def jax_forward(w, x, case):
    import jax
    import jax.numpy as jnp

    d, H, p, side = case["d"], case["H"], case["patch"], case["image"] // case["patch"]
    linear = lambda x, wb: x @ wb[0] + wb[1]
    gelu = lambda x: jax.nn.gelu(x, approximate=False)
    unit = lambda x, axis: x / (jnp.linalg.norm(x, axis=axis, keepdims=True) + 1e-6)

    def norm(x, wb):
        y = x.astype(jnp.float32)
        y = y - y.mean(-1, keepdims=True)
        return (y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype) * wb[0] + wb[1]

    B = x.shape[0]
    x = x.reshape(B, 3, side, p, side, p).transpose(0, 2, 4, 1, 3, 5).reshape(B, side * side, -1)
    x = linear(x, w["patches"]) + w["position"]
    for b in w["blocks"]:
        q, k, v = linear(norm(x, b["norm1"]), b["qkv"]).reshape(B, -1, 3, H, d // H).transpose(2, 0, 3, 1, 4)
        a = jax.nn.softmax(q @ k.swapaxes(-1, -2) * (d // H) ** -0.5) @ v
        x = x + linear(a.swapaxes(1, 2).reshape(B, -1, d), b["proj"])
        y = norm(x, b["norm2"])
        if "phi" in b:
            logits = unit(y, 2) @ (b["scale"] * unit(b["phi"], 0))
            slots = jax.nn.softmax(logits, 1).swapaxes(1, 2) @ y
            slots = linear(gelu(linear(slots.swapaxes(0, 1), b["fc1"])), b["fc2"]).swapaxes(0, 1)
            x = x + jax.nn.softmax(logits, 2) @ slots
        else:
            x = x + linear(gelu(linear(y, b["fc1"])), b["fc2"])
    return linear(norm(x, w["norm"]).mean(1), w["head"])


def time_jax(case, rounds, threads, precision):
    # XLA sizes its pool by the processors it may run on.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp

    key = jax.random.PRNGKey(0)
    w = jax_weights(case, key)
    x = jax.random.uniform(key, (case["B"], 3, case["image"], case["image"]), minval=-1, maxval=1)
    labels = jax.random.randint(key, (case["B"],), 0, case["N"])

    def forward(w, x):
        if precision == "bf16":
            w, x = jax.tree_util.tree_map(lambda leaf: leaf.astype(jnp.bfloat16), (w, x))
        return jax_forward(w, x, case).astype(jnp.float32)

    def loss(w):
        logits = jax.nn.log_softmax(forward(w, x))
        return -jnp.take_along_axis(logits, labels[:, None], 1).mean()

    def step(state, t):
        w, m, v = state
        g = jax.grad(loss)(w)
        each = jax.tree_util.tree_map
        m = each(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = each(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        a, b = 1e-3 / (1 - 0.9**t), 1 / (1 - 0.999**t)
        return each(lambda w, m, v: w - a * m / (jnp.sqrt(v * b) + 1e-8), w, m, v), m, v

    out = {"version": jax.__version__, "params": sum(leaf.size for leaf in jax.tree_util.tree_leaves(w))}
    infer = jax.jit(forward)
    out["infer_s"] = timed(lambda: infer(w, x).block_until_ready(), rounds)
    zeros = lambda: jax.tree_util.tree_map(jnp.zeros_like, w)
    state, t = (w, zeros(), zeros()), 0
    del w, infer
    update = jax.jit(step, donate_argnums=0)

    def train():
        nonlocal state, t
        t += 1
        state = jax.block_until_ready(update(state, float(t)))

    out["train_s"] = timed(train, rounds)
    return out


PEERS = {
    "torch": lambda *args: time_torch(*args, False),
    "compile": lambda *args: time_torch(*args, True),
    "jax": time_jax,
}


# ---- alternating rounds

def run_json(command):
    """The last object that a command prints on stdout; or None and the reason why there is none."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["nothing said"]
        return None, f"exit status {done.returncode}: {said[-1]}"
    try:
        return json.loads(done.stdout[done.stdout.index("{"):]), None
    except ValueError:
        return None, "no JSON on its standard output"


def take_turns(name, args):
    """{program: [results]} for a case."""
    programs = {"smoe": [args.smoe, "bench", os.path.join(ROOT, "experiments", "bench", name + ".yaml"), "--json",
                         "--quiet", "--rounds", str(args.rounds), "--threads", str(args.threads),
                         "--classes", str(CASES[name]["N"]), "train.precision=" + args.precision]}
    for precision in dict.fromkeys([args.precision, "f32"]):
        for peer in args.peers:
            programs[f"{peer} {precision}"] = [
                sys.executable, os.path.abspath(__file__), "--worker", peer, "--rounds", str(args.rounds),
                "--threads", str(args.threads), "--precision", precision, name]
    results = {}
    for turn in range(args.turns):
        for program, command in list(programs.items()):
            print(f"{name}: turn {turn + 1} of {args.turns}: {program}", file=sys.stderr)
            result, fault = run_json(command)
            if result is None:
                print(f"{name}: {program}: left out: {fault}", file=sys.stderr)
                del programs[program]
                results.pop(program, None)
                if program == "smoe":
                    return {}
                continue
            results.setdefault(program, []).append(result)
    return results


def summary(turns, what):
    return min(t[what]["min"] for t in turns), statistics.median(t[what]["median"] for t in turns)


def report(name, results):
    ours = {what: summary(results["smoe"], what) for what in ("train_s", "infer_s")}
    for program, turns in results.items():
        if turns[0]["params"] != results["smoe"][0]["params"]:
            sys.exit(f"{name}: {program} has {turns[0]['params']:.0f} parameters, smoe {results['smoe'][0]['params']:.0f}")
        label = f"{program} {turns[0].get('version', '')}".strip()
        for what in ("train_s", "infer_s"):
            least, median = summary(turns, what)
            print(f"{name:12} {label:24} {what[:-2]:6} {least:9.4f} {median:9.4f}"
                  f" {least / ours[what][0]:9.2f} {median / ours[what][1]:9.2f}")
    sys.stdout.flush()


TITLES = {"smoe": "smoe", "torch": "PyTorch {} eager", "compile": "PyTorch {} compiled", "jax": "JAX {}"}
PROGRAMS = {"smoe": "smoe", "torch": "pytorch-{}-eager", "compile": "pytorch-{}-compiled", "jax": "jax-{}"}


def version_of(turns, digits):
    return ".".join(turns[0].get("version", "").split("+")[0].split(".")[:digits])


def write(folder, name, results, args):
    """Adds the results of a case to folder/peers.csv, as rows of performance.csv, and to folder/peers.md."""
    os.makedirs(folder, exist_ok=True)
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True).stdout.strip()
    isa = args.isa or "best"
    remark = f"{isa}; {args.threads} threads; {args.turns} alternating turns of {args.rounds} rounds"
    peers = [p for p in results if p != "smoe" and p.endswith(" " + args.precision)]
    ours = {what: summary(results["smoe"], what) for what in ("train_s", "infer_s")}
    with open(os.path.join(folder, "peers.csv"), "a") as out:
        for program in ["smoe"] + peers:
            key = program.split()[0]
            label = PROGRAMS[key].format(version_of(results[program], 3 if key == "jax" else 2))
            for what, measure in (("train_s", "train_step"), ("infer_s", "infer_batch")):
                least, median = summary(results[program], what)
                row = [args.machine, time.strftime("%Y-%m-%d"), commit, label, name, measure, "s", f"{least:.6f}", f"{median:.6f}", remark]
                print(",".join(row), file=out)
    path = os.path.join(folder, "peers.md")
    fresh = not os.path.exists(path)
    with open(path, "a") as out:
        if fresh:
            titles = [TITLES[p.split()[0]].format(version_of(results[p], 3 if p.startswith("jax") else 2)) for p in peers]
            print("Times of other programs over those of smoe, least (median).\n", file=out)
            print("| model | instructions | pass | smoe, ms | share | " + " | ".join(titles) + " |", file=out)
            print("|---" * (5 + len(titles)) + "|", file=out)
        for what, title in (("train_s", "training"), ("infer_s", "inference")):
            share = max(t["mfu_fma"][what[:-2]] for t in results["smoe"])
            cells = [name, isa, title, f"{1e3 * ours[what][0]:.2f} ({1e3 * ours[what][1]:.2f})", f"{100 * share:.0f}%"]
            for p in peers:
                least, median = summary(results[p], what)
                cells.append(f"{least / ours[what][0]:.2f} ({median / ours[what][1]:.2f})")
            print("| " + " | ".join(cells) + " |", file=out)


# What limits every program to the instruction set that SMOE_ISA names.
LIMITS = {"v3": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "XLA_FLAGS": "--xla_cpu_max_isa=AVX2"}, "v4": {}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help="of " + ", ".join(CASES) + " [all]")
    parser.add_argument("--peers", default=",".join(PEERS), help="comma-separated [%(default)s]")
    parser.add_argument("--turns", type=int, default=3, help="[%(default)s]")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds of a turn [%(default)s]")
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32", help="of smoe; peers also run in f32 [%(default)s]")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="[%(default)s]")
    parser.add_argument("--smoe", default=os.path.join(ROOT, "build", "smoe"), help="the program [build/smoe]")
    parser.add_argument("--isa", choices=LIMITS, help="the instruction set of all programs: v3 is AVX2, v4 AVX-512 [the best]")
    parser.add_argument("--into", metavar="FOLDER", help="add the results to peers.csv and peers.md there")
    parser.add_argument("--machine", default="here", help="its name in peers.csv [%(default)s]")
    parser.add_argument("--worker", choices=PEERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.peers = args.peers.split(",")
    unknown = [x for x in args.cases if x not in CASES] + [x for x in args.peers if x not in PEERS]
    if unknown:
        parser.error("unknown: " + ", ".join(unknown))
    if args.isa:
        os.environ.update(LIMITS[args.isa], SMOE_ISA=args.isa)
    if args.worker:
        print(json.dumps(PEERS[args.worker](CASES[args.cases[0]], args.rounds, args.threads, args.precision)))
        return
    print(f"{'case':12} {'program':24} {'pass':6} {'min s':>9} {'median s':>9} {'min/smoe':>9} {'med/smoe':>9}", flush=True)
    for name in args.cases or CASES:
        results = take_turns(name, args)
        if results:
            report(name, results)
        if results and args.into:
            write(args.into, name, results, args)


if __name__ == "__main__":
    main()
