# The completion scripts are valid and offer commands, options and keys of the spec.
. "$ROOT/tests/cli/lib.sh"
command -v bash >/dev/null || skip "no bash"
for shell in bash zsh fish; do
    smoe --completion $shell >c.$shell || fail "no completion for $shell"
    grep -q 'print-config' c.$shell && grep -q 'model.moe.experts=' c.$shell || fail "$shell: options or keys are missing"
done
bash -n c.bash || fail "c.bash is no bash"
offer() { bash -c '. ./c.bash; COMP_LINE=$1; COMP_POINT=${#1}; COMP_WORDS=($1); [ "${1% }" = "$1" ] || COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _smoe; echo ${COMPREPLY[@]}' - "$1" 2>/dev/null; }
[ "$(offer 'smoe tr')" = train ] || fail "smoe tr: $(offer 'smoe tr')"
[ "$(offer 'smoe train --res')" = --resume ] || fail "smoe train --res: $(offer 'smoe train --res')"
[ "$(offer 'smoe train --color ')" = 'auto always never' ] || fail "--color: $(offer 'smoe train --color ')"
[ "$(offer 'smoe train tiny.yaml model.moe.exp')" = 'model.moe.experts= model.moe.expert_mlp= model.moe.experts_init= model.moe.expert_dropout=' ] ||
    fail "keys: $(offer 'smoe train tiny.yaml model.moe.exp')"
# values of keys, of options, and runs
[ "$(offer 'smoe train tiny.yaml model.moe.router=tok')" = tokens-choice ] || fail "values: $(offer 'smoe train tiny.yaml model.moe.router=tok')"
[ "$(offer 'smoe train tiny.yaml data.augment.flip=')" = 'true false' ] || fail "values: $(offer 'smoe train tiny.yaml data.augment.flip=')"
mkdir -p runs/mine/ckpt/step_00000004 runs/other
touch runs/mine/spec.yaml
[ "$(offer 'smoe eval runs/')" = runs/mine ] || fail "runs: $(offer 'smoe eval runs/')"
[ "$(offer 'smoe eval runs/mine --which ')" = 'latest best step_00000004' ] || fail "--which: $(offer 'smoe eval runs/mine --which ')"
[ "$(offer 'smoe help model.moe.capacity_m')" = model.moe.capacity_multiple_of ] || fail "help: $(offer 'smoe help model.moe.capacity_m')"
grep -q 'model.moe.router=soft-uniform' c.fish || fail "fish: no values"
# make install puts it where compinit of zsh finds it by its first line; both ways serve the first key
[ "$(head -n 1 c.zsh)" = '#compdef smoe' ] || fail "c.zsh: $(head -n 1 c.zsh)"
command -v zsh >/dev/null || exit 0
zsh -n c.zsh || fail "c.zsh is no zsh"
mkdir site && cp c.zsh site/_smoe
cat >first.zsh <<'END'
zmodload zsh/zpty
seen() {
    text=
    for i in {1..200}; do
        while zpty -r -t shell part; do text+=$part; done
        [[ $text = $~1 ]] && return
        sleep 0.1
    done
    print -r -- "no $1 in: $text"
    exit 1
}
zpty shell zsh -f -i
zpty -w shell "PS1= RPS1=; fpath=($PWD/site \$fpath); autoload -U compinit; compinit -u -D; source $1; echo REA''DY"
seen '*READY*'
zpty -n -w shell $'smoe train --resu\t'
seen '*resume*'
END
for way in /dev/null ./c.zsh; do
    timeout 120 zsh -f first.zsh $way >out 2>err || fail "zsh with $way: no completion: $(cat out err)"
done
