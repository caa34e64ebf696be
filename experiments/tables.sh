#!/bin/sh
# Prints the tables of an experiment's page, in Markdown, from the CSV files in experiments/results/NAME.
#   experiments/tables.sh facts-ablation
#   experiments/tables.sh why-scale dispatch_max combine_max     with the means of further columns of results.csv
dir=$(dirname "$0")/results/${1:?usage: tables.sh NAME [COLUMN...]}
shift

# rows.txt, where it is there, has a name for each setting, in the order of the sweep. Other settings are named by plain() below.
rows=$dir/rows.txt

# Lines of CSV, with quotes, as the fields f[1] ... Settings are lists of key=value, with tabs between them.
csv=$(cat "$(dirname "$0")/csv.awk")'
    # "model.moe.k" as "k"; "evaluate.model.moe.k", of an evaluation at another setting, as "at k"; "start.model.moe.k", of what a
    # cell starts from, as "start k".
    function name_of(column, short) { short = column; sub(/.*\./, "", short); return (column ~ /^evaluate\./ ? "at " : column ~ /^start\./ ? "start " : "") short }
    function listed(list, key, value) { return list (list == "" ? "" : "\t") key "=" value }
    # Settings in words. A model without experts is dense, whatever its keys of experts; a router has the name of the papers, and no
    # keys that it ignores; layers and mlp are left out if they follow from the rest. Keys without a value are those pooled over.
    function plain(list,    n, i, part, key, keys, value, layers, router, name, rest, pooled, count, unused) {
        n = split(list, part, "\t")
        for (i = 1; i <= n; i++) { keys[i] = part[i]; sub(/=.*/, "", keys[i]); value[keys[i]] = substr(part[i], length(keys[i]) + 2) }
        if ("router" in value) { value["model.moe.router"] = value["router"]; for (i = 1; i <= n; i++) if (keys[i] == "router") keys[i] = "model.moe.router" } # of smoe ablate
        layers = "model.moe.layers" in value; router = "model.moe.router" in value
        if (layers && value["model.moe.layers"] == "none" || router && value["model.moe.router"] == "dense") name = "dense"
        else if (router || layers) {
            name = router ? value["model.moe.router"] : ("model.moe.router" in at) && routers != 1 ? "" : the_router
            if (name ~ /choice/) unused = " scale_init slots_per_expert "
            else if (name ~ /^(identity|uniform|hash)$/) unused = " scale_init group_images k capacity "
            else if (name ~ /soft/) unused = " group_images k capacity "
            name = name == "" ? "all routers" : name == "soft" ? "Soft MoE" : name == "tokens-choice" ? "Tokens Choice" : name == "experts-choice" ? "Experts Choice" : name
            if (layers && value["model.moe.layers"] == "" && places < 2) name = name == "all routers" ? "all models" : "dense and " name # pooled with none
        }
        for (i = 1; i <= n; i++) {
            key = keys[i]
            if (key == "model.moe.router" || key ~ /^model\.moe\./ && (name == "dense" || index(unused, " " name_of(key) " "))) continue
            if (key ~ /fewshot\.(shots|data\.source)$/ || key ~ /fewshot\.data\.path$/ && value[key] == "null") continue # data.path says it
            if (key == "model.mlp" && "model.width" in value || key == "model.moe.layers" && places < 2) continue
            if (value[key] == "") { pooled = pooled (count++ ? ", " : "") name_of(key); continue }
            rest = rest ", " name_of(key) " " value[key]
        }
        if (count) rest = rest "; pooled" (count < 3 ? " over " pooled : "")
        if (name == "") sub(/^[,;] /, "", rest)
        return name rest
    }
    function row_name(list) {
        if (!(list in named)) { named[list] = plain(list); if ((getline line < rows) > 0) { named[list] = line; by_hand = 1 } }
        return named[list] == "" ? "as trained" : named[list]
    }
    # The row of a difference, and what it is compared with.
    function compared(    i, list) {
        for (i = 1; head[i] != "reference" && head[i] != "over"; i++) if (f[i] != "*") list = listed(list, head[i], f[i])
        return list in named ? named[list] : plain(list)
    }
    function settings_of(text,    list, from, key) { # "model.moe.k=1 model.moe.layers=[1, 3]", with spaces or commas between
        while (match(text, /(^|[ ,])[a-z_][a-z_0-9.]*=/)) {
            if (key != "" && substr(text, 1, RSTART - 1) != "*") list = listed(list, key, substr(text, 1, RSTART - 1))
            key = substr(text, RSTART, RLENGTH - 1); sub(/^[ ,]+/, "", key); text = substr(text, RSTART + RLENGTH)
        }
        return key == "" ? text : text == "*" ? list : listed(list, key, text)
    }
    # Of settings with KEY=*, the name in rows.txt of the only row that has the others.
    function only_row(list,    row, n, i, part, fits, found, count) {
        n = split(list, part, "\t")
        for (row in named) {
            fits = 1
            for (i = 1; i <= n; i++) if (!index("\t" row "\t", "\t" part[i] "\t")) fits = 0
            if (fits) { found = row; count++ }
        }
        return count == 1 ? named[found] : plain(list)
    }
    function reference_name(text,    list) {
        list = settings_of(text)
        return list !~ /=/ ? text : list in named ? named[list] : by_hand && text ~ /=[*]/ ? only_row(list) : plain(list)
    }
    function count_places(    line, i, layers, router, n, f, place, one) { # where the experts of this sweep are, and its routers
        while ((getline line < results) > 0) {
            n = split_csv(line, f)
            if (!layers) { for (i = 1; i <= n; i++) { if (f[i] == "model.moe.layers") layers = i; if (f[i] == "model.moe.router") router = i }; if (!layers) break }
            else if (f[layers] != "none") {
                if (!(f[layers] in place)) { place[f[layers]]; places++ }
                if (router && !(f[router] in one)) { one[f[router]]; routers++; if (routers == 1) the_router = f[router] }
            }
        }
        close(results)
    }
    BEGIN { count_places() }
    NR == 1 { columns = split_csv($0, head); for (i = 1; i <= columns; i++) at[head[i]] = i }
    { split_csv($0, f) }'
router=$(sed -n 's/^.*router: \([a-z][a-z-]*\).*/\1/p' "${dir%/results/*}/${dir##*/}.yaml" 2>/dev/null | head -n 1) # where no key varies it
awk() { command awk -v results="$dir/results.csv" -v the_router="$router" "$@"; }

# Of two files the first is results.csv, for the names of its settings.
settings='
    FNR == 1 && NR > 1 { split("", at); columns = split_csv($0, head); for (i = 1; i <= columns; i++) at[head[i]] = i }
    FNR == NR { # the settings, for their names
        list = ""
        for (i = 2; FNR > 1 && i < at["status"]; i++) if (i != at["seed"]) list = listed(list, head[i], f[i])
        if (FNR > 1 && at["status"]) row_name(list)
        next
    }
'

# Settings in the order of the sweep: seeds, mean and standard deviation of precision, mean of the loss.
settings() {
    table=$1
    shift
    awk -v rows="$rows" -v more="$*" "$csv"'
    NR == 1 { n_more = split(more, wanted, " "); for (i = 1; i <= n_more; i++) if (wanted[i] in at) column[++extra] = wanted[i] }
    NR > 1 && (!at["status"] || f[at["status"]] == "done") {
        key = ""
        for (i = at["status"] ? 2 : 1; i < (at["status"] ? at["status"] : at["loss"]); i++) if (i != at["seed"]) {
            key = listed(key, head[i], f[i])
        }
        if (!(key in n)) order[++keys] = key
        p = f[at["precision_at_1"]]
        n[key]++; sum[key] += p; square[key] += p * p; loss[key] += f[at["test_loss"] ? at["test_loss"] : at["loss"]]
        for (i = 1; i <= extra; i++) if (f[at[column[i]]] != "") further[key, i] += f[at[column[i]]]
    }
    END {
        printf "| setting | seeds | precision@1 | standard deviation | test loss |"
        for (i = 1; i <= extra; i++) printf " %s |", column[i]
        printf "\n|---|---|---|---|---|"
        for (i = 1; i <= extra; i++) printf "---|"
        print ""
        for (k = 1; k <= keys; k++) {
            key = order[k]; mean = sum[key] / n[key]
            sd = n[key] > 1 ? sqrt((square[key] - n[key] * mean * mean) / (n[key] - 1)) : 0
            printf "| %s | %d | %.4f | %.4f | %.4f |", row_name(key), n[key], mean, sd, loss[key] / n[key]
            for (i = 1; i <= extra; i++) printf at["test_loss"] || (key, i) in further ? " %.4g |" : " |", further[key, i] / n[key]
            print ""
        }
    }' "$table"
}

# Differences of precision, paired by seed; a setting that the reference fixes too is not repeated.
differences() {
    [ -f "$1" ] || return 0
    awk -v rows="$rows" "$csv$settings"'
    FNR > 1 && f[at["metric"]] == "precision_at_1" {
        key = compared()
        if (!lines++) print "\n| setting | against | difference in precision@1 | 95% interval | seeds |\n|---|---|---|---|---|"
        printf "| %s | %s | %+.4f | %s | %d |\n", key, reference_name(f[at["reference"]]), f[at["difference"]], f[at["n"]] + 0 < 2 ? "" : sprintf("%+.4f to %+.4f", f[at["low"]], f[at["high"]]), f[at["n"]]
    }' "$dir/results.csv" "$1"
}

# Differences from further references (against.sh), or trends, of precision, loss and further columns.
against() {
    table=$1
    shift
    [ -f "$table" ] || return 0
    awk -v rows="$rows" -v more="$*" "$csv$settings"'
    FNR > 1 {
        row = "| " compared() " | " (at["over"] ? name_of(f[at["over"]]) : reference_name(f[at["reference"]])) " |"
        if (!(row in n)) order[++count] = row
        metric = f[at["metric"]]; sub(/^loss$/, "test_loss", metric)
        form = metric == "test_loss" ? " %+.3f | %+.3f to %+.3f |" : " %+.4f | %+.4f to %+.4f |"
        n[row] = f[at["n"]]; value[row, metric] = sprintf(form, f[at[at["over"] ? "slope" : "difference"]], f[at["low"]], f[at["high"]]); known[metric]
    }
    END {
        title["precision_at_1"] = "precision@1"; title["test_loss"] = "test loss"
        for (m = split("precision_at_1 test_loss " more, measure, " "); m >= 1; m--) if (measure[m] in known) {
            titles = " in " (measure[m] in title ? title[measure[m]] : measure[m]) " | 95% interval |" titles; rule = rule "---|---|"
        }
        print "\n| setting | " (at["over"] ? "over | change per doubling" : "against | difference") titles " seeds |\n|---|---|---|" rule
        for (r = 1; r <= count; r++) {
            printf "%s", order[r]
            for (m = 1; m in measure; m++) if (measure[m] in known) printf "%s", (order[r], measure[m]) in value ? value[order[r], measure[m]] : " | |"
            print " " n[order[r]] " |"
        }
    }' "$dir/results.csv" "$table"
}

# What smoe inspect says of several runs, means over them: precision with other experts, and what the choice of an expert tells.
means() {
    awk -v kept="$2" -v measured="$3" "$csv"'
    NR == 1 {
        n = split(kept, key, " "); m = split(measured, measure, " ")
        printf "|"; for (i = 1; i <= n; i++) printf " %s |", key[i]
        printf " runs |"; for (i = 1; i <= m; i++) printf " %s |", measure[i]
        printf "\n|"; for (i = 0; i <= n + m; i++) printf "---|"
        print ""; next
    }
    {
        row = "|"; for (i = 1; i <= n; i++) row = row " " f[at[key[i]]] " |"
        if (!(row in count)) order[++rows] = row
        count[row]++; for (i = 1; i <= m; i++) sum[row, i] += f[at[measure[i]]]
    }
    END {
        for (r = 1; r <= rows; r++) {
            row = order[r]; printf "%s %d |", row, count[row]
            for (i = 1; i <= m; i++) printf " %.4f |", sum[row, i] / count[row]
            print ""
        }
    }' "$1"
}
if [ -f "$dir/expert_value.csv" ]; then
    means "$dir/expert_value.csv" "block experts layers" "precision_at_1 loss"
    echo
    means "$dir/expert_information.csv" "block about" "bits by_chance expert_entropy"
    exit
fi
[ ! -f "$dir/noise_decisions.csv" ] || { means "$dir/noise_decisions.csv" "block noise choices" "tokens_changed choices_changed"; exit; }

# When each row reaches the final loss of the dense model of its size, from evaluations during training, between which the loss is
# taken as linear: means over seeds. A row that does not reach it, with some seed, has the number of those that do.
crossings() {
    awk "$csv"'
    NR == 1 { for (last = 1; head[last] != "flops_train_per_image"; last++) size_key[last] = head[last] !~ /^model\.moe\./; next }
    {
        size = key = ""
        for (i = 1; i < last; i++) if (head[i] != "seed") {
            if (size_key[i]) size = listed(size, head[i], f[i])
            else key = listed(key, head[i], f[i])
        }
        size = plain(size); key = plain(key)
        seed = f[at["seed"]]; row = size SUBSEP key
        if (!(row in flops)) { order[++rows] = row; flops[row] = f[at["flops_train_per_image"]] }
        seeds[row, ++n[row]] = seed
        if (f[at["model.moe.layers"]] == "none") { dense[size] = row; final[size, seed] = f[at["test_loss"]]; steps[size] = f[at["step"]] }
        step[row, seed, ++m[row, seed]] = f[at["step"]]; loss[row, seed, m[row, seed]] = f[at["test_loss"]]
    }
    END {
        print "| size | row | seeds | reached by | steps | of the steps of dense | of its FLOPs |\n|---|---|---|---|---|---|---|"
        for (r = 1; r <= rows; r++) {
            row = order[r]; split(row, part, SUBSEP); size = part[1]
            if (row == dense[size]) continue
            split("", seen); count = reached = sum = 0
            for (i = 1; i <= n[row]; i++) {
                seed = seeds[row, i]
                if (seed in seen) continue
                seen[seed]; count++
                for (k = 1; k <= m[row, seed] && loss[row, seed, k] > final[size, seed]; k++);
                if (k > m[row, seed]) continue
                reached++
                low = k > 1 ? step[row, seed, k - 1] : 0
                share = k > 1 ? (loss[row, seed, k - 1] - final[size, seed]) / (loss[row, seed, k - 1] - loss[row, seed, k]) : 1
                sum += low + share * (step[row, seed, k] - low)
            }
            printf "| %s | %s | %d | %d |", size, part[2], count, reached
            if (reached) printf " %.0f | %.2f | %.2f |\n", sum / reached, sum / reached / steps[size], sum / reached / steps[size] * flops[row] / flops[dense[size]]
            else print " | | |"
        }
    }' "$1"
}
case $(head -n 1 "$dir/curves.csv" 2>/dev/null) in *,test_loss*) crossings "$dir/curves.csv"; exit ;; esac

# What smoe inspect measured of several models, a column each and blocks separated by commas.
side_by_side() {
    awk -v rows="$rows" "$csv"'
    function column(name) { if (!(name in seen)) { seen[name]; run[++runs] = name }; return name }
    function add(measure, value) {
        if (value == "") return
        if (!(measure in known)) { known[measure]; order[++measures] = measure }
        cell[measure, name] = cell[measure, name] (cell[measure, name] == "" ? "" : ", ") value
    }
    FNR == 1 { split("", at); columns = split_csv($0, head); for (i = 1; i <= columns; i++) at[head[i]] = i; file = FILENAME; sub(/.*\//, "", file); next }
    { name = column(f[1]) }
    file == "runs.csv" { add("precision@1", sprintf("%.4f", f[at["precision_at_1"]])) }
    file == "routing.csv" { add("effective tokens of a slot, of 64", sprintf("%.1f", f[at["tokens_per_slot"]])); add("share of tokens dropped", sprintf("%.3f", f[at["dropped"]])) }
    file == "token_weight.csv" { add("largest weight of a token, divided by its share", sprintf("%.2f", f[at["largest"]])) }
    file == "slot_alignment.csv" {
        if (f[at["within_mean"]] != "") add("slot vectors: mean inner product within an expert", sprintf("%.2f", f[at["within_mean"]]))
        add("slot vectors: mean inner product across experts", sprintf("%.2f", f[at["across_mean"]]))
    }
    file == "expert_information.csv" { add("information of an expert about the " f[at["about"]] ", bits (by chance)", sprintf("%.4f (%.1g)", f[at["bits"]], f[at["by_chance"]])) }
    file == "experts_per_image.csv" { sum[name, f[at["block"]]] += f[at["experts"]] * f[at["share"]] }
    file == "router_value.csv" && f[at["random"]] == "this" { add("precision@1 with random scores in one block", sprintf("%.4f", f[at["precision_at_1"]])) }
    file == "router_value.csv" && f[at["random"]] == "up to" { all[name] = sprintf("%.4f", f[at["precision_at_1"]]) }
    file == "dropped_by_position.csv" {
        key = name SUBSEP f[at["block"]]; x = f[at["dropped"]]
        if (!(key in low) || x < low[key]) low[key] = x
        if (x > high[key]) high[key] = x
    }
    file == "companions.csv" {
        for (block = 0; block < 99; block++) {
            if ((name, block) in sum) add("experts that process tokens of an image", sprintf("%.1f", sum[name, block]))
            if ((name, block) in low) add("share dropped, by position", sprintf("%.3f to %.3f", low[name, block], high[name, block]))
        }
        add("precision@1 with random scores in all blocks", all[name])
        add("largest change of a logit by other images of the group (rms of the logits)", sprintf("%.2f (%.2f)", f[at["largest_change"]], f[at["logit_rms"]]))
        add("share of predictions changed by other images", sprintf("%.3f", f[at["changed_predictions"]]))
    }
    END {
        printf "|"; for (r = 1; r <= runs; r++) { getline title < rows; printf " | %s", title }
        printf " |\n|---|"; for (r = 1; r <= runs; r++) printf "---|"
        print ""
        for (m = 1; m <= measures; m++) {
            printf "| %s |", order[m]
            for (r = 1; r <= runs; r++) printf " %s |", cell[order[m], run[r]]
            print ""
        }
    }' "$dir/runs.csv" "$dir/routing.csv" "$dir/token_weight.csv" "$dir/slot_alignment.csv" "$dir/expert_information.csv" \
        "$dir/experts_per_image.csv" "$dir/dropped_by_position.csv" "$dir/router_value.csv" "$dir/companions.csv"
}
[ ! -f "$dir/slot_alignment.csv" ] || { side_by_side; exit; }

# What was recorded during training: means over seeds at the first record and after each doubling of its step, and at the last.
over_training() {
    awk "$csv"'
    NR == 1 { for (last = 1; head[last] != "step"; last++) continue; next }
    {
        row = ""
        for (i = 1; i < last; i++) if (head[i] != "seed" && head[i] != "flops_train_per_image") row = listed(row, head[i], f[i])
        row = plain(row)
        step = f[last] + 0
        if (!(row in known)) { known[row]; order[++count] = row }
        if (!first) first = step
        if (step > end) end = step
        n[row, step]++; for (i = last + 1; i <= columns; i++) sum[row, step, i] += f[i]
    }
    END {
        printf "| |"; for (i = last + 1; i <= columns; i++) printf " %s |", head[i]
        printf "\n|---|"; for (i = last + 1; i <= columns; i++) printf "---|"
        print ""
        for (r = 1; r <= count; r++) for (step = first; step <= end; step = step == end ? end + 1 : 2 * step > end ? end : 2 * step) {
            if (!n[order[r], step]) continue
            printf "| %s, step %d |", order[r], step
            for (i = last + 1; i <= columns; i++) printf head[i] ~ /precision/ ? " %.3f |" : " %.2f |", sum[order[r], step, i] / n[order[r], step]
            print ""
        }
    }' "$1"
}
[ ! -f "$dir/curves.csv" ] || { over_training "$dir/curves.csv"; exit; }

# The routing of the rows of a sweep and how far predictions depend on the other images of their groups (routing.sh).
if [ -f "$dir/companions.csv" ]; then
    awk -v rows="${dir%-routing}/rows.txt" "$csv"'
    FNR == 1 { split("", at); columns = split_csv($0, head); for (i = 1; i <= columns; i++) at[head[i]] = i; file++; next }
    { row = f[at["row"]] }
    file == 1 { n[row]++; for (i = 4; i <= 7; i++) sum[row, i] += f[i]; if (row + 0 > last) last = row + 0 }
    file == 2 { images[row]++; changed[row] += f[at["changed"]] }
    END {
        print "| row | dropped | largest load over mean, chosen | placed | choices per token | predictions that depend on companions |\n|---|---|---|---|---|---|"
        for (row = 0; row <= last; row++) {
            if ((getline name < rows) <= 0) name = row
            if (!(row in n)) continue
            printf "| %s |", name
            for (i = 4; i <= 7; i++) printf " %.3f |", sum[row, i] / n[row]
            printf (row in images) ? " %.1f%% |\n" : " |\n", 100 * changed[row] / images[row]
        }
    }' "$dir/routing.csv" "$dir/companions.csv"
    exit
fi
# Soups and their best members (soups.sh): means over the starts; the interval is Student's, from the differences of the starts.
if [ -f "$dir/soups.csv" ]; then
    awk "$csv"'
    BEGIN { split("12.706205 4.302653 3.182446 2.776445 2.570582 2.446912 2.364624", quantile, " ") } # 97.5%, by degrees of freedom
    NR > 1 {
        name = f[at["model"]]; seed = f[at["seed"]]; test = f[at["precision_test"]]
        if (!(name in n)) order[++models] = name
        n[name]++; members[name] = members[name] (n[name] > 1 ? ", " : "") f[at["members"]]
        val[name] += f[at["precision_val"]]; sum[name] += test; loss[name] += f[at["loss_test"]]
        if (name == "best member") best[seed] = test
        d[name] += test - best[seed]; square[name] += (test - best[seed]) ^ 2
    }
    END {
        print "| model | starts | members | precision@1 on val | on test | test loss | on test, minus the best member | 95% interval |\n|---|---|---|---|---|---|---|---|"
        for (m = 1; m <= models; m++) {
            name = order[m]; k = n[name]; mean = d[name] / k
            printf "| %s | %d | %s | %.4f | %.4f | %.4f |", name, k, members[name], val[name] / k, sum[name] / k, loss[name] / k
            if (name == "best member") { print " | |"; continue }
            half = sqrt((square[name] - k * mean * mean) / (k - 1) / k) * quantile[k - 1]
            printf " %+.4f | %+.4f to %+.4f |\n", mean, mean - half, mean + half
        }
    }' "$dir/soups.csv"
    echo
    awk "$csv"'
    NR == 1 { print "| independent runs | loss | precision@1 | experts aligned with the first |\n|---|---|---|---|"; next }
    { printf "| %s | %.4f | %.4f | %.3f |\n", f[1], f[2], f[3], f[4] }' "$dir/independent.csv"
    exit
fi
[ -f "$dir/results.csv" ] || { echo "tables.sh: no $dir/results.csv" >&2; exit 1; }
settings "$dir/results.csv" "$@"
differences "$dir/differences.csv"
against "$dir/against.csv" "$@"
against "$dir/trends.csv" "$@"
if [ -f "$dir/evaluations.csv" ]; then
    echo
    echo "Evaluated at other settings:"
    echo
    shots=$(printf '%s\n' "$@" | sed -n '/^fewshot_/p')
    # shellcheck disable=SC2086
    settings "$dir/evaluations.csv" $shots
    # shellcheck disable=SC2086
    if [ -n "$shots" ]; then against "$dir/evaluations_differences.csv" $shots; else differences "$dir/evaluations_differences.csv"; fi
    against "$dir/evaluations_against.csv"
fi

[ -f "$dir/primary.csv" ] || exit 0
echo
awk -v rows="$rows" "$csv$settings"'
    FNR == 1 { print "| primary contrast | value | 95% interval | p, adjusted | finding |"; print "|---|---|---|---|---|"; next }
    { contrast = f[at["contrast"]]
        if (split(contrast, sides, " - ") == 2) contrast = reference_name(sides[1]) " - " reference_name(sides[2])
        else { gsub(/(evaluate\.)?model\.moe\./, "", contrast); gsub(/,/, ", ", contrast) }
        printf "| %s | %+.4f | %+.4f to %+.4f | %.2g | %s |\n", contrast, f[at["value"]], f[at["low"]], f[at["high"]], f[at["adjusted"]], f[at["finding"]] }
' "$dir/results.csv" "$dir/primary.csv"
