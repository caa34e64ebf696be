# predict: the most likely classes of files, as in the evaluation, from a model alone, without its data.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q -o run >/dev/null
status 0 smoe inspect run -q -o seen --images 0,3 data.limit=20 >/dev/null
# any PNG will do, here those of the overlays
picture=$(ls seen/overlays/*.png | head -n 1)
status 0 smoe predict run "$picture" --top 3 >out
[ "$(head -n 1 out)" = "$picture" ] && [ "$(wc -l <out)" -eq 4 ] || fail "$(cat out)"
grep -qE '^ +[0-9]+\.[0-9][0-9]%  [a-z]+$' out || fail "no class by its name: $(cat out)"
[ "$(sed 1d out | tr -d ' %' | sed 's/[a-z].*//' | sort -rn | tr '\n' ' ')" = "$(sed 1d out | tr -d ' %' | sed 's/[a-z].*//' | tr '\n' ' ')" ] ||
    fail "not the likeliest first: $(cat out)"
cp run/ckpt/latest/model.safetensors alone.safetensors
rm -r run
status 0 smoe predict alone.safetensors "$picture" --top 3 >again
cmp out again || fail "a file alone predicts something else"
cp out out.3
status 0 smoe predict alone.safetensors "$picture" "$picture" --top 100 --json >json
grep -c '"path"' json | grep -qx 2 && grep -c '"probability"' json | grep -qx 20 || fail "$(cat json)"
# the probabilities of all classes sum to 1
awk -F: '/"probability"/ { sum += $2 } END { exit !(sum > 1.9999 && sum < 2.0001) }' json || fail "probabilities do not sum to 1"
# class names belong to the data: a model without data prints numbers
status 0 smoe init tiny.yaml bare.safetensors -q >/dev/null
status 0 smoe predict bare.safetensors "$picture" >out
grep -qE '%  class [0-9]$' out || fail "$(cat out)"
status 3 smoe predict alone.safetensors nothing.png 2>err
grep -q '^smoe predict: nothing.png: ' err || fail "$(cat err)"
# several images that cannot be read are all named, and the others are classified
status 3 smoe predict alone.safetensors nothing.png "$picture" tiny.yaml --top 3 >again 2>err
cmp out.3 again || fail "an image beside damaged ones: $(cat again)"
[ "$(cut -d: -f 1,2 err | tr '\n' ' ')" = "smoe predict: nothing.png smoe predict: tiny.yaml " ] || fail "$(cat err)"
status 3 smoe predict alone.safetensors seen/overlays 2>err
grep -qx 'smoe predict: seen/overlays is a folder; give its images, as seen/overlays/\*' err || fail "a folder: $(cat err)"
status 3 smoe predict alone.safetensors - <"$picture" 2>err
grep -q '^smoe predict: -: standard input is not read; write the image to a file' err || fail "standard input: $(cat err)"
cat "$picture" | smoe predict alone.safetensors /dev/stdin 2>err && fail "a pipe was read"
grep -q '^smoe predict: /dev/stdin is a pipe or a device and not a file; write the image to a file' err || fail "a pipe: $(cat err)"
status 3 smoe predict alone.safetensors https://example.org/cat.png 2>err
grep -q 'https://example.org/cat.png: an address and not a file; download the image' err || fail "an address: $(cat err)"
head -c 40 "$picture" >half.png
status 3 smoe predict alone.safetensors half.png 2>err
grep -q '^smoe predict: half.png: ' err || fail "$(cat err)"
status 3 smoe predict alone.safetensors half.png --json >json 2>/dev/null
grep -q '^  "images": \[\]$' json || fail "no list: $(cat json)"
# Formats that are not read are named, with a line that converts them.
mkdir "my photos"
foreign() { # BYTES NAME FORMAT LINE
    printf "$1" >"$2"
    status 3 smoe predict alone.safetensors "$2" 2>err
    [ "$(cat err)" = "smoe predict: $2: $3 image, but only JPEG, PNG and WebP are read
$4" ] || fail "of $2: $(cat err)"
}
foreign '\0\0\0\030ftypheic' "my photos/a.b.heic" HEIC "smoe predict: ImageMagick converts it to PNG: convert 'my photos/a.b.heic[0]' 'my photos/a.b.png'"
foreign '\0\0\0\034ftypavif' a.avif AVIF "smoe predict: ImageMagick converts it to PNG: convert 'a.avif[0]' a.png"
foreign 'II*\0' a.tiff TIFF "smoe predict: ImageMagick converts it to PNG: convert 'a.tiff[0]' a.png"
foreign 'GIF89a' "my photos/gif" GIF "smoe predict: ImageMagick converts it to PNG: convert 'my photos/gif[0]' 'my photos/gif.png'"
foreign 'GIF89a' "my photos/it's.gif" GIF "smoe predict: ImageMagick converts it to PNG: convert 'my photos/it'\\''s.gif[0]' 'my photos/it'\\''s.png'"
foreign 'GIF89a' g.PNG GIF "smoe predict: ImageMagick converts it to PNG: convert 'g.PNG[0]' g-converted.png"
foreign 'BM' a.bmp BMP "smoe predict: ImageMagick converts it to PNG: convert 'a.bmp[0]' a.png"

# Logits that are not finite end the work, after the images before them: weights so large that white overflows and grey does not.
command -v python3 >/dev/null || exit 0
python_png - <<'END'
import json, struct, png
png.write("grey.png", 16, 3, lambda x, y, c: 128)
png.write("white.png", 16, 3, lambda x, y, c: 255)
png.write("slow.png", 1000, 3, lambda x, y, c: 128)
data = bytearray(open("alone.safetensors", "rb").read())
size = struct.unpack("<Q", data[:8])[0]
first = json.loads(data[8:8 + size])["patch_embed.proj.weight"]["data_offsets"][0] + 8 + size
data[first:first + 48 * 4] = struct.pack("<f", 3e38) * 48
open("large.safetensors", "wb").write(data.replace(b"smoe.xxh3", b"none.xxh3").replace(b"smoe.digest", b"none.digest"))
END
status 4 smoe predict large.safetensors grey.png nothing.png white.png grey.png --top 3 -q >part 2>err
[ "$(head -n 1 part)" = grey.png ] && [ "$(wc -l <part)" -eq 4 ] || fail "before white: $(cat part)"
[ "$(grep -c '^smoe predict: ' err)" -eq 2 ] && grep -qx 'smoe predict: white.png: the logits of large.safetensors are not finite' err ||
    fail "white: $(cat err)"

# A request to stop: what was predicted until then is printed.
many=$(awk 'BEGIN { for (i = 0; i < 9000; i++) print "slow.png" }')
smoe predict alone.safetensors $many --top 1 --json >part 2>err &
pid=$!
wait_for_text err 'of 9000 images read'
kill -TERM $pid
wait $pid
got=$?
[ $got -eq 75 ] || fail "status $got after SIGTERM: $(cat err)"
count=$(sed -n 's/^smoe predict: stopped on request after \([0-9]*\) of 9000 images$/\1/p' err)
[ "$count" -gt 0 ] && [ "$(grep -c '"path"' part)" -eq "$count" ] || fail "stopped: $(cat err), $(grep -c '"path"' part) images"
