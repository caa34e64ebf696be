#!/bin/sh
# Makes the soups of the fine-tuned models of one sweep, one uniform and one greedy for each seed, and evaluates them on test:
#   experiments/soups.sh runs/soups runs/transfer-pretrain
# writes experiments/results/soups-means/soups.csv, a line per seed for the member that is best on val and for each soup, and independent.csv,
# the soup of two independent pre-trainings of the second sweep. experiments/tables.sh soups-means prints the tables.
set -eu
[ $# -eq 2 ] || { echo "usage: soups.sh SWEEP PRE-TRAINING" >&2; exit 2; }
smoe=${SMOE:-$(dirname "$0")/../build/smoe} out=$(dirname "$0")/results/soups-means fine=$1 start=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

value() { sed -n "s/^ *\"$1\": \([0-9.e+-]*\),*$/\1/p" "$2" | head -n 1; } # FIELD FILE: the first of this name

line() { # SEED, NAME, MEMBERS, PRECISION ON VAL, MODEL
    "$smoe" eval "$5" -q --json >"$work/test.json"
    echo "$1,$2,$3,$4,$(value precision_at_1 "$work/test.json"),$(value loss "$work/test.json")"
}

echo seed,model,members,precision_val,precision_test,loss_test >"$work/soups.csv"
for seed in $(sed -n 's/^.*"seed":"\([0-9]*\)".*$/\1/p' "$fine/cells.jsonl" | sort -nu); do
    for kind in greedy uniform; do
        option=--greedy
        [ $kind = greedy ] || option=
        # shellcheck disable=SC2086
        "$smoe" soup "$fine"/*,seed="$seed" $option eval.split=val -q --json -o "$work/$kind-$seed" >"$work/soup.json"
        if [ $kind = greedy ]; then # whose first member is the best on val
            best=$(sed -n 's/^ *"path": "\(.*\)",$/\1/p' "$work/soup.json" | head -n 1)
            line "$seed" "best member" 1 "$(sed -n '/"alone"/,/}/s/^ *"precision_at_1": *//p' "$work/soup.json" | head -n 1)" "${best%/ckpt/*}"
        fi
        line "$seed" "$kind soup" "$(grep -c '"in": true' "$work/soup.json")" "$(value precision_at_1 "$work/soup.json")" "$work/$kind-$seed"
    done
done >>"$work/soups.csv"

"$smoe" soup "$start"/*last-2,seed=[01] -q --json >"$work/soup.json"
awk 'BEGIN { print "model,loss,precision_at_1,experts_aligned" }
    { gsub(/[",]/, "") }
    $1 == "path:" { name = "member " ++members }
    $1 == "soup:" || $1 == "alone:" { inside = $1 }
    $1 == "with:" { inside = "" }
    inside && $1 == "loss:" { loss = $2 }
    inside && $1 == "precision_at_1:" { if (inside == "soup:") soup = loss "," $2; else alone = loss "," $2; inside = "" }
    $1 == "experts_aligned:" { print name "," alone "," $2; aligned = $2 }
    END { print "soup," soup "," aligned }' "$work/soup.json" >"$work/independent.csv"
mv "$work/soups.csv" "$work/independent.csv" "$out/"
