# Primary contrasts, trends, margins and power of a sweep, as they are printed, in its files and as JSON.
. "$ROOT/tests/cli/lib.sh"
{
    cat tiny.yaml
    cat <<'END'
sweep:
  grid: {model.moe.router: [soft, uniform], model.moe.experts: [2, 4, 8]}
  seeds: [0, 1]
  equivalence: 0.5
  primary:
    - {row: model.moe.router=uniform, reference: model.moe.router=soft, expect: lower}
    - {trend: model.moe.experts, where: model.moe.router=soft, measure: test_loss, expect: falling}
END
} >plan.yaml
status 0 smoe sweep plan.yaml -q -o plan train.steps=4 >out
grep -qE '^uniform - soft +precision_at_1 .* 200 +2 .* lower +(open|confirmed|refuted)$' out || fail "$(cat out)"
grep -qE '^slope over experts, soft +test_loss .* falling ' out || fail "$(cat out)"
grep -qE '^Differences from .* \(exploratory\):$' out || fail "$(cat out)"
grep -qE '^uniform +2 +precision_at_1 .* 200 +2 +(equivalent within ±0.5|different|not decided)$' out || fail "$(cat out)"
grep -qE '^uniform +2 +test_loss .* 200 +2 +(not )?distinguishable$' out || fail "$(cat out)"
grep -qE '^uniform +2 +step_s .* - +2 +a time: not judged$' out || fail "step_s has no images, and no verdict: $(cat out)"
sed -n '/^Differences/,$p' out | grep -q dropped && fail "nothing is dropped anywhere: $(cat out)"
grep -qE '^soft +\* +test_loss .* 200 +2 +(rising|falling|not distinguishable)$' out || fail "$(cat out)"
[ "$(wc -l <plan/primary.csv)" -eq 3 ] && [ "$(head -n 1 plan/trends.csv | cut -d, -f 1-7)" = "model.moe.router,model.moe.experts,over,metric,slope,low,high" ] || fail "$(cat plan/primary.csv plan/trends.csv)"
grep -q '^## Primary contrasts$' plan/summary.md && grep -q '^## Trends (exploratory)$' plan/summary.md || fail "$(cat plan/summary.md)"
status 0 smoe sweep --resume plan -q --json >json
for key in primary differences trends adjusted finding seeds_low; do grep -q "\"$key\": " json || fail "no $key: $(cat json)"; done

# the margin of the command line applies to the exploratory rows
status 0 smoe sweep --status plan --equivalence 1e-9 >out
grep -qE '^uniform +2 +precision_at_1 .* (equivalent within ±1e-09|different|not decided)$' out || fail "$(cat out)"
status 2 smoe sweep --status plan --equivalence none 2>err
grep -q "^smoe sweep: --equivalence: 'none' is not a margin: " err || fail "$(cat err)"

# a spec with another reference and figure: the folder has them from then on; one that names none changes nothing
sed 's/^  seeds: .*/&\n  reference: model.moe.experts=4\n  figure: {x: model.moe.router}/' plan.yaml >other.yaml
cp -r plan again
status 0 smoe sweep other.yaml train.steps=4 -q -o again --resume >out
grep -q '^Differences from experts 4 ' out || fail "$(cat out)"
status 0 smoe sweep plan.yaml train.steps=4 -q -o again --resume >out
grep -q '^Differences from experts 4 ' out || fail "$(cat out)"
head -n 1 again/cells.jsonl | grep -q '"figure":{"x":"model.moe.router"' || fail "$(head -n 1 again/cells.jsonl)"
status 0 smoe verify again >out

# the number of seeds: of the folder, of the spec whose folder it is, and of an ablation
status 0 smoe sweep plan --power >out
[ "$(grep -cE ' (0.005|0.01|0.02|0.05) ' out)" -eq 8 ] || fail "$(cat out)"
status 0 smoe sweep plan.yaml train.steps=4 -o plan --power=0.03 --json >json
[ "$(grep -c '"seeds_80": ' json)" -eq 2 ] && grep -q '"difference": 0.0' json || fail "$(cat json)"
status 2 smoe sweep plan --power=0 2>err
grep -q "^smoe sweep: --power 0: expected up to 16 positive numbers separated by commas" err || fail "$(cat err)"
status 2 smoe sweep plan --power --resume 2>err
grep -q -- '--power cannot be used with --resume$' err || fail "$(cat err)"
status 0 smoe ablate tiny.yaml --routers soft,dense --seeds 0 train.steps=4 -q -o one >/dev/null
status 2 smoe ablate one --power 2>err
grep -q '^smoe ablate: one: no contrast has two seeds yet, so the variance is unknown$' err || fail "$(cat err)"

# A packed sweep gives the same tables, since a primary contrast measures a loss: else the losses
# have no values per image. Without its last cell it can be continued elsewhere, to the same tables.
status 0 smoe sweep plan --pack plan.tar.gz && cp plan.tar.gz first.tar.gz
status 0 smoe sweep plan.yaml train.steps=4 -o plan --pack plan.tar.gz
cmp plan.tar.gz first.tar.gz || fail "a second pack has other bytes"
# another file is not replaced
tar -czf photos.tar.gz tiny.yaml && cp photos.tar.gz kept.tar.gz
status 2 smoe sweep plan --pack photos.tar.gz 2>err
grep -qx 'smoe sweep: photos.tar.gz exists already, and is no packed sweep; choose another name' err && cmp photos.tar.gz kept.tar.gz || fail "$(cat err)"
mkdir unpacked && tar -xzf plan.tar.gz -C unpacked
status 0 smoe verify unpacked >out
grep -qE '^ok   unpacked/[^/]*: packed: the outcomes of its images, without the run$' out || fail "$(cat out)"
cp -r unpacked lost && printf x | dd of="$(ls -d lost/0*/outcomes.npy | head -n 1)" bs=1 seek=130 conv=notrunc 2>/dev/null
status 3 smoe verify lost >out 2>&1
grep -q '^BAD  lost/0' out || fail "a damaged outcome: $(cat out)"
status 0 smoe watch unpacked --once >out
grep -qE '^[0-9]+ cells are finished, and packed without their runs; smoe sweep --status shows the results$' out || fail "$(cat out)"
status 0 smoe sweep --status unpacked >out
[ "$(grep -c ' done  4 of 4 ' out)" -eq 12 ] || fail "$(cat out)"
status 0 smoe sweep --resume unpacked -q >out
cmp unpacked/results.csv plan/results.csv && cmp unpacked/summary.csv plan/summary.csv || fail "other results"
grep ',precision_at_1,' plan/differences.csv >kept
grep ',precision_at_1,' unpacked/differences.csv | cmp - kept || fail "$(cat unpacked/differences.csv)"
cmp plan/primary.csv unpacked/primary.csv || fail "$(cat unpacked/primary.csv)"
status 0 smoe ablate one --pack one.tar.gz >/dev/null && mkdir bare && tar -xzf one.tar.gz -C bare
grep -qa "'|b1'" bare/000-*/outcomes.npy || fail "without a contrast of losses, more is packed than which images are right"
last=$(basename "$(ls unpacked/claims/*.json | tail -n 1)" .json)
rm -r "unpacked/claims/$last.json" "unpacked/$last"
status 0 smoe sweep --resume unpacked -q >/dev/null
grep ',precision_at_1,' unpacked/differences.csv | cmp - kept || fail "$(cat unpacked/differences.csv)"
status 2 smoe sweep plan --pack x.tar.gz --resume 2>err
grep -q -- '--pack cannot be used with --resume$' err || fail "$(cat err)"
status 2 smoe sweep plan --pack x.zip 2>err
grep -qxF 'smoe sweep: --pack: only .tar.gz files are written, not .zip; name it x.tar.gz' err || fail "$(cat err)"
status 1 smoe sweep plan --pack missing/x.tar.gz 2>err
grep -q 'missing/x.tar.gz' err || fail "$(cat err)"
(ulimit -f 1 && status 1 smoe sweep plan --pack x.tar.gz) 2>err || fail "$(cat err)"
[ ! -e x.tar.gz ] && grep -q 'x.tar.gz: cannot write: File too large$' err || fail "no room: $(cat err)"
printf x >>"$(ls plan/*/outcomes.npy | head -n 1)"
status 3 smoe sweep plan --pack x.tar.gz 2>err
[ ! -e x.tar.gz ] && grep -q 'outcomes.npy: changed since it was written' err || fail "$(cat err)"

# a plan cannot be changed after the sweep has begun
sed 's/expect: lower/expect: higher/' plan.yaml >other.yaml
status 2 smoe sweep other.yaml -q -o plan --resume train.steps=4 2>err
grep -q 'plan: sweep.primary has changed since this sweep began' err || fail "$(cat err)"
sed 's/expect: lower/expect: better/' plan.yaml >other.yaml
status 2 smoe sweep other.yaml -q -o never 2>err
grep -q '^smoe sweep: [a-z]*.yaml:[0-9]*:[0-9]*: sweep.primary, contrast 1: expect: give one of higher, lower, different, equivalent$' err || fail "$(cat err)"
printf '    - {row: nothing, expect: lower}\n  family: 1\n' >>other.yaml # both contrasts and the family, with places
status 2 smoe sweep other.yaml -q -o never 2>err
[ "$(grep -c '^smoe sweep: other.yaml:[0-9]*:[0-9]*: sweep' err)" -eq 3 ] || fail "$(cat err)"
sed 's/expect: lower/hope: lower/' plan.yaml >other.yaml
status 2 smoe sweep other.yaml -q -o never 2>err
grep -q 'other.yaml:[0-9]*:[0-9]*: sweep.primary: unknown key .hope.; known here: row, reference, trend, where, measure, expect, margin' err || fail "$(cat err)"
[ ! -e never ] || fail "a refused sweep left a folder"
# The figure: its title from the spec, kept in the folder; keys in words; at print width without the title, and as PDF.
sed '/^sweep:/,$d' tiny.yaml >titled.yaml
printf 'sweep: {grid: {train.optimizer.lr: [1e-3, 1e-2]}, seeds: [0, 1], figure: {title: "What a rate does"}}\n' >>titled.yaml
status 0 smoe sweep titled.yaml train.steps=4 -q -o titled >/dev/null
grep -q "^set multiplot title 'What a rate does'" titled/sweep.gp && grep -q "^set xlabel 'learning rate'" titled/sweep.gp &&
    grep -q "title 'reference'" titled/sweep.gp || fail "$(cat titled/sweep.gp)"
status 0 smoe sweep --status titled --figure-width 82mm -q >/dev/null
grep -q '^set multiplot$' titled/sweep.gp && grep -q 'pdfcairo size 3.2[23][0-9]in' titled/sweep.gp || fail "$(cat titled/sweep.gp)"
grep -q "^set ylabel 'test top-1 accuracy' . \"\\\\n\" . '(95% interval, 2 seeds, " titled/sweep.gp || fail "a long label in one line: $(grep ylabel titled/sweep.gp)"
status 2 smoe sweep --status titled --figure-width 3 2>err
grep -q "'3' is not a width" err || fail "$(cat err)"
# Evaluated on training images: rows with another limit have other images, and so have seeds whose data are generated.
for keys in data.train_limit=20,40 model.mlp=16,32; do
    status 0 smoe sweep tiny.yaml $keys seed=0,1 data.limit=30 eval.split=train train.steps=2 train.schedule.warmup=1 train.schedule.cooldown=1 -q -o train >out
    awk -F, '$3 == "test_loss" { n += $9 == 0 && $7 == 2 } END { exit n != 1 }' train/differences.csv || fail "images in common: $(cat out train/differences.csv)"
    rm -r train
done
