# What a message tells the user to type works: each command in backquotes is run as it stands, with RUN, SPEC.yaml and MODEL replaced.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q -o run train.steps=4 train.eval_every=0 >/dev/null
cp run/ckpt/latest/model.safetensors model.safetensors
cp tiny.yaml spec.yaml
png >image.png

# remedies STATUS COMMAND ...: the command fails with that status, and each command that it prints works; any `more` arguments go to those
remedies() {
    status "$@" >out 2>err
    grep -o '`smoe [^`]*`' err | tr -d '`' >commands
    [ -s commands ] || fail "$2 $3 $4: no command in: $(cat err)"
    while read -r line; do
        line=$(echo "$line" | sed "s/\bRUN\b/run/g; s/\bSPEC.yaml\b/spec.yaml/g; s/\bMODEL\b/model.safetensors/g")
        extra=${more:-}
        case $line in *--print-config) extra= ;; esac # it ends without -n
        # shellcheck disable=SC2086
        $line $extra >out 2>err2 </dev/null || fail "$line $extra: $(cat err2)"
    done <commands
}
more=
remedies 2 smoe evaluate run
remedies 2 smoe --nothing
remedies 2 smoe eval run --nothing
remedies 3 smoe eval image.png
status 0 smoe init tiny.yaml packed.safetensors -q >/dev/null && gzip packed.safetensors
status 3 smoe eval packed.safetensors.gz 2>err
$(grep -o '`gunzip -k [^`]*`' err | tr -d '`') && status 0 smoe eval packed.safetensors -q data.limit=10 >/dev/null || fail "$(cat err)"
# What a file holds counts, and not its name.
cp packed.safetensors weights.yaml && status 0 smoe eval weights.yaml -q data.limit=10 >/dev/null
echo '<!DOCTYPE html><title>404</title>' >page.safetensors && echo '{"error": "not found"}' >error.safetensors
status 3 smoe eval page.safetensors 2>err && grep -q 'is an HTML page' err || fail "$(cat err)"
status 3 smoe eval error.safetensors 2>err && grep -q 'is JSON text' err || fail "$(cat err)"
mkdir -p pictures/train/a pictures/test/a && cp image.png pictures/train/a && cp image.png pictures/test/a
for kind in tar zip; do
    case $kind in tar) tar -C pictures -cf archive train test ;; zip) (cd pictures && "${PYTHON:-python3}" -m zipfile -c ../archive train test) ;; esac
    status 0 smoe data archive >out
    grep -q '^archive: image-folder, 1 class$' out || fail "$kind: $(cat out)"
done
more='-n'
remedies 2 smoe train model.safetensors
remedies 3 smoe eval spec.yaml
remedies 3 smoe train spec.yaml --init model.safetensors model.width=8

# Each word that another program has for a command: what is to be written instead works, with all its placeholders.
mkdir folder && cp image.png folder/1.png
status 0 smoe sweep tiny.yaml seed=0,1 train.steps=4 train.eval_every=0 -q -o grid >/dev/null
words=$(sed -n 's/^INSTEAD("\([^"]*\)", "smoe.*/\1/p' "$ROOT/cmd/rules.def")
[ "$(echo "$words" | wc -w)" -gt 20 ] || fail "the words: $words"
for word in $words; do
    status 2 smoe "$word" 2>err
    sed -n "s/.*write \(smoe .*\)/\1/p" err | sed 's/, or /\n/' >commands
    [ -s commands ] || fail "$word: $(cat err)"
    while read -r line; do
        case $line in
        "smoe train --resume RUN") line="$line train.steps=5" ;;
        *" RUN -o DIR") line="smoe inspect run -o looked-$word data.limit=10" ;;
        *"watch RUN") line="$line --once" ;;
        *"data PATH") line="smoe data spec.yaml data.limit=10" ;;
        *bench*) line="$line --rounds 1" ;;
        *"convert MODEL FILE") line="smoe convert model.safetensors model2.safetensors" ;;
        *MODEL*--upcycle) line="$line -n model.moe.layers=all" ;;
        *train*) line="$line -n" ;;
        esac
        line=$(echo "$line" | sed 's/\bRUN\b/run/; s/SPEC.yaml/spec.yaml/; s/\bMODEL\b/model.safetensors/g; s/IMAGE/image.png/; s/PATH/run/; s/A B/run run/
            s/--status DIR/--status grid/')
        # shellcheck disable=SC2086
        timeout 120 $line >out 2>err2 </dev/null || fail "$word: $line: $(cat err2)"
    done <commands
done
# A sweep is no run: the command that continues it.
status 2 smoe train --resume grid 2>err
grep -q '`smoe sweep --resume grid` continues it' err && smoe sweep --resume grid -q >/dev/null || fail "$(cat err)"
# Nor is a run a sweep, nor a checkpoint or a run without its spec a run.
kept=$more more=
remedies 2 smoe sweep --resume run
remedies 2 smoe sweep --status run
cp -r run lost && rm lost/spec.yaml
remedies 2 smoe train --resume lost
more=$kept
status 2 smoe train --resume run/ckpt/latest 2>err
grep -q '^smoe train: run/ckpt/latest has no spec.yaml, so it is no run; --resume takes the folder of a run, --init a checkpoint$' err || fail "$(cat err)"
status 0 smoe help model >/dev/null
status 0 smoe help data. >/dev/null
status 0 smoe help eval.fewshot >/dev/null
# Every command in backquotes in a message of the program is one of these, each with where it is run, or why it is not.
cat >known <<'END'
smoe --help                                 above, and case_man
smoe %s%s--help                             above, and case_man
smoe COMMAND --help                         case_man: every command
smoe --completion %s                        case_completion
smoe help KEY                               cases.txt
smoe help model                             above
smoe help eval.fewshot                      above
smoe help %s.                               cases.txt
smoe help router                            cases.txt
smoe help %s.                               above
smoe predict RUN %s                         above
smoe train %s                               above
smoe train --init %s SPEC.yaml              above
smoe eval %s --print-config                 above
smoe eval %s                               case_implied: it prints a spec
smoe sweep --resume %s                      above
smoe ablate --resume %s                     beside the one above: of a sweep of routers it is this one
smoe %s --resume %s                           case_unwritable and case_signals
smoe %s --resume %s --retry-failed            case_sweep
smoe train --resume %s                      case_signals
smoe train --resume RUN                     case_signals
smoe train SPEC.yaml -o %s                  below
smoe %s SPEC.yaml%s -o %s                   below
smoe data %s --suggest                      case_data
smoe verify %s --repair                     case_verify
gunzip -k %s                                above
tar --concatenate --file=A.tar B.tar        case_own_data
smoe watch --once %s                        above
smoe watch                                  only in a build without libmicrohttpd; case_terminal
man smoe                                    case_man: the pages
man smoe-spec                               so
git lfs pull                                needs the repository from which the pointer is
cpupower frequency-set -g performance       changes the machine
ulimit -f                                   changes the shell, not the program
ulimit -n 1024                              so
ulimit -s 4096                              so
unset %s                                    so
canonical                                   a word, not a command
squash                                      so
END
for file in "$ROOT"/lib/*/*.c "$ROOT"/lib/*/*.h "$ROOT"/lib/*/*.def "$ROOT"/cmd/*.c "$ROOT"/cmd/*.def; do
    tr '\n' ' ' <"$file" | sed 's/"  *"//g; s/\\"//g' | grep -o '"[^"]*"' | grep -o '`[a-z][^`]*`' | tr -d '`'
done | sort -u >printed
grep -q '^smoe train --resume %s$' printed || fail "commands were not found: $(cat printed)"
while read -r line; do grep -q "^$line  " known || fail "a printed command that is not in the list: $line"; done <printed

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

# A run or a sweep that is missing.
cp tiny.yaml spec.yaml
more=-n
remedies 2 smoe train --resume nothing
grep -qx 'smoe train: nothing is not a run directory; nothing to resume: `smoe train SPEC.yaml -o nothing` starts a run' err || fail "$(cat err)"
remedies 2 smoe ablate --resume nothing
more=
for how in '--resume nothing' 'nothing --pack nothing.tar.gz' 'nothing --tune seed' 'nothing --power'; do
    status 2 smoe sweep $how 2>err
    grep -qx 'smoe sweep: nothing: there is no such sweep; `smoe sweep SPEC.yaml KEY=A,B -o nothing` starts one' err || fail "$how: $(cat err)"
done
status 2 smoe train --resume spec.yaml 2>err
grep -q 'without --resume a run begins there, and `smoe train --resume RUN` continues another one' err || fail "$(cat err)"

# Keys and columns that are not there: those that are.
named() { # PATTERN OPTION ...
    pattern=$1
    shift 1
    status 2 smoe sweep tiny.yaml seed=0,1 model.moe.experts=2,4 evaluate.eval.batch_size=50,100 -n "$@" 2>err
    grep -q "^smoe sweep: $pattern" err || fail "$*: $(cat err)"
}
keys='these keys are swept: model.moe.experts, seed, evaluate.eval.batch_size$'
named "$keys" --line model.moe.k
named "$keys" --x speed
named "$keys" --y model.moe.k:test_loss
named '--front speed:test_loss: .*; these are: train_loss, test_loss, precision_at_1,' --front speed:test_loss
named 'the values of model.moe.experts are: 2, 4$' --reference model.moe.experts=3
named 'the values of evaluate.eval.batch_size are: 50, 100$' --reference evaluate.eval.batch_size=3
