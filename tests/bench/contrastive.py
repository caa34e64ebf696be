#!/usr/bin/env python3
"""Times a contrastive training step of open_clip and of smoe on the same model, in turn, and prints how they compare.

    tests/bench/contrastive.py [--threads 2] [--turns 3] [--rounds 3] [--batch 64] [--compile]

Optional, as peer.py: it needs Python 3.9 with torch, timm and open_clip_torch. A step is forward, softmax contrastive loss, backward
and Adam, in single precision: an image tower of 6 blocks on 8 x 8 patches with a class token, a causal text tower of 6 blocks on
77 tokens, both of width 192. The numbers of parameters must be equal. Only smoe clips by the global norm and reads data. Each turn
is a process of its own; results are the minimum over all turns and the median of the turns' medians.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WIDTH, DEPTH, HEADS, CONTEXT, VOCABULARY, SIDE, PATCH = 192, 6, 3, 77, 258, 32, 4
SPEC = f"""name: contrastive
data: {{source: shapes, image_size: {SIDE}, limit: 256, test_size: 64}}
model: {{width: {WIDTH}, depth: {DEPTH}, mlp: {4 * WIDTH}, heads: {HEADS}, patch_size: {PATCH}, head: token, moe: {{layers: none}}}}
text: {{context: {CONTEXT}, embed: {WIDTH}}}
train: {{loss: contrastive, batch_size: %d}}
"""


def open_clip_step(args):
    import open_clip
    import torch
    from open_clip.model import CLIPTextCfg, CLIPVisionCfg, CustomTextCLIP
    from timm.models.vision_transformer import VisionTransformer

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = CustomTextCLIP(
        WIDTH,
        CLIPVisionCfg(timm_model_name="vit_tiny_patch16_224", timm_proj="linear", image_size=SIDE),
        CLIPTextCfg(context_length=CONTEXT, vocab_size=VOCABULARY, width=WIDTH, heads=HEADS, layers=DEPTH), output_dict=True)
    model.visual.trunk = VisionTransformer(img_size=SIDE, patch_size=PATCH, embed_dim=WIDTH, depth=DEPTH, num_heads=HEADS,
                                           num_classes=0)
    model.visual.head = torch.nn.Linear(WIDTH, WIDTH)
    run = torch.compile(model) if args.compile else model
    adam = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    loss_of = open_clip.ClipLoss()
    images = torch.randn(args.batch, 3, SIDE, SIDE)
    texts = torch.randint(1, VOCABULARY - 1, (args.batch, CONTEXT))
    texts[:, -1] = VOCABULARY - 1

    def step():
        adam.zero_grad()
        loss_of(**run(images, texts)).backward()
        adam.step()

    seconds = []
    for i in range(args.rounds + 2):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"params": sum(p.numel() for p in model.parameters()), "min": min(seconds[2:]),
                      "median": statistics.median(seconds[2:])}))


def result_of(command):
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(f"{' '.join(command)}: {run.stderr}")
    return json.loads(run.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="[%(default)s]")
    parser.add_argument("--turns", type=int, default=3, help="[%(default)s]")
    parser.add_argument("--rounds", type=int, default=3, help="timed steps of a turn [%(default)s]")
    parser.add_argument("--batch", type=int, default=64, help="pairs per step [%(default)s]")
    parser.add_argument("--compile", action="store_true", help="open_clip through torch.compile")
    parser.add_argument("--smoe", default=os.path.join(ROOT, "build", "smoe"), help="the program [build/smoe]")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        open_clip_step(args)
        return
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as spec:
        spec.write(SPEC % args.batch)
        spec.flush()
        here = [args.smoe, "bench", spec.name, "--json", "-j", str(args.threads), "--rounds", str(args.rounds)]
        there = [sys.executable, __file__, "--worker", "--threads", str(args.threads), "--rounds", str(args.rounds),
                 "--batch", str(args.batch)] + ["--compile"] * args.compile
        turns = [(result_of(here), result_of(there)) for _ in range(args.turns)]
    ours = [one["train_s"] for one, _ in turns]
    theirs = [other for _, other in turns]
    if int(turns[0][0]["params"]) != theirs[0]["params"]:
        sys.exit(f"other models: {turns[0][0]['params']} parameters, open_clip has {theirs[0]['params']}")
    best, median = [], []
    for name, turn in (("smoe", ours), ("open_clip", theirs)):
        best.append(min(x["min"] for x in turn))
        median.append(statistics.median(x["median"] for x in turn))
        print(f"{name:10} {best[-1]:.4f} s per step (median {median[-1]:.4f})")
    print(f"smoe is {best[1] / best[0]:.2f} times as fast (medians {median[1] / median[0]:.2f}), batch {args.batch}, {args.threads} threads")


if __name__ == "__main__":
    main()
