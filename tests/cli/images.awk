# No interval of precision is narrower than its test images allow. Reads results.csv, or with -v evaluated=1 evaluations.csv, then a file with the
# outcomes of each cell ("CELL<tab>0110...", a digit per image; of evaluations CELL.evaluation-N), then tables of differences, trends and primary
# contrasts, and computes from the outcomes, for each row with images,
#   1.96 sqrt(MS_rest / (S I) + V_images)      as smoe-sweep(1), STATISTICS, has them
# and the value itself; MS_rest / (S I) and V_images are sums over the sets of test images. A row with an empty setting is the mean over all cells
# with any value there.
FNR == 1 { file++ }
file == 2 { tab = index($0, "\t"); right[substr($0, 1, tab - 1)] = substr($0, tab + 1); next }
FNR == 1 { split("", at); columns = split_csv($0, head); for (i = 1; i <= columns; i++) at[head[i]] = i; next }
{ split_csv($0, f) }
file == 1 {
    id = evaluated ? f[1] ".evaluation-" points[f[1]]++ : f[1]
    settings = at["status"] - 2
    for (i = 1; i <= settings; i++) name[i] = head[i + 1]
    if (f[at["status"]] != "done") next
    key = ""
    for (i = 2; i < at["status"]; i++) if (head[i] != "seed") { key = key SUBSEP f[i]; setting[id, head[i]] = f[i] }
    cell[f[at["seed"]], key] = id
    if (!(f[at["seed"]] in seen)) { seen[f[at["seed"]]]; seed[++seeds] = f[at["seed"]] }
    if (!(key in known)) { known[key]; group[++groups] = key; first[groups] = id }
}
# The settings in a text, "KEY=VALUE" after `mark`, go to to[KEY]. 0: the text has another key.
function read_settings(text, mark, to,    i, rest, place, end, k) {
    split("", to)
    text = mark text
    for (i = 1; i <= settings; i++) {
        place = index(text, mark name[i] "=")
        if (!place) continue
        rest = substr(text, place + length(mark name[i]) + 1); end = length(rest)
        for (k = 1; k <= settings; k++) if ((place = index(rest, mark name[k] "=")) && place - 1 < end) end = place - 1
        to[name[i]] = substr(rest, 1, end)
    }
    for (i in to) return 1
    return 0
}
function fits(g, column, wanted) { return wanted == "*" || setting[first[g], column] == wanted }
# Whether group g has all settings of `own`.
function has(g, own,    i) { for (i in own) if (!fits(g, i, own[i])) return 0; return 1 }
# The group that group g is compared with, if there is just one.
function counterpart(g, other,    h, i, found, good) {
    found = 0
    for (h = 1; h <= groups; h++) {
        good = 1
        for (i = 1; i <= settings && good; i++)
            if (name[i] != "seed") good = fits(h, name[i], name[i] in other ? other[name[i]] : setting[first[g], name[i]])
        if (good && found) return 0
        if (good) found = h
    }
    return found == g ? 0 : found
}
# The weights of the mean difference of all groups with the settings of `own`. 0: there are none.
function weigh_difference(own, other,    g, h, pairs) {
    split("", weight)
    for (g = 1; g <= groups; g++) if (has(g, own) && (h = counterpart(g, other))) { pairs++; weight[g]++; weight[h]-- }
    for (g in weight) weight[g] /= pairs
    return pairs
}
# The weights of the slope over log2 of a column, of all groups with the settings of `own`, for which the other settings are the same.
function weigh_slope(own, over,    g, n, x, mean, square) {
    split("", weight)
    for (g = 1; g <= groups; g++) if (has(g, own)) { n++; mean += log(setting[first[g], over]) / log(2) }
    for (g = 1; g <= groups; g++) if (has(g, own)) { x = log(setting[first[g], over]) / log(2) - mean / n; weight[g] = x; square += x * x }
    for (g in weight) weight[g] /= square
    return n
}
function weigh(    own, other, over, i, parts, sides) {
    split("", own)
    over = "over" in at ? f[at["over"]] : ""
    if ("reference" in at || "over" in at)
        for (i = 1; i <= settings; i++) if (name[i] in at && f[at[name[i]]] != "" && name[i] != over) own[name[i]] = f[at[name[i]]]
    if (over != "") return weigh_slope(own, over)
    if ("reference" in at) return read_settings(f[at["reference"]], " ", other) && weigh_difference(own, other)
    if ((f[at["contrast"]] ~ /evaluate\./) != evaluated + 0) return 0
    if (f[at["contrast"]] ~ /^slope over /) {
        i = substr(f[at["contrast"]], 12); parts = index(i, ", ")
        if (!read_settings(substr(i, parts + 2), ",", own)) return 0
        return weigh_slope(own, substr(i, 1, parts - 1))
    }
    split(f[at["contrast"]], sides, " - ")
    return read_settings(sides[1], ",", own) && read_settings(sides[2], ",", other) && weigh_difference(own, other)
}
# Groups with the same test images have the same set: the columns that choose images.
function set_of(g,    i, set) {
    for (i = 1; i <= settings; i++) if (name[i] ~ /(^|evaluate\.)data\.|eval\.split$/ && name[i] !~ /train_limit|augment|cache_mb/) set = set SUBSEP setting[first[g], name[i]]
    return set
}
# Adds the images of one set of groups to squares of the contrast: MS_rest and V_images over S I of that set to `least`, its mean to value, and to S its seeds.
function add_set(set,    g, s, i, images, d, mean, whole, squares, of_seeds, of_images, of_all, rest, V, image, seeds_of) {
    for (g in weight) if (set_of(g) == set) for (s = 1; s <= seeds && !images; s++) images = length(right[cell[seed[s], group[g]]])
    for (s = 1; s <= seeds; s++) {
        if (!usable[s]) continue
        seeds_of++; mean = 0
        for (i = 1; i <= images; i++) {
            d = 0
            for (g in weight) if (of_set[g] == set) d += weight[g] * substr(right[cell[seed[s], group[g]]], i, 1)
            image[i] += d; mean += d; squares += d * d
        }
        whole += mean; of_seeds += mean * mean / images
    }
    S = seeds_of; I_all += images
    if (S < 2 || images < 2) return
    for (i = 1; i <= images; i++) of_images += image[i] * image[i] / S
    of_all = whole * whole / (S * images)
    rest = (squares - of_seeds - of_images + of_all) / ((S - 1) * (images - 1))
    V = (of_images - of_all) / (images - 1) - rest
    least += (rest + (V > 0 ? V : 0)) / (S * images)
    value += whole / (S * images)
}
# The largest that the bound could be, from the weights and numbers of images alone: most outcomes need not be read.
function largest(    g, s, set, images, most, sum) {
    for (g in weight) {
        set = of_set[g]
        for (s = 1; s <= seeds && !(set in images); s++) if (length(right[cell[seed[s], group[g]]])) images[set] = length(right[cell[seed[s], group[g]]])
        if (weight[g] > 0) most[set] += weight[g]; else least_of[set] -= weight[g]
    }
    for (set in images) { if (least_of[set] > most[set]) most[set] = least_of[set]; if (images[set] > 1) sum += most[set] ^ 2 / (images[set] - 1) }
    split("", least_of)
    return 1.96 * sqrt(sum)
}
file > 2 && f[at["metric" in at ? "metric" : "measure"]] == "precision_at_1" && f[at["images"]] + 0 {
    half = (f[at["high"]] - f[at["low"]]) / 2
    if (!weigh()) { if (!("contrast" in at)) print FILENAME ": no cells for " $0; next }
    split("", of_set); split("", sets)
    for (g in weight) if (weight[g] * weight[g] < 1e-24) delete weight[g]
    for (g in weight) { of_set[g] = set_of(g); sets[of_set[g]] }
    if (half >= largest()) next # no outcomes give more, since each mean square is at most S I / (I - 1)
    for (s = 1; s <= seeds; s++) { usable[s] = 1; for (g in weight) if (!length(right[cell[seed[s], group[g]]])) usable[s] = 0 }
    least = value = I_all = 0
    for (set in sets) add_set(set)
    if (S != f[at["n"]] + 0 || S < 2 || I_all != f[at["images"]] + 0) next
    checked++
    least = 1.96 * sqrt(least)
    value -= f[at["difference" in at ? "difference" : "slope" in at ? "slope" : "value"]]
    if (value * value > 1e-20) print FILENAME ": the value is not that of the outcomes: " $0
    if (half < least * (1 - 1e-9) - 1e-12) printf "%s: the images allow no interval narrower than +- %.4f, not %.4f: %s\n", FILENAME, least, half, $0
}
END { if (count) print checked + 0 >count }
