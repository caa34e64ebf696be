#!/usr/bin/env python3
"""Power cuts: replays every prefix of a recorded trace of system calls that change files, as a disk may have it after a
power cut, and resumes the run from it.

    replay.py SMOE [STRIDE]        a stride of 7 replays a seventh of the prefixes

A training run is recorded with strace. After each call, three states of the disk are tried:
    all     everything so far has reached the disk
    names   changes of names (creation, renames, removal) have, but only synced data
    synced  changes of names have only if their folder was synced since, and only synced data
On each of them the training is resumed (or begun, if there is no run yet), and must give the bits of the recorded one. Once a
checkpoint is on the disk `synced`, it or a later one must be there after every later call.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

CALLS = "openat,open,write,pwrite64,fsync,fdatasync,rename,renameat,renameat2,mkdir,mkdirat,symlink,symlinkat," \
        "unlink,unlinkat,rmdir,ftruncate,close"
SPEC = ["train", "tiny.yaml", "train.steps=8", "-o", "run", "-q", "-j1"]


class File:
    def __init__(self):
        self.data, self.synced = bytearray(), b""


class Link:
    def __init__(self, target):
        self.target = target


class Folder:
    def __init__(self):
        self.names, self.synced = {}, {}


class Disk:
    """The files below one folder: their present state, and the state that is certainly on the disk."""

    def __init__(self, root):
        self.root, self.top, self.open = root, Folder(), {}

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

    def apply(self, call, args, result):
        """Whether the call changed a file below the folder."""
        paths = [text(a) for a in args if a.startswith('"')]
        if call in ("open", "openat"):
            return self.opened(paths[0], " ".join(args), result)
        if call == "close":
            self.open.pop(int(args[0]), None)
            return False
        if call in ("write", "pwrite64", "fsync", "fdatasync", "ftruncate"):
            return self.on_file(call, args)
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
        return self.put(paths[1], moved.names.pop(name))

    def put(self, path, what):
        folder, name = self.place(path)
        if folder is not None:
            folder.names[name] = what
        return folder is not None

    def opened(self, path, flags, result):
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
            self.open[result] = [found, 0, "O_APPEND" in flags]
        return new

    def on_file(self, call, args):
        held = self.open.get(int(args[0]))
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
            process, rest = line.rstrip("\n").split(" ", 1)
            rest = rest.lstrip()
            if rest.endswith("<unfinished ...>"):
                begun[process] = rest[:-len("<unfinished ...>")]
                continue
            rest = re.sub(r"^<\.\.\. \w+ resumed>", lambda m: begun.pop(process), rest)
            found = re.match(r"(\w+)\((.*)\)\s+= (-?\d+)", rest)
            if found and int(found.group(3)) >= 0:
                yield found.group(1), found.group(2).split(", "), int(found.group(3))


def lay(folder, where, kind):
    """Writes a disk as files below `where`."""
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


def picture(folder, kind):
    """Two disks with equal pictures are the same."""
    names = folder.synced if kind == "synced" else folder.names
    return tuple((name, picture(what, kind) if isinstance(what, Folder) else what.target if isinstance(what, Link)
                  else bytes(what.data) if kind == "all" else what.synced) for name, what in sorted(names.items()))


def smoe(program, where, *more):
    done = subprocess.run([program, *SPEC, *more], cwd=where, capture_output=True, text=True)
    return done.returncode, done.stderr


def weights(where):
    result = []
    for name in ("model", "state"):
        with open(f"{where}/run/ckpt/latest/{name}.safetensors", "rb") as file:
            result.append(file.read())
    return result


def last_checkpoint(where):
    steps = [int(name[5:]) for name in os.listdir(f"{where}/run/ckpt") if re.fullmatch(r"step_\d{8}", name)] \
        if os.path.isdir(f"{where}/run/ckpt") else []
    return max(steps, default=0)


def resume(program, where, wanted):
    """Describes what is wrong with the run on a disk after a power cut, or None."""
    shutil.copy("tiny.yaml", where)
    begun = os.path.isdir(f"{where}/run")
    status, said = smoe(program, where, *(["--resume"] if begun else []))
    if status:
        return f"status {status}: {said.strip()}"
    if weights(where) != wanted:
        return "other weights"
    status = subprocess.run([program, "verify", "-q", "run"], cwd=where, capture_output=True, text=True)
    return None if not status.returncode else status.stdout


def main():
    program, stride = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    spec = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli/tiny.yaml")
    os.environ["OMP_WAIT_POLICY"] = "passive"
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        shutil.copy(spec, ".")
        os.mkdir("recorded")
        shutil.copy(spec, "recorded")
        subprocess.run(["strace", "-f", "-xx", "-s", "100000000", "-e", "trace=" + CALLS, "-o", "../trace", program, *SPEC],
                       cwd="recorded", check=True, stdout=subprocess.DEVNULL)
        wanted, disk = weights("recorded"), Disk(os.path.join(work, "recorded"))
        disk.top.names["tiny.yaml"] = disk.top.synced["tiny.yaml"] = File()
        prefixes, failed, known, kept = 0, 0, set(), 0
        tried = {"all": 0, "names": 0, "synced": 0}
        for call, args, result in calls("trace"):
            if not disk.apply(call, args, result):
                continue
            prefixes += 1
            for kind in tried:
                seen = hash((kind, picture(disk.top, kind)))
                if (prefixes - 1) % stride or seen in known:
                    continue
                known.add(seen)
                tried[kind] += 1
                lay(disk.top, "disk", kind)
                step = last_checkpoint("disk")
                wrong = f"the checkpoint of step {kept} is lost" if step < kept else None
                if kind == "synced":
                    kept = max(kept, step)
                wrong = wrong or resume(program, "disk", wanted)
                if wrong:
                    failed += 1
                    print(f"FAILED: disk {kind} after call {prefixes} ({call} {text(args[0])[:60]}): {wrong}")
                shutil.rmtree("disk")
    print(f"power cuts: {prefixes} calls, {sum(tried.values())} disks tried ("
          + ", ".join(f"{kind} {count}" for kind, count in tried.items()) + f"), {failed} failed")
    return failed > 0


sys.exit(main())
