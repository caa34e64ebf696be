#!/bin/sh
# Prints how long the published sweeps took, from the CSV files in experiments/results: the number of cells, the hours of one core
# that all of them took, and the hours if every cell of a setting had taken as long as the fastest of its seeds, which is nearer to
# the time on an idle machine. Two cores take half of these hours.
#   experiments/time.sh                  all sweeps
#   experiments/time.sh pareto cooldown  these two
results=$(dirname "$0")/results
echo '| sweep | cells | hours of one core | if all seeds were as fast as the fastest |'
echo '|---|---|---|---|'
# shellcheck disable=SC2046 # their names have no spaces
[ $# -gt 0 ] || set -- $(cd "$results" && ls)
for name in "$@"; do
    file=$results/$name/results.csv
    [ -f "$file" ] || continue
    awk -v name="$name" "$(cat "$(dirname "$0")/csv.awk")"'
        NR == 1 { columns = split_csv($0, head); for (i = 1; i <= columns; i++) at[head[i]] = i }
        NR > 1 && at["seconds"] && split_csv($0, f) && f[at["seconds"]] + 0 > 0 {
            key = ""
            for (i = 2; i < at["status"]; i++) if (i != at["seed"]) key = key f[i] ","
            s = f[at["seconds"]] + 0; sum += s; n[key]++
            if (!(key in least) || s < least[key]) least[key] = s
        }
        END {
            for (key in n) { cells += n[key]; fast += n[key] * least[key] }
            if (cells) printf "| %s | %d | %.2f | %.2f |\n", name, cells, sum / 3600, fast / 3600
        }' "$file"
done | awk -F '|' '{ print; cells += $3; hours += $4; fast += $5 } END { printf "| all | %d | %.1f | %.1f |\n", cells, hours, fast }'
