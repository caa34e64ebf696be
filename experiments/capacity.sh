#!/bin/sh
# Prints how much each setting of a sweep stores, in Markdown, from the CSV files of its results: the share of the facts that it
# knows, when all are asked alike, and the bits that it holds of them at least, FACTS (log2(CLASSES) - loss / ln 2), in all, for each
# parameter and for each 1,000 FLOPs that inference computes. Where results.csv has no computed FLOPs, `smoe cost` says them. Without
# evaluations.csv, results.csv has the loss, for example on photographs with random labels.
#   experiments/capacity.sh [NAME [FACTS [CLASSES]]]
name=${1:-facts-capacity}
dir=$(dirname "$0")/results/$name
smoe=${SMOE:-$(dirname "$0")/../build/smoe}
known=$dir/evaluations.csv
[ -f "$known" ] || known=$dir/results.csv
# Both files say a cell's name first; the parameters of a cell are in results.csv.
awk -v facts="${2:-20000}" -v classes="${3:-100}" -v cost="$smoe cost $(dirname "$0")/$name.yaml --json -q" "$(cat "$(dirname "$0")/csv.awk")"'
    function computed(keys,    command, line, flops) {
        command = cost keys
        while ((command | getline line) > 0)
            if (line ~ /"flops_infer_computed_per_image"/) { sub(/.*"flops_infer_computed_per_image": */, "", line); flops = line + 0 }
        close(command)
        return flops
    }
    FNR == 1 { delete at; columns = split_csv($0, head); for (i = 1; i <= columns; i++) at[head[i]] = i; file++; next }
    !split_csv($0, f) || f[at["status"]] != "done" { next }
    file == 1 { params[f[1]] = f[at["params"]]; c_of[f[1]] = "flops_infer_computed_per_image" in at ? f[at["flops_infer_computed_per_image"]] : ""; next }
    ("evaluate.data.facts.exponent" in at) && f[at["evaluate.data.facts.exponent"]] != 0 { next }
    {
        id = ""
        for (i = 2; i < at["seed"]; i++) id = id f[i] ","
        if (!(id in n)) {
            router = ("model.moe.router" in at) ? f[at["model.moe.router"]] : "soft"
            name = ("model.moe.layers" in at) && f[at["model.moe.layers"]] == "none" ? "dense" : router == "soft" ? "Soft MoE" : router == "tokens-choice" ? "Tokens Choice" : router == "experts-choice" ? "Experts Choice" : router
            dense = name == "dense"
            if (("model.width" in at) && f[at["model.width"]] != 32) name = name ", width " f[at["model.width"]] ", lr " f[at["train.optimizer.lr"]]
            order[++settings] = id; label[id] = name; keys = ""
            for (i = 1; i <= columns; i++) # but for keys without an effect, which are refused
                if (head[i] ~ /^model[.]/ && !(dense && head[i] ~ /router$/) && !(head[i] ~ /capacity$/ && f[i] == 1)) keys = keys " " head[i] "=" f[i]
            c[id] = c_of[f[1]] ? c_of[f[1]] : computed(keys)
            if (!c[id]) exit
        }
        n[id]++; known[id] += f[at["precision_at_1"]]; p[id] = params[f[1]]
        bits[id] += facts * (log(classes) - f[at["loss" in at ? "loss" : "test_loss"]]) / log(2)
    }
    END {
        if (!c[id]) exit 1 # smoe cost has said why
        print "| model | seeds | facts known | kbit | parameters | bits per parameter | bits per 1,000 FLOPs |"
        print "|---|---|---|---|---|---|---|"
        for (i = 1; i <= settings; i++) {
            id = order[i]; b = bits[id] / n[id]
            printf "| %s | %d | %.3f | %.1f | %d | %.2f | %.1f |\n", label[id], n[id], known[id] / n[id], b / 1000, p[id], b / p[id], b / c[id] * 1000
        }
    }' "$dir/results.csv" "$known"
