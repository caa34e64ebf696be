#!/bin/sh
# Prints the tables of an experiment's page, in Markdown, from the CSV files in experiments/results/NAME.
#   experiments/tables.sh facts-ablation
dir=$(dirname "$0")/results/${1:?usage: tables.sh NAME}
[ -f "$dir/results.csv" ] || { echo "tables.sh: no $dir/results.csv" >&2; exit 1; }

# Lines of CSV, with quotes, as the fields f[1] ...
csv='
    function split_csv(line, f,    n, c, quoted, i) {
        n = 1; f[n] = ""; quoted = 0
        for (i = 1; i <= length(line); i++) {
            c = substr(line, i, 1)
            if (c == "\"") quoted = !quoted
            else if (c == "," && !quoted) f[++n] = ""
            else f[n] = f[n] c
        }
        return n
    }
    NR == 1 { columns = split_csv($0, head); for (i = 1; i <= columns; i++) at[head[i]] = i }
    { split_csv($0, f) }'

# Settings in the order of the sweep: seeds, mean and standard deviation of precision, mean of the loss.
settings() {
    awk "$csv"'
    NR > 1 && (!at["status"] || f[at["status"]] == "done") {
        key = ""
        for (i = at["status"] ? 2 : 1; i < (at["status"] ? at["status"] : at["loss"]); i++) if (i != at["seed"]) {
            short = head[i]; sub(/.*\./, "", short)
            key = key (key ? ", " : "") short " " f[i]
        }
        if (!(key in n)) order[++keys] = key
        p = f[at["precision_at_1"]]
        n[key]++; sum[key] += p; square[key] += p * p; loss[key] += f[at["test_loss"] ? at["test_loss"] : at["loss"]]
    }
    END {
        print "| setting | seeds | precision@1 | standard deviation | test loss |"; print "|---|---|---|---|---|"
        for (k = 1; k <= keys; k++) {
            key = order[k]; mean = sum[key] / n[key]
            sd = n[key] > 1 ? sqrt((square[key] - n[key] * mean * mean) / (n[key] - 1)) : 0
            printf "| %s | %d | %.4f | %.4f | %.4f |\n", key ? key : "as trained", n[key], mean, sd, loss[key] / n[key]
        }
    }' "$1"
}
settings "$dir/results.csv"
if [ -f "$dir/evaluations.csv" ]; then
    echo
    echo "Evaluated at other settings:"
    echo
    settings "$dir/evaluations.csv"
fi

[ -f "$dir/primary.csv" ] || exit 0
echo
awk "$csv"'
    NR == 1 { print "| primary contrast | value | 95% interval | p, adjusted | finding |"; print "|---|---|---|---|---|"; next }
    { gsub(/(evaluate\.)?model\.moe\./, "", f[at["contrast"]]); gsub(/,/, ", ", f[at["contrast"]])
        printf "| %s | %+.4f | %+.4f to %+.4f | %.2g | %s |\n", f[at["contrast"]], f[at["value"]], f[at["low"]], f[at["high"]], f[at["adjusted"]], f[at["finding"]] }
' "$dir/primary.csv"
