#!/bin/sh
# Prints every evaluation during the training of the cells of a sweep as CSV: their settings and seed, step, test loss and precision.
#   experiments/curves.sh runs/evidence/pareto >experiments/results/pareto-curves/curves.csv
# trials.tar.gz has only the last evaluation of each cell. experiments/tables.sh pareto-curves prints when each row reaches the final loss
# of the dense model.
set -eu
[ $# -eq 1 ] && [ -f "$1/results.csv" ] || { echo "usage: curves.sh DIR, a finished sweep" >&2; exit 2; }
awk -v dir="$1" "$(cat "$(dirname "$0")/csv.awk")"'
    { n = split_csv($0, f) }
    NR == 1 {
        for (i = 2; f[i] != "status"; i++) printf "%s,", f[i]
        last = i - 1
        print "flops_train_per_image,step,test_loss,precision_at_1"
        for (i = 1; i <= n; i++) at[f[i]] = i
        next
    }
    {
        set = ""
        for (i = 2; i <= last; i++) set = set (f[i] ~ /,/ ? "\"" f[i] "\"" : f[i]) ","
        file = dir "/" f[1] "/metrics.csv"
        for (row = 0; (getline line < file) > 0; row++) {
            m = split(line, g, ",")
            if (!row) { split("", col); for (i = 1; i <= m; i++) col[g[i]] = i }
            else if (g[col["test/loss"]] != "") print set f[at["flops_train_per_image"]] "," g[col["step"]] "," g[col["test/loss"]] "," g[col["test/precision_at_1"]]
        }
        close(file)
    }' "$1/results.csv"
