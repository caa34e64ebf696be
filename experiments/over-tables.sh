#!/bin/sh
# Prints the rows of trainings of which each has a table of entities of its own, and the differences of Soft MoE from the others, in Markdown: means
# and deviations over tables, and intervals of 95% by Student's t over the differences, one for each table. From results/NAME/results.csv of a
# sweep over data.seed, or results/NAME/runs.csv with model, seed and precision_at_1. With csv: the differences alone, as CSV, which are
# results/NAME/over-tables.csv.
#   experiments/over-tables.sh facts-tables|another-program [csv]
dir=$(dirname "$0")/results/$1
file=$dir/runs.csv
[ -f "$file" ] || file=$dir/results.csv
awk -v form="$2" "$(cat "$(dirname "$0")/csv.awk")"'
    NR == 1 { n = split_csv($0, f); for (i = 1; i <= n; i++) at[f[i]] = i; next }
    !split_csv($0, f) || ("status" in at && f[at["status"]] != "done") { next }
    {
        if ("model" in at) name = f[at["model"]]
        else {
            router = f[at["model.moe.router"]]
            name = f[at["model.moe.layers"]] == "none" ? "dense" : router == "soft" ? "Soft MoE" : router == "experts-choice" ? "Experts Choice" : router
        }
        table = f[at["data.seed" in at ? "data.seed" : "seed"]]
        if (!(name in rows)) order[++count] = name
        if (!(table in known)) { known[table]; list[++tables] = table }
        rows[name]++; y[name, table] = f[at["precision_at_1"]]
    }
    function summary(a, b,    i, d, sum, squares) { # mean and deviation of a, or of a - b
        for (i = 1; i <= tables; i++) { d = y[a, list[i]] - (b == "" ? 0 : y[b, list[i]]); sum += d; squares += d * d }
        mean = sum / tables; deviation = sqrt((squares - sum * sum / tables) / (tables - 1))
    }
    END {
        if (tables != 8) { print "over-tables.sh: not 8 tables" >"/dev/stderr"; exit 1 } # 2.365 is t with 7 degrees of freedom
        if (form == "csv") print "setting,reference,metric,difference,low,high,n"
        else print "| setting | tables | precision@1 | standard deviation over tables |\n|---|---|---|---|"
        for (i = 1; i <= count && form != "csv"; i++) { summary(order[i], ""); printf "| %s | %d | %.4f | %.4f |\n", order[i], tables, mean, deviation }
        if (form != "csv") print "\n| setting | against | difference in precision@1 | 95% interval over tables | tables |\n|---|---|---|---|---|"
        for (i = 1; i <= count; i++) {
            if (order[i] == "Soft MoE") continue
            summary("Soft MoE", order[i]); half = 2.365 * deviation / sqrt(tables)
            printf form == "csv" ? "Soft MoE,%s,precision_at_1,%.6f,%.6f,%.6f,%d\n" : "| Soft MoE | %s | %+.4f | %+.4f to %+.4f | %d |\n", order[i], mean, mean - half, mean + half, tables
        }
    }' "$file"
