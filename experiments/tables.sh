#!/bin/sh
# Prints the tables of an experiment's page, in Markdown, from the CSV files in experiments/results/NAME.
#   experiments/tables.sh facts-ablation
dir=$(dirname "$0")/results/${1:?usage: tables.sh NAME}
[ -f "$dir/results.csv" ] || { echo "tables.sh: no $dir/results.csv" >&2; exit 1; }

# Settings in the order of the sweep: seeds, mean and standard deviation of precision, mean of the loss.
awk -F, '
    function short(s) { sub(/.*\./, "", s); return s }
    NR == 1 {
        for (i = 1; i <= NF; i++) { name[i] = $i; if ($i == "seed") seed = i; if ($i == "precision_at_1") p = i
            if ($i == "test_loss") l = i; if ($i == "status") state = i }
        next
    }
    $state == "done" {
        key = ""
        for (i = 2; i < state; i++) if (i != seed) key = key (key ? ", " : "") short(name[i]) " " $i
        if (!(key in n)) order[++keys] = key
        n[key]++; sum[key] += $p; square[key] += $p * $p; loss[key] += $l
    }
    END {
        print "| setting | seeds | precision@1 | standard deviation | test loss |"; print "|---|---|---|---|---|"
        for (k = 1; k <= keys; k++) {
            key = order[k]; mean = sum[key] / n[key]
            sd = n[key] > 1 ? sqrt((square[key] - n[key] * mean * mean) / (n[key] - 1)) : 0
            printf "| %s | %d | %.4f | %.4f | %.4f |\n", key, n[key], mean, sd, loss[key] / n[key]
        }
    }' "$dir/results.csv"

[ -f "$dir/primary.csv" ] || exit 0
echo
awk '
    # splits a line of CSV with quotes into f[]
    function split_csv(line, f,    n, c, quoted, i, field) {
        n = 1; field = ""; quoted = 0
        for (i = 1; i <= length(line); i++) {
            c = substr(line, i, 1)
            if (c == "\"") quoted = !quoted
            else if (c == "," && !quoted) { f[n++] = field; field = "" }
            else field = field c
        }
        f[n] = field
        return n
    }
    NR == 1 { n = split_csv($0, f); for (i = 1; i <= n; i++) at[f[i]] = i
        print "| primary contrast | value | 95% interval | p, adjusted | finding |"; print "|---|---|---|---|---|"; next }
    { split_csv($0, f)
        printf "| %s | %+.4f | %+.4f to %+.4f | %.2g | %s |\n", f[at["contrast"]], f[at["value"]], f[at["low"]], f[at["high"]], f[at["adjusted"]], f[at["finding"]] }
' "$dir/primary.csv"
