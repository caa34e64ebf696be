# Wraps the prose of a page in Markdown at 100 columns, words unchanged: awk -f tests/wrap.awk PAGE >WRAPPED. Only paragraphs and items with a longer
# line are touched; tables, headings, images, code and HTML are not. With -v check=1 prints FILE:LINE of each line that it would touch.
# Code spans, links and intervals, "(0.1 to 2.3)", stay on one line, and none begins with what would be a list there.
function unit(word) { units++; text_of[units] = word }
# The words of a paragraph, as units that no line may break.
function split_units(text,    i, c, word, code, link, n, w, list) {
    n = 0; word = ""; code = 0; link = 0
    for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (c == "`") code = !code
        if (!code && c == "[" && substr(text, i) ~ /^\[[^\]]*\]\(/) link = 1
        if (!code && link && c == ")") link = 0
        if (c == " " && !code && !link) { if (word != "") list[++n] = word; word = "" } else word = word c
    }
    if (word != "") list[++n] = word
    units = 0
    for (w = 1; w <= n; w++)
        if (units && (list[w] ~ /^([-+*=>|#]+|[0-9]+[.)])$/ || list[w] == "to" && list[w - 1] ~ /[0-9]$/ && list[w + 1] ~ /^[-+]?[0-9]/ || list[w - 1] == "to" && list[w - 2] ~ /[0-9]$/ && list[w] ~ /^[-+]?[0-9]/))
            text_of[units] = text_of[units] " " list[w]
        else unit(list[w])
}
function flush(    i, line, text, first, rest) {
    if (!lines) return
    if (!long) for (i = 1; i <= lines; i++) { if (!check) print kept[i] }
    else {
        match(kept[1], /^ *([-*+] +|[0-9]+[.)] +)?/)
        first = substr(kept[1], 1, RLENGTH); rest = sprintf("%" RLENGTH "s", "")
        text = substr(kept[1], RLENGTH + 1)
        for (i = 2; i <= lines; i++) { line = kept[i]; sub(/^ +/, "", line); text = text " " line }
        split_units(text)
        line = first text_of[1]
        for (i = 2; i <= units; i++)
            if (length(line) + 1 + length(text_of[i]) > 100) { if (!check) print line; line = rest text_of[i] } else line = line " " text_of[i]
        if (!check) print line
    }
    lines = long = 0
}
FNR == 1 { flush(); fenced = 0 }
/^ *```/ { flush(); fenced = !fenced; if (!check) print; next }
fenced || /^ *$/ || /^ *\|/ || /^#/ || /^ *</ || /^ *!\[/ || /^ *>/ || !lines && /^    / { flush(); if (!check) print; next }
/^ *([-*+] |[0-9]+[.)] )/ { flush() }
{
    kept[++lines] = $0
    body = $0; sub(/^ +/, "", body); split_units(body)
    if (length($0) > 100 && units > 1) { long = 1; if (check) print FILENAME ":" FNR }
    if (/(  |\\)$/) flush() # a line that Markdown breaks
}
END { flush() }
