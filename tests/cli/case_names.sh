#!/bin/sh
# Control characters in file names reach neither standard output nor standard error, wherever a name is printed.
. "$ROOT/tests/cli/lib.sh"

name=$(printf 'a\033[31mb\rc')
quiet() {
    smoe "$@" >out 2>err
    cat out err | LC_ALL=C tr -d '\n' | LC_ALL=C grep -q '[[:cntrl:]]' && fail "smoe $*: $(cat -v out err)"
    cat out err | grep -q 'a?\[31mb?c' || fail "smoe $*: the name is not there: $(cat -v out err)"
}
status 0 smoe train tiny.yaml -q train.steps=4 -o "$name" >/dev/null
cp tiny.yaml "$name.yaml"
echo 'a: b: c' >"$name.txt"
quiet train "$name.yaml" train.steps=4 --print-config
quiet train "$name.txt"
quiet train tiny.yaml -o "$name"
quiet train tiny.yaml -n -o "$name.new"
quiet train tiny.yaml train.steps=4 -f -o "$name"
quiet train --resume "$name"
quiet train tiny.yaml data.source=cifar10 data.path="$name.data"
quiet train tiny.yaml -n --init "$name.data"
quiet eval "$name"
quiet eval "$name" -n
quiet eval "$name.data"
quiet inspect "$name" -o "$name.figures"
quiet inspect "$name" -o "$name.figures"
quiet convert "$name" "$name.safetensors" --type bf16
quiet predict "$name" "$name.png"
quiet compare "$name" "$name"
quiet verify "$name" "$name.data"
# A name of two lines is not two lines of the result.
two=$(printf 'a\nok   b')
mkdir "$two" && : >"$two/model.safetensors"
status 3 smoe verify "$two" >out 2>err
[ "$(cat out err | grep -c '^ok')" -eq 0 ] || fail "a name that looks like a result: $(cat out err)"
quiet sweep tiny.yaml train.steps=2 seed=0,1 -o "$name.sweep"
quiet sweep tiny.yaml train.steps=2 seed=0,1 -o "$name.sweep"
quiet sweep --resume "$name.sweep"
quiet soup "$name" "$name"
quiet bench "$name.data"
quiet cost "$name.data"
quiet doctor "$name" || true
quiet help "$name"
quiet "$name"
quiet eval "--$name"
# Tables, figures and pages are UTF-8, whatever the bytes of the name of a run.
raw=$(printf 'raw\377') && cp -r "$name" "$raw" && cp -r "$name" plain
status 0 smoe inspect "$raw" plain data.limit=20 -q -o tables >/dev/null
status 0 smoe compare "$raw" plain -q -o pairs >/dev/null
for file in tables/*.csv tables/*.gp tables/*.svg tables/*.html pairs/*; do [ ! -e "$file" ] || iconv -f utf-8 -t utf-8 "$file" >/dev/null 2>&1 || fail "$file is not UTF-8"; done
grep -q "$(printf 'raw\357\277\275')" tables/runs.csv || fail "the run has no name: $(cat tables/runs.csv)"
