#!/bin/sh
# Prints a table for data.labels that gives every training image of an archive (train/CLASS/FILE) one of its classes at random, by a generator of
# its own (Park and Miller's), so that every machine has the same table:
#   experiments/random-labels.sh FOLDER/cifar10-jpeg.tar.gz >FOLDER/cifar10-random.csv
set -eu
[ $# = 1 ] || { echo "usage: random-labels.sh ARCHIVE >TABLE" >&2; exit 2; }
tar -tf "$1" | grep '^train/.*[^/]$' | LC_ALL=C sort | awk -F/ '
    { image[NR] = $0; if ($2 != class[classes]) class[++classes] = $2 }
    END {
        print "path,labels"; x = 20261126
        for (i = 1; i <= NR; i++) { x = 16807 * x % 2147483647; print image[i] "," class[1 + int(x / 2147483647 * classes)] }
    }'
