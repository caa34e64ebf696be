# Files that inflate, or claim, far more than they have: each is judged, and refused, with little memory (ulimit -v).
. "$ROOT/tests/cli/lib.sh"
command -v python3 >/dev/null || skip "no python3 to make the files"
python3 - <<'END' || fail "the files"
import gzip, io, struct, tarfile, zipfile
def npy(items):
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % items
    head += b' ' * (63 - (10 + len(head)) % 64) + b'\n'
    return b'\x93NUMPY\x01\0' + struct.pack('<H', len(head)) + head
block = bytes(1 << 20)
with zipfile.ZipFile('big.npz', 'w', zipfile.ZIP_DEFLATED) as out, out.open('a.npy', 'w') as a:
    a.write(npy(400 << 18))
    for i in range(400): a.write(block)
with zipfile.ZipFile('some.npz', 'w', zipfile.ZIP_DEFLATED) as out: out.writestr('a.npy', npy(1 << 17) + bytes(1 << 19))
with zipfile.ZipFile('many.npz', 'w') as out:
    for i in range(20000): out.writestr(f'a{i}.npy', npy(1) + b'abcd')
class Zeros(io.RawIOBase):
    def read(self, n=-1): return bytes(n)
with tarfile.open('big.tar.gz', 'w:gz', compresslevel=1) as out:
    info = tarfile.TarInfo('train/cat/x.png')
    info.size = 400 << 20
    out.addfile(info, Zeros())
images = struct.pack('>IIII', 0x803, 100 << 10, 64, 64)
with gzip.open('train-images-idx3-ubyte.gz', 'wb', 1) as out:
    out.write(images)
    for i in range(400): out.write(block)
with gzip.open('train-labels-idx1-ubyte.gz', 'wb') as out: out.write(struct.pack('>II', 0x801, 100 << 10) + bytes(100 << 10))
END
little() { (ulimit -v 400000 && OMP_NUM_THREADS=1 status "$@"); }
little 0 smoe verify big.tar.gz some.npz >/dev/null || fail "an archive is read without being held, and zeros that are no bomb are read"
little 3 smoe verify big.npz >out 2>&1 || fail "$(cat out)"
grep -q 'big.npz: a.npy: the file inflates to more than 64 times its size' out || fail "$(cat out)"
little 3 smoe verify many.npz >out 2>&1 || fail "$(cat out)"
grep -q 'many.npz: more than 16384 tensors' out || fail "$(cat out)"
little 3 smoe data . data.source=idx -j1 >out 2>&1 || fail "$(cat out)"
grep -q 'inflates to more than the [0-9]* bytes accepted' out || fail "$(cat out)"
little 3 smoe data big.tar.gz -j1 >out 2>&1 || fail "$(cat out)"
grep -q 'x.png: claims 419430400 bytes, at most' out || fail "$(cat out)"

# a file with holes, which claims a terabyte
mkdir -p holes/train/cat && truncate -s 1T holes/train/cat/x.png 2>/dev/null || skip "no files with holes here"
for format in gnu posix; do
    (cd holes && timeout 60 tar --sparse --format=$format -cf ../$format.tar train) || skip "no tar with --sparse"
    mkdir $format && cp $format.tar $format/train.tar && cp $format.tar $format/test.tar
    for what in "$format.tar" "$format/{split}.tar data.source=webdataset"; do
        little 3 smoe data $what -j1 >out 2>&1 || fail "$format, $what: $(cat out)"
        grep -q 'a sparse file' out || fail "$format, $what: $(cat out)"
    done
done
