#!/bin/sh
# Checks which options change the images of characters.c and which do not. From the top of the tree: make check-characters
draw=${1:?usage: check.sh PROGRAM}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

expect() { # expect NAME COMMAND ...: it succeeds
    name=$1
    shift
    "$@" >/dev/null 2>&1 || { echo "characters: $name"; failed=1; }
}
refused() { # refused MESSAGE OPTION ...: exit status 2, with this message
    message=$1
    shift
    "$draw" "$@" "$work/refused.tar" >"$work/out" 2>&1
    [ $? = 2 ] && grep -q -e "$message" "$work/out" || { echo "characters: $* is not refused"; failed=1; }
}
folder() { # folder NAME OPTION ...: draws, and unpacks into $work/NAME
    name=$1
    shift
    "$draw" -k 2 "$@" "$work/$name.tar" >/dev/null && mkdir "$work/$name" &&
        tar -C "$work/$name" -xf "$work/$name.tar" && rm "$work/$name/README"
}
# every file of the first folder is in the second, and the same
within() { ! (cd "$work/$1" && find . -type f ! -exec cmp -s {} "$work/$2/{}" \; -print) | grep -q .; }
# images of the classes, the most frequent first
sizes() { for c in "$work/$1"/train/*; do ls "$c" | wc -l; done | sort -rn | paste -sd ' '; }
differs() { ! cmp -s "$work/$1/$3" "$work/$2/$3"; }

folder small -c 5 -m 3
folder again -c 5 -m 3
folder large -c 9 -m 4
folder other -c 5 -m 3 -s 1
folder tail -c 4 -m 10 -z 1
folder colour -c 5 -m 3 --channels 3
one=$(cd "$work/small" && ls train/*/000000.png | head -n 1)
expect "the same options give other bytes" cmp "$work/small.tar" "$work/again.tar"
expect "images change with the numbers of classes and images" within small large
expect "another seed gives the same image" differs small other "$one"
expect "another seed has other classes" test "$(ls "$work/small/train")" = "$(ls "$work/other/train")"
expect "train and test show the same image" differs small/train small/test "${one#train/}"
for split in test val; do
    expect "$split has other classes" test "$(ls "$work/large/train")" = "$(ls "$work/large/$split")"
done
# 40 images in proportion to 1/1, 1/2, 1/3, 1/4: 19.2, 9.6, 6.4, 4.8
expect "Zipf's law" test "$(sizes tail)" = "19 10 6 5"
expect "a colour image is no larger" test "$(wc -c <"$work/colour/$one")" -gt "$(wc -c <"$work/small/$one")"
refused "an integer" -c 2.5
refused "from 2 to 20000" -c 20001
refused "1 or 3" --channels 2
refused "usage" -m 1 "$work/second.tar"
[ $failed = 0 ] && echo "characters: as they should be"
exit $failed
