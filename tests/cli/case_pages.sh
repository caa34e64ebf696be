# Numbers on the pages of experiments/ are those of the CSV files beside them. A page is corrected by hand, from what
# `experiments/tables.sh` prints; results and pages are changed in one commit.
. "$ROOT/tests/cli/lib.sh"

# The tables are those that the command on the page prints.
found=0
for page in "$ROOT"/experiments/*.md; do
    grep -o '`experiments/tables\.sh [^`]*`' "$page" | tr -d '`' | sort -u >commands
    [ -s commands ] || continue
    : >printed
    while read -r script arguments; do
        # shellcheck disable=SC2086
        "$ROOT/$script" $arguments >>printed || fail "$page: $script $arguments"
    done <commands
    awk -v page="$page" '
        !/^\|/ || /^\|-/ { next }
        { columns = split($0, cell, "|"); row = cell[2] "|" columns }
        NR == FNR { printed[$0]; rows[row]; next }
        $0 in printed { same++; next }
        row in rows && $0 ~ /[0-9]\.[0-9]/ { print page ": is not a row that its experiments/tables.sh prints (run the command on the page, and replace the table): " $0; wrong = 1 }
        END { if (!same) print page ": has no row that its experiments/tables.sh prints: run the command on the page, and replace the table"; exit wrong || !same }' printed "$page" >wrong || fail "$(cat wrong)"
    found=$((found + 1))
done
[ $found -gt 10 ] || fail "only $found pages name their command, as \`experiments/tables.sh NAME\`"

# The primary contrasts in evidence.md and README.md are those of the CSV files; README.md names a difference by what is better.
for primary in "$ROOT"/experiments/results/*/primary.csv; do
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        { gsub(/"[^"]*"/, "contrast"); value = $at["value"]; low = $at["low"]; high = $at["high"] # names of contrasts have commas
          form = low > 0 ? "%+.3f (%.3f to %.3f)\n" : "%+.3f (%+.3f to %+.3f)\n"
          printf form, value, low, high >"in_evidence"
          printf "%+.4f ± %.4f\n", value, (high - low) / 2 >"in_readme" }' "$primary" || fail "$primary cannot be read"
    while read -r effect; do grep -qF -- "$effect" "$ROOT/experiments/evidence.md" || fail "experiments/evidence.md does not have $effect, of $primary: write the primary contrast as the file has it"; done <in_evidence
    while read -r effect; do grep -qF -- "${effect#[-+]}" "$ROOT/experiments/README.md" || fail "experiments/README.md does not have $effect, of $primary: write the primary contrast as the file has it"; done <in_readme
done

# The effects with an interval in README.md are those of the CSV files: a value and half the width of its interval. Those of soups, whose
# intervals tables.sh computes, are in its table.
grep '^| \[' "$ROOT/experiments/README.md" | while IFS='|' read -r _ spec _ effect _; do
    name=${spec#*[} name=${name%%]*} value=${effect%% ±*} value=${value# }
    case $effect in *' ± '*) half=${effect#*± } half=${half%%[ ,]*} ;; *) continue ;; esac
    results=$ROOT/experiments/results/$name
    if [ -f "$results-means/soups.csv" ]; then
        "$ROOT/experiments/tables.sh" "$name-means" | awk -F'|' 'NF > 9 && $8 ~ /[0-9]/ { split($9, end, " to "); print $8 + 0 "," end[1] + 0 "," end[2] + 0 }'
    else
        cat "$results"/*.csv
    fi | awk -v value="$value" -v half="$half" "$(cat "$ROOT/experiments/csv.awk")"'
        BEGIN { digits = length(half) - index(half, "."); form = "%+." digits "f %." digits "f" }
        { n = split_csv($0, f); for (i = 1; i + 2 <= n; i++) if (f[i] ~ /^[-+]?[0-9.]+(e-?[0-9]+)?$/ && f[i + 2] ~ /[0-9]/) {
            width = (f[i + 2] - f[i + 1]) / 2
            if (sprintf(form, f[i], width) == value " " half || sprintf(form, -f[i], width) == value " " half) { same = 1; exit } } }
        END { exit !same }' || echo "experiments/README.md: $name: $value ± $half is in no CSV file of its results: write a value and half its interval from there"
done >wrong
[ ! -s wrong ] || fail "$(cat wrong)"

# So are the intervals in the text of the pages, as differences or in points: "(-0.4 to +1.3)". Those of soups are in its table.
cat "$ROOT"/experiments/*.md | awk -F '|' 'NF > 9 && $9 ~ / to / { print "low,high"; sub(/ to /, ",", $9); gsub(/ /, "", $9); print $9 }' >intervals_of_tables
awk "$(cat "$ROOT/experiments/csv.awk")"'
    function decimal(x, digits) { x = sprintf("%." digits "f", x); return x + 0 ? x : sprintf("%." digits "f", 0) }
    function add(low, high,    digits, scale) {
        for (scale = 1; scale <= 100; scale *= 100) for (digits = 1; digits <= 4; digits++) {
            known[decimal(low * scale, digits), decimal(high * scale, digits)]
            known[decimal(-high * scale, digits), decimal(-low * scale, digits)]
        }
    }
    FILENAME !~ /\.md$/ && /(^|,)low,high(,|$)/ { split("", low); n = split_csv($0, f); count = 0; for (i = 1; i <= n; i++) if (f[i] ~ /low$/) low[++count] = i; next }
    FILENAME !~ /\.md$/ { split_csv($0, f); for (i = 1; i <= count; i++) if (f[low[i]] ~ /[0-9]/) add(f[low[i]], f[low[i] + 1]); next }
    /^\|/ { next }
    {
        rest = $0
        while (match(rest, /[(] *[-+]?[0-9]+\.[0-9]+ to [-+]?[0-9]+\.[0-9]+[)]/)) {
            split(substr(rest, RSTART + 1, RLENGTH - 2), end, " to "); checked++
            digits = length(end[1]) - index(end[1], ".")
            if (!((decimal(end[1], digits), decimal(end[2], digits)) in known)) { sub(/.*\//, "", FILENAME); print FILENAME ": " substr(rest, RSTART, RLENGTH) " is the interval of no CSV file (low, high) and of no table of soups: write one that is, with the same digits" }
            rest = substr(rest, RSTART + RLENGTH)
        }
    }
    END { if (checked < 50) print "only " checked + 0 " intervals found" }' intervals_of_tables "$ROOT"/experiments/results/*/*.csv "$ROOT"/experiments/*.md >wrong
[ ! -s wrong ] || fail "$(cat wrong)"
