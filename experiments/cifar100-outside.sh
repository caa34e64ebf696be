#!/bin/sh
# Leaves out of an archive of CIFAR-100 (train/CLASS/FILE, test/CLASS/FILE) the classes whose things the 200 classes of photographs-200.yaml show
# too, by photographs-200-classes.csv. What is left was not in pre-training.
#   experiments/cifar100-outside.sh FOLDER/cifar100-webp.tar.gz FOLDER/cifar100-outside.tar
set -eu
[ $# = 2 ] || { echo "usage: cifar100-outside.sh ARCHIVE OUT.tar" >&2; exit 2; }
here=$(dirname "$0") work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk -F, 'NR > 1 && $4 != "" { print "*/" $4 "/*"; print "*/" $4 }' "$here/photographs-200-classes.csv" >"$work/left-out"
mkdir "$work/all"
tar -xf "$1" -C "$work/all" --exclude-from "$work/left-out"
tar -cf "$2" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=go-w -C "$work/all" train test
