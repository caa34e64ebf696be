# smoe data: counts, sizes, damage, duplicates and the contact sheet of a small folder; archives and specs as well.
. "$ROOT/tests/cli/lib.sh"
mkdir -p photos/train/ape photos/train/bee photos/valid/ape photos/valid/bee
for i in 1 2 3; do png >photos/train/ape/$i.png; done
png >photos/train/bee/1.png
png >photos/valid/ape/1.png
png >photos/valid/bee/1.png
status 0 smoe data photos >out
grep -qE '^train +4 +0 +1 +1 +PNG 4$' out && grep -qE '^test +2 ' out && ! grep -q '^val ' out || fail "splits: $(cat out)"
grep -qE '^ape +3 +1$' out && grep -qE '^bee +1 +1$' out || fail "classes: $(cat out)"
grep -q 'grey 4' out && grep -q 'data.mean=\[0.0000, 0.0000, 0.0000\]' out || fail "modes and pixels: $(cat out)"
grep -q '2 of 2 images of test are near duplicates of images of train' out || fail "duplicates: $(cat out)"
tar -czf photos.tar.gz photos
status 0 smoe data photos.tar.gz --json >json
grep -q '"source": "image-folder"' json && grep -q '"seconds_per_image": [0-9]' json || fail "$(cat json)"
status 0 smoe data photos -q -o seen data.augment.flip=true >/dev/null
[ "$(head -n 2 seen/classes.csv)" = "$(printf 'class,name,train,test\n0,ape,3,1')" ] || fail "$(cat seen/classes.csv)"
sides() { od -An -j 16 -N 8 -t u1 "$1" | awk '{ print 256 * $3 + $4, 256 * $7 + $8 }'; }
head -c 4 seen/contact-images.png | grep -q PNG || fail "no contact sheet"
if command -v gnuplot >/dev/null; then
    [ "$(sides seen/contact.png)" = "542 188" ] || fail "with names it has another size: $(sides seen/contact.png)"
    cmp -s seen/contact.png seen/contact-images.png && fail "no names in contact.png"
    grep -q '>ape<' seen/contact.svg && grep -q '>as training augments them<' seen/contact.svg || fail "no names: $(grep '<text' -A 3 seen/contact.svg)"
fi
[ "$(sides seen/contact-images.png)" = "542 188" ] || fail "two halves of four images of 64 pixels, two classes: $(sides seen/contact-images.png)"
status 0 smoe data photos -q -o plain >/dev/null
[ "$(sides plain/contact-images.png)" = "266 188" ] || fail "without augmentation one half: $(sides plain/contact-images.png)"
[ "$(wc -l <seen/near_duplicates.csv)" -eq 3 ] || fail "$(cat seen/near_duplicates.csv)"
status 2 smoe data photos -q -o seen >/dev/null 2>err
grep -q 'exists already; --force' err || fail "$(cat err)"
# Images in no folder are no data set to compare with either; the remedy is one that --against takes.
mkdir bare && png >bare/1.png
status 3 smoe data photos --against bare >/dev/null 2>err
grep -q -- '--against needs no classes, only folders: .* as bare/all$' err || fail "$(cat err)"
status 3 smoe data photos --against nowhere >/dev/null 2>err
! grep -q 'needs no classes' err || fail "$(cat err)"
mkdir bare/all && mv bare/1.png bare/all/ && status 0 smoe data photos --against bare >/dev/null && rm -r bare
# No sheet or overlay is written where the data would get it as an image.
status 0 smoe train tiny.yaml -q train.steps=1 data.source=image-folder data.path=photos data.limit=0 train.batch_size=2 eval.fewshot.shots=[] -o run >/dev/null
refused() {
    status 2 "$@" >/dev/null 2>err
    grep -q ' is inside the data set' err || fail "$*: $(cat err)"
}
refused smoe data photos -o ./photos/../photos/train
refused smoe data photos/train data.holdout=0.5 -o photos/train/new/seen
refused smoe inspect run -o photos/train/ape
[ "$(find photos -type f | wc -l)" -eq 6 ] || fail "$(find photos)"
status 0 smoe data photos -q -o photos/seen >/dev/null
status 0 smoe data photos -q >out
grep -qE '^train +4 +0 ' out && rm -r run photos/seen || fail "beside the splits: $(cat out)"
echo no >photos/train/ape/bad.jpg
status 3 smoe data photos >out 2>err
grep -q '^left out: .*bad.jpg: unknown format' out && grep -q '1 of 5 images of train cannot be used, more than one of 100: .*even with data.on_error=skip' err || fail "damage: $(cat out err)"
rm -r photos/train
status 3 smoe data photos >out 2>err
grep -q 'no images in train/' err || fail "without train: $(cat err)"
# A spec for the data, and what train -n doubts of another one.
mkdir -p photos/train/ape photos/train/bee && for i in 1 2 3 4 5 6 7 8; do png >photos/train/ape/$i.png && png >photos/train/bee/$i.png; done
mkdir unparted && cp -r photos/train/* unparted && smoe data unparted --suggest data.on_error=skip >unparted.yaml
grep -q '^  holdout: 0.1  # ' unparted.yaml && grep -qx 'name: unparted' unparted.yaml && smoe train -n unparted.yaml >out || fail "without splits: $(cat unparted.yaml)"
status 0 smoe data photos --suggest data.on_error=skip >photos.yaml
grep -q '^  steps: 100  # 100 epochs of 16 images$' photos.yaml && grep -q '^  on_error: skip  # as given$' photos.yaml || fail "suggested: $(cat photos.yaml)"
status 0 smoe train photos.yaml -n >out
grep -q '^remark' out && fail "doubts about the suggestion: $(cat out)"
# No spec is suggested that training refuses.
mkdir -p lone/ape && cp photos/train/ape/1.png lone/ape
status 3 smoe data lone --suggest >out 2>err
[ ! -s out ] && grep -q 'too few images to hold some out' err || fail "one image: $(cat out err)"
cp photos/train/ape/2.png lone/ape && status 0 smoe data lone --suggest >out
grep -q '# a small model for 1 image$' out && grep -q ' epochs of 1 image$' out || fail "two images, one held out: $(cat out)"
# Images of 48 pixels are not enlarged.
png48() { printf '\211PNG\015\012\032\012\000\000\000\015IHDR\000\000\0000\000\000\0000\001\000\000\000\000\177y\304*\000\000\000\015IDATx\332c`\030\005\324\004\000\001P\000\0014\270:\331\000\000\000\000IEND\256B`\202'; }
mkdir -p small/ape small/bee && for i in 1 2 3 4 5 6 7 8 9; do png48 >small/ape/$i.png && png48 >small/bee/$i.png; done
status 0 smoe data small --suggest >small.yaml
grep -q '^  image_size: 48  # the median of the shorter sides is 48 pixels$' small.yaml && grep -q '^  patch_size: 6  # 64 tokens' small.yaml || fail "48 pixels: $(cat small.yaml)"
cp -r small 'My Photos' && status 0 smoe data 'My Photos' --suggest >mine.yaml
grep -qx 'name: My-Photos' mine.yaml || fail "the name of a folder with a blank: $(cat mine.yaml)"
# names that YAML would read as something else, and images with several classes
for name in 'a: b' 'x #y' '[z]' null 'end ' '- d' '"q' '{br'; do
    rm -rf odd && mkdir odd && cp -r small "odd/$name" && echo 'path,labels' >"odd/$name #.csv"
    for i in 1 2 3 4 5 6 7 8 9; do printf 'ape/%s.png,ape;bee\nbee/%s.png,bee\n' $i $i; done >>"odd/$name #.csv"
    (cd odd && status 0 smoe data --suggest data.holdout=0.2 "data.labels=$name #.csv" -- "$name" >spec.yaml && status 0 smoe train spec.yaml -n >out) || fail "$name: $(cat odd/spec.yaml)"
    grep -q '^  loss: sigmoid  # for images with several classes$' odd/spec.yaml || fail "$name: $(cat odd/spec.yaml)"
done
# names that no spec can have
for name in "$(printf 'a\nb')" "$(printf 'a\377')" "$(printf 'a\033[m')"; do
    cp -r small "$name" && status 2 smoe data --suggest "$name" 2>err
    grep -q 'must be printable UTF-8 text; rename it, or give a symbolic link to it$' err || fail "$(cat err)"
    ln -s "$name" link && status 0 smoe data --suggest link >/dev/null && rm -r link "$name"
done
grep -q '^  loss: softmax$' small.yaml || fail "$(cat small.yaml)"
# what a spec says of its data holds for the suggestion too
echo train/ape/1.png >twice.txt
printf 'data: {source: image-folder, path: photos, limit: 14, exclude: twice.txt, resize: bicubic, on_error: skip}\n' >given.yaml
status 0 smoe data given.yaml --suggest >suggested.yaml
for key in 'limit: 14' 'resize: bicubic' "exclude: $PWD/twice.txt" 'on_error: skip'; do
    grep -qFx "  $key  # as given" suggested.yaml || fail "$key: $(cat suggested.yaml)"
done
# whatever folder the suggestion is saved in, and the given spec was in: of specs and of paths
mkdir -p there elsewhere && mv given.yaml photos twice.txt there
for given in there/given.yaml there/photos; do
    status 0 smoe data $given --suggest data.on_error=skip >elsewhere/suggested.yaml
    (cd / && status 0 smoe data "$OLDPWD/elsewhere/suggested.yaml") >out 2>err || fail "$given, saved elsewhere: $(cat out err)"
done
# a name that SMOE_DATA finds stays one
cp there/given.yaml elsewhere && sed -i 's/, exclude: twice.txt//' elsewhere/given.yaml
SMOE_DATA=$PWD/there status 0 smoe data elsewhere/given.yaml --suggest >named.yaml
grep -qx '  path: photos' named.yaml || fail "found by SMOE_DATA: $(cat named.yaml)"
mv there/* .
head -1 suggested.yaml | grep -q '^# For 13 images' || fail "$(cat suggested.yaml)"
smoe data suggested.yaml >out
grep -q '^train  *13 ' out || fail "other images than those of the suggestion: $(cat out)"
printf 'data: {source: image-folder, path: photos}\n' >bare.yaml
status 0 smoe train bare.yaml -n train.steps=5000 >out
grep -q '^remark .* epochs of the same 16 images, without data.augment$' out && grep -q '^remark .* parameters for 16 images$' out || fail "no doubts: $(cat out)"
line=$(sed -n 's/^.*`\(smoe data .* --suggest\)` prints a spec for this data$/\1/p' out)
[ -n "$line" ] && status 0 $line >/dev/null || fail "the remedy: $(cat out)"
rm -r photos/train
mkdir nothing
status 3 smoe data nothing 2>err
grep -q 'expected train/CLASS/IMAGE' err || fail "of an empty folder: $(cat err)"
head -c 3073 /dev/zero >test_batch.bin && mkdir cifar && cat test_batch.bin test_batch.bin >cifar/test_batch.bin && cp test_batch.bin cifar/data_batch_1.bin
status 0 smoe data cifar >out
grep -q 'cifar: cifar10, 10 classes' out && grep -qE '^test +2 ' out || fail "CIFAR: $(cat out)"
status 0 smoe data cifar data.source=cifar10 >given
[ "$(grep '^pixels' given)" = "$(grep '^pixels' out)" ] && grep -q 'at 32 x 32' out || fail "CIFAR by its name: $(cat given)"
status 0 smoe data tiny.yaml data.test_size=50 >out
grep -q 'tiny.yaml: shapes, 10 classes' out || fail "a spec: $(cat out)"
status 2 smoe data tiny.yaml data.nothing=1 2>err

# a JPEG that lies on its side by its EXIF data: predictions are those of the file as it is stored, or of what is to be seen
turned() { head -c 2 "$1" && printf '\377\341\000\040Exif\000\000MM\000\052\000\000\000\010\000\001\001\022\000\003\000\000\000\001\000\006\000\000' && tail -c +3 "$1"; }
corpus=$PWD/corpus
mkdir corpus && tar -xzf "$ROOT/tests/fuzz/corpus/image.tar.gz" -C corpus || fail "no images"
mkdir -p side/train/ape side/train/bee side/test/ape side/test/bee
cp "$corpus"/colour.jpg side/train/ape/1.jpg && turned side/train/ape/1.jpg >side/train/ape/2.jpg
cp "$corpus"/grey.jpg side/train/bee/1.jpg && cp side/train/bee/1.jpg side/train/bee/2.jpg
cp side/train/ape/1.jpg side/test/ape && cp side/train/bee/1.jpg side/test/bee
# mean and std of a suggestion are those of the images that it trains with, in their size
status 0 smoe data side --suggest >side.yaml
grep -qx '  orientation: apply  # 1 image of train has an EXIF orientation' side.yaml || fail "not turned: $(cat side.yaml)"
suggested=$(sed -nE 's/^  (mean|std): (.*\]).*/data.\1=\2/p' side.yaml | tr '\n' ' ')
status 0 smoe data side.yaml >out
grep -qF "pixels  of train at 32 x 32: ${suggested% }" out || fail "suggested $suggested: $(cat out)"
status 0 smoe data side >out
grep -q '^turned  1 image of train has an EXIF orientation: left as stored; data.orientation=apply' out || fail "orientation: $(cat out)"
status 0 smoe data side data.orientation=apply >out
grep -q '^turned  1 image of train has an EXIF orientation: turned upright' out || fail "orientation, applied: $(cat out)"
grep -qE '^train +4 +0 +8 .. 12.5 .. 19 +8 .. 12.5 .. 19 ' out || fail "sizes of 19 x 17 and 17 x 19: $(cat out)"
# the shorter sides of two images of 19 x 17 and two of 17 x 19 are 17, although the median width and the median height are 18
mkdir -p both/train/ape both/train/bee
for class in ape bee; do cp side/train/ape/*.jpg both/train/$class; done
status 0 smoe data both data.orientation=apply data.holdout=0.5 --suggest >both.yaml
grep -q '^  image_size: .* the median of the shorter sides is 17 pixels$' both.yaml || fail "$(cat both.yaml)"
for way in ignore apply; do
    status 0 smoe train tiny.yaml data.source=image-folder data.path=side data.limit=0 data.orientation=$way train.batch_size=4 train.steps=20 -o $way >/dev/null 2>$way.err
    status 0 smoe predict $way side/train/ape/1.jpg side/train/ape/2.jpg --json >$way.json
done
grep -q '^1 image of train is not turned upright; data.orientation=apply' ignore.err && ! grep -q orientation apply.err || fail "remarks: $(cat ignore.err apply.err)"
probabilities() { tr -d ' \n' <$1.json | grep -o '"top":\[[^]]*' | uniq | wc -l; }
[ "$(probabilities ignore)" -eq 1 ] && [ "$(probabilities apply)" -eq 2 ] || fail "predictions: $(cat ignore.json apply.json)"
