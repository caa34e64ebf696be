#!/bin/sh
# Evaluates the trained cells of a sweep on the images that they were trained on, without augmentation, and on those of the split test:
#   experiments/training-precision.sh NAME DIR
# writes experiments/results/NAME-train-precision/precision.csv, one line per cell. Cells without weights, as those from trials.tar.gz, keep their lines.
#   experiments/training-precision.sh
# prints the table of all of them, in Markdown: means over seeds, and differences from the first setting, on training images with 95% intervals
# over seeds. The intervals on test images, which count the noise of the images too, are those of tables.sh.
set -eu
smoe=${SMOE:-$(dirname "$0")/../build/smoe} results=$(dirname "$0")/results

if [ $# -eq 2 ]; then
    out=$results/$1-train-precision dir=$2 header=row,seed,images,train,test
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    mkdir -p "$out"
    [ -f "$out/precision.csv" ] || echo $header >"$out/precision.csv"
    "$(dirname "$0")/cells.sh" "$dir" | while IFS='	' read -r row seed cell; do
        for split in train test; do
            "$smoe" eval "$cell" eval.split=$split -q --no-progress --json >"$work/$split" </dev/null
        done
        awk -v line="$row,$seed" '/"images"/ && !images { images = $2 + 0 }
            /"precision_at_1"/ && !(FILENAME in first) { first[FILENAME]; value[++files] = $2 + 0 } # before those of classes
            END { printf "%s,%d,%.10g,%.10g\n", line, images, value[1], value[2] }' "$work/train" "$work/test" >>"$out/precision.csv"
    done
    { echo $header; sed 1d "$out/precision.csv" | awk -F, '{ last[$1 "," $2] = $0 } END { for (i in last) print last[i] }' |
        sort -t, -k1,1n -k2,2n; } >"$work/all"
    cp "$work/all" "$out/precision.csv"
    exit
fi
[ $# -eq 0 ] || { echo "usage: training-precision.sh [NAME DIR]" >&2; exit 2; }

for file in "$results"/*-train-precision/precision.csv; do
    name=$(basename "$(dirname "$file")" -train-precision)
    awk -F, -v name="$name" '
        BEGIN { split("12.706205 4.302653 3.182446 2.776445 2.570582 2.446912 2.364624", quantile, " ") } # 97.5%, by degrees of freedom
        NR == FNR { label[rows++] = $0; next }
        FNR == 1 { next }
        { train[$1] += $4; test[$1] += $5; seeds[$1]++; at[$1, $2, 1] = $4; at[$1, $2, 2] = $5; seen[$2]
          if (!($1 in order)) { order[$1]; list[++count] = $1 } }
        # The difference of a setting from the first one, over the seeds that both have.
        function difference(row, column,    s, n, sum, square, x, half) {
            for (s in seen) if ((row, s, column) in at && (list[1], s, column) in at) {
                x = at[row, s, column] - at[list[1], s, column]; sum += x; square += x * x; n++ }
            half = quantile[n - 1] * sqrt((square / n - sum * sum / n / n) / (n - 1))
            return sprintf(column == 1 ? "%+.4f (%+.4f to %+.4f)" : "%+.4f", sum / n, sum / n - half, sum / n + half) }
        END { for (i = 1; i <= count; i++) { r = list[i]
            printf "| [%s](%s.md) | %s | %d | %.4f | %.4f | %+.4f | %s | %s |\n", name, name, label[r], seeds[r], train[r] / seeds[r], test[r] / seeds[r],
                (train[r] - test[r]) / seeds[r], i == 1 ? "" : difference(r, 1), i == 1 ? "" : difference(r, 2) } }' \
        "$results/$name/rows.txt" "$file"
done | { echo "| experiment | setting | seeds | training images | test images | gap | training images, from the first setting | test images, from the first setting |"
    echo "|---|---|---|---|---|---|---|---|"; cat; }
