#!/bin/sh
# Measures the routing of the trained cells of a sweep on their test images:
#   experiments/routing.sh NAME DIR [COMPANIONS]
# writes experiments/results/NAME-routing/routing.csv, one line per cell and block, and companions.csv, for seeds below COMPANIONS [3]: the
# share of predictions that change when eval.order changes from shuffled to file, so that an image shares its groups with others.
# Cells whose routers make no choices are left out. Cells without weights, as those from trials.tar.gz, keep their lines of these files.
# experiments/tables.sh NAME-routing prints the table.
set -eu
[ $# -ge 2 ] || { echo "usage: routing.sh NAME DIR [COMPANIONS]" >&2; exit 2; }
smoe=${SMOE:-$(dirname "$0")/../build/smoe} out=$(dirname "$0")/results/$1-routing dir=$2 companions=${3:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

# Adds the lines of $work/new to a file, in place of those with the same row, seed and block.
merge() { # FILE, HEADER, KEYS
    [ -f "$1" ] || echo "$2" >"$1"
    awk -F, -v keys="$3" '{ key = $1; for (i = 2; i <= keys; i++) key = key "," $i }
        NR == FNR { fresh[key]; print; next } FNR > 1 && !(key in fresh)' "$work/new" "$1" | sort -t, -k1,1n -k2,2n -k3,3n >"$work/all"
    { echo "$2"; cat "$work/all"; } >"$1"
}

"$(dirname "$0")/cells.sh" "$dir" | while IFS='	' read -r row seed cell; do
    ! grep -q '^ *layers: none' "$cell/spec.yaml" || continue
    rm -rf "$work/inspect"
    "$smoe" inspect "$cell" -o "$work/inspect" -q --no-progress >/dev/null </dev/null
    [ -f "$work/inspect/expert_load.csv" ] || continue # no choices
    awk -v row="$row" -v seed="$seed" '
        function short(x) { x = sprintf("%.4f", x); sub(/0+$/, "", x); sub(/\.$/, ".0", x); return x }
        FNR == 1 { split("", at); columns = split($0, head, ","); for (i = 1; i <= columns; i++) at[head[i]] = i; file++; next }
        { sub(/^"[^"]*"/, "run"); split($0, f, ","); block = f[at["block"]] } # names of runs have commas
        file == 1 { dropped[block] = f[at["dropped"]]; blocks[++count] = block }
        file == 2 { tokens[block] += f[at["tokens"]] }
        file == 3 { experts[block]++
            chosen[block] += f[at["chosen"]]; if (f[at["chosen"]] > most_chosen[block]) most_chosen[block] = f[at["chosen"]]
            placed[block] += f[at["placed"]]; if (f[at["placed"]] > most_placed[block]) most_placed[block] = f[at["placed"]] }
        END { for (i = 1; i <= count; i++) { b = blocks[i]
            if (chosen[b] && placed[b]) printf "%s,%s,%s,%s,%s,%s,%s\n", row, seed, b, dropped[b],
                short(most_chosen[b] * experts[b] / chosen[b]), short(most_placed[b] * experts[b] / placed[b]), short(chosen[b] / tokens[b]) } }' \
        "$work/inspect/routing.csv" "$work/inspect/processed_times.csv" "$work/inspect/expert_load.csv" >"$work/new"
    [ -s "$work/new" ] || continue
    merge "$out/routing.csv" row,seed,block,dropped,chosen_largest_over_mean,placed_largest_over_mean,choices_per_token 3
    [ "$seed" -lt "$companions" ] || continue
    for order in shuffled file; do
        "$smoe" eval "$cell" eval.order=$order --predictions "$work/$order.csv" -q --no-progress --json >/dev/null </dev/null
    done
    paste -d, "$work/shuffled.csv" "$work/file.csv" | awk -F, -v line="$row,$seed" '
        NR == 1 { columns = NF / 2; for (i = 1; i <= columns; i++) at[$i] = i; p = at["prediction"]; c = at["correct"]; next }
        { changed += $p != $(p + columns); shuffled += $c; file += $(c + columns) }
        END { n = NR - 1; CONVFMT = OFMT = "%.10g"; print line "," n "," changed / n "," shuffled / n "," file / n }' >"$work/new"
    rm "$work/shuffled.csv" "$work/file.csv"
    merge "$out/companions.csv" row,seed,images,changed,precision_shuffled,precision_file 2
done
