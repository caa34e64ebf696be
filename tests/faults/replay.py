#!/usr/bin/env python3
"""Power cuts: replays every prefix of a recorded trace of system calls that change files, as a disk may have it after a
power cut, and repeats or continues the command on it.

    replay.py SMOE FAULTS.so [STRIDE [SCENE ...]]    a stride of 7 replays a seventh of the prefixes

Each scene (see SCENES) is a command that is recorded with strace. After each call, three states of the disk are tried:
    all     everything so far has reached the disk
    names   changes of names (creation, renames, removal) have, but only synced data
    synced  changes of names have only if their folder was synced since, and only synced data
On each of them a file that appears whole or not at all must be the recorded one or absent. Then the work is continued, or done
again, and must give the recorded files. After the last call, all of these are on the disk `synced`. For training: once a checkpoint
is there, it or a later one must be there after every later call. Time passes before the work is continued, so that claims of the
processes that are gone can be taken over: files are old, and the clock is faster (FAULT_CLOCK of faults.c).
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

CALLS = "openat,open,write,pwrite64,fsync,fdatasync,rename,renameat,renameat2,mkdir,mkdirat,symlink,symlinkat," \
        "link,linkat,unlink,unlinkat,rmdir,ftruncate,close,clone,clone3,fork,vfork"

OLD = 1e9

TRAIN = "train tiny.yaml train.steps=8 -o run -q -j1"
SWEEP = "sweep tiny.yaml train.steps=4 model.moe.experts=2,4 evaluate.eval.batch_size=50,100 -o grid -q -j1"
WEIGHTS = ["run/ckpt/latest/model.safetensors", "run/ckpt/latest/state.safetensors"]
TABLES = ["grid/evaluations.csv", "grid/000-experts=2/ckpt/latest/model.safetensors", "grid/001-experts=4/ckpt/latest/model.safetensors"]


def lose(where):
    """Removes files that `verify --repair` can make again."""
    os.unlink(f"{where}/run/spec.yaml")
    os.unlink(f"{where}/grid/claims/000-experts=2.evaluations.json")


def leave_note(where):
    with open(f"{where}/grid/notes", "w") as out:
        out.write("mine")


def continue_training(where):
    return [TRAIN + (" --resume" if os.path.isdir(f"{where}/run") else ""), "verify -q run"]


def continue_sweep(where, more=""):
    begun = os.path.exists(f"{where}/grid/cells.jsonl")
    return ["sweep --resume grid --retry-failed -q -j1" if begun else SWEEP + more, "verify -q grid"]


# name: (commands before the recorded one, what is then changed, the recorded command, how it is continued, files that must come
# out the same, files that appear whole or not at all)
SCENES = {
    "train": ([], None, TRAIN, continue_training, WEIGHTS, []),
    "train --force": (["train tiny.yaml train.steps=12 seed=1 -o run -q -j1"], None, TRAIN + " --force",
                      lambda where: [TRAIN + " --force", "verify -q run"], WEIGHTS, []),
    "sweep": ([], None, SWEEP, continue_sweep, TABLES, ["grid/evaluations.csv"]),
    "sweep --force": ([SWEEP], leave_note, SWEEP + " --force", lambda where: continue_sweep(where, " --force"),
                      TABLES + ["grid/notes"], ["grid/evaluations.csv"]),
    "eval": ([TRAIN], None, "eval run -q -j1 --logits logits.npy", lambda where: ["eval run -q -j1 -f --logits logits.npy"],
             ["logits.npy"], ["logits.npy"]),
    "convert": ([TRAIN], None, "convert run half.safetensors --type bf16 -q",
                lambda where: ["convert run half.safetensors --type bf16 -q -f"], ["half.safetensors"], ["half.safetensors"]),
    "soup": ([TRAIN], None, "soup run run -q -j1 -o soup", lambda where: ["soup run run -q -j1 -o soup -f"],
             ["soup/model.safetensors"], ["soup/model.safetensors"]),
    "verify --repair": ([TRAIN, SWEEP], lose, "verify --repair -q run grid",
                        lambda where: ["verify --repair -q run grid", "verify -q run grid"],
                        ["run/spec.yaml", "grid/evaluations.csv"], ["run/spec.yaml", "grid/evaluations.csv"]),
}


class File:
    def __init__(self, data=b""):
        self.data, self.synced = bytearray(data), data


class Link:
    def __init__(self, target):
        self.target = target


class Folder:
    def __init__(self):
        self.names, self.synced = {}, {}


def load(path):
    """The files of a folder, all of them on the disk."""
    folder = Folder()
    for entry in os.scandir(path):
        if entry.is_symlink():
            folder.names[entry.name] = Link(os.readlink(entry.path))
        elif entry.is_dir():
            folder.names[entry.name] = load(entry.path)
        else:
            with open(entry.path, "rb") as file:
                folder.names[entry.name] = File(file.read())
    folder.synced = dict(folder.names)
    return folder


class Disk:
    """The files below one folder: their present state, and the state that is certainly on the disk."""

    def __init__(self, root):
        self.root, self.top, self.tables = root, load(root), {}

    def place(self, path):
        """The folder and the last name of a path; None if it is outside."""
        path = os.path.normpath(os.path.join(self.root, path))
        if not path.startswith(self.root + "/"):
            return None, None
        folder, names = self.top, path[len(self.root) + 1:].split("/")
        for name in names[:-1]:
            folder = folder.names.get(name)
            if not isinstance(folder, Folder):
                return None, None
        return folder, names[-1]

    def find(self, path):
        if os.path.normpath(os.path.join(self.root, path)) == self.root:
            return self.top
        folder, name = self.place(path)
        return folder.names.get(name) if folder else None

    def apply(self, task, call, args, result):
        """Whether the call of a thread changed a file below the folder."""
        files = self.tables.setdefault(task, {})
        paths = [text(a) for a in args if a.startswith('"')]
        if call in ("clone", "clone3", "fork", "vfork"):
            self.tables[result] = files if "CLONE_FILES" in " ".join(args) else dict(files)
            return False
        if call in ("open", "openat"):
            return self.opened(files, paths[0], " ".join(args), result)
        if call == "close":
            files.pop(int(args[0]), None)
            return False
        if call in ("write", "pwrite64", "fsync", "fdatasync", "ftruncate"):
            return self.on_file(files, call, args)
        if call in ("mkdir", "mkdirat"):
            return self.put(paths[0], Folder())
        if call in ("symlink", "symlinkat"):
            return self.put(paths[1], Link(paths[0]))
        if call in ("unlink", "unlinkat", "rmdir"):
            folder, name = self.place(paths[0])
            return bool(folder and folder.names.pop(name, None))
        moved, name = self.place(paths[0])
        if moved is None or name not in moved.names:
            return False
        if call in ("link", "linkat"):
            return self.put(paths[1], moved.names[name])
        if "RENAME_EXCHANGE" in args:
            other, its = self.place(paths[1])
            moved.names[name], other.names[its] = other.names[its], moved.names[name]
            return True
        return self.put(paths[1], moved.names.pop(name))

    def put(self, path, what):
        folder, name = self.place(path)
        if folder is not None:
            folder.names[name] = what
        return folder is not None

    def opened(self, files, path, flags, result):
        found, new = self.find(path), False
        folder, _ = self.place(path)
        if found is None and "O_CREAT" in flags and folder is not None:
            found, new = File(), True
            self.put(path, found)
        if isinstance(found, Link):
            return False
        if isinstance(found, File) and "O_TRUNC" in flags:
            found.data, new = bytearray(), True
        if found is not None:
            files[result] = [found, 0, "O_APPEND" in flags]
        return new

    def on_file(self, files, call, args):
        held = files.get(int(args[0]))
        if not held:
            return False
        file = held[0]
        if call in ("fsync", "fdatasync"):
            file.synced = dict(file.names) if isinstance(file, Folder) else bytes(file.data)
        elif call == "ftruncate":
            del file.data[int(args[1]):]
        else:
            data = text(args[1])
            data = data.encode("latin-1")
            at = int(args[3]) if call == "pwrite64" else len(file.data) if held[2] else held[1]
            file.data[at:at + len(data)] = data
            if call == "write":
                held[1] = at + len(data)
        return True


def text(quoted):
    return re.sub(r"\\x(..)", lambda m: chr(int(m.group(1), 16)), quoted.strip('"'))


def calls(path):
    """The successful calls of a trace; calls split by another thread are joined."""
    begun = {}
    with open(path) as lines:
        for line in lines:
            task, rest = line.rstrip("\n").split(" ", 1)
            rest = rest.lstrip()
            if rest.endswith("<unfinished ...>"):
                begun[task] = rest[:-len("<unfinished ...>")]
                continue
            rest = re.sub(r"^<\.\.\. \w+ resumed>", lambda m: begun.pop(task), rest)
            found = re.match(r"(\w+)\((.*)\)\s+= (-?\d+)", rest)
            if found and int(found.group(3)) >= 0:
                yield int(task), found.group(1), found.group(2).split(", "), int(found.group(3))


def lay(folder, where, kind):
    """Writes the files that the disk has in the state `kind` below the folder `where`."""
    os.makedirs(where)
    for name, what in (folder.synced if kind == "synced" else folder.names).items():
        path = os.path.join(where, name)
        if isinstance(what, Folder):
            lay(what, path, kind)
        elif isinstance(what, Link):
            os.symlink(what.target, path)
        else:
            with open(path, "wb") as out:
                out.write(what.data if kind == "all" else what.synced)
            os.utime(path, (OLD, OLD))


def picture(folder, kind):
    """A value that is equal for disks with equal contents."""
    names = folder.synced if kind == "synced" else folder.names
    return tuple((name, picture(what, kind) if isinstance(what, Folder) else what.target if isinstance(what, Link)
                  else bytes(what.data) if kind == "all" else what.synced) for name, what in sorted(names.items()))


def smoe(program, where, command):
    """Runs a command without gnuplot, whose pictures smoe does not write itself."""
    done = subprocess.run([program, *command.split()], cwd=where, capture_output=True, text=True,
                          env={**os.environ, "PATH": "/nonexistent", "LD_PRELOAD": FAULTS, "FAULT_CLOCK": "1000"})
    return f"status {done.returncode} of smoe {command}: {done.stderr.strip() or done.stdout.strip()}" if done.returncode else None


def read(where, name):
    try:
        with open(os.path.join(where, name), "rb") as file:
            return file.read()
    except OSError:
        return None


def last_checkpoint(where):
    steps = [int(name[5:]) for name in os.listdir(f"{where}/run/ckpt") if re.fullmatch(r"step_\d{8}", name)] \
        if os.path.isdir(f"{where}/run/ckpt") else []
    return max(steps, default=0)


def check(program, where, scene, wanted):
    """Describes what is wrong with a disk after a power cut, or None."""
    _, _, _, again, files, whole = scene
    for name in whole:
        if read(where, name) not in (None, wanted[name]):
            return f"{name} is there in part"
    for command in again(where):
        wrong = smoe(program, where, command)
        if wrong:
            return wrong
    return next((f"another {name}" for name in files if read(where, name) != wanted[name]), None)


def replay(program, name, stride):
    """Tries one scene in the current folder; returns the number of failures."""
    before, change, command, _, files, whole = scene = SCENES[name]
    for previous in before:
        wrong = smoe(program, "recorded", previous)
        if wrong:
            sys.exit(wrong)
    if change:
        change("recorded")
    disk = Disk(os.path.realpath("recorded"))
    subprocess.run(["/usr/bin/env", "strace", "-f", "-xx", "-s", "100000000", "-e", "trace=" + CALLS, "-o", "../trace",
                    "/usr/bin/env", "PATH=/nonexistent", program, *command.split()], cwd="recorded", check=True,
                   stdout=subprocess.DEVNULL)
    wanted = {file: read("recorded", file) for file in files + whole}
    if None in wanted.values():
        sys.exit(f"{name}: no {[file for file in wanted if wanted[file] is None]}")
    prefixes, failed, known, kept = 0, 0, set(), 0
    tried = {"all": 0, "names": 0, "synced": 0}
    for task, call, args, result in calls("trace"):
        if not disk.apply(task, call, args, result):
            continue
        prefixes += 1
        for kind in tried:
            seen = hash((kind, picture(disk.top, kind)))
            if (prefixes - 1) % stride or seen in known:
                continue
            known.add(seen)
            tried[kind] += 1
            lay(disk.top, "disk", kind)
            step = last_checkpoint("disk") if not before else 0
            wrong = f"the checkpoint of step {kept} is lost" if step < kept else None
            if kind == "synced":
                kept = max(kept, step)
            wrong = wrong or check(program, "disk", scene, wanted)
            if wrong:
                failed += 1
                print(f"FAILED: {name}: disk {kind} after call {prefixes} ({call} {text(args[0])[:60]}): {wrong}", flush=True)
            shutil.rmtree("disk")
    lay(disk.top, "disk", "synced")
    lost = [file for file in files + whole if read("disk", file) != wanted[file]]
    shutil.rmtree("disk")
    if lost:
        failed += 1
        print(f"FAILED: {name}: a power cut after the end loses {lost}", flush=True)
    print(f"power cuts: {name}: {prefixes} calls, {sum(tried.values())} disks tried ("
          + ", ".join(f"{kind} {count}" for kind, count in tried.items()) + f"), {failed} failed", flush=True)
    return failed


FAULTS = os.path.abspath(sys.argv[2])


def main():
    program, stride = os.path.abspath(sys.argv[1]), int(sys.argv[3]) if len(sys.argv) > 3 else 1
    spec = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli/tiny.yaml")
    os.environ["OMP_WAIT_POLICY"] = "passive"
    failed = 0
    for name in sys.argv[4:] or SCENES:
        with tempfile.TemporaryDirectory() as work:
            os.chdir(work)
            os.mkdir("recorded")
            shutil.copy(spec, "recorded/tiny.yaml")
            failed += replay(program, name, stride)
            os.chdir("/")
    return failed > 0


sys.exit(main())
