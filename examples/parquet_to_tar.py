#!/usr/bin/env python3
"""Copies the images of parquet files, as Hugging Face distributes data sets, into a tar that smoe's
data.source image-folder reads: SPLIT/CLASS/NUMBER.jpg, and so on. Needs pyarrow.

    parquet_to_tar.py OUT.tar train= train-*.parquet test= test-*.parquet [image=COLUMN] [label=COLUMN]

Image bytes are copied as they are. Names of classes come from the files where they have them, else
they are the numbers. If several columns are images or classes, as fine_label and coarse_label, the
one to take must be given. A class is a folder: "/" in its name becomes %2F, "%" becomes %25, and a
dot at its beginning %2E. What is neither JPEG, PNG nor WebP, or has no label, is an error. OUT.tar
appears when it is complete; until then it is OUT.tar.part."""
import io
import json
import os
import sys
import tarfile

import pyarrow.parquet


def fail(text):
    sys.exit("parquet_to_tar: " + text)


def ending(data, where):
    if data[:3] == b"\xff\xd8\xff":
        return "jpg"
    if data[:4] == b"\x89PNG":
        return "png"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    fail(f"{where}: neither a JPEG, a PNG nor a WebP image")


def features(schema):
    """What Hugging Face says of the columns: {name: {"_type": "ClassLabel", "names": [...]}}."""
    text = (schema.metadata or {}).get(b"huggingface")
    return json.loads(text).get("info", {}).get("features", {}) if text else {}


def column(path, schema, said, key, kind, given):
    """The column that is given, or the only one of this kind, or that of this name."""
    ways = "give image=COLUMN, label=COLUMN"
    found = [n for n, f in said.items() if isinstance(f, dict) and f.get("_type") == kind]
    if not given[key] and len(found) > 1:
        fail(f"{path}: columns {', '.join(found)} are each of type {kind}: {ways}")
    name = given[key] or (found[0] if found else key)
    if name not in schema.names:
        fail(f"{path}: no column {name}, but {', '.join(schema.names)}: {ways}")
    return name


def columns(path, schema, given):
    """The columns of images and labels, and the names of classes or None."""
    said = features(schema)
    image = column(path, schema, said, "image", "Image", given)
    label = column(path, schema, said, "label", "ClassLabel", given)
    return image, label, said.get(label, {}).get("names")


def folder_name(name, where):
    """A name of its own for each class."""
    if not name or "\0" in name:
        fail(f"{where}: the name of its class is empty or has a zero byte")
    name = name.replace("%", "%25").replace("/", "%2F")
    return "%2E" + name[1:] if name[0] == "." else name


def class_name(names, value, where):
    if value is None or value == -1:
        fail(f"{where}: no label")
    if isinstance(value, str):
        return folder_name(value, where)
    if not isinstance(value, int) or value < 0 or (names and value >= len(names)):
        fail(f"{where}: label {value!r} is not the number of a class")
    if not names:
        return f"{value:05d}"
    if names.count(names[value]) > 1:
        fail(f"{where}: two classes are called {names[value]}")
    return folder_name(names[value], where)


def rows(path, given):
    """Each row as its image, its label and the names of classes or None."""
    try:
        source = pyarrow.parquet.ParquetFile(path)
        image, label, names = columns(path, source.schema_arrow, given)
        for batch in source.iter_batches(batch_size=256, columns=[image, label]):
            for row in batch.to_pylist():
                yield row[image], row[label], names
    except (OSError, pyarrow.ArrowException) as error:
        fail(f"{path}: {error}")


def copy(out, split, path, given, number, kinds):
    """kinds: whether the files so far have names of classes; a set of one."""
    first = number
    for image, label, names in rows(path, given):
        where = f"{path}: row {number - first}"
        data = image.get("bytes") if isinstance(image, dict) else image
        if not data or not isinstance(data, bytes):
            fail(f"{where}: no bytes of an image")
        name = class_name(names, label, where)
        kinds.add(bool(names) or isinstance(label, str))
        member = tarfile.TarInfo(f"{split}/{name}/{number:08d}.{ending(data, where)}")
        member.size = len(data)
        out.addfile(member, io.BytesIO(data))
        number += 1
    if len(kinds) > 1:
        fail(f"{path}: some files have names of classes, and others only their numbers")
    return number


def main(words):
    given = {"image": None, "label": None}
    files = []
    if len(words) < 2 or words[0].startswith("-"):
        sys.exit(__doc__)
    split = None
    for word in words[1:]:
        key, equals, value = word.partition("=")
        if equals and key in given:
            given[key] = value
        elif equals:
            split = key
            files += [(split, value)] if value else []
        elif split:
            files.append((split, word))
        else:
            fail(f"{word}: of which split? write train= before it")
    if not files:
        fail("no files: write train= and their names")
    numbers, kinds = {}, set()
    try:
        with tarfile.open(words[0] + ".part", "w") as out:
            for split, path in files:
                numbers[split] = copy(out, split, path, given, numbers.get(split, 0), kinds)
        os.replace(words[0] + ".part", words[0])
    except OSError as error:
        fail(f"{error.filename or words[0]}: {error.strerror}")
    print(words[0] + ": " + ", ".join(f"{n} images of {s}" for s, n in numbers.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
