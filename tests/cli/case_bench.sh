# smoe bench --append: a table with one heading and a line per benchmark; each part of the model has a limit.
. "$ROOT/tests/cli/lib.sh"
for name in first second; do
    status 0 smoe bench tiny.yaml name=$name --rounds 1 -q --append tables/bench.md --json >$name.json
done
[ "$(grep -c '^| case ' tables/bench.md)" -eq 1 ] || fail "not one heading: $(cat tables/bench.md)"
[ "$(sed -n '5,$p' tables/bench.md | cut -d' ' -f2 | xargs)" = "first second" ] || fail "not two lines: $(cat tables/bench.md)"
# Other threads get a heading of their own, under which further lines with them come.
alone() { status 0 smoe bench tiny.yaml name=alone --rounds 1 -q -j 1 --append threads.md "$@"; }
alone train.precision=bf16 >alone.txt
sed -i 's/, 1 thread,/, 64 threads,/' threads.md
alone >/dev/null
alone >/dev/null
# The keys that were given tell rows of one spec apart.
grep -q '^| alone train.precision=bf16 |' threads.md && grep -q '^| alone |' threads.md || fail "$(cat threads.md)"
[ "$(grep -c '^| case ' threads.md) $(grep -c ', 1 thread, 20' threads.md)" = '2 1' ] &&
    [ "$(cut -c 1-7 threads.md | tr '\n' ,)" = 'smoe 1.,,| case ,| --- |,| alone,,smoe 1.,,| case ,| --- |,| alone,| alone,' ] ||
    fail "$(cat threads.md)"
# A share of the matrix unit is not under "of multiply-adds" without saying so.
unit=$(sed -n 's/^training .*% of the //p' alone.txt)
grep -q "^| alone .*%) of $unit |.*%) of $unit |" threads.md || [ "$unit" = multiply-adds ] || fail "$unit: $(cat threads.md)"
for part in embed norm attention mlp router dispatch experts combine head optimizer; do
    sed -n '/"limits": {/,$p' first.json | grep -q "\"$part\": {" || fail "no limit of $part"
done
smoe bench tiny.yaml --rounds 1 -q >first.txt
grep -Eq '"memory_bytes_per_s": [0-9]' first.json || fail "memory was not measured"
grep -Eq '"data_s": [0-9]' first.json || fail "the data were not measured"

# FLOPs are those that are computed: places of buffers that no token can take are not counted.
flops() { smoe bench tiny.yaml --rounds 1 -q --json model.moe.router=tokens-choice "$@" | grep -E '"flops_(train|infer)"'; }
[ "$(flops model.moe.capacity=1)" = "$(flops model.moe.capacity=4)" ] || fail "empty places: $(flops model.moe.capacity=4)"

# The optimiser moves 36 bytes for each trained parameter outside the experts, and nothing for frozen ones: it reads and
# writes the weight and two moments, reads the gradient twice and clears it. Here the 16 * 10 + 10 of the head are trained.
smoe bench tiny.yaml --rounds 1 -q --json 'train.optimizer.groups=[{match: "head.*"}, {match: "*", frozen: true}]' >frozen.json
bytes=$(awk -F'[:,]' '/"optimizer_bytes_per_s"/ { rate = $2 } rate && /"optimizer": [0-9]/ { printf "%.0f", rate * $2; exit }' frozen.json)
[ "$bytes" = $((170 * 36)) ] || fail "the optimiser moves $bytes bytes: $(cat frozen.json)"

# A share of the unit above 100% says that the peaks were measured while something else ran, and none below does. One that is
# printed as 100 may be either.
said=$(grep -c 'something else ran while they were measured' first.txt)
most=$(sed -n 's/^\(training\|inference\) .* \([0-9]*\)% of the .*/\2/p' first.txt | sort -n | tail -n 1)
[ "$most" -eq 100 ] || [ "$said" -eq $((most > 100)) ] || fail "$(cat first.txt)"

# The kinds of work of the threads add up; each has a line in the table and a name in the man page.
smoe bench tiny.yaml --rounds 2 -q --json | awk -F'[:,]' '
    /"work": / { work = 1 }
    work && /"train"|"infer"/ { passes++ }
    work && /: [0-9]/ { sum += $2; names++ }
    END { exit !(passes == 2 && names == 14 && sum > 1.999 && sum < 2.001) }' ||
    fail "work: $(smoe bench tiny.yaml --rounds 2 -q --json)"
smoe bench tiny.yaml --rounds 1 -q | sed -n '/^threads /,$p' >threads
[ "$(wc -l <threads)" -eq 8 ] || fail "not seven kinds of work: $(cat threads)"
sed 1d threads | while read -r name _; do
    grep -Eq "^\.BR? $name\b" "$ROOT/man/smoe-bench.1" || fail "$name is not in the man page"
done

# The best value of a limit is not below its median, and the shortest time, of the clock and of the processor, not above its
# median; both give shares.
smoe bench tiny.yaml --rounds 5 -q --json | awk -F'[:,]' '
    /"fma_gflops"/ { limit[++limits] = $2 }
    /"min"/ { shortest = $2 }
    /"median": [0-9]/ { if (shortest > $2) exit 1; times++ }
    /"mfu_fma(_median)?": / { shares++ }
    END { exit !(limits == 2 && limit[1] >= limit[2] && limit[2] > 0 && times == 4 && shares == 2) }' ||
    fail "bests and medians: $(smoe bench tiny.yaml --rounds 5 -q --json)"

# In BF16 the products of MLPs are compared with the matrix unit, those of the head with multiply-adds.
unit=$(smoe version | awk '$1 == "matrix" { print $2 }')
smoe bench tiny.yaml train.precision=bf16 --rounds 1 -q >text
grep -q "^training .*% of the $unit$" text || fail "$(cat text)"
grep -Eq "^mlp .*% of ($unit|memory) .*% of ($unit|memory)$" text || fail "$(cat text)"
grep -Eq "^head .*% of (multiply-adds|memory)$" text || fail "$(cat text)"
# Sums by parts and of the whole may differ in the last digits.
smoe bench tiny.yaml --rounds 2 -q --json | tr -d ' \n' | sed 's/\(0\.[0-9]\{10\}\)[0-9]*/\1/g' >json
fma=$(sed 's/.*"mfu_fma":{\([^}]*\)}.*/\1/' json) unit=$(sed 's/.*"mfu_unit":{\([^}]*\)}.*/\1/' json)
[ "$fma" = "$unit" ] || fail "in single precision the unit is multiply-adds: $fma, $unit"

# A failure to write is reported, and the existing file is kept.
mkdir folder
status 3 smoe bench tiny.yaml --rounds 1 -q --append folder >/dev/null
status 1 smoe bench tiny.yaml --rounds 1 -q --append /dev/null/bench.md >/dev/null

# A link would be replaced, and its table would lack the line.
ln -s tables/bench.md link.md
status 2 smoe bench tiny.yaml --rounds 1 -q --append link.md 2>err
grep -q '^smoe bench: link.md is a link to a file; give the name of that file$' err && [ -L link.md ] || fail "$(cat err)"
ln -s later.md nowhere.md
status 2 smoe bench tiny.yaml --rounds 1 -q --append nowhere.md 2>err
grep -q '^smoe bench: nowhere.md: a symbolic link that leads nowhere$' err && [ -L nowhere.md ] || fail "$(cat err)"
status 2 smoe bench tiny.yaml --rounds 1 -q --append - 2>err
grep -q '^smoe bench: -: give the name of a file; ./- is a file of this name$' err && [ ! -e ./- ] || fail "$(cat err)"
# Lines are added only to a table that --append made; this is checked before the work starts.
status 0 smoe init tiny.yaml weights.safetensors -q >/dev/null
cp weights.safetensors weights.md
printf '# Notes\n\n| case | time |\n|---|---|\n' >notes.md
for file in weights.md notes.md; do
    status 3 smoe bench tiny.yaml --dry-run --append $file 2>err
    grep -q "^smoe bench: $file: has no table written by --append$" err || fail "$(cat err)"
done
status 0 smoe bench tiny.yaml --dry-run --json --rounds 3 >out
[ "$(tr -d ' \n' <out)" = '{"rounds":3,"batch":8}' ] || fail "dry run: $(cat out)"
cmp weights.safetensors weights.md || fail "weights.md was changed"
