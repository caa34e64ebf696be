#!/usr/bin/env python3
"""Times training steps of one process with two threads, of two processes with one thread each, and of PyTorch's DDP.

    tests/bench/processes.py                          s16-dense and tiny-soft64
    tests/bench/processes.py s16-dense --steps 8 --turns 2

The three alternate. smoe has train.pieces=2 in both cases, and experts divided over the processes; PyTorch has
DistributedDataParallel with gloo, half of the batch in each process, and no mixture of experts (its DDP would replicate them).
Results are the smallest over all turns and the median of the turns' medians. Needs an idle machine with two processors
and mpirun; PyTorch is left out if it is not installed.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from peer import CASES, ROOT, torch_adam, torch_model

SMOE = os.path.join(ROOT, "build", "smoe")
MPIRUN = ["mpirun", "--allow-run-as-root", "--bind-to", "core", "-n", "2"]


def time_smoe(name, steps, launcher, threads):
    """Seconds of each step but the first two."""
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "run")
        command = launcher + [SMOE, "train", os.path.join(ROOT, "experiments", "bench", name + ".yaml"), "-q", "-o", run,
                              "-j", str(threads), "train.pieces=2", "train.experts_over=all", "train.log_every=1",
                              f"train.steps={steps}", "train.eval_every=0", "train.checkpoint_every=0", "data.limit=640"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(run, "metrics.jsonl")) as lines:
            records = [json.loads(line) for line in lines]
    return [CASES[name]["B"] / r["train/images_per_s"] for r in records if "train/images_per_s" in r][2:]


def ddp(rank, port, name, steps):
    """A process of PyTorch's; process 0 prints the seconds of each step but the first two."""
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank]})
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    case = CASES[name]
    model = torch.nn.parallel.DistributedDataParallel(torch_model(case))
    adam = torch_adam(model.parameters())
    image = torch.randn(case["B"] // 2, 3, case["image"], case["image"])
    label = torch.randint(case["N"], (case["B"] // 2,))
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        adam.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(image), label).backward()
        adam.step()
        seconds.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps(seconds[2:]))
    dist.destroy_process_group()


def time_ddp(name, steps):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = [[sys.executable, os.path.abspath(__file__), name, "--steps", str(steps), "--rank", str(r), "--port", str(port)]
           for r in range(2)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in own]
    text = [process.communicate()[0] for process in both]
    return json.loads(text[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=["s16-dense", "tiny-soft64"])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank is not None:
        return ddp(args.rank, args.port, args.cases[0], args.steps)
    try:
        import torch
        peer = torch.__version__
    except ImportError:
        peer = None
        print("PyTorch is not installed and is left out", file=sys.stderr)
    for name in args.cases:
        ways = {"one process, two threads": lambda: time_smoe(name, args.steps, [], 2),
                "two processes, one thread each": lambda: time_smoe(name, args.steps, MPIRUN, 1)}
        if peer and not CASES[name]["E"]:
            ways[f"PyTorch {peer}, DDP with gloo"] = lambda: time_ddp(name, args.steps)
        turns = {way: [] for way in ways}
        for _ in range(args.turns):
            for way, run in ways.items():
                turns[way].append(run())
        print(f"{name}: seconds per step, batch of {CASES[name]['B']}: smallest, median, and the ratio of medians to the first")
        first = None
        for way, runs in turns.items():
            median = statistics.median(statistics.median(run) for run in runs)
            first = first or median
            print(f"  {way:32} {min(min(run) for run in runs):8.3f} {median:8.3f} {median / first:8.2f}", flush=True)


if __name__ == "__main__":
    main()
