# What figures/headline.svg shows of facts, as data sets for gnuplot. A front is the rows of summary.csv files that no cheaper row of the
# same method beats, without rows that another one beats for at most 3% more.
#   "list METHOD": line, number and settings of each configuration that is in a front
#   "points PANEL METHOD": cost, precision, half of the interval over seeds
#   "numbers PANEL METHOD": where the number of a point is written (x, y), the number, both ends of a line from the point to it (x, y, x, y)
# Arguments: -v panels="PANEL COLUMN UNIT LOW HIGH ..." (axis of cost) -v bottom=LOW -v top=HIGH (of precision) -v wide=PIXELS -v high=PIXELS
# results/fronts-time/times.csv comes first; a row without measured time is in no front against time. Files after "more=1" are of trainings
# of other lengths, and only in the front against training FLOPs.
# Values that no column has are those of the specs. Places that stay empty are not computed: with C above 1 Tokens Choice has the FLOPs of
# its row with C = 1, which computes at most as many rows of experts less those it drops.
function value(key, otherwise) { return key in at ? f[at[key]] : otherwise }
function add(weight, x, y) { grid[int(x + 1000), int(y + 1000)] += weight }
function stroke(weight, x1, y1, x2, y2,    n, i) { # one pixel wide
    n = 1 + int((x2 - x1 > 0 ? x2 - x1 : x1 - x2) + (y2 - y1 > 0 ? y2 - y1 : y1 - y2))
    for (i = 0; i <= n; i++) add(weight, x1 + (x2 - x1) * i / n, y1 + (y2 - y1) * i / n)
}
function box(weight, x, y, width, height,    i, k, sum) { # adds the weight; the sum of what was there
    for (i = int(x - width / 2 + 1000); i <= x + width / 2 + 1000; i++) for (k = int(y - height / 2 + 1000); k <= y + height / 2 + 1000; k++) {
        sum += i < 1000 || i > wide + 1000 || k < 1000 || k > high + 1000 ? 9 : (i, k) in grid ? grid[i, k] : 0
        if (weight) grid[i, k] += weight
    }
    return sum
}
# Chooses for the number of each point the place near it where it covers least; twice, as the first round does not know the numbers to come.
function place(    round, i, turn, far, x, y, cost, least) {
    for (round = 1; round <= 2; round++) for (i = 1; i <= drawn; i++) {
        width = 3 + 6 * length(number[i])
        if (round > 1) { box(-30, lx[i], ly[i], width, 10); stroke(-2, px[i], py[i], lx[i], ly[i]) }
        least = ""
        for (far = 12; far <= 40; far += 4) for (turn = 0; turn < 16; turn++) {
            x = px[i] + far * cos(turn * 0.3927); y = py[i] + far * sin(turn * 0.3927)
            cost = box(0, x, y, width, 10) + 4 * (far - 12)
            if (far > 16) cost += box(0, (px[i] + 2 * x) / 3, (py[i] + 2 * y) / 3, 2, 2)
            if (least == "" || cost < least) { least = cost; lx[i] = x; ly[i] = y }
        }
        box(30, lx[i], ly[i], width, 10); stroke(2, px[i], py[i], lx[i], ly[i])
    }
}
FILENAME != file { file = FILENAME; sweep = file; sub(/\/[^\/]*$/, "", sweep); sub(/.*\//, "", sweep); split("", at); n = split_csv($0, head); for (i = 1; i <= n; i++) at[head[i]] = i; row = 0; next }
{ split_csv($0, f); row++ }
sweep == "fronts-time" { infer_s[f[at["sweep"]], f[at["row"]]] = f[at["infer_s"]]; train_s[f[at["sweep"]], f[at["row"]]] = f[at["train_s"]]; next }
f[at["precision_at_1_n"]] >= 3 {
    vmoe = sweep ~ /^(pareto-vmoe|reduced-compute)$/
    router = value("model.moe.layers", "last-2") == "none" ? "dense" : value("model.moe.router", vmoe ? "tokens-choice" : "soft")
    width = value("model.width", 32); experts = value("model.moe.experts", 16); slots = value("model.moe.slots_per_expert", 1)
    k = value("model.moe.k", vmoe ? 2 : 1); capacity = value("model.moe.capacity", vmoe ? 1.05 : 1)
    layers = value("model.moe.layers", "last-2"); group = value("model.moe.group_images", sweep ~ /^(facts-slots|experts-matched-time)$/ ? 1 : 8)
    steps = value("train.steps", 2400); cooldown = value("train.schedule.cooldown", 400)
    name = "width " width
    if (router != "dense") name = name ", " experts (experts == 1 ? " expert" : " experts")
    if (router == "soft" && slots != 1) name = name ", " slots " slots"
    if (router == "tokens-choice" && k != 1) name = name ", K=" k
    if (router ~ /choice/ && capacity != 1) name = name ", C=" capacity
    if (router == "experts-choice" && group == 1) name = name ", group 1"
    if (router != "dense" && layers != "last-2") name = name ", " layers
    if (steps != 2400) name = name ", " steps " steps"
    if (cooldown != 400) name = name ", cooldown " cooldown
    rows++; method[rows] = router; title[rows] = name; order[rows] = 1e9 * width + 1e5 * experts + 1e4 * slots + steps + 100 * capacity + 10 * k + (group == 1) + (layers ~ /every/) / 2
    y[rows] = f[at["precision_at_1_mean"]] + 0; seeds = f[at["precision_at_1_n"]]
    half[rows] = (seeds == 3 ? 4.303 : seeds == 4 ? 3.182 : seeds == 5 ? 2.776 : 2.365) * f[at["precision_at_1_sd"]] / sqrt(seeds)
    if (!more) { spent[rows, "infer_s"] = infer_s[sweep, row] + 0; spent[rows, "train_s"] = train_s[sweep, row] + 0 }
    model = sweep SUBSEP width SUBSEP experts SUBSEP k
    if (capacity == 1) full[model] = rows
    for (i = 1; i <= 2; i++) {
        cost = i == 1 ? "flops_infer_per_image" : "train_exaflop"
        if (i == 2 || !more) spent[rows, cost] = router == "tokens-choice" && capacity > 1 && model in full ? spent[full[model], cost] : f[at[cost "_mean"]] + 0
    }
}
END {
    methods = split("dense soft tokens-choice experts-choice", list, " ")
    costs = split(panels, panel, " ") / 5
    for (c = 1; c <= costs; c++) for (m = 1; m <= methods; m++) {
        cost = panel[5 * c - 3]
        for (points = reached = 0;; reached = y[best]) {
            best = 0
            for (i = 1; i <= rows; i++) if (method[i] == list[m] && spent[i, cost] && y[i] > reached)
                if (!best || spent[i, cost] < spent[best, cost] || spent[i, cost] == spent[best, cost] && y[i] > y[best]) best = i
            if (!best) break
            if (points && spent[best, cost] < 1.03 * spent[front[c, m, points], cost]) points-- # of nearly equal costs the best
            front[c, m, ++points] = best
        }
        size[c, m] = points
        for (i = 1; i <= points; i++) used[list[m] SUBSEP title[front[c, m, i]]] = order[front[c, m, i]]
    }
    for (m = 1; m <= methods; m++) {
        printf "# list %s\n", list[m]
        for (line = 1;; line++) {
            least = ""
            for (name in used) if (index(name, list[m] SUBSEP) == 1 && (least == "" || used[name] < used[least] || used[name] == used[least] && name < least)) least = name
            if (least == "") break
            id[least] = ++numbers; delete used[least]
            printf "%d %d \"%s\"\n", line, numbers, substr(least, length(list[m]) + 2)
        }
        print "\n"
    }
    for (c = 1; c <= costs; c++) {
        unit = panel[5 * c - 2]; low = panel[5 * c - 1]; scale = wide / log(panel[5 * c] / low); split("", grid); drawn = 0
        for (m = 1; m <= methods; m++) {
            printf "# points %s %s\n", panel[5 * c - 4], list[m]
            for (i = 1; i <= size[c, m]; i++) {
                best = front[c, m, i]; drawn++; of[drawn] = m
                number[drawn] = id[list[m] SUBSEP title[best]]
                px[drawn] = scale * log(spent[best, panel[5 * c - 3]] / unit / low); py[drawn] = high * (y[best] - bottom) / (top - bottom)
                printf "%.6g %.6g %.6g\n", spent[best, panel[5 * c - 3]] / unit, y[best], half[best]
                box(12, px[drawn], py[drawn], 10, 10)
                stroke(8, px[drawn], py[drawn] - half[best] * high / (top - bottom), px[drawn], py[drawn] + half[best] * high / (top - bottom))
                if (i > 1) stroke(6, px[drawn - 1], py[drawn - 1], px[drawn], py[drawn])
            }
            print "\n"
        }
        place()
        for (m = 1; m <= methods; m++) {
            printf "# numbers %s %s\n", panel[5 * c - 4], list[m]
            for (i = 1; i <= drawn; i++) if (of[i] == m) {
                far = sqrt((lx[i] - px[i]) ^ 2 + (ly[i] - py[i]) ^ 2); end = far > 18 ? 1 - 9 / far : 0 # a number that is near needs no line
                printf "%.6g %.6g %d %.6g %.6g %.6g %.6g\n", low * exp(lx[i] / scale), bottom + ly[i] * (top - bottom) / high, number[i], low * exp(px[i] / scale), bottom + py[i] * (top - bottom) / high,
                    low * exp((px[i] + end * (lx[i] - px[i])) / scale), bottom + (py[i] + end * (ly[i] - py[i])) * (top - bottom) / high
            }
            print "\n"
        }
    }
}
