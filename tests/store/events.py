"""Reads the event files of TensorBoard of a folder: python3 events.py FOLDER

Checks the length and both checksums of every record, and that every picture is a whole PNG of the size that the event states. Prints a
line per tag: kind, tag, steps. Exit status 1 where something is wrong.
"""

import collections
import os
import struct
import sys
import zlib

TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ 0x82f63b78 if n & 1 else n >> 1
    TABLE.append(n)


def masked(data):
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def fields(data):
    """The fields of a message: number, and a number or bytes."""
    at = 0

    def varint():
        nonlocal at
        x = shift = 0
        while True:
            byte = data[at]
            at += 1
            x |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return x

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            yield key >> 3, varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            assert at + size <= len(data), 'a field is longer than its message'
            yield key >> 3, data[at:at + size]
            at += size


def records(path):
    data = open(path, 'rb').read()
    at = 0
    while at < len(data):
        (size,), (check,) = struct.unpack_from('<Q', data, at), struct.unpack_from('<I', data, at + 8)
        assert masked(data[at:at + 8]) == check, f'{path}: the length at {at}'
        body = data[at + 12:at + 12 + size]
        assert len(body) == size and masked(body) == struct.unpack_from('<I', data, at + 12 + size)[0], f'{path}: the record at {at}'
        yield body
        at += 16 + size


def check_png(png, width, height):
    assert png[:8] == b'\x89PNG\r\n\x1a\n', 'no PNG'
    at, pixels = 8, b''
    while at < len(png):
        size, kind = struct.unpack_from('>I4s', png, at)
        body = png[at + 8:at + 8 + size]
        assert zlib.crc32(kind + body) == struct.unpack_from('>I', png, at + 8 + size)[0], 'a chunk of the PNG'
        if kind == b'IHDR':
            assert struct.unpack('>IIBB', body[:10]) == (width, height, 8, 2), f'not {width} by {height}'
        if kind == b'IDAT':
            pixels += body
        at += 12 + size
    assert len(zlib.decompress(pixels)) == height * (1 + 3 * width), 'pixels are missing'


def main():
    seen = collections.defaultdict(list)
    for name in sorted(os.listdir(sys.argv[1])):
        for body in records(os.path.join(sys.argv[1], name)):
            event = dict(fields(body))
            for number, value in fields(event.get(5, b'')):
                parts = dict(fields(value))
                tag = parts[1].decode()
                kind = 'picture' if 4 in parts else 'histogram' if 5 in parts else 'scalar'
                if kind == 'picture':
                    image = dict(fields(parts[4]))
                    check_png(image[4], image[2], image[1])
                seen[kind, tag].append(event[2])
    for (kind, tag), steps in sorted(seen.items()):
        print(kind, tag, *steps)


main()
