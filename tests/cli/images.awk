# No interval of precision is narrower than its test images allow. Reads results.csv, then a file with the outcomes of each cell ("CELL<tab>0110...",
# a digit per image), then tables of differences, and computes from the outcomes, for each row with images,
#   1.96 sqrt(MS_rest / (S I) + V_images)      as smoe-sweep(1), STATISTICS, has them
# A row with an empty setting is the mean over all cells with any value there.
FNR == 1 { file++ }
file == 2 { tab = index($0, "\t"); right[substr($0, 1, tab - 1)] = substr($0, tab + 1); next }
FNR == 1 { split("", at); columns = split_csv($0, head); for (i = 1; i <= columns; i++) at[head[i]] = i; next }
{ split_csv($0, f) }
file == 1 && f[at["status"]] == "done" {
    key = ""
    for (i = 2; i < at["status"]; i++) if (head[i] != "seed") { key = key SUBSEP f[i]; name[i - 1] = head[i]; setting[f[1], head[i]] = f[i] }
    cell[f[at["seed"]], key] = f[1]
    if (!(f[at["seed"]] in seen)) { seen[f[at["seed"]]]; seed[++seeds] = f[at["seed"]] }
    if (!(key in known)) { known[key]; group[++groups] = key; first[groups] = f[1] }
    settings = at["status"] - 2
}
# What the reference has in a column: a value, * for any, or nothing.
function of_reference(column,    text, i, place) {
    text = " " f[at["reference"]]; place = index(text, " " column "=")
    if (!place) return ""
    text = substr(text, place + length(column) + 2)
    for (i = 1; i <= settings; i++) if (place = index(text, " " name[i] "=")) text = substr(text, 1, place - 1)
    return text
}
function fits(g, column, wanted) { return wanted == "*" || setting[first[g], column] == wanted }
# The group that group g is compared with, if there is just one.
function counterpart(g,    h, i, found, good) {
    found = 0
    for (h = 1; h <= groups; h++) {
        good = 1
        for (i = 1; i <= settings && good; i++) good = fits(h, name[i], other[i] == "" ? setting[first[g], name[i]] : other[i])
        if (good && found) return 0
        if (good) found = h
    }
    return found == g ? 0 : found
}
file > 2 && f[at["metric"]] == "precision_at_1" && f[at["images"]] + 0 {
    I = f[at["images"]] + 0; S = pairs = 0
    half = (f[at["high"]] - f[at["low"]]) / 2
    if (half >= 1.96 / sqrt(I - 1)) next # no outcomes give more, since each mean square is at most S I / (I - 1)
    for (i = 1; i <= settings; i++) other[i] = of_reference(name[i])
    for (g = 1; g <= groups; g++) {
        good = 1
        for (i = 1; i <= settings && good; i++) good = !(name[i] in at) || f[at[name[i]]] == "" || fits(g, name[i], f[at[name[i]]])
        if (good && (h = counterpart(g))) { row[++pairs] = group[g]; reference[pairs] = group[h] }
    }
    whole = squares = of_seeds = of_images = 0
    split("", image)
    for (s = 1; s <= seeds; s++) {
        good = pairs > 0
        for (p = 1; p <= pairs && good; p++) {
            a = cell[seed[s], row[p]]; b = cell[seed[s], reference[p]]
            good = length(right[a]) == I && length(right[b]) == I
        }
        if (!good) continue
        S++; mean = 0
        for (i = 1; i <= I; i++) {
            d = 0
            for (p = 1; p <= pairs; p++) d += substr(right[cell[seed[s], row[p]]], i, 1) - substr(right[cell[seed[s], reference[p]]], i, 1)
            d /= pairs
            image[i] += d; mean += d; squares += d * d
        }
        whole += mean; of_seeds += mean * mean / I
    }
    if (S != f[at["n"]] + 0 || S < 2) next
    for (i = 1; i <= I; i++) of_images += image[i] * image[i] / S
    of_all = whole * whole / (S * I)
    MS_rest = (squares - of_seeds - of_images + of_all) / ((S - 1) * (I - 1))
    V = (of_images - of_all) / (I - 1) - MS_rest
    least = 1.96 * sqrt((MS_rest + (V > 0 ? V : 0)) / (S * I))
    value = whole / (S * I) - f[at["difference"]]
    if (value * value > 1e-20) print FILENAME ": the difference is not that of the outcomes: " $0
    if (half < least * (1 - 1e-9)) printf "%s: the images allow no interval narrower than +- %.4f, not %.4f: %s\n", FILENAME, least, half, $0
}
