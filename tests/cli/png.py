"""PNG files for scripts; lib.sh has a Python that can import this."""
import struct
import zlib


def write(path, side, channels, value):
    """A square of that side, grey or RGB; value(x, y, channel) is 0 to 255."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(value(x, y, c) for x in range(side) for c in range(channels)) for y in range(side))
    header = struct.pack(">IIBBBBB", side, side, 8, 2 if channels == 3 else 0, 0, 0, 0)
    with open(path, "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
