#!/bin/sh
# Prints what the cells of a sweep recorded during training as CSV: their settings and seed, step, and columns of metrics.csv:
#   experiments/curves.sh runs/evidence/pareto >experiments/results/pareto-curves/curves.csv
#   experiments/curves.sh runs/why-scale blocks.3/router/tokens_per_slot blocks.3/router/scale
# Without columns: test loss and precision of every evaluation, with the FLOPs of training before the step. trials.tar.gz has only the last
# evaluation of each cell. experiments/tables.sh pareto-curves prints when each row reaches the final loss of the dense model.
set -eu
[ $# -ge 1 ] && [ -f "$1/results.csv" ] || { echo "usage: curves.sh DIR [COLUMN...], DIR a finished sweep" >&2; exit 2; }
dir=$1
shift
awk -v dir="$dir" -v wanted="$*" "$(cat "$(dirname "$0")/csv.awk")"'
    BEGIN { columns = split(wanted ? wanted : "test/loss test/precision_at_1", column, " ") }
    { n = split_csv($0, f) }
    NR == 1 {
        for (i = 2; f[i] != "status"; i++) printf "%s,", f[i]
        last = i - 1
        if (wanted) { printf "step"; for (i = 1; i <= columns; i++) printf ",%s", column[i]; print "" }
        else print "flops_train_per_image,step,test_loss,precision_at_1"
        for (i = 1; i <= n; i++) at[f[i]] = i
        next
    }
    {
        set = ""
        for (i = 2; i <= last; i++) set = set (f[i] ~ /,/ ? "\"" f[i] "\"" : f[i]) ","
        if (!wanted) set = set f[at["flops_train_per_image"]] ","
        file = dir "/" f[1] "/metrics.csv"
        for (row = 0; (getline line < file) > 0; row++) {
            m = split(line, g, ",")
            if (!row) { split("", col); for (i = 1; i <= m; i++) col[g[i]] = i; continue }
            if (g[col[column[1]]] == "") continue
            printf "%s%s", set, g[col["step"]]
            for (i = 1; i <= columns; i++) printf ",%s", g[col[column[i]]]
            print ""
        }
        close(file)
    }' "$dir/results.csv"
