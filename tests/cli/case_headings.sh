# The first and last lines of long commands: data and counts, model, directory; the files, which are there; none of it with
# --quiet or --json. Sweeps print the time that is left for all cells.
. "$ROOT/tests/cli/lib.sh"
said() { grep -qE "$1" err || fail "not said: $1; $(cat err)"; }
# The files that the last line names are there.
named() {
    line=$(sed -n '$s/^files  *//p' err)
    [ -n "$line" ] || fail "no files named last: $(cat err)"
    folder=${line%%: *}
    for f in $(printf '%s' "${line#*: }" | sed 's/, and .*//' | tr -d ,); do [ -e "$folder/$f" ] || fail "$folder/$f is not there: $line"; done
}
status 0 smoe train tiny.yaml -o run >out 2>err
said '^data        shapes, train [0-9]+ images, test [0-9]+; 10 classes; [0-9.]+ epochs$'
said '^model       soft, [0-9]+ experts in 1 of 2 blocks; width [0-9]+; [0-9.]+ [kM] parameters$'
said '^run         run, steps 1 to [0-9]+$'
grep -q '^step 1: test' err && fail "an evaluation before there is one"
named
# A pass over 50 images has three batches of 16, as in the records: before the last of nine batches two passes and two thirds.
status 0 smoe train tiny.yaml data.limit=50 train.batch_size=16 train.steps=9 -o passes >out 2>err
said '^data .*, train 50 images, .* 3 epochs$'
grep '"step":9,' passes/metrics.jsonl | grep -q '"epoch":2.66' || fail "$(tail -n 1 passes/metrics.jsonl)"
status 0 smoe train --resume run train.steps=40 >out 2>err
said '^run         run, steps [0-9]*[1-9][0-9]* to 40$'
status 0 smoe eval run -o tables >out 2>err
said '^data        shapes, test [0-9]+ images; 10 classes$'
said '^from        run/ckpt/step_00000040/model.safetensors$'
named
status 0 smoe inspect run -o seen >out 2>err
said '^model       soft'
named
status 0 smoe sweep tiny.yaml seed=0,1 train.steps=8 -o grid >out 2>err
said '^sweep       grid, 2 cells, 2 to run; data and model are those of the first cell$'
said '\(1 of 2 done, about ([0-9]+ min )?[0-9]+ s left\)$'
said '\(2 of 2 done\)$'
status 0 smoe bench tiny.yaml --rounds 1 >out 2>err
said '^model       soft'
for option in -q --json; do
    status 0 smoe eval run $option >out 2>err
    [ ! -s err ] || fail "$option: $(cat err)"
    status 0 smoe train tiny.yaml $option train.steps=2 -f -o quiet >out 2>err
    ! grep -E '^(data|model|run|files) ' err || fail "$option: $(cat err)"
done
