#!/bin/sh
# Prints the rows of facts-tables and their differences over its tables of entities, in Markdown, from results/facts-tables/results.csv: means and
# deviations over tables, and intervals of 95% by Student's t over the differences, one for each table. With csv: the differences alone, as CSV,
# which are results/facts-tables/over-tables.csv.
#   experiments/facts-tables.sh [csv]
awk -v form="$1" "$(cat "$(dirname "$0")/csv.awk")"'
    NR == 1 { n = split_csv($0, f); for (i = 1; i <= n; i++) at[f[i]] = i; next }
    !split_csv($0, f) || f[at["status"]] != "done" { next }
    {
        router = f[at["model.moe.router"]]
        name = f[at["model.moe.layers"]] == "none" ? "dense" : router == "soft" ? "Soft MoE" : router == "experts-choice" ? "Experts Choice" : router
        table = f[at["data.seed"]]
        if (!(name in rows)) order[++count] = name
        if (!(table in known)) { known[table]; list[++tables] = table }
        rows[name]++; y[name, table] = f[at["precision_at_1"]]
    }
    function summary(a, b,    i, d, sum, squares) { # mean and deviation of a, or of a - b
        for (i = 1; i <= tables; i++) { d = y[a, list[i]] - (b == "" ? 0 : y[b, list[i]]); sum += d; squares += d * d }
        mean = sum / tables; deviation = sqrt((squares - sum * sum / tables) / (tables - 1))
    }
    function difference(a, b) {
        summary(a, b); half = 2.365 * deviation / sqrt(tables)
        printf form == "csv" ? "%s,%s,precision_at_1,%.6f,%.6f,%.6f,%d\n" : "| %s | %s | %+.4f | %+.4f to %+.4f | %d |\n", a, b, mean, mean - half, mean + half, tables
    }
    END {
        if (tables != 8) { print "facts-tables.sh: not 8 tables" >"/dev/stderr"; exit 1 } # 2.365 is t with 7 degrees of freedom
        if (form == "csv") print "setting,reference,metric,difference,low,high,n"
        else print "| setting | tables | precision@1 | standard deviation over tables |\n|---|---|---|---|"
        for (i = 1; i <= count && form != "csv"; i++) { summary(order[i], ""); printf "| %s | %d | %.4f | %.4f |\n", order[i], tables, mean, deviation }
        if (form != "csv") print "\n| setting | against | difference in precision@1 | 95% interval over tables | tables |\n|---|---|---|---|---|"
        difference("Soft MoE", "dense"); difference("Soft MoE", "identity"); difference("Soft MoE", "Experts Choice")
    }' "$(dirname "$0")/results/facts-tables/results.csv"
