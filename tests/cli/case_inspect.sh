# inspect: what routers do, as printed tables, JSON, CSV and .npy; one run and several.
. "$ROOT/tests/cli/lib.sh"
status 0 smoe train tiny.yaml -q -o run >/dev/null
status 0 smoe inspect run -q >table
grep -qE '^blocks\.1 ' table || fail "$(cat table)"
status 0 smoe inspect run -q --dry-run --json >out
[ "$(tr -d ' \n' <out)" = '{"runs":[{"checkpoint":"run/ckpt/step_00000024/model.safetensors","split":"test"}]}' ] || fail "dry run: $(cat out)"
status 0 smoe inspect run/ -q --json -o here >result.json
for key in dispatch_max combine_max tokens_per_slot slots_per_token dropped tables; do
    grep -q "\"$key\"" result.json || fail "inspect --json has no $key"
done
[ "$(head -n 1 here/routing.csv)" = run,block,dispatch_max,combine_max,tokens_per_slot,slots_per_token,dropped,scale ] ||
    fail "$(cat here/routing.csv)"
[ "$(wc -l <here/routing.csv)" -eq 2 ] || fail "$(cat here/routing.csv)"
# 2 slots for each of 4 experts over 16 tokens
awk -F, 'NR == 2 { exit !($1 == "run" && $2 == 1 && $3 > 1 / 16 && $3 <= 1 && $4 > 1 / 8 && $4 <= 1 && $5 >= 1 && $5 <= 16 && $6 >= 1 && $6 <= 8 && $7 == 0) }' \
    here/routing.csv || fail "out of bounds: $(cat here/routing.csv)"
# Each table is described in the manual. Those in the folder are part of the JSON; tables of other routers are absent.
for table in $(sed -n 's/^FRAME(\([a-z_]*\),.*/\1/p' "$ROOT/lib/inspect/inspect.def"); do
    sed -n '/^\.SS Tables/,/^\.SS JSON/p' "$ROOT/man/smoe-inspect.1" | grep -qw "$table" || fail "smoe-inspect.1 lacks the table $table"
done
for csv in here/*.csv; do
    table=$(basename "$csv" .csv)
    grep -q "\"$table\": {" result.json || fail "inspect --json has no table $table"
done
for table in runs dispatch_token_sum token_weight combine_expert tokens_to_fraction dispatch_bands combine_bands slot_correlation \
    slot_alignment class_expert position_expert expert_information companions over_steps; do
    [ -s "here/$table.csv" ] || fail "no $table.csv"
done
[ ! -e here/expert_load.csv ] || fail "expert_load of a soft router"
status 2 smoe inspect run -q -o here 2>/dev/null >&2
echo old >here/expert_load.csv
status 0 smoe inspect run -q -o here --force >/dev/null
[ ! -e here/expert_load.csv ] || fail "a table of an earlier inspection stays"
# The number of threads does not matter, to the bit.
status 0 smoe inspect run -q -j 1 --json -o one >one.json
status 0 smoe inspect run -q -j 2 --json -o two >two.json
cmp one.json two.json || fail "the result depends on the threads"
same_page one two && diff -r -x report.html one two || fail "the tables depend on the threads"
# Routers whose weights are known: uniform mixes 16 tokens into each slot and 8 slots into each token, identity mixes
# nothing.
status 0 smoe train tiny.yaml -q train.steps=4 model.moe.router=uniform -o uniform >/dev/null
status 0 smoe inspect uniform -q -o uniform >/dev/null
sed 1d uniform/routing.csv | awk -F, '
    function near(a, b) { return a - b < 1e-5 && b - a < 1e-5 }
    { exit !(near($3, 1 / 16) && near($4, 1 / 8) && near($5, 16) && near($6, 8) && near($7, 0)) }' ||
    fail "uniform: $(cat uniform/routing.csv)"
status 0 smoe train tiny.yaml -q train.steps=4 model.moe.router=identity model.moe.slots_per_expert=4 -o identity
status 0 smoe inspect identity -q -o identity >/dev/null
[ "$(sed 1d identity/routing.csv)" = identity,1,1,1,1,1,0, ] || fail "identity: $(cat identity/routing.csv)"
# Several runs: rows of each in the same tables.
status 0 smoe train tiny.yaml -q train.steps=4 model.moe.router=tokens-choice -o choice >/dev/null
status 0 smoe inspect run choice uniform -q -o several >table
for run in run choice uniform; do
    grep -qE "^$run +blocks\.1 " table || fail "$(cat table)"
    grep -q "^$run," several/routing.csv || fail "$(cat several/routing.csv)"
done
[ "$(cut -d, -f 1 several/expert_load.csv | sort -u | tr '\n' ' ')" = "choice run " ] || fail "$(cat several/expert_load.csv)"
status 0 smoe inspect run choice -q --json >several.json
grep -q '"runs": \[' several.json || fail "no runs: $(head several.json)"
# Experts that take no token are counted, and not used as divisors.
status 0 smoe train tiny.yaml -q train.steps=4 model.moe.router=tokens-choice model.moe.experts=512 data.limit=8 -o unused >/dev/null
status 0 smoe inspect unused -q -o unused >table
grep -qE ' inf .* [0-9]+$' table && grep -q 'unused experts$' table || fail "$(cat table)"
grep -qE '^unused,1,1,[0-9]+,[^,]+,,[^,]+$' unused/combine_expert.csv || fail "$(head -n 3 unused/combine_expert.csv)"
# Random routers: the router as trained, that of one block, those of all blocks up to it.
status 0 smoe inspect choice -q --random-routers -o random >/dev/null
[ "$(sed 1d random/router_value.csv | cut -d, -f 1-3 | tr '\n' ' ')" = "choice,1,none choice,1,this choice,1,up to " ] ||
    fail "$(cat random/router_value.csv)"
# They are printed without -o too, beside the value of the experts; among soft routers there are none.
status 0 smoe inspect run choice -q --random-routers --exchange-experts >table
grep -q '^choice  *1  *up to  *0\.[0-9]*  *[0-9.]*$' table && grep -q '^run  *1  *neighbour  *this  *0\.' table || fail "$(cat table)"
status 2 smoe inspect run -q --random-routers 2>err
grep -q '^smoe inspect: --random-routers needs a choice router, and run has soft$' err || fail "$(cat err)"
# A single image, which has no companions although a group has places for them.
status 0 smoe inspect choice -q data.limit=1 -o single >/dev/null
[ -f single/experts_per_image.csv ] && [ ! -f single/companions.csv ] || fail "$(ls single)"
# The spec of several models is a file: standard input is empty when it is read again.
status 0 smoe inspect run -q --spec - <tiny.yaml >/dev/null
status 2 smoe inspect run choice -q --spec - <tiny.yaml 2>err
grep -q '^smoe inspect: --spec -: standard input can be read for one model only; ' err || fail "$(cat err)"
# The dump: [2 images, 1 layer, 2, 16 tokens, 8 slots] in float32, and [placements, 6] in float64.
status 0 smoe inspect run -q --images 3,199 --dump-routing soft.npy >/dev/null
head -c 128 soft.npy | grep -aq "'<f4', 'fortran_order': False, 'shape': (2, 1, 2, 16, 8)" || fail "$(head -c 128 soft.npy)"
[ "$(wc -c <soft.npy)" -eq $((128 + 4 * 2 * 2 * 16 * 8)) ] || fail "$(wc -c <soft.npy) bytes"
status 0 smoe inspect identity -q --images 7 --dump-routing identity.npy >/dev/null
head -c 128 identity.npy | grep -aq "'<f8', 'fortran_order': False, 'shape': (16, 6)" || fail "$(head -c 128 identity.npy)"
# The largest weight of a picture is that of its patches, whatever a class token and registers have.
status 0 smoe train tiny.yaml train.steps=4 train.eval_every=0 model.head=token model.registers=2 -q -o behind >/dev/null
status 0 smoe inspect behind -q --images 3 --dump-routing behind.npy -o shown >/dev/null
tail -c $((2 * 19 * 8 * 4)) behind.npy | od -An -v -tf4 -w32 >weights
awk 'NR == FNR { for (s = 1; s <= 8; s++) if (FNR > 3 && FNR <= 19 && $s > most[s - 1]) most[s - 1] = $s; next }
    FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    $at["shows"] == "slot" { n++; off = $at["largest_weight"] / most[$at["unit"]] - 1; if (off * off > 1e-10) bad = 1 } # digits of od
    END { exit bad || n != 8 }' weights FS=, shown/overlays/tiles.csv || fail "$(cat weights shown/overlays/tiles.csv)"
status 2 smoe inspect run -q --dump-routing soft.npy 2>/dev/null >&2
# Invalid requests.
status 0 smoe train tiny.yaml -q train.steps=4 model.moe.layers=none -o dense >/dev/null
refused() {
    message=$1
    shift
    status 2 smoe inspect "$@" 2>err >out
    grep -qe "$message" err || fail "inspect $*: $(cat err)"
}
refused "no MoE layer" dense
refused "no MoE layer" run dense -o other
[ ! -e other ] || fail "a refused inspection left a folder"
refused "no image 200: the split test has images 0 to 199" run -o refused --images 3,200
refused "--images 3,x: expected image numbers like" run -o refused --images 3,x
refused "--images -1: expected image numbers like" run -o refused --images=-1
refused "--images 3,: expected image numbers like" run -o refused --images 3,
refused "3 is given twice" run -o refused --images 3,4,3
refused "run is given twice" run run/
refused "dump-routing cannot be used with several arguments" run choice --dump-routing x.npy
refused "print-config cannot be used with several arguments" run choice --print-config
