#!/bin/sh
# What smoe-stable(7) promises, as the tree and the program have it now: a line each, its kind in front. case_stable compares it
# with promised.txt. To promise more: `tests/stable/now.sh >tests/stable/promised.txt` from the top of the tree, after `make`, in a
# change that only adds lines. Usage: now.sh [SMOE]
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
smoe=$(readlink -f "${1:-$root/build/release/smoe}")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" && cp "$root/tests/cli/tiny.yaml" . || exit 1
export LC_ALL=C OMP_WAIT_POLICY=passive

# json KIND COMMAND ...: the names of the JSON objects that a command prints
json() {
    kind=$1
    shift
    "$@" 2>err | grep -oE '"[A-Za-z_][A-Za-z0-9_]*" *:' | tr -d '": ' | sed "s,^,json $kind ,"
}

# tensors FILE: the names of a safetensors file, with a block's number and a kind of router
tensors() { head -c "$(($(od -An -tu4 -N4 "$1") + 8))" "$1" | grep -aoE '"[a-z_0-9.]+":\{"dtype"' | cut -d'"' -f2 | sed "s,^,tensor ,"; }

{
    sed -n 's/^KEY("\([^"]*\)", \([A-Z_]*\),.*/key \1 \2/p' "$root/lib/spec/schema.def"
    sed -n 's/^ROUTER("\([^"]*\)".*/router \1/p' "$root/lib/spec/routers.def"
    grep -o '\.name = "[^"]*"' "$root/lib/spec/metrics.def" | cut -d'"' -f2 | sed 's/^/metric /'
    "$smoe" --help | sed -n 's/^  \([a-z-]*\)  .*/command \1/p'
    for command in train eval sweep ablate inspect cost bench compare predict; do
        "$smoe" $command --help | grep -oE -e '^ .*--[a-z-]+' | grep -oE -e '--[a-z-]+' | sed "s/^/option $command /"
    done
    # Declarations of the public header without comments, one per line: enums with their numbers, members, prototypes.
    { tr '\n' ' ' <"$root/lib/include/smoe/smoe.h"; echo; } | sed 's,/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/, ,g; s/  */ /g; s/ \(SMOE_API\|typedef\|enum {\)/\n\1/g' |
        sed -n 's/ *#.*//; s/ *$//; s/^\(SMOE_API .*;\|typedef .*;\|enum {.*;\)$/abi \1/p'
    "$smoe" train tiny.yaml -q -o run >/dev/null 2>err || cat err
    (cd run && find . ! -type d | sed 's:^\./:file run/:; s/step_[0-9]*/step_NUMBER/')
    tensors run/ckpt/latest/model.safetensors
    "$smoe" train tiny.yaml -q -o choice model.moe.router=tokens-choice train.steps=4 >/dev/null 2>err || cat err
    tensors choice/ckpt/latest/model.safetensors
    json eval "$smoe" eval run --json
    json cost "$smoe" cost tiny.yaml --json
    json train "$smoe" train tiny.yaml -q -o again train.steps=4 --json
    json bench "$smoe" bench tiny.yaml --rounds 1 --json
    json inspect "$smoe" inspect run --json
    "$smoe" sweep tiny.yaml -q -o sweep seed=0,1 model.moe.experts=2,4 train.steps=4 >/dev/null 2>err || cat err
    for table in results summary; do head -n 1 sweep/$table.csv | tr ',' '\n' | tr -d '"' | sed "s/^/column $table.csv /"; done
    for program in true "$smoe --nothing" "$smoe train nothing.yaml" "$smoe eval nothing" "$smoe train tiny.yaml -q -o run"; do
        $program >/dev/null 2>&1
        echo "exit $? ${program##*/}"
    done | sed '/ true$/d'
} | sort -u
