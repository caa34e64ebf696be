# On a terminal one line is rewritten and fits its width; elsewhere there are plain lines; results go to standard output
# only.
. "$ROOT/tests/cli/lib.sh"
smoe train tiny.yaml -o plain >out 2>err || fail "$(cat err)"
grep -q "$(printf '\r')" err && fail "carriage returns in a file"
grep -q "$(printf '\033')" err && fail "escapes in a file"
grep -qE '^step 24: test loss [0-9.]+, top-1 accuracy [0-9.]+' err || fail "no evaluation in: $(cat err)"
grep -qE '^plain: 24 steps, ' out || fail "$(cat out)"
[ "$(wc -l <out)" -eq 1 ] || fail "more than the result on standard output"
status 0 smoe train tiny.yaml -q -o quiet >out 2>err
[ -s err ] && fail "-q, yet: $(cat err)"
script -qec true /dev/null >/dev/null 2>&1 </dev/null || skip "no terminal to be had from script(1)"
TERM=xterm script -qec "stty cols 60; smoe train tiny.yaml train.steps=300 -o tty" /dev/null >screen </dev/null
tr '\r' '\n' <screen | sed 's/\x1b\[[0-9;]*[mK]//g' >lines
grep -qE '^step [0-9]+/300  loss ' lines || fail "no progress line: $(head -c 400 lines)"
awk 'length($0) > 60 && /^step [0-9]+\// { print "too wide: " $0; bad = 1 } END { exit bad }' lines || exit 1
TERM=xterm NO_COLOR=1 script -qec "smoe train tiny.yaml train.steps=300 -o tty2" /dev/null >screen </dev/null
grep -q "$(printf '\033')\[36m" screen && fail "colour in spite of NO_COLOR"
# help is wrapped between words to the width of the terminal
TERM=xterm script -qec "stty cols 70; smoe train --help" /dev/null >screen </dev/null
tr -d '\r' <screen | sed -n '/^Options:/,$p' >lines
[ "$(wc -l <lines)" -gt 12 ] && awk 'length($0) > 70 { print "too wide: " $0; bad = 1 } END { exit bad }' lines || fail "help does not wrap"
# so are tables: columns without room follow below, after the first one
TERM=xterm script -qec "stty cols 50; smoe cost tiny.yaml tiny.yaml --color never" /dev/null >screen </dev/null
tr -d '\r' <screen >lines
awk 'length($0) > 50 { print "too wide: " $0; bad = 1 } END { exit bad }' lines || fail "a table does not wrap"
[ "$(grep -c '^tiny.yaml  ' lines)" -eq 4 ] && grep -q '^spec .* memory$' lines || fail "$(cat lines)"
# and the first and last lines of long commands
TERM=xterm script -qec "stty cols 40; smoe inspect plain -o seen --no-progress" /dev/null >screen </dev/null
tr -d '\r' <screen | grep -A 1 -E '^(data|model|files) ' >lines
grep -q '^            [a-z0-9]' lines && awk 'length($0) > 40 { print "too wide: " $0; bad = 1 } END { exit bad }' lines || fail "$(cat lines)"
# rows of a sweep keep what tells them apart, and the lines around them wrap too
printf 'sweep: {grid: {model.moe.experts: [2, 4]}, seeds: [0, 1]}\n' | cat tiny.yaml - >grid.yaml
TERM=xterm script -qec "stty cols 50; smoe sweep grid.yaml train.steps=8 -o grid --color never --no-progress" /dev/null >screen </dev/null
tr -d '\r' <screen >lines
awk '/^(experts|4|sweep|grid|Diff)/ && length($0) > 50 { print "too wide: " $0; bad = 1 } END { exit bad }' lines || fail "$(cat lines)"
awk '/^experts +metric/ { parts++; rows = 0 } /^4 +(test_loss|precision_at_1)/ { rows++; if (rows == 2) whole++ } END { exit !(parts > 1 && whole == parts) }' lines || fail "$(cat lines)"
TERM=dumb script -qec "smoe train tiny.yaml train.steps=300 -o tty3" /dev/null >screen </dev/null
tr -d '\n' <screen | grep -q "$(printf '\033')" && fail "escapes on a dumb terminal"
exit 0
