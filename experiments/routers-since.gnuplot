# Draws figures/routers-since.svg: precision of each row of routers-since, sorted, from experiments/tables.sh. Intervals: 95%, Student's t
# over 8 seeds. From the top of the tree: gnuplot experiments/routers-since.gnuplot
set terminal svg size 720,520 font "sans-serif,13" background "white"
set output "experiments/figures/routers-since.svg"
rows = "< experiments/tables.sh routers-since | awk -F' *[|] *' '/^[|] setting|^[|]---/ { tables += /setting/; next } \
    tables == 1 && NF > 5 { printf \"%s\\t%s\\t%.6f\\t%d\\n\", $2, $4, 2.365 * $5 / sqrt($3), $2 ~ /^soft/ ? 1 : $2 == \"dense\" ? 0 : 2 }' | sort -t'\t' -k2,2n"
set datafile separator "\t"
set xlabel "test precision\\@1"
set grid x lc rgb "#dddddd"
set border 1
set ytics nomirror scale 0
set xtics nomirror
set yrange [-1:17.5]
set key right bottom Left reverse
set bars small
set palette defined (0 "#000000", 1 "#0072b2", 2 "#d55e00")
unset colorbox
plot rows using ($4 == 1 ? $2 : NaN):0:3:ytic(1) with xerrorbars lw 2 pt 7 ps 0.9 lc rgb "#0072b2" title "soft", \
     rows using ($4 == 2 ? $2 : NaN):0:3 with xerrorbars lw 2 pt 5 ps 0.8 lc rgb "#d55e00" title "sparse, and controls", \
     rows using ($4 == 0 ? $2 : NaN):0:3 with xerrorbars lw 2 pt 13 ps 1.2 lc rgb "#000000" title "dense"
