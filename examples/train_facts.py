"""Trains a model of smoe on the task facts with PyTorch: an independent check of what smoe trains.

    smoe init experiments/facts-ablation.yaml start.safetensors model.moe.layers=last-2 seed=3
    train_facts.py start.safetensors 3           # prints: seed, test loss, precision@1

The file gives the model, its initial weights and the keys of data and train. The task (smoe-spec(5), data.facts), Adam, the schedule of the
rate, clipping and the loss are written here from the manual pages; the table of entities and classes, the images and their noise are drawn
here, others for each seed. Needs PyTorch and NumPy. Dense models and the soft family; distractors, augmentation and other optimisers are not here.
"""
import json
import os
import sys

import numpy
import torch
import torch.nn.functional as F

from soft_moe import load, read


class Facts:
    """Entities with codes and classes; an image shows one of them in a marked cell (smoe-spec(5), data.facts)."""

    def __init__(self, data, seed):
        keys, self.rng = data["facts"], numpy.random.default_rng(seed)
        if keys["distractors"]:
            sys.exit("distractors are not here")
        self.size, self.channels, self.noise = data["image_size"], data["channels"], keys["noise"]
        self.edge = int(numpy.ceil(numpy.sqrt(keys["cells"])))
        n, bits, side = keys["entities"], keys["bits"], self.size // self.edge
        codes = self.rng.choice(2 ** bits, n, replace=False)
        signs = 2.0 * ((codes[:, None] >> numpy.arange(bits)) & 1) - 1
        patterns = self.rng.standard_normal((bits, side, side, self.channels))
        marker = self.rng.standard_normal((side, side, self.channels))
        self.texture = 40 / numpy.sqrt(bits) * numpy.tensordot(signs, patterns, 1) + 20 * marker  # [n, side, side, channels]
        self.label = self.rng.permutation(n) % keys["classes"]
        p = (numpy.arange(1, n + 1) + keys["offset"]) ** -float(keys["exponent"])
        self.p, self.side, self.mean, self.std = p / p.sum(), side, data["mean"], data["std"]

    def draw(self, count):
        """Pixels [count, channels, size, size] as the model sees them, and labels."""
        entity = self.rng.choice(len(self.p), count, p=self.p)
        cell = self.rng.integers(self.edge * self.edge, size=count)
        image = 127.5 + self.noise * self.rng.standard_normal((count, self.size, self.size, self.channels))
        for i in range(count):
            y, x = cell[i] // self.edge * self.side, cell[i] % self.edge * self.side
            image[i, y : y + self.side, x : x + self.side] += self.texture[entity[i]]
        pixels = (numpy.clip(numpy.floor(image + 0.5), 0, 255) / 255 - self.mean) / self.std
        return torch.from_numpy(pixels).float().permute(0, 3, 1, 2).contiguous(), torch.from_numpy(self.label[entity])


def rate(t, n, keys):
    """The factor of the peak rate at update t of 1 .. n: rsqrt with a warm-up and a linear cooldown (smoe-model(7), Learning rate)."""
    W, c = keys["warmup"], keys["cooldown"]
    value = lambda t: t / W if t <= W else (1 + (t - W) / keys["timescale"]) ** -0.5
    return value(t) if t <= n - c else value(n - c) * (n - t + 1) / c


def train(model, spec, draw):
    """draw(count) gives pixels and labels; returns the loss before each update."""
    keys, adam, losses = spec["train"], spec["train"]["optimizer"], []
    if adam["name"] != "adam" or keys["schedule"]["name"] != "rsqrt" or keys["loss"] != "softmax":
        sys.exit("only adam, rsqrt and softmax are here")
    params = dict(model.named_parameters())
    # only kernels are decayed: not biases, norms, positions, phi and scales
    decay = {name: adam["head_weight_decay"] if name.startswith("head") else adam["weight_decay"] for name in params
             if name.endswith("weight") and "norm" not in name}
    m = {name: torch.zeros_like(w) for name, w in params.items()}
    v = {name: torch.zeros_like(w) for name, w in params.items()}
    b1, b2, n = adam["beta1"], adam["beta2"], keys["steps"]
    for t in range(1, n + 1):
        pixels, label = draw(keys["batch_size"])
        loss = F.cross_entropy(model(pixels), label)
        losses.append(loss.item())
        gradient = dict(zip(params, torch.autograd.grad(loss, list(params.values()))))
        norm = torch.sqrt(sum((g * g).sum() for g in gradient.values()))
        clip, r = min(1.0, adam["clip"] / float(norm)), adam["lr"] * rate(t, n, keys["schedule"])
        with torch.no_grad():
            for name, w in params.items():
                g = gradient[name] * clip
                m[name].mul_(b1).add_(g, alpha=1 - b1)
                v[name].mul_(b2).addcmul_(g, g, value=1 - b2)
                step = m[name] / (1 - b1 ** t) / (torch.sqrt(v[name] / (1 - b2 ** t)) + adam["eps"])
                w.sub_(r * (step + decay.get(name, 0.0) * w))
    return losses


@torch.no_grad()
def evaluate(model, facts, images):
    loss = right = 0
    for _ in range(images // 250):
        pixels, label = facts.draw(250)
        logits = model(pixels)
        loss += float(F.cross_entropy(logits, label, reduction="sum"))
        right += int((logits.argmax(1) == label).sum())
    return loss / images, right / images


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: train_facts.py START.safetensors SEED")
    torch.manual_seed(int(sys.argv[2]))
    torch.set_num_threads(int(os.environ.get("THREADS", "1")))
    spec = json.loads(read(sys.argv[1])[1]["smoe.spec"])
    model = load(sys.argv[1])
    facts = Facts(spec["data"], 1000 + int(sys.argv[2]))
    train(model, spec, facts.draw)
    loss, precision = evaluate(model, facts, spec["data"]["test_size"])
    print(f"{sys.argv[2]},{loss:.4f},{precision:.4f}")
