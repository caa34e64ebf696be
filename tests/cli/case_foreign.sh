# A resume continues only if records, spec, model, optimiser and data belong to one run. A refusal destroys nothing.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q -o run >/dev/null
status 0 smoe train tiny.yaml -q -o other seed=9 >/dev/null

# refused STATUS PATTERN: a copy of the run in `bad`, damaged by the function of that name, is not resumed
refused() {
    cp -a run bad
    $3
    status "$1" smoe train --resume bad -q train.steps=30 2>err
    grep -q "$2" err || fail "$3: $(cat err)"
    [ "$(readlink bad/ckpt/latest)" = step_00000024 ] || fail "$3: latest is $(readlink bad/ckpt/latest)"
    rm -r bad
}
from_other() { cp "other/ckpt/latest/$1.safetensors" bad/ckpt/latest/; }
no_records() { : >bad/metrics.jsonl; }
spec_edited() { sed -i 's/^seed:.*/seed: 7/' bad/spec.yaml; }
other_model() { from_other model; }
other_model_same_spec() { LC_ALL=C sed 's/\\"seed\\":9/\\"seed\\":0/' other/ckpt/latest/model.safetensors >bad/ckpt/latest/model.safetensors; }
other_state() { from_other state; }
other_images() { LC_ALL=C sed -i 's/"smoe.images":"200"/"smoe.images":"300"/' bad/ckpt/latest/state.safetensors; foreign bad/ckpt/latest/state.safetensors; }
other_classes() { LC_ALL=C sed -i 's/"smoe.classes":"[0-9]/"smoe.classes":"9/' bad/ckpt/latest/state.safetensors; foreign bad/ckpt/latest/state.safetensors; }
refused 3 'bad/metrics.jsonl: records are missing: .* they end at step 0, and there was one of step 24' no_records
refused 2 'bad: cannot resume: seed was 0, now it is 7' spec_edited
refused 2 'bad: cannot resume: seed was 9, now it is 0' other_model
refused 3 'latest\|step_00000024/model.safetensors: its data is not what was saved' other_model_same_spec
refused 3 'step_00000024/model.safetensors: its data is not what was saved' other_state
refused 3 'bad: cannot resume with other training data: it has 200 images, and had 300' other_images
refused 3 'bad: cannot resume with other training data: the names of its classes have changed' other_classes
# Other data of as many images: another name, size or label of a file, other pixels of an idx file.
mkdir -p photos/train/ape photos/train/bee && for i in 1 2 3; do png >photos/train/ape/$i.png; png >photos/train/bee/$i.png; done
mkdir digits && { printf '\0\0\010\003\0\0\0\010\0\0\0\001\0\0\0\001'; printf 12345678; } >digits/train-images-idx3-ubyte
{ printf '\0\0\010\001\0\0\0\010'; printf '\0\001\0\001\0\001\0\001'; } >digits/train-labels-idx1-ubyte
new_name() { mv photos/train/ape/1.png photos/train/ape/4.png; }
new_size() { png >photos/train/ape/1.png; printf ' ' >>photos/train/ape/1.png; }
new_label() { mv photos/train/ape/1.png photos/train/bee/4.png; mv photos/train/bee/1.png photos/train/ape/5.png; }
new_pixel() { printf 3 | dd of=digits/train-images-idx3-ubyte bs=1 seek=17 conv=notrunc 2>/dev/null; }
for change in photos/new_name photos/new_size photos/new_label digits/new_pixel; do
    data=${change%/*} && cp -r $data whole
    [ $data = photos ] && source=image-folder || source=idx
    status 0 smoe train tiny.yaml -q -o read data.source=$source data.path=$data data.limit=0 train.batch_size=2 train.eval_every=0 >/dev/null
    mkdir moved && mv $data moved/ && status 0 smoe train --resume read -q data.path=moved/$data train.steps=26 >/dev/null
    mv moved/$data . && rmdir moved && ${change#*/}
    status 3 smoe train --resume read -q data.path=$data train.steps=28 >/dev/null 2>err
    grep -q 'read: cannot resume with other training data: names, labels, sizes or pixels of its images have changed; --init read ' err || fail "$change: $(cat err)"
    rm -r read $data && mv whole $data
done
# A link to a checkpoint that is not there is named, by every command that follows it.
cp -a run bad && ln -sfn step_00000099 bad/ckpt/latest
for command in 'train --resume bad' 'eval bad' 'inspect bad' 'verify bad'; do
    status 3 smoe $command -q >err 2>&1
    grep -q 'bad/ckpt/latest: links to step_00000099, which is not there; remove the link to continue from the newest checkpoint$' err || fail "$command: $(cat err)"
done
rm bad/ckpt/latest && status 0 smoe train --resume bad -q train.steps=26 >/dev/null
# A copy that did not keep links is not changed by a resume that fails.
rm -rf bad && cp -rL run bad && rm -rf bad/ckpt/latest && cp -r bad before
status 3 smoe train --resume bad -q train.steps=30 2>err
grep -q 'bad/ckpt/best: not a link to a checkpoint, as in a copy that did not keep links; remove it$' err || fail "no link: $(cat err)"
diff -r before bad || fail "changed by a resume that failed"
cp -rL run/ckpt/latest bad/ckpt/latest
status 3 smoe eval bad -q 2>err
grep -q 'bad/ckpt/latest: not a link .*; remove it to continue from the newest checkpoint$' err || fail "eval: $(cat err)"
rm -r bad/ckpt/latest bad/ckpt/best && status 0 smoe train --resume bad -q train.steps=26 >/dev/null
# An undamaged copy is resumed.
status 0 smoe train --resume run -q train.steps=30 >/dev/null
