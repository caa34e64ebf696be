#!/bin/sh
# Times models with one thread. Reads lines "LABEL<TAB>ROUNDS<TAB>SPEC [KEY=VALUE ...]" and prints "LABEL,INFER_S,TRAIN_S" for each: the least
# processor time of the thread of an inference and of a training step, over all turns of ROUNDS rounds, so that other programs beside it disturb
# little. All models are timed once before the next turn begins.
#   experiments/least-times.sh TURNS <MODELS
smoe=${SMOE:-$(dirname "$0")/../build/smoe}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
set -f # a * or [ in a name is no pattern
cat >"$work/models"
for turn in $(seq "$1"); do
    while IFS="$(printf '\t')" read -r label rounds spec; do
        # shellcheck disable=SC2086 # a spec and its overrides
        "$smoe" bench $spec -j 1 -q --rounds "$rounds" --json >"$work/bench" </dev/null || exit 1
        awk -v label="$label" '/"(infer|train)_processor_s"/ { part = $1 } part && /"min"/ { sub(/,/, "", $2); t[part] = $2; part = "" }
            END { print label "\t" t["\"infer_processor_s\":"] "\t" t["\"train_processor_s\":"] }' "$work/bench"
    done <"$work/models"
done >"$work/times" || exit 1
awk -F '\t' '!($1 in infer) { order[++n] = $1; infer[$1] = $2; train[$1] = $3 }
    { if ($2 < infer[$1]) infer[$1] = $2; if ($3 < train[$1]) train[$1] = $3 }
    END { for (i = 1; i <= n; i++) printf "%s,%.6f,%.6f\n", order[i], infer[order[i]], train[order[i]] }' "$work/times"
