#!/bin/sh
# Prints the primary contrasts of all sweeps with the value and the p-value of each, adjusted by Holm's method within its own family, as planned,
# and over all of them together, which no plan asked for; then how many are decided by the one and by the other.
#   experiments/families.sh
cd "$(dirname "$0")/results" || exit 1
for file in */primary.csv; do
    awk -v name="${file%/*}" "$(cat ../csv.awk)"'
        NR == 1 { n = split_csv($0, f); for (i = 1; i <= n; i++) at[f[i]] = i; next }
        { split_csv($0, f); printf "%.17g\t%s\t%d\t%+.4f\t%s\t%s\n", f[at["p"]], name, FNR - 1, f[at["value"]], f[at["finding"]],
          f[at["adjusted"]] }' "$file"
done | sort -g | awk -F '\t' '
    { p[NR] = $1; line[NR] = "| " $2 " | " $3 " | " $4 " | " $5; own[NR] = $6; decided += $5 != "open" }
    END {
        print "| sweep | contrast | value | finding | p in its family | p over all |\n|---|---|---|---|---|---|"
        for (i = 1; i <= NR; i++) {
            all = p[i] * (NR - i + 1); if (all > most) most = all; if (most > 1) most = 1
            printf "%s | %.2g | %.3g |\n", line[i], own[i], most
            stay += most < 0.05
        }
        printf "\nDecided in their families: %d of %d. Over all together: %d.\n", decided, NR, stay
    }'
