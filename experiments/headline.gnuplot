# Draws figures/headline.svg from the summaries of finished sweeps: on facts the front of each method over widths, experts, slots and
# capacities, against the FLOPs of inference and of training; on photographs the rows of photographs (CIFAR-10), cifar100 and photographs-200-again,
# and of photographs-shifted-tuned, photographs-100-shifted and photographs-200-shifted, whose photographs are moved.
# Intervals: 95%, Student's t over seeds.
# From the top of the tree: gnuplot experiments/headline.gnuplot
set terminal svg size 1120,940 font "sans-serif,12" background "white"
set output "experiments/figures/headline.svg"
sweeps = "pareto pareto-configurations pareto-vmoe facts-experts facts-slots facts-slack reduced-compute"
front(method, cost, unit, sweeps) = sprintf("< awk -v method=%s -v cost=%s -v unit=%s \"$(cat experiments/csv.awk experiments/headline.awk)\" \
    $(for s in %s; do echo experiments/results/$s/summary.csv; done)", method, cost, unit, sweeps)
infer(method) = front(method, "flops_infer_per_image", "1e6", sweeps)
train(method) = front(method, "train_exaflop", "1e-6", sweeps . " experts-matched-time cooldown facts-passes")
photographs(name) = "< experiments/tables.sh " . name . " | awk -F' *[|] *' '/^[|] setting|^[|]---/ { tables += /setting/; next } \
    tables == 1 && NF > 5 { sub(/, lr .*/, \"\", $2); sub(/, capacity .*/, \"\", $2); sub(/, C .*/, \"\", $2); sub(/soft-temperatures|Soft MoE with two temperatures/, \"Soft MoE, temperatures\", $2); \
        print ++n \"\\t\" $2 \"\\t\" $4 \"\\t\" ($3 == 3 ? 4.303 : $3 == 4 ? 3.182 : $3 == 5 ? 2.776 : $3 == 6 ? 2.571 : 2.365) * $5 / sqrt($3) }'"
set multiplot
set border 3
set tics nomirror
set grid lc rgb "#dddddd"
set bars small
set logscale x 2
set key at screen 0.5,0.52 center horizontal Left reverse samplen 2
set yrange [0.6:1]
set tmargin at screen 0.96; set bmargin at screen 0.60
set lmargin at screen 0.06; set rmargin at screen 0.50
set label "numbers: width:experts" at graph 0.6,0.06 font ",10"
set title "facts (synthetic), one pass"
set xlabel "MFLOP per image, inference"
set ylabel "test precision\\@1" offset 1.5,0
plot infer("dense") using 1:2:3 with yerrorlines lw 2 pt 13 ps 0.9 lc rgb "#000000" title "dense", \
     infer("soft") using 1:2:3 with yerrorlines lw 2 pt 7 ps 0.7 lc rgb "#0072b2" title "Soft MoE", \
     infer("tokens-choice") using 1:2:3 with yerrorlines lw 2 pt 9 ps 0.8 lc rgb "#009e73" title "Tokens Choice", \
     infer("experts-choice") using 1:2:3 with yerrorlines lw 2 pt 5 ps 0.7 lc rgb "#d55e00" title "Experts Choice", \
     infer("dense") using 1:2:4 with labels left offset 0.5,-0.7 font ",9" tc rgb "#000000" notitle, \
     infer("soft") using 1:2:4 with labels right offset -0.6,0.6 font ",9" tc rgb "#0072b2" notitle
unset key; unset label
unset ylabel
set lmargin at screen 0.55; set rmargin at screen 0.99
set title "facts (synthetic), one pass and more"
set xlabel "TFLOP, training"
plot train("dense") using 1:2:3 with yerrorlines lw 2 pt 13 ps 0.9 lc rgb "#000000", \
     train("soft") using 1:2:3 with yerrorlines lw 2 pt 7 ps 0.7 lc rgb "#0072b2", \
     train("tokens-choice") using 1:2:3 with yerrorlines lw 2 pt 9 ps 0.8 lc rgb "#009e73", \
     train("experts-choice") using 1:2:3 with yerrorlines lw 2 pt 5 ps 0.7 lc rgb "#d55e00"
unset logscale x
unset xlabel
set xrange [0.5:6.5]
set xtics rotate by 35 right font ",10"
set datafile separator "\t"
set tmargin at screen 0.42; set bmargin at screen 0.13
panel(n) = sprintf("set lmargin at screen %.3f; set rmargin at screen %.3f", 0.05 + 0.163 * n, 0.165 + 0.163 * n)
eval panel(0)
set title "CIFAR-10\n20 passes, one rate"
set yrange [0.6:0.68]
plot photographs("photographs") using 1:3:4:xtic(2) with yerrorbars lw 2 pt 7 ps 0.8 lc rgb "#555555"
eval panel(1)
set title "CIFAR-100\n5 passes, tuned rates"
set yrange [0.22:0.3]
plot photographs("cifar100") using 1:3:4:xtic(2) with yerrorbars lw 2 pt 7 ps 0.8 lc rgb "#555555"
eval panel(2)
set title "200 classes of ImageNet\n3 passes, tuned rates"
set yrange [0.11:0.15]
plot photographs("photographs-200-again") using 1:3:4:xtic(2) with yerrorbars lw 2 pt 7 ps 0.8 lc rgb "#555555"
set xrange [0.5:4.5]
eval panel(3)
set title "CIFAR-10, moved\n20 passes, tuned rates"
set yrange [0.48:0.56]
plot photographs("photographs-shifted-tuned") using 1:3:4:xtic(2) with yerrorbars lw 2 pt 7 ps 0.8 lc rgb "#555555"
eval panel(4)
set title "CIFAR-100, moved\n6 passes, tuned rates"
set yrange [0.18:0.26]
plot photographs("photographs-100-shifted") using 1:3:4:xtic(2) with yerrorbars lw 2 pt 7 ps 0.8 lc rgb "#555555"
eval panel(5)
set title "200 classes, moved\n3 passes, tuned rates"
set yrange [0.09:0.13]
plot photographs("photographs-200-shifted") using 1:3:4:xtic(2) with yerrorbars lw 2 pt 7 ps 0.8 lc rgb "#555555"
unset multiplot
