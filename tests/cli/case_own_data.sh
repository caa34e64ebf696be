# Data as users have it: one folder of classes without splits, a table with several classes per image, files that are left
# out, and the message for an unknown layout.
. "$ROOT/tests/cli/lib.sh"
for class in ape bee; do
    mkdir -p photos/$class
    for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do png >photos/$class/$i.png; done
done
mv photos/ape/19.png photos/ape/19.JPG # PNG by its content
echo x | tee photos/ape/live.HEIC photos/bee/live.heic >photos/bee/notes
own='data.source=image-folder data.path=photos data.limit=0 train.steps=4'
status 3 smoe train tiny.yaml -q $own -o none 2>err
grep -q 'found ape/, bee/' err || grep -q 'found bee/, ape/' err || fail "what was found: $(cat err)"
grep -q 'expected train/CLASS/IMAGE' err && grep -q 'data.holdout=0.1' err || fail "what is accepted: $(cat err)"
status 0 smoe data photos data.holdout=0.25 >out
grep -q '^remark  train, test: 3 files .*: 1 others, 2 .heic$' out && grep -qE '^ape +15 +5$' out || fail "of other files: $(cat out)"
status 0 smoe cost tiny.yaml data.source=image-folder data.path=photos data.holdout=0.25 --json >cost.json
[ "$(grep -o '"params": [0-9]*' cost.json)" = "$(smoe cost tiny.yaml data.classes=2 --json | grep -o '"params": [0-9]*')" ] || fail "classes of the folder: $(grep params cost.json)"
status 0 smoe train tiny.yaml $own data.holdout=0.25 -o held >/dev/null 2>err
grep -q '^3 files are not images that are read' err || fail "and of a run: $(cat err)"
status 0 smoe eval held >out
grep -q '^images  *10$' out || fail "a quarter of 2 times 20 images is 10: $(cat out)"
status 0 smoe eval held eval.split=train >out
grep -q '^images  *30$' out || fail "and the others train: $(cat out)"
# with another share held out, the images may be those of the training
for given in data.holdout=0.5 data.seed=9; do
    status 0 smoe eval held $given >/dev/null 2>err
    grep -q '^held/ckpt/.*: trained with another data.holdout or data.seed: ' err || fail "$given: $(cat err)"
done
status 0 smoe eval held data.holdout=0.25 >/dev/null 2>err
! grep -q 'trained with' err || fail "$(cat err)"
# Models that were trained with images that were prepared otherwise: eval, compare and soup say it.
status 0 smoe eval held data.orientation=apply data.fit=squash data.resize=bilinear >/dev/null 2>err
grep -q "^held/ckpt/.*: trained with other pixel values: its own spec has 'data.orientation=ignore' 'data.fit=crop'$" err || fail "$(cat err)"
status 0 smoe train tiny.yaml -q $own data.holdout=0.25 data.orientation=apply data.crop_pct=0.9 -o upright >/dev/null
status 0 smoe compare held upright --outputs >out
grep -qE '^pixels +each model gets those of its own spec; the two differ in data.orientation, data.crop_pct$' out || fail "$(cat out)"
status 0 smoe compare held held --outputs >out
! grep -q '^pixels' out || fail "$(cat out)"
status 0 smoe soup held upright >/dev/null 2>err
grep -q '^upright/ckpt/.*: data.orientation, data.crop_pct: not as in held/ckpt/.*, whose spec prepares the images of all models' err || fail "$(cat err)"
status 0 smoe soup held upright -q >/dev/null 2>err
! grep -q . err || fail "$(cat err)"
# cells of a sweep are compared, so their images must be the same
status 0 smoe sweep tiny.yaml -q $own data.holdout=0.25 seed=0,1 -o cells >/dev/null
png >photos/bee/20.png
status 5 smoe sweep tiny.yaml -q $own data.holdout=0.25 seed=0,1,2 --extend -o cells >/dev/null 2>err
grep -q 'cells/002-seed=2: the training data is not that of cells/000-seed=0, with which it would be compared: it has 31 images, and had 30; ' err || fail "$(cat err)"
rm photos/bee/20.png
status 0 smoe sweep --resume cells --retry-failed -q >/dev/null
# and those that they are evaluated on, at the end of training or later
mkdir both && cp -r photos both/test && cp -r photos both/train
rm -f both/*/*/live.* both/*/*/notes
both="$own data.path=both"
status 0 smoe sweep tiny.yaml -q $both seed=0,1 evaluate.eval.order=shuffled,file -o both-cells >/dev/null
status 0 smoe train tiny.yaml -q $both -o both-run >/dev/null 2>&1
cp -r both-cells both-lost && rm both-lost/claims/001-*.evaluations.json
status 0 smoe sweep tiny.yaml -q $both data.augment.flip=true,false --cells 0 -o both-flips >/dev/null
status 0 smoe sweep tiny.yaml -q $both data.train_limit=16,20 --cells 0 -o both-limits >/dev/null
echo >>both/test/bee/3.png
status 5 smoe sweep tiny.yaml -q $both seed=0,1,2 evaluate.eval.order=shuffled,file --extend -o both-cells >/dev/null 2>err
grep -q 'both-cells/002-seed=2: the evaluation data is not that of both-cells/000-seed=0, with which it would be compared: names, ' err || fail "$(cat err)"
# rows with other keys of training alone are compared image by image, so these must be the same, too
for cells in both-flips both-limits; do
    status 5 smoe sweep --resume $cells -q >/dev/null 2>err
    grep -q 'the evaluation data is not that of .*/000-.*, with which it would be compared: names, ' err || fail "$cells: $(cat err)"
done
status 3 smoe verify both-lost --repair >out 2>&1
grep -q "001-seed=1: the images of split 'test' are not those on which 000-seed=0 was evaluated; " out || fail "$(cat out)"
status 0 smoe train both-run --resume train.steps=6 >/dev/null 2>err
grep -q "^the data of split 'test' is not that of the evaluations so far: " err || fail "$(cat err)"
status 0 smoe train both-run --resume train.steps=8 >/dev/null 2>err
! grep -q 'so far: ' err || fail "$(cat err)"
truncate -s -1 both/test/bee/3.png
status 0 smoe sweep --resume both-cells --retry-failed -q >/dev/null
status 0 smoe verify both-lost --repair >/dev/null 2>&1
# at rate 0 the first evaluation is the best one; a cell that ends early says how many steps it made
status 0 smoe sweep tiny.yaml -q $own data.holdout=0.25 seed=0,1 train.steps=9 train.optimizer.lr=0 train.eval_every=1 \
    train.checkpoint_every=0 train.patience=2 eval.split=val -o early >/dev/null
status 0 smoe sweep --status early >out
[ "$(grep -c ' done  *3 of 9 ' out)" -eq 2 ] || fail "steps of cells that ended early: $(cat out)"
status 0 smoe eval early/000-seed=0 --which best --json >out
grep -q '"checkpoint": "early/000-seed=0/ckpt/step_00000001/' out || fail "their best checkpoint: $(cat out)"
status 2 smoe train tiny.yaml -q $own data.holdout=2 -o none 2>err
grep -q 'data.holdout: image-folder holds out a share' err || fail "of a share of 2: $(cat err)"

# several classes per image
{
    echo path,labels
    for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do
        echo "ape/$i.$([ $i = 19 ] && echo JPG || echo png),grey;ape"
        echo "bee/$i.png,bee"
    done
} >labels.csv
status 0 smoe train tiny.yaml -q $own data.holdout=0.25 data.labels=labels.csv train.loss=sigmoid -o multi >/dev/null 2>err
several='has images with several classes: train.loss softmax uses only the first class of each'
! grep -q "$several" err || fail "$(cat err)"
status 0 smoe train tiny.yaml $own data.holdout=0.25 data.labels=labels.csv -o first >/dev/null 2>err
[ $(grep -c "$several, train.loss=sigmoid all of them" err) -eq 1 ] || fail "$(cat err)"
status 0 smoe eval multi --predictions p.csv >out
cut -d, -f4 p.csv | sort -u | tr '\n' ' ' | grep -q '^bee grey label_name ' || fail "main classes: $(cat p.csv)"
sed -i 's/^bee.3.png.*/bee\/3.png,/' labels.csv
line=$(grep -n '^bee.3.png' labels.csv | cut -d: -f1)
status 3 smoe train tiny.yaml -q $own data.holdout=0.25 data.labels=labels.csv -o none 2>err
grep -q "labels.csv:$line: bee/3.png has no class" err || fail "of an image without a class: $(cat err)"

# splits that do not agree, links to nothing, a folder within itself, and files whose names look like keys
mkdir -p brought/train brought/test && cp -r photos/ape photos/bee brought/train && cp -r photos/ape brought/test && rm -f brought/*/*/live.* brought/*/*/notes
brought='data.source=image-folder data.path=brought data.limit=0 train.steps=4 data.on_error=skip'
status 3 smoe data brought >out 2>err
grep -q 'the class bee is in train/, but not in test/' err || fail "of a class that test lacks: $(cat err)"
cp -r photos/bee brought/test && rm brought/test/bee/live.* brought/test/bee/notes && ln -s .. brought/train/ape/up
ln -s nowhere brought/train/ape/40.png && ln -s nowhere brought/test/bee/41.png
# files that not even root can read: a link to itself, and one whose name is too long
ln -s 42.png brought/test/bee/42.png && ln -s "$(printf '%0300d' 0)" brought/test/bee/43.png
status 3 smoe data brought >out 2>err
grep -q '^left out: .*bee/42.png: Too many levels' out && grep -q '^left out: .*bee/43.png: File name too long' out || fail "unreadable: $(cat out)"
grep -q '1 of 41 images of train cannot be used, more than one of 100: training refuses them, even with data.on_error=skip' err || fail "$(cat err)"
[ "$(grep -c '^left out: .*a link to a file that is not there' out)" -eq 2 ] && grep -qE '^ape +20 +20$' out || fail "links: $(cat out)"
grep -q '^remark  train, test: .*train/ape/up leads to a folder above it, and is not followed' out || fail "a loop: $(cat out)"
rm brought/test/bee/4[123].png
for i in $(seq 100); do cp photos/ape/1.png brought/train/ape/x$i.png; done
status 3 smoe data brought >out 2>err
grep -q '1 image cannot be used; data.on_error=skip trains without it' err || fail "the remedy: $(cat err)"
rm brought/train/ape/40.png && ln -s 40.png brought/train/ape/40.png # unreadable, and not a link to nothing
status 0 smoe train tiny.yaml $brought -o brought-run >/dev/null 2>err
grep -q '1 image of train is left out' err && grep -q 'up leads to a folder above it' err || fail "of a run: $(cat err)"
cp photos/ape/1.png w=200.png && cp photos/ape/1.png 'seed=3'
status 0 smoe predict brought-run *=*.png seed=3 >out && status 0 smoe predict brought-run -- w=200.png >out
cp tiny.yaml lr=1e-3.yaml && cp tiny.yaml seed=5 && status 0 smoe cost lr=1e-3.yaml >out && status 0 smoe cost -- seed=5 >out
status 2 smoe cost seed=5 2>err
grep -q 'write ./seed=5 for the file' err || fail "what to write: $(cat err)"

# Classes by their names. Training has ape and bee; the images here are of ape, bee in the folders of ant and ape, and of cow.
mkdir -p zoo && for s in train test; do mkdir -p zoo/$s && cp -r photos/bee zoo/$s/bee && cp -r photos/bee zoo/$s/cow && rm -f zoo/$s/*/live.* zoo/$s/*/notes; done
zoo='data.path=zoo data.holdout=0 data.on_error=stop'
status 0 smoe eval brought-run $zoo --json >zoo.json 2>err
grep -q 'the model does not know cow: 20 images are left out, and 20 used' err || fail "an unknown class: $(cat err)"
grep -q '"images": 20' zoo.json || fail "images of known classes: $(cat zoo.json)"
status 0 smoe eval brought-run $zoo --predictions z.csv >/dev/null 2>&1
cut -d, -f3,4 z.csv | sort -u | tr '\n' ' ' | grep -q '^1,bee label,label_name $' || fail "bee is class 1 of the model: $(head -n 3 z.csv)"
status 0 smoe inspect brought-run $zoo >out 2>&1
grep -q ', 20 images of test' out || fail "inspect: $(cat out)"
# an accented letter as one character in archives, which libarchive makes of two in the folder
for s in train test; do
    mkdir -p "accents/$s/$(printf 'cafe\314\201')" accents/$s/cafz
    cp photos/ape/*.png accents/$s/cafz && cp photos/bee/*.png accents/$s/cafe?*
    rm -f accents/$s/*/live.* accents/$s/*/notes
done
accents='data.source=image-folder data.limit=0 train.steps=4'
status 0 smoe train tiny.yaml $accents data.path=accents -q -o accents-run >/dev/null 2>&1
tar -C accents --format=pax -cf accents.tar . && tar -tf accents.tar | grep -q 'cafe' || fail "the names of the archive: $(tar -tf accents.tar)"
status 0 smoe eval accents-run --predictions folder.csv >folder.out 2>/dev/null
status 0 smoe eval accents-run data.path=accents.tar --predictions archive.csv >archive.out 2>/dev/null
cmp folder.out archive.out || fail "names with accents in an archive: $(cat archive.out)"
[ "$(cut -d, -f3 folder.csv | sort | uniq -c)" = "$(cut -d, -f3 archive.csv | sort | uniq -c)" ] || fail "labels: $(cat archive.csv)"
# cut between two members, a tar has no empty blocks at its end
end=$(LC_ALL=C tar -tvRf accents.tar | sed -n 's/^block \([0-9]*\): .*Block of NULs.*/\1/p') && head -c $((512 * end)) accents.tar >cut.tar
smoe data cut.tar >out 2>&1
grep -q '^remark  train, test: .*cut.tar: no empty blocks at the end of the tar: ' out || fail "a tar without its end: $(cat out)"
smoe data accents.tar >out 2>&1
grep -q 'empty blocks' out && fail "a whole tar: $(cat out)"
# joined by cat, the second archive would be left out, plain or compressed, with tars that gzip joins as well
gzip -k accents.tar && cat accents.tar accents.tar >twice.tar && cat accents.tar.gz accents.tar.gz >twice.tar.gz
for joined in twice.tar twice.tar.gz; do
    for command in verify data; do
        status 3 smoe $command $joined >out 2>&1
        grep -q 'the tar ends at byte [0-9]*.*, and more follows: .*tar --concatenate --file=A.tar B.tar' out && ! grep -q 'read to the end' out ||
            fail "$command of joined archives: $(cat out)"
    done
done
cp accents.tar both.tar && tar --concatenate --file=both.tar accents.tar
status 0 smoe verify both.tar >out
status 0 smoe verify accents.tar.gz >out
# and with one in lists of images and tables of labels
printf 'test/caf\303\251/3.png\ntrain/caf\303\251/3.png\n' >composed.names
status 0 smoe data accents data.exclude=composed.names >out 2>err
[ "$(grep -c '1 image of t[a-z]* is left out, of the 2 that' out)" -eq 2 ] || fail "data.exclude with accents: $(cat out)"
LC_ALL=C sed 's/\xc3\xa9/e\xcc\x81/' composed.names >decomposed.names
status 0 smoe eval accents-run data.path=accents.tar data.exclude=decomposed.names --json >out 2>/dev/null
grep -q '"images": 38' out || fail "data.exclude of an archive with accents: $(cat out)"
mkdir -p flat/test && cp photos/bee/1.png "flat/test/$(printf 'e\314\201').png" && cp photos/ape/1.png flat/test/f.png && cp -r flat/test flat/train
for s in train test; do printf '%s/\303\251.png,one\n%s/f.png,two\n' $s $s; done | sed '1s/^/path,labels\n/' >flat.csv
status 0 smoe data flat data.labels=flat.csv >out 2>err
grep -qE '^one +1 +1$' out || fail "data.labels with accents: $(cat out)"
for s in train test; do printf '%s/\303\251.png,caf\303\251\n%s/f.png,cafe\314\201\n' $s $s; done | sed '1s/^/path,labels\n/' >both.csv
status 0 smoe data flat data.labels=both.csv >out 2>err
grep -q "two classes are named $(printf 'caf\303\251'): the accents of one are" out || fail "a class in both forms: $(cat out)"
mkdir forms && cp -r both/train both/test forms
mv forms/train/bee "forms/train/$(printf 'b\303\251')" && mv forms/test/bee "forms/test/$(printf 'be\314\201')"
status 3 smoe data forms >/dev/null 2>err
grep -q 'but not in t[a-z]*/, where the accents of its name are written in another way, ' err || fail "a class in another form: $(cat err)"
# the names that a configuration of transformers has
mkdir theirs && cp brought-run/ckpt/latest/model.safetensors theirs && foreign theirs/model.safetensors
LC_ALL=C sed -i 's/"smoe\.class_names":/"some.class_names":/' theirs/model.safetensors
printf '{"id2label": {"1": "bee", "0": "ape"}}' >theirs/config.json
loss_of() { smoe eval "$1" $zoo 2>/dev/null | grep '^loss'; }
[ "$(loss_of theirs)" = "$(loss_of brought-run)" ] || fail "names beside a file: $(loss_of theirs), $(loss_of brought-run)"
for config in '{"label_names": ["ape", "bee"]}' '{"pretrained_cfg": {"label_names": {"0": "ape", "1": "bee"}}}'; do
    echo "$config" >theirs/config.json
    [ "$(loss_of theirs)" = "$(loss_of brought-run)" ] || fail "names of timm, $config: $(loss_of theirs), $(loss_of brought-run)"
done
# names that are missing, and a name of two classes
for config in '{"id2label": {"0": "ape", "2": "bee"}}' '{"label_names": ["ape", null]}' '{"id2label": {"1": "ape", "2": "bee"}}'; do
    echo "$config" >theirs/config.json
    status 0 smoe eval theirs $zoo >/dev/null 2>err
    grep -q 'because config.json does not have a name for each number from 0 on' err || fail "$config: $(cat err)"
done
echo '{"id2label": {"0": "bee", "1": "bee"}}' >theirs/config.json
status 0 smoe eval theirs $zoo >/dev/null 2>err
grep -q 'config.json gives the name bee to the classes 0 and 1: images of that class count as one of them' err || fail "a name twice: $(cat err)"
printf '{"id2label": {"1": "bee", "0": "ape"}}' >theirs/config.json
# go with the weights
mkdir moved && status 0 smoe convert theirs moved/again.safetensors -q >/dev/null && status 0 smoe convert moved/again.safetensors moved/model.safetensors --type f32 -q >/dev/null
[ "$(loss_of moved)" = "$(loss_of brought-run)" ] || fail "names of a converted file: $(loss_of moved), $(loss_of brought-run)"
status 0 smoe soup moved theirs $zoo -o broth >/dev/null 2>&1
[ "$(loss_of broth)" = "$(loss_of brought-run)" ] || fail "names of a soup: $(loss_of broth), $(loss_of brought-run)"
mkdir turned && cp theirs/model.safetensors turned && printf '{"id2label": {"0": "bee", "1": "ape"}}' >turned/config.json
status 3 smoe soup moved turned $zoo 2>err
grep -q '^smoe soup: turned/model.safetensors: its classes differ from those of the first model$' err || fail "a soup of other classes: $(cat err)"
status 0 smoe compare moved turned >out 2>&1
grep -q '^classes  *heads are not compared, because their classes differ: ape, bee; bee, ape' out || fail "a comparison of other classes: $(cat out)"
# A soup of files without a spec has the spec and the names of the classes, which are not in the order of the folders.
LC_ALL=C sed -i 's/"smoe\.spec":/"some.spec":/; s/"smoe\.version":/"some.version":/' turned/model.safetensors
cp brought-run/spec.yaml turned.yaml
status 0 smoe soup turned turned --spec turned.yaml $zoo -o stew -q >/dev/null
same_eval() { # MODEL WITHOUT A SPEC, FILE WITH ONE
    smoe eval "$1" --spec turned.yaml $zoo -q | grep -E '^(loss|top)' >a.eval
    smoe eval "$2" $zoo -q | grep -E '^(loss|top)' >b.eval
    [ -s a.eval ] && cmp a.eval b.eval || fail "$2 is another model than $1: $(cat a.eval b.eval)"
}
same_eval turned stew
status 0 smoe predict stew photos/ape/1.png --top 2 >out
[ "$(sed 1d out | sed 's/.*% *//' | sort | tr '\n' ' ')" = 'ape bee ' ] || fail "names of a soup: $(cat out)"
status 0 smoe verify stew/model.safetensors >/dev/null
# Training keeps the order of its data, and puts the rows of the head in that order.
still='train.steps=1 train.optimizer.lr=0 train.schedule.warmup=0 train.schedule.cooldown=0'
status 0 smoe train tiny.yaml $brought $still --init stew -n >out
grep -q "; in the order of the data's classes: head.weight, head.bias" out && ! grep -q 'classes of the data differ' out || fail "of a plan: $(cat out)"
status 0 smoe train tiny.yaml $brought $still --init stew -o reordered >/dev/null 2>err
grep -q "; in the order of the data's classes: head.weight, head.bias" err && ! grep -q 'is not taken' err || fail "$(cat err)"
for model in stew reordered; do
    status 0 smoe eval $model ${brought% train.*} data.on_error=skip -q eval.order=file --predictions $model.csv >/dev/null
    cut -d, -f1,4,6- $model.csv >$model.cut
done
cmp stew.cut reordered.cut || fail "a head in another order: $(head -n 3 stew.csv reordered.csv)"
cut -d, -f3,4 stew.csv | grep -qx '0,bee' && cut -d, -f3,4 reordered.csv | grep -qx '1,bee' || fail "the order: $(cat stew.csv reordered.csv)"
printf '{"id2label": {"0": "tench, Tinca tinca", "1": "goldfish"}}' >theirs/config.json
status 0 smoe eval theirs $zoo >/dev/null 2>err
grep -q 'classes are matched by their numbers, because config.json does not have their names' err || fail "other names: $(cat err)"
# training begins a new head then, and says how it is taken as in an evaluation
status 0 smoe train tiny.yaml $brought $still --init theirs -o by-name >/dev/null 2>err
grep -q 'head is not taken from it; without names of classes in its configuration it is taken, by the numbers of the classes, as in smoe eval$' err || fail "a head of other names: $(cat err)"
mkdir nameless && cp theirs/model.safetensors nameless
status 0 smoe train tiny.yaml $brought $still --init nameless -n >out
! grep -q 'is not taken' out && ! grep -q 'initialised: head' out || fail "a head without names: $(cat out)"
status 0 smoe convert theirs moved/model.safetensors -f -q >/dev/null && status 0 smoe eval moved $zoo >/dev/null 2>err
grep -q 'classes are matched by their numbers, because config.json does not have their names' err || fail "other names of a converted file: $(cat err)"
# Classes that are numbers, in the order of texts in folders and of numbers in shards, are the same ones.
mkdir counted
for s in train test; do
    for c in 0 1 2 3 4 5 6 7 8 9 10 11; do
        images='0 1 2 3'
        [ $c != 2 ] || images='0 1 2 3 4 5 6 7'
        mkdir -p numbers/$s/$c && for i in $images; do png >numbers/$s/$c/$i.png && cp numbers/$s/$c/$i.png $c-$i.png && echo $c >$c-$i.cls; done
    done
    tar -cf counted/$s.tar [0-9]*-[0-7].* && rm [0-9]*-[0-7].*
done
numbers='data.source=image-folder data.path=numbers data.limit=0' counted='data.source=webdataset data.path=counted/{split}.tar data.limit=0'
status 0 smoe train tiny.yaml $numbers train.steps=4 -q -o by-folder >/dev/null
status 0 smoe train tiny.yaml $counted train.steps=4 -q -o by-shard >/dev/null
for model in by-folder by-shard; do
    status 0 smoe eval $model $numbers >a.eval 2>err
    ! grep -q 'classes are matched' err || fail "$model: $(cat err)"
    status 0 smoe eval $model $counted >b.eval 2>err
    ! grep -q 'classes are matched' err || fail "$model: $(cat err)"
    [ "$(grep -E '^(loss|top)' a.eval)" = "$(grep -E '^(loss|top)' b.eval)" ] || fail "$model: $(cat a.eval b.eval)"
done
status 0 smoe train tiny.yaml $counted $still --init by-folder -n >out
grep -q "; in the order of the data's classes: head.weight, head.bias" out || fail "a head of numbers: $(cat out)"
# the rows of a model without names may be in the order of numbers
mkdir unnamed && cp by-folder/ckpt/latest/model.safetensors unnamed && foreign unnamed/model.safetensors
LC_ALL=C sed -i 's/"smoe\.class_names":/"some.class_names":/' unnamed/model.safetensors
texts='classes are matched by their places in the order of texts, because the model has no names of them: 2 comes after 11, in place 4; '
status 0 smoe eval unnamed $numbers >/dev/null 2>err
grep -q "^test: $texts" err || fail "an evaluation: $(cat err)"
status 0 smoe train tiny.yaml $numbers $still --init unnamed -n >out
grep -q "^$texts" out || fail "a plan: $(cat out)"
status 0 smoe train tiny.yaml $numbers $still --init unnamed -o from-unnamed >/dev/null 2>err
grep -q "^$texts" err || fail "a start: $(cat err)"
zoo_keys='data.source=image-folder data.path=zoo data.limit=0 train.steps=4'
status 0 smoe train tiny.yaml $zoo_keys --init brought-run -o zoo-run >/dev/null 2>err
grep -q 'the head is not taken from it' err && grep -q 'initialised: head.weight, head.bias' err || fail "a head of other classes: $(cat err)"
status 0 smoe train tiny.yaml $zoo_keys --init brought-run -n >out
grep -q 'initialised: head.weight, head.bias' out && grep -qx 'the classes of the data differ from those of the file, so the head is not taken from it' out || fail "of a plan: $(cat out)"
status 3 smoe soup brought-run zoo-run 2>err
grep -q 'its classes differ from those of the first model' err || fail "a soup of other classes: $(cat err)"
for s in train test; do rm -r zoo/$s/bee && cp -r zoo/$s/cow zoo/$s/dog; done
status 3 smoe eval brought-run $zoo 2>err
grep -q 'none of its classes (cow, ...) is one of the model (ape, ...)' err || fail "no class in common: $(cat err)"

# images that are in another data set too
corpus=$PWD/corpus
mkdir corpus && tar -xzf "$ROOT/tests/fuzz/corpus/image.tar.gz" -C corpus || fail "no images"
mkdir -p far/ape far/bee near/x && cp "$corpus"/colour.jpg far/ape/1.jpg && cp "$corpus"/grey.jpg far/bee/1.jpg
for c in ape bee; do for i in 2 3 4; do cp photos/ape/1.png far/$c/$i.png; done; done
cp far/ape/1.jpg near/x/0.jpg && cp far/bee/1.jpg near/x/1.jpg
status 0 smoe data far data.holdout=0.3 --against near -o apart >out
grep -qE '^near +[12] of [0-9]+ images of (train|test) are near duplicates of images of (train|test) of near$' out || fail "against: $(cat out)"
[ "$(grep -v '^#' apart/exclude.txt | sort | tr '\n' ' ')" = 'far/ape/1.jpg far/bee/1.jpg ' ] || [ "$(grep -v '^#' apart/exclude.txt | sort | tr '\n' ' ')" = 'ape/1.jpg bee/1.jpg ' ] || fail "the list: $(cat apart/exclude.txt)"
far='data.source=image-folder data.path=far data.limit=0 data.holdout=0.3 train.steps=2 train.batch_size=2'
status 0 smoe train tiny.yaml $far data.exclude=apart/exclude.txt -o cleaned >/dev/null 2>err
[ "$(sed -n 's/^data.exclude: \([0-9]\).*/\1/p' err | awk '{ n += $1 } END { print n }')" -eq 2 ] || fail "left out: $(cat err)"
# a name that begins with # is not read as a comment line
mkdir sharp && cp -r far/ape 'sharp/#ape' && cp -r far/bee sharp
status 0 smoe data sharp data.holdout=0.3 --against near -o sharp-list >/dev/null
status 0 smoe data sharp data.holdout=0.3 data.exclude=sharp-list/exclude.txt >out 2>err
grep -q '^\./#ape/1.jpg$' sharp-list/exclude.txt && grep -q 'of the 2 that .*sharp-list/exclude.txt names' out || fail "a class #ape: $(cat sharp-list/exclude.txt out)"
echo train/ape/nothing.png >none.txt && cat apart/exclude.txt none.txt >more.txt
for list in none more; do
    for quiet in '' -q; do
        status 3 smoe train tiny.yaml $far $quiet data.exclude=$list.txt -o none 2>err
        grep -q "^smoe train: $list.txt: no image train/ape/nothing.png in .*/far, where names are like " err || fail "$list: $(cat err)"
    done
done
status 0 smoe train tiny.yaml $far data.exclude=none.txt data.on_error=skip -q -o passed >/dev/null
# not of an evaluation, which may be on other data than the list of its run is of
cp -r far elsewhere && rm elsewhere/ape/1.jpg elsewhere/bee/1.jpg
status 0 smoe eval cleaned data.path=elsewhere >/dev/null 2>err
grep -q '0 images of test are left out, of the ' err || fail "an evaluation on other data: $(cat err)"

# A remark on files that are held out of one listing stands once; a name with a comma is one item of a list.
mkdir -p 'loops/Norwich, NFK' loops/York && for i in 1 2 3 4; do png >"loops/Norwich, NFK/$i.png" && png >loops/York/$i.png; done
ln -s .. loops/York/up
status 0 smoe data loops data.holdout=0.3 >out
grep -q '^remark  train, test: .*York/up leads to a folder above it' out && [ "$(grep -c '^remark' out)" -eq 1 ] || fail "a remark: $(cat out)"
status 0 smoe train tiny.yaml data.source=image-folder data.path=loops data.limit=0 data.holdout=0.5 train.steps=4 train.batch_size=4 -q -o loops-run >/dev/null
status 0 smoe eval loops-run >out 2>err
grep -qE '^lowest .*"Norwich, NFK" [01]\.[0-9]{3}' out || fail "a name with a comma: $(cat out)"

# One shard of a webdataset is told from a folder of classes.
png >0.png && echo 0 >0.cls && tar -cf shard-train.tar 0.png 0.cls && cp shard-train.tar shard-test.tar
status 3 smoe data shard-train.tar 2>err
grep -q 'read by data.source=webdataset, with data.path=NAME-{split}.tar, or with' err || fail "a shard: $(cat err)"
status 0 smoe data 'shard-{split}.tar' >/dev/null
mkdir shards && cp shard-train.tar shards/train-0.tar && cp shard-train.tar shards/test-0.tar
for words in 'shards' 'shards --suggest' 'shards data.holdout=0.5'; do
    status 3 smoe data $words >out 2>err
    grep -q 'read by data.source=webdataset, with data.path=NAME-{split}.tar, or with' err && [ ! -s out ] || fail "a folder of shards: $words: $(cat out err)"
done

# one of 121 files is damaged
mkdir many && for i in $(seq 120); do png >many/$i.png; done
mkdir -p split/train/a split/test/a && cp many/* split/train/a && cp many/1.png split/test/a && echo no >split/train/a/bad.png
split='data.source=image-folder data.path=split data.limit=0 train.steps=4'
status 3 smoe train tiny.yaml -q $split -o none 2>err
grep -q 'bad.png: unknown format' err && grep -q 'data.on_error=skip' err || fail "of a damaged file: $(cat err)"
echo train/a/bad.png >bad.txt
status 0 smoe train tiny.yaml $split data.exclude=bad.txt -n >/dev/null 2>err
for i in 1 2; do cp split/train/a/bad.png split/train/a/bad$i.png; done
status 3 smoe train tiny.yaml $split data.on_error=skip -n 2>err
grep -q '3 of 123 images cannot be used, more than one of 100: .*; data.exclude takes the list of them that smoe data -o DIR writes, exclude.txt$' err || fail "too many: $(cat err)"
status 3 smoe data split -o damage >/dev/null 2>err
[ "$(grep -v '^#' damage/exclude.txt | tr '\n' ' ')" = 'train/a/bad.png train/a/bad1.png train/a/bad2.png ' ] || fail "the damaged: $(cat damage/exclude.txt)"
status 0 smoe data split data.exclude=damage/exclude.txt >/dev/null
# What is no image cannot be excluded by its name, so the remedy is another one.
echo >split/train/a/notes.txt
for command in data train; do
    keys=split && [ $command = data ] || keys="tiny.yaml $split data.on_error=skip -n"
    status 3 smoe $command $keys >/dev/null 2>err
    grep -q '4 of 124 images .*the list of the 3 damaged images that smoe data -o DIR writes, exclude.txt; correct the 1 other, or take it out of the data$' err || fail "notes, $command: $(cat err)"
done
status 3 smoe train tiny.yaml -q $split data.exclude=damage/exclude.txt -n 2>err
grep -q 'notes.txt: unexpected file: ' err && grep -q 'data.on_error=skip leaves out what cannot be used$' err || fail "notes: $(cat err)"
for i in 1 2; do cp split/train/a/notes.txt split/train/a/notes$i.txt; done
status 3 smoe data split data.exclude=damage/exclude.txt >/dev/null 2>err
grep -q '; data.exclude cannot name them: correct them, or take them out of the data$' err || fail "only notes: $(cat err)"
rm split/train/a/notes*.txt
rm split/train/a/bad[12].png
status 0 smoe train tiny.yaml $split data.on_error=skip -o skipped >/dev/null 2>err
grep -q '1 image of train is left out' err || fail "the number: $(cat err)"
grep -q 'left out: .*bad.png: unknown format' skipped/log.txt || fail "the list: $(cat skipped/log.txt)"
