# Splits a line of CSV, with quotes, into the fields f[1] ...; returns their number.
function split_csv(line, f,    n, c, quoted, i) {
    n = 1; f[n] = ""; quoted = 0
    for (i = 1; i <= length(line); i++) {
        c = substr(line, i, 1)
        if (c == "\"") quoted = !quoted
        else if (c == "," && !quoted) f[++n] = ""
        else f[n] = f[n] c
    }
    return n
}
