# What a message tells the user to type works: each command in backquotes is run as it stands, with RUN, SPEC.yaml and MODEL replaced.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q -o run train.steps=4 train.eval_every=0 >/dev/null
cp run/ckpt/latest/model.safetensors model.safetensors
cp tiny.yaml spec.yaml
printf '\211PNG\r\n\032\n\0\0\0\rIHDR\0\0\0\001\0\0\0\001\010\0\0\0\0:~\233U\0\0\0\nIDATx\332c`\0\0\0\002\0\001\345\047\336\374\0\0\0\0IEND\256B`\202' >image.png

# remedies STATUS COMMAND ...: the command fails with that status, and each command that it prints works; any `more` arguments go to those
remedies() {
    status "$@" >out 2>err
    grep -o '`smoe [^`]*`' err | tr -d '`' >commands
    [ -s commands ] || fail "$2 $3 $4: no command in: $(cat err)"
    while read -r line; do
        line=$(echo "$line" | sed "s/\bRUN\b/run/g; s/\bSPEC.yaml\b/spec.yaml/g; s/\bMODEL\b/model.safetensors/g")
        # shellcheck disable=SC2086
        $line ${more:-} >out 2>err2 </dev/null || fail "$line ${more:-}: $(cat err2)"
    done <commands
}
more=
remedies 2 smoe evaluate run
remedies 2 smoe --nothing
remedies 2 smoe eval run --nothing
remedies 3 smoe eval image.png
more='-n'
remedies 2 smoe train model.safetensors
remedies 3 smoe eval spec.yaml

# with OPTION STATUS COMMAND ...: the command fails, names the option, and works with it
with() {
    option=$1 wanted=$2
    shift 2
    status "$wanted" "$@" >out 2>err
    grep -q -- "$option" err || fail "$*: no $option in: $(cat err)"
    # shellcheck disable=SC2086
    "$@" $option >out 2>err || fail "$* $option: $(cat err)"
}
with --force 2 smoe train tiny.yaml -q -o run train.steps=4
with --partial 3 smoe train tiny.yaml -n --init model.safetensors model.depth=3
with --skip-invalid 2 smoe sweep tiny.yaml -n model.moe.slots_per_expert=1 model.heads=2,3
status 2 smoe train tiny.yaml -q -o run train.steps=4 2>err
grep -q -- '--resume continues a run' err || fail "$(cat err)"
status 0 smoe train --resume run -q train.steps=6 >/dev/null

# A spec for a file without one: the shapes imply it, and the line that is printed is the command.
foreign model.safetensors && LC_ALL=C sed -i 's/"smoe\.spec":/"some.spec":/; s/"smoe\.version":/"some.version":/' model.safetensors
status 0 smoe init tiny.yaml dense.safetensors -q model.moe.layers=none >/dev/null
foreign dense.safetensors && LC_ALL=C sed -i 's/"smoe\.spec":/"some.spec":/; s/"smoe\.version":/"some.version":/' dense.safetensors
status 2 smoe eval dense.safetensors >spec.yaml 2>err
sed -i '/source:/d; /path:/d; s/heads: 1 .*/heads: 2/' spec.yaml
line=$(grep -o 'smoe eval dense.safetensors --spec SPEC.yaml' err | sed 's/SPEC/spec/')
[ -n "$line" ] || fail "$(cat err)"
$line data.limit=20 >/dev/null 2>err || fail "$line: $(cat err)"
