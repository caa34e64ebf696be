#!/usr/bin/env python3
"""Hostile inputs: files that are changed at random, and devices, pipes and folders in the place of files, for every command that
reads them. No command may hang, end by a signal, be reported by a sanitizer, or fail without a message.

    hostile.py SMOE [N]    N changes of each file for each command; SMOE is best of flavour san

Checksums would end most readers before they parse: models and records have none here, as those of other programs and of older
versions. The n-th change depends on n alone; before the first one, each command must accept the file as it is.
"""
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile

TRAIN = "train tiny.yaml train.steps=8 -q -j1 -o run"
SWEEP = "sweep tiny.yaml train.steps=4 model.moe.experts=2,4 evaluate.eval.batch_size=50,100 -q -j1 -o grid"
MODEL = "run/ckpt/step_00000008/model.safetensors"
STATE = "run/ckpt/step_00000008/state.safetensors"
TRAINED = ["eval run", "inspect run", "predict run x.png", "verify run", "train --resume run train.steps=9"]
SWEPT = ["verify grid", "sweep --status grid", "sweep --resume grid", "watch grid"]

# The file that is changed, and the commands that read it.
CASES = {
    "plain.safetensors": ["eval plain.safetensors", "inspect plain.safetensors", "convert plain.safetensors new --type f16",
                          "soup plain.safetensors plain.safetensors -o new", "bench plain.safetensors --rounds 1",
                          "compare plain.safetensors run", "train tiny.yaml train.steps=2 --init plain.safetensors -o new",
                          "predict plain.safetensors x.png", "verify plain.safetensors"],
    MODEL: TRAINED,
    STATE: TRAINED[3:],
    "run/metrics.jsonl": ["verify run", "inspect run", "compare run run", "watch run", "train --resume run train.steps=9"],
    "run/spec.yaml": ["verify run", "verify --repair run", "train run/spec.yaml -n", "compare run run"],
    "run/env.json": ["train --resume run train.steps=9", "compare run run"],
    "run/STATUS": ["watch run", "train --resume run train.steps=9"],
    "run/outcomes.npy": ["verify run"],
    "run/MANIFEST.sha256": ["verify run"],
    "tiny.yaml": ["train tiny.yaml -n", "cost tiny.yaml", "sweep tiny.yaml seed=0,1 -n -o new", "ablate tiny.yaml -n -o new",
                  "init tiny.yaml new", "data tiny.yaml"],
    "sweep.yaml": ["sweep sweep.yaml -n -o new"],
    "grid/cells.jsonl": SWEPT,
    "grid/claims/000-experts=2.json": SWEPT,
    "grid/claims/000-experts=2.evaluations.json": SWEPT[:3],
    "grid/claims/000-experts=2.evaluation-0.npy": SWEPT[:3],
    "x.png": ["predict run x.png"],
    "images.tar": ["data images.tar", "verify images.tar", "train tiny.yaml data.source=image-folder data.path=images.tar -n"],
}
# Arguments that are no files.
ODD = ["eval", "inspect", "verify", "predict run", "data", "cost", "watch", "convert --type bf16 -f new", "compare run",
       "train tiny.yaml -o new --init", "soup run -o new", "bench", "train -n", "sweep --resume"]


def without_digest(name):
    """Renames the fields of the digest, so that they count as those of another program."""
    with open(name, "rb") as file:
        data = file.read()
    return data.replace(b'"smoe.xxh3"', b'"some.xxh3"').replace(b'"smoe.digest"', b'"some.digest"')


def prepare(smoe):
    for command in (TRAIN, SWEEP):
        subprocess.run([smoe, *command.split()], check=True, stdout=subprocess.DEVNULL)
    for name in (MODEL, STATE):
        data = without_digest(name)
        with open(name, "wb") as file:
            file.write(data)
    shutil.copy(MODEL, "plain.safetensors")
    with open("run/metrics.jsonl") as file:
        text = re.sub(',"chain":"[0-9a-f]*"', "", file.read())
    with open("run/metrics.jsonl", "w") as file:
        file.write(text)
    with open("tiny.yaml") as file, open("sweep.yaml", "w") as out:
        out.write(file.read() + "sweep:\n  grid: {seed: [0, 1], model.moe.experts: [2, 4]}\n")
    shutil.copy(f"{HERE}/../../build/corpus/image/colour.png", "x.png")
    shutil.copy(f"{HERE}/../../build/corpus/archive/a.tar", "images.tar")


def changed(data, random_):
    """A few changes of a file, as of the fuzzer without an engine."""
    data = bytearray(data)
    for _ in range(random_.randint(1, 4)):
        at, much = random_.randrange(len(data) + 1), random_.randrange(1, 65)
        kind = random_.randrange(6)
        if kind == 0:
            del data[at:]
        elif kind == 1:
            del data[at:at + much]
        elif kind == 2:
            data[at:at] = data[at // 2:at // 2 + much]
        elif kind == 3:
            data[at:at + 8] = random_.choice([0, 1, 127, 255, 2**31, 2**32 - 1, 2**63, 2**64 - 1]).to_bytes(8, "little")
        elif kind == 4:
            data[at:at + 1] = random_.choice(b"0123456789-+.eE:,{}[]\"'#&*|>%\n\t \x00\xff").to_bytes(1, "little")
        elif data:
            data[at % len(data)] ^= 1 << random_.randrange(8)
    return bytes(data)


def wrong(smoe, command):
    """What is wrong with how a command ends, or None; and whether it refused."""
    try:
        done = subprocess.run([smoe, *command, "-q", "-j1"], capture_output=True, timeout=120, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return "hangs", True
    said = done.stderr.decode("latin-1")
    if done.returncode not in (0, 1, 2, 3, 4, 5) or "Sanitizer" in said or "runtime error" in said:
        return f"status {done.returncode}: {said[:2000]}", True
    if done.returncode and not said.strip() and not done.stdout.strip():
        return f"status {done.returncode} without a message", True
    return None, done.returncode != 0


def main():
    smoe, most = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 4
    os.environ.update(OMP_WAIT_POLICY="passive", ASAN_OPTIONS="exitcode=99", UBSAN_OPTIONS="exitcode=99:print_stacktrace=1")
    tried, refused, failed = 0, 0, 0

    def attempt(command, what, intact=False):
        nonlocal tried, refused, failed
        problem, ended = wrong(smoe, command)
        tried, refused = tried + (not intact), refused + ended
        if intact and ended:
            problem = "refused"
        if problem:
            failed += 1
            print(f"FAILED: {what}: smoe {command[:200]}: {problem}", flush=True)
        for new in ("new", "hurt"):
            shutil.rmtree(new) if os.path.isdir(new) else os.path.lexists(new) and os.unlink(new)

    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        shutil.copy(f"{HERE}/../cli/tiny.yaml", ".")
        prepare(smoe)
        shutil.copytree(".", "../" + os.path.basename(work) + "-kept", symlinks=True)
        kept = work + "-kept"
        try:
            for name, commands in CASES.items():
                with open(f"{kept}/{name}", "rb") as file:
                    data = file.read()
                for number in range(-len(commands), most * len(commands)):
                    with open(name, "wb") as file:
                        file.write(data if number < 0 else changed(data, random.Random(number)))
                    attempt(commands[number % len(commands)].split(), f"change {number} of {name}", number < 0)
                    for folder in ("run", "grid"):
                        shutil.rmtree(folder)
                        shutil.copytree(f"{kept}/{folder}", folder, symlinks=True)
                    shutil.copy(f"{kept}/{name}", name)
            os.mkfifo("pipe")
            os.mkdir("folder")
            open("empty", "w").close()
            listening = socket.socket(socket.AF_UNIX)
            listening.bind("socket")
            for odd in ("/dev/zero", "/dev/null", "pipe", "folder", "empty", "socket", "absent", "x" * 5000, "bad\nname\x1b[31m"):
                for command in ODD:
                    attempt([*command.split(), odd], "an argument that is no file")
        finally:
            os.chdir("/")
            shutil.rmtree(kept)
    print(f"hostile inputs: {tried} tried, {refused} refused, {failed} failed", flush=True)
    return failed > 0


HERE = os.path.dirname(os.path.abspath(__file__))
sys.exit(main())
