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

# Rows of README.md with an interval: value, half of the interval and seeds are those of a CSV file of the experiment, the word follows from it,
# and the difference is named by what is better. Those of soups, whose intervals tables.sh computes, are in its table.
split=$(cat "$ROOT/experiments/csv.awk")
awk -F '|' -v results="$ROOT/experiments/results" "$split"'
    function say(text) { print "experiments/README.md: " name ": " $3 ": " text }
    # Looks in a CSV file for the value and half of the row: its number of seeds, whether its interval excludes 0, its finding.
    function look(file,    at, n, i, head, line, value_of, half_of) {
        while ((getline line < file) > 0) {
            n = split_csv(line, f)
            if (!head) { for (i = 1; i <= n; i++) at[f[i]] = i; head = 1; value_of = at["difference"] + at["slope"] + at["value"]; if (!value_of || !at["low"]) break; continue }
            if (f[at["low"]] == "" || f[value_of] == "") continue
            half_of = (f[at["high"]] - f[at["low"]]) / 2
            if (sprintf(form, f[value_of], half_of) != value " " half && sprintf(form, -f[value_of], half_of) != value " " half) continue
            seeds[f[at["n"]]]; excludes[f[at["low"]] > 0 || f[at["high"]] < 0]; verdict = f[at["verdict"]]; chance = f[at["p"]]
            if (at["finding"]) finding = f[at["finding"]]
            found++
        }
        close(file)
    }
    /^## / { decided = /^## Decided/; open = /^## Undecided/ }
    !(decided || open) || !/^\| \[/ { next }
    {
        gsub(/ *\| */, "|"); $0 = $0
        name = $2; sub(/^\[/, "", name); sub(/\].*/, "", name)
        effect = $4; word = decided ? $6 : $7; kind = decided ? "primary" : $6; rows++
        if (kind == "description" || kind == "time") { if (word ~ /suggests|confirmed/) say("a description or a time is not tested: \"" word "\" must not say suggests or confirmed"); next }
        if (effect !~ / ± /) { if (word !~ /open/) say("an effect without an interval decides nothing: write open, or description as its kind"); next }
        value = effect; sub(/ ±.*/, "", value); half = effect; sub(/.*± /, "", half); sub(/[ ,].*/, "", half)
        digits = length(half) - index(half, "."); form = "%+." digits "f %." digits "f"
        split("", seeds); split("", excludes); found = 0; finding = ""
        command = "ls " results "/" name "/*.csv"
        while ((command | getline file) > 0) look(file)
        close(command)
        if (kind == "exploratory") { explored++; p[explored] = found ? chance : 1; clear += found && (1 in excludes) }
        if (!found && name == "soups") next
        if (!found) { say(value " ± " half " is in no CSV file of its results: write a value and half its interval from there"); next }
        if (!($5 in seeds)) say("has not " $5 " seeds: write n of the CSV file")
        if (value ~ /^-/ && word !~ /confirmed/) say("the effect is negative: name the difference by what is better")
        if (kind == "primary" && finding == "") say("is no primary contrast of its sweep: write exploratory")
        if (kind == "exploratory" && finding != "") say("is a primary contrast of its sweep: write primary")
        if (decided && word != "**" finding "**") say("primary.csv says " finding ", not " word ": an open contrast belongs under Undecided")
        if (open && finding != "" && finding != "open") say("primary.csv says " finding ": move the row under Decided")
        if (kind == "exploratory") {
            wanted = (1 in excludes) ? "suggests" : verdict ~ /^equivalent/ ? "suggests equivalence" : "open"
            if (index(word, wanted) != 1) say("its interval " (1 in excludes ? "excludes" : "includes") " 0: the finding begins with " wanted ", not " word)
        }
        if (kind == "primary" && open && (1 in excludes) && word !~ /correction/) say("its interval excludes 0 and it is open: write open after the correction")
    }
    END {
        for (i = 2; i <= explored; i++) { x = p[i]; for (k = i - 1; k > 0 && p[k] + 0 > x + 0; k--) p[k + 1] = p[k]; p[k + 1] = x }
        for (holm = 0; holm < explored && p[holm + 1] * (explored - holm) < 0.05; holm++) { }
        for (i = 1; i <= explored; i++) if (p[i] <= 0.05 * i / explored) discovered = i
        printf "Of %d exploratory rows with an interval %d exclude 0. Over all of them Holm\047s method would leave %d, a false discovery rate of 5%% (Benjamini and Hochberg) %d.\n", explored, clear, holm, discovered >"explored"
        if (rows < 50) print "experiments/README.md: only " rows + 0 " rows found in its two tables"
    }' "$ROOT/experiments/README.md" >wrong
tr '\n' ' ' <"$ROOT/experiments/README.md" | grep -qF "$(cat explored)" || echo "experiments/README.md: its rows have other numbers than its text: write \"$(cat explored)\"" >>wrong
[ ! -s wrong ] || fail "$(cat wrong)"
grep '^| \[soups' "$ROOT/experiments/README.md" | while IFS='|' read -r _ _ _ effect _; do
    "$ROOT/experiments/tables.sh" soups-means | awk -F'|' -v effect="$effect" 'NF > 9 && $8 ~ /[0-9]/ { split($9, end, " to "); if (sprintf(" %+.4f ± %.4f ", $8, (end[2] - end[1]) / 2) == effect) same = 1 } END { exit !same }' ||
        fail "experiments/README.md: soups:$effect is not in its table: write a value and half its interval from experiments/tables.sh soups-means"
done || exit 1

# The intervals in the text, "5.5 points (4.1 to 6.9)" or "(+0.055, 0.041 to 0.069)", are those of an experiment that the paragraph names by a link, or
# else the page; on the page of an experiment its own are good too. They are over seeds and images (low, high), not over seeds alone. A value right
# before the interval is that of its row. Of soups, which has no such file, the tables of its page count.
awk "$split"'
    function decimal(x, digits) { x = sprintf("%." digits "f", x); return x + 0 ? x : sprintf("%." digits "f", 0) }
    function add(name, value, low, high,    digits, scale) {
        for (scale = 1; scale <= 100; scale *= 100) for (digits = 0; digits <= 4; digits++) {
            known[name, decimal(low * scale, digits), decimal(high * scale, digits)] = known[name, decimal(low * scale, digits), decimal(high * scale, digits)] " " sprintf("%.17g", value * scale)
            known[name, decimal(-high * scale, digits), decimal(-low * scale, digits)] = known[name, decimal(-high * scale, digits), decimal(-low * scale, digits)] " " sprintf("%.17g", value * scale)
        }
    }
    function links(text, list,    name) {
        while (match(text, /[(](experiments\/)?([a-z0-9-]+\.(md|yaml)|results\/[a-z0-9-]+)[)#\/]/)) {
            name = substr(text, RSTART + 1, RLENGTH - 2); sub(/^experiments\//, "", name); sub(/^results\//, "", name); sub(/\.(md|yaml)$/, "", name); list[name]
            text = substr(text, RSTART + RLENGTH)
        }
    }
    function check(paragraph, list,    rest, tail, where, end, digits, name, good, values, n, v, i, before, right) {
        rest = paragraph
        while (match(rest, /([(]|[0-9]( points)?,) *[-+]?[0-9]+(\.[0-9]+)? to [-+]?[0-9]+(\.[0-9]+)?[,;)]/)) {
            where = substr(rest, RSTART, RLENGTH); tail = substr(rest, RSTART + RLENGTH)
            match(where, /[(,]/); where = substr(where, RSTART) # from the parenthesis or comma on
            before = substr(rest, 1, length(rest) - length(tail) - length(where)); rest = tail
            if (where !~ /\./) continue # not an interval
            split(substr(where, 2, length(where) - 2), end, " to "); gsub(/ /, "", end[1])
            digits = index(end[1], ".") ? length(end[1]) - index(end[1], ".") : 0
            good = 0; values = ""; checked++
            for (name in list) if ((name, decimal(end[1], digits), decimal(end[2], digits)) in known) { good = 1; values = values known[name, decimal(end[1], digits), decimal(end[2], digits)] }
            if (!good) { print page ": " where ": is no interval (low, high) of the experiments that this paragraph names: ..." substr(before, length(before) - 60) where ": write the one of the CSV file with its digits, and link the page of its experiment"; continue }
            if (!match(before, /[-+]?[0-9]+\.[0-9]+( points)? ?$/)) continue
            v = substr(before, RSTART); sub(/ .*/, "", v); sub(/^[-+]/, "", v); right = 0
            digits = index(v, ".") ? length(v) - index(v, ".") : 0
            n = split(values, at, " ")
            for (i = 1; i <= n; i++) if (decimal(at[i] < 0 ? -at[i] : at[i] + 0, digits) == v) right = 1
            if (!right) print page ": " substr(before, length(before) - 60) where ": the value before this interval is not that of its row in the CSV file"
        }
    }
    function flush(    list, name) {
        if (text == "") return
        if (own != "") list[own]
        links(text, list)
        for (name in list) { check(text, list); text = ""; return }
        links(whole[FILENAME], list)
        check(text, list); text = ""
    }
    FNR == 1 { flush(); text = ""; header = 0; page = FILENAME; sub(/.*\//, "", page) }
    FILENAME ~ /\.csv$/ {
        n = split_csv($0, f)
        if (FNR == 1) { split("", at); for (i = 1; i <= n; i++) at[f[i]] = i; place = FILENAME; sub(/\/[^\/]*$/, "", place); sub(/.*\//, "", place); value_of = at["difference"] + at["slope"] + at["value"]; next }
        if (at["low"] && value_of && f[at["low"]] != "") add(place, f[value_of], f[at["low"]], f[at["high"]])
        next
    }
    FNR == 1 { own = page; sub(/\.md$/, "", own); if (own ~ /^(README|PLAN|evidence|objections|corrections|performance)$/) own = "" }
    pass == 1 { whole[FILENAME] = whole[FILENAME] "\n" $0; if (own == "soups" && split($0, cell, "|") > 9 && split(cell[9], end, " to ") == 2) add("soups", cell[8], end[1], end[2]); next }
    /^\|/ && page != "objections.md" && page != "evidence.md" && FILENAME !~ /\/README.md$/ { flush(); next }
    /^$/ || /^ *- / || /^#/ || /^\|/ { flush() }
    { line = $0; sub(/^ +/, "", line); text = text (text == "" ? "" : " ") line }
    END { flush(); if (checked < 200) print "only " checked + 0 " intervals found" }' "$ROOT"/experiments/results/*/*.csv pass=1 "$ROOT"/experiments/*.md "$ROOT/README.md" pass=2 "$ROOT"/experiments/*.md "$ROOT/README.md" >wrong
[ ! -s wrong ] || fail "$(cat wrong)"

# Every page of an experiment begins with what a reader may conclude.
for page in "$ROOT"/experiments/*.md; do
    case ${page##*/} in README.md | PLAN.md) continue ;; esac
    sed -n 3p "$page" | grep -qE '^\*\*(What may be concluded|Withdrawn)\.\*\* ' || echo "${page##*/}: line 3 does not begin with **What may be concluded.** (or **Withdrawn.**): write there what a reader may conclude"
done >wrong
[ ! -s wrong ] || fail "$(cat wrong)"

# The count of objections is that of their table, and its other numbers are those of the scripts.
page=$ROOT/experiments/objections.md
awk -F ' *[|] *' '
    $3 ~ /^(answered|partly|conceded|open)$/ { n[$3]++; all++ }
    { text = text " " $0 }
    END {
        if (split("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty twenty-one twenty-two twenty-three twenty-four twenty-five", word, " ")) for (i in word) words[i - 1] = word[i]
        wanted = "Of the " all " objections below " (n["answered"] in words ? words[n["answered"]] : n["answered"]) " are answered, " (n["partly"] in words ? words[n["partly"]] : n["partly"]) " in part, " (n["conceded"] in words ? words[n["conceded"]] : n["conceded"]) " are conceded, and " (n["open"] in words ? words[n["open"]] : n["open"]) (n["open"] == 1 ? " has" : " have") " no answer yet"
        if (!index(text, wanted)) print "objections.md: its first line has other numbers than its tables: write \"" wanted "\""
    }' "$page" >wrong
"$ROOT/experiments/families.sh" | sed -n 's/^Decided in their families: \([0-9]*\) of \([0-9]*\). Over all together: \([0-9]*\)\.$/\3 of the \1 that are decided, of \2/p' >numbers
grep -qF "$(cat numbers)" "$page" || echo "objections.md: does not say \"$(cat numbers)\": experiments/families.sh has other numbers" >>wrong
# The sizes of the families add up to all contrasts.
"$ROOT/experiments/families.sh" | sed -n 's/^Decided in their families: [0-9]* of \([0-9]*\).*/\1/p' >numbers
grep -o 'planned at different times, of [0-9, ]*and [0-9]* contrasts' "$page" | grep -o '[0-9]*' | awk '{ sum += $1 } END { print sum + 0 }' | cmp -s - numbers ||
    echo "objections.md: the sizes of its families do not add up to the $(cat numbers) contrasts of experiments/families.sh" >>wrong
"$ROOT/experiments/over-tables.sh" another-program csv | cmp -s - "$ROOT/experiments/results/another-program/over-tables.csv" || # that of facts-tables: case_published
    echo "results/another-program/over-tables.csv: over-tables.sh another-program csv prints another" >>wrong
"$ROOT/experiments/families.sh" | sed -n 's/^Decided in their families: \([0-9]*\) of [0-9]*. Over all together: \([0-9]*\)\.$/would leave \2 of these \1/p' >numbers
tr '\n' ' ' <"$ROOT/experiments/README.md" | grep -qF "$(cat numbers)" || echo "experiments/README.md: does not say \"$(cat numbers)\": experiments/families.sh has other numbers" >>wrong
# The contrasts that a correction over all families would not leave have the same names in README.md and objections.md, and are those of families.sh,
# whose rows have the sweep, the value and the finding of a row under Decided.
for list in README objections; do
    tr '\n' ' ' <"$ROOT/experiments/$list.md" | grep -oE ': not ([A-Z][0-9]+, )*[A-Z][0-9]+ and [A-Z][0-9]+' | grep -oE '[A-Z][0-9]+' | sort >"not_left_$list"
done
"$ROOT/experiments/families.sh" | awk -F ' *[|] *' '
    function size(x) { sub(/^[-+]/, "", x); return x }
    NR == FNR { if (/^## /) decided = /^## Decided/; if (decided && /^\| \[/) { sweep = $2; gsub(/^\[|\].*/, "", sweep); effect = $4; sub(/ .*/, "", effect); title = $3; sub(/[,:].*/, "", title); found = $6; gsub(/[*]/, "", found); name[sweep, size(effect), found] = title }; next }
    /^\| [a-z]/ && $5 != "finding" && $5 != "open" && $7 >= 0.05 { print ($2, size($4), $5) in name ? name[$2, size($4), $5] : $2 "-" $3 }' "$ROOT/experiments/README.md" - | sort >not_left
for list in README objections; do
    differ=$(diff not_left "not_left_$list" | grep '^[<>]' | sed 's/^< /lacks /; s/^> /has too many: /' | tr '\n' ',' | sed 's/,$//; s/,/, /g')
    [ -z "$differ" ] || echo "experiments/$list.md: its list \"not P1, ...\" of contrasts that a correction over all families would not leave $differ: write the decided ones of experiments/families.sh whose p over all is 0.05 or more, in README.md and objections.md alike" >>wrong
done
"$ROOT/experiments/time.sh" | awk -F ' *[|] *' '$2 == "all" { printf "add up to %.0f hours of one core (`experiments/time.sh`)", $4 }' >numbers
grep -qF "$(cat numbers)" "$page" || echo "objections.md: does not say \"$(cat numbers)\": write what experiments/time.sh prints" >>wrong
# The hours of the lists of experiments/Makefile, in evidence.md.
hours() { # LIST, FORMAT of the two hours
    # shellcheck disable=SC2046 # their names have no spaces
    set -- "$2" $(awk -v list="$1 :=" '{ line = line $0 } sub(/\\$/, "", line) { next } index(line, list) == 1 { sub(/.*:= */, "", line); gsub(/:[^ ]*/, "", line); print line } { line = "" }' "$ROOT/experiments/Makefile")
    format=$1 && shift
    "$ROOT/experiments/time.sh" "$@" | awk -F ' *[|] *' -v format="$format" '$2 == "all" { printf format, $4, $5 }' >numbers
    tr '\n' ' ' <"$ROOT/experiments/evidence.md" | grep -qF "$(cat numbers)" || echo "evidence.md: does not say \"$(cat numbers)\", which experiments/time.sh prints of a list of experiments/Makefile" >>wrong
}
hours EVIDENCE "they took %.0f hours of one core; %.0f, if every cell"
hours EVIDENCE_MORE "that are long (%.0f hours as published, %.0f)"
hours PHOTOGRAPHS "[pruning](pruning.md) (%.0f hours as published, %.0f)"
# The table of a page that a script of its own prints.
"$ROOT/experiments/training-precision.sh" >table
grep -F -e "$(head -n 2 table)" -e '.md) | ' "$ROOT/experiments/training-precision.md" | grep '^|' | cmp -s - table || echo "training-precision.md: its table is not what training-precision.sh prints" >>wrong
[ ! -s wrong ] || fail "$(cat wrong)"

# Every sweep with published cells can be run again by `make evidence`, or stands in evidence.md among those that it leaves out.
for packed in "$ROOT"/experiments/results/*/trials.tar.gz; do
    name=${packed%/*} name=${name##*/}
    sed -n '/^EVIDENCE/,/^$/p; /^PHOTOGRAPHS/,/^$/p' "$ROOT/experiments/Makefile" | grep -qE "(^|[ =])$name(:| |\$)" || sed -n '/Not in these lists/,/^$/p' "$ROOT/experiments/evidence.md" | grep -q "(${name%-rates}\.md)" ||
        echo "experiments/Makefile: $name has published cells, but no list of make evidence has it: add it, or say in evidence.md why it is left out"
done >wrong
[ ! -s wrong ] || fail "$(cat wrong)"
