# With pyarrow: parquet files, as the hub of Hugging Face has them, become an archive that trains.
. "$ROOT/tests/cli/lib.sh"
python3 -c 'import pyarrow.parquet' 2>/dev/null || skip "no pyarrow: examples/parquet_to_tar.py was not tried"
for class in ape bee; do
    mkdir -p photos/$class
    for i in 0 1 2 3 4 5 6 7 8 9; do png >photos/$class/$i.png; done
done
python3 - <<'END'
import json, pyarrow, pyarrow.parquet
data = [open(f"photos/{c}/{i}.png", "rb").read() for i in range(10) for c in ("ape", "bee")]
said = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": ["b_e", "b/e"]}}
table = pyarrow.table({"image": [{"bytes": d, "path": None} for d in data], "label": [i % 2 for i in range(20)]})
table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": said}})})
for name in ("train-0.parquet", "train-1.parquet", "test-0.parquet"):
    pyarrow.parquet.write_table(table, name)
END
status 0 python3 "$ROOT/examples/parquet_to_tar.py" out.tar train= train-*.parquet test= test-0.parquet >out
grep -q '40 images of train, 20 images of test' out || fail "of the converter: $(cat out)"
tar -tf out.tar | grep -q '^train/b%2Fe/00000039.png$' || fail "names: $(tar -tf out.tar | head)"
[ "$(tar -tf out.tar | cut -d / -f 2 | sort | uniq -c | tr -s ' \n' ' ')" = ' 30 b%2Fe 30 b_e ' ] || fail "classes: $(tar -tf out.tar)"
tar -xOf out.tar train/b_e/00000000.png | cmp - photos/ape/0.png || fail "bytes"
status 0 smoe train tiny.yaml -q data.source=image-folder data.path=out.tar data.limit=0 train.steps=4 -o parquet >/dev/null
# A row that cannot be copied leaves no archive of the rows before it, and an earlier archive as it was.
python3 - <<'END'
import pyarrow, pyarrow.parquet
image = [{"bytes": b"\x89PNG", "path": None}, {"bytes": b"BM", "path": None}]
pyarrow.parquet.write_table(pyarrow.table({"image": image, "label": [0, 1]}), "bad.parquet")
END
cp out.tar before.tar
for out in out.tar none.tar; do
    status 1 python3 "$ROOT/examples/parquet_to_tar.py" $out train= bad.parquet 2>err
    grep -q 'bad.parquet: row 1: neither a JPEG' err || fail "$(cat err)"
done
# Rows are counted in each file.
status 1 python3 "$ROOT/examples/parquet_to_tar.py" none.tar train= train-0.parquet bad.parquet 2>err
grep -q 'bad.parquet: row 1: neither a JPEG' err || fail "of a second file: $(cat err)"
# Labels that are no number of a class, and two classes of one name.
while read -r names label said; do
    python3 - "$names" "$label" <<'END'
import json, pyarrow, pyarrow.parquet, sys
said = {"label": {"_type": "ClassLabel", "names": sys.argv[1].split(",")}}
table = pyarrow.table({"image": [{"bytes": open("photos/ape/0.png", "rb").read()}], "label": [json.loads(sys.argv[2])]})
table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": said}})})
pyarrow.parquet.write_table(table, "label.parquet")
END
    status 1 python3 "$ROOT/examples/parquet_to_tar.py" none.tar train= label.parquet 2>err
    [ "$(cat err)" = "parquet_to_tar: label.parquet: row 0: $said" ] || fail "$names $label: $(cat err)"
done <<'END'
ape,bee 2 label 2 is not the number of a class
ape,bee -2 label -2 is not the number of a class
ape,bee 0.5 label 0.5 is not the number of a class
ape,ape 1 two classes are called ape
ape, 1 the name of its class is empty or has a zero byte
END
cmp out.tar before.tar || fail "an archive was replaced by a part of another"
[ ! -e none.tar ] || fail "an archive with the first rows only"
# What the files do not say alike, or what is no such file.
python3 - <<'END'
import json, pyarrow, pyarrow.parquet
image = [{"bytes": open("photos/ape/0.png", "rb").read(), "path": None}] * 2
classes = lambda *names: {"_type": "ClassLabel", "names": names}
said = {"image": {"_type": "Image"}, "coarse": classes("animal"), "fine": classes("ape", "bee")}
table = pyarrow.table({"image": image, "coarse": [0, 0], "fine": [0, 1]})
pyarrow.parquet.write_table(table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": said}})}), "two.parquet")
pyarrow.parquet.write_table(pyarrow.table({"image": image, "fine": [0, 1]}), "unnamed.parquet")
open("page.parquet", "w").write("<html>not a parquet file</html>")
END
convert() { python3 "$ROOT/examples/parquet_to_tar.py" none.tar "$@" 2>err; }
status 1 convert train= two.parquet
[ "$(cat err)" = 'parquet_to_tar: two.parquet: columns coarse, fine are each of type ClassLabel: give image=COLUMN, label=COLUMN' ] || fail "$(cat err)"
status 1 convert label=fine train= two.parquet unnamed.parquet
[ "$(cat err)" = 'parquet_to_tar: unnamed.parquet: some files have names of classes, and others only their numbers' ] || fail "$(cat err)"
for file in page.parquet nowhere.parquet; do
    status 1 convert train= $file
    [ "$(wc -l <err)" -eq 1 ] && grep -q "^parquet_to_tar: $file: " err || fail "$(cat err)"
done
# An archive that cannot be written, and images that are no bytes.
python3 - <<'END'
import pyarrow, pyarrow.parquet
for name, image in ("paths", {"path": "a.png"}), ("whole", 3):
    pyarrow.parquet.write_table(pyarrow.table({"image": [image], "label": [0]}), name + ".parquet")
END
for file in paths whole; do
    status 1 convert train= $file.parquet
    [ "$(cat err)" = "parquet_to_tar: $file.parquet: row 0: no bytes of an image" ] || fail "$(cat err)"
done
mkdir folder.tar
for out in nowhere/out.tar folder.tar; do
    status 1 python3 "$ROOT/examples/parquet_to_tar.py" $out label=fine train= two.parquet 2>err
    [ "$(wc -l <err)" -eq 1 ] && grep -q "^parquet_to_tar: .*$out.part: " err || fail "$(cat err)"
done
status 1 convert train=
grep -qx 'parquet_to_tar: no files: write train= and their names' err || fail "$(cat err)"
[ ! -e none.tar ] || fail "an archive of files that cannot be read"
status 0 convert label=fine train= two.parquet
[ "$(tar -tf none.tar | cut -d / -f 2 | sort | tr '\n' ' ')" = 'ape bee ' ] || fail "the column that is given: $(tar -tf none.tar)"
