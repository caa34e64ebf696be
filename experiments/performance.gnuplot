# Draws figures/performance.svg from performance.csv: how many times as long a training step and a batch of inference take other
# programs, medians. From the top of the tree: gnuplot experiments/performance.gnuplot
set terminal svg size 1150,560 font "sans-serif,12" background "white"
set output "experiments/figures/performance.svg"
# ratios(MACHINE, MEASURE, PROGRAM): lines "case ratio" in the order of the cases
ratios(machine, measure, program) = sprintf("< for c in tiny-dense tiny-soft64 s16-dense s16-soft128; do awk -F, -v c=$c \
    '!n && $1 == \"%s\" && $6 == \"%s\" && $4 == \"%s\" && $5 == c && $9 != \"\" { print c, $9; n = 1 }' experiments/performance.csv; done", \
    machine, measure, program)
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.9 noborder
set boxwidth 0.9
set yrange [0:4]
set ytics 1
set grid ytics lc rgb "#dddddd"
set xtics scale 0 font ",9"
set key off
set arrow from graph 0, first 1 to graph 1, first 1 nohead lc rgb "#888888" front
set multiplot layout 2,3 margins 0.05,0.99,0.08,0.94 spacing 0.04,0.13
machines = "zen5 intel207 zen3"
titles = "'AMD Zen 5, AVX-512' 'Intel 6/207, AVX-512' 'AMD Zen 3, AVX2'"
do for [row = 1:2] {
    measure = word("train_time_over_smoe infer_time_over_smoe", row)
    do for [i = 1:3] {
        set title word(titles, i).", ".word("training inference", row) font ",12"
        if (i == 1) { set ylabel "time over that of smoe" } else { unset ylabel }
        if (row == 2 && i == 3) { set key top right Left reverse } else { set key off }
        plot ratios(word(machines, i), measure, "pytorch-2.15-eager") using 2:xtic(1) title "PyTorch 2.15, eager" lc rgb "#0072b2", \
             ratios(word(machines, i), measure, "pytorch-2.15-compiled") using 2 title "compiled" lc rgb "#56b4e9", \
             ratios(word(machines, i), measure, "jax-0.10.2") using 2 title "JAX 0.10.2" lc rgb "#e69f00"
    }
}
unset multiplot
