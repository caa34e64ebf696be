# Draws figures/pruning.svg: precision of trained Soft MoEs that keep fewer and fewer experts, from results/pruning/pruning.csv; points are
# seeds, lines their means, and crosses the mean of all experts as a dense MLP. From the top of the tree: gnuplot experiments/pruning.gnuplot
set terminal svg size 720,300 font "sans-serif,13" background "white"
set output "experiments/figures/pruning.svg"
file = "experiments/results/pruning/pruning.csv"
seeds(data, dense) = sprintf("< awk -F, '$1 == \"%s\" && ($3 == 0) == %d { print $3 ? $3 : 1, $6 }' %s", data, dense, file)
means(data) = sprintf("< awk -F, '$1 == \"%s\" && $3 { sum[$3] += $6; n[$3]++ } END { for (k in n) print k, sum[k] / n[k] }' %s | sort -n", data, file)
set multiplot layout 1,2
set border 3
set tics nomirror
set grid lc rgb "#dddddd"
set logscale x 2
set xrange [0.9:18]
set xlabel "experts kept, of 16"
set key top left Left reverse
do for [data in "facts photographs"] {
    set title data
    if (data eq "facts") { set yrange [0:1]; set ylabel "test precision\\@1" } else { unset key; set yrange [0.44:0.52]; set ytics 0.02; unset ylabel }
    plot means(data) with lines lw 2 lc rgb "#0072b2" notitle, \
         seeds(data, 0) with points pt 7 ps 0.5 lc rgb "#0072b2" title "experts kept", \
         seeds(data, 1) with points pt 2 ps 0.8 lc rgb "#d55e00" title "mean of all"
}
unset multiplot
