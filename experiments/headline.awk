# The front of each method: rows of summary.csv files that no cheaper row of the same method beats, from cheap to dear, as lines of
# cost, precision, half of the interval over seeds, width:experts ("" where the one before is near). With -v cost=COLUMN -v method=dense|soft|tokens-choice|experts-choice.
# A column of results/fronts-time/times.csv is a cost too, if that file comes first.
# Model and router are those of the specs where no column has them. Places that stay empty are not computed: with C above 1 Tokens Choice
# has the cost of its row with C = 1, which computes at most as many rows of experts less those it drops.
FNR == 1 { sweep = FILENAME; sub(/\/[^\/]*$/, "", sweep); sub(/.*\//, "", sweep); split("", at); n = split_csv($0, head); for (i = 1; i <= n; i++) at[head[i]] = i; next }
sweep == "fronts-time" { split_csv($0, f); time[f[1], f[2]] = f[at[cost]]; next }
{
    split_csv($0, f)
    router = "model.moe.router" in at ? f[at["model.moe.router"]] : sweep ~ /^(pareto-vmoe|reduced-compute)$/ ? "tokens-choice" : "soft"
    if ("model.moe.layers" in at && f[at["model.moe.layers"]] == "none") router = "dense"
    seeds = f[at["precision_at_1_n"]]
    if (router != method || seeds < 3) next
    width = "model.width" in at ? f[at["model.width"]] : 32
    experts = router == "dense" ? "" : ":" ("model.moe.experts" in at ? f[at["model.moe.experts"]] : 16)
    capacity = "model.moe.capacity" in at ? f[at["model.moe.capacity"]] : 1
    model = sweep SUBSEP width experts SUBSEP ("model.moe.k" in at ? f[at["model.moe.k"]] : "")
    spent = (sweep, FNR - 1) in time ? time[sweep, FNR - 1] : f[at[cost "_mean"]]
    if (capacity == 1) full[model] = spent
    if (router == "tokens-choice" && capacity > 1 && model in full && !((sweep, FNR - 1) in time)) spent = full[model]
    rows++; x[rows] = spent / unit; y[rows] = f[at["precision_at_1_mean"]]; name[rows] = width experts
    t = seeds == 3 ? 4.303 : seeds == 4 ? 3.182 : seeds == 5 ? 2.776 : 2.365
    half[rows] = t * f[at["precision_at_1_sd"]] / sqrt(seeds)
}
END {
    for (;;) {
        best = 0
        for (i = 1; i <= rows; i++) if (y[i] > top && (!best || x[i] < x[best] || x[i] == x[best] && y[i] > y[best])) best = i
        if (!best) break
        front[++points] = best; top = y[best]
    }
    for (i = 1; i <= points; i++) {
        at_cost = x[front[i]]
        if (i < points && x[front[i + 1]] < 1.03 * at_cost) continue # of nearly equal costs the best
        far = !labelled || at_cost > 1.25 * labelled # else labels overlap
        print at_cost, y[front[i]], half[front[i]], far ? name[front[i]] : "\"\""
        if (far) labelled = at_cost
    }
}
