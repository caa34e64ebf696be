# Draws figures/headline.svg from the summaries of finished sweeps: on facts the front of each method over widths, experts, slots and
# capacities, against the FLOPs of inference and of training and against measured time of both (results/fronts-time/times.csv, by
# fronts-time.sh), with the number of a configuration at each point; on photographs the rows of photographs-tuned (CIFAR-10), cifar100 and
# photographs-200-again, and of photographs-shifted-tuned, photographs-100-shifted and photographs-200-shifted, whose photographs are moved.
# Intervals: 95%, Student's t over seeds.
# From the top of the tree: gnuplot experiments/headline.gnuplot
set terminal svg size 900,1165 font "sans-serif,12" background "white"
set output "experiments/figures/headline.svg"
summaries(names) = sprintf("$(for s in %s; do echo experiments/results/$s/summary.csv; done)", names)
array low[4] = [0.44, 0.2, 0.7, 4] # of the axis of cost of each panel
array high[4] = [12, 4.7, 7, 50]
panels = sprintf("infer flops_infer_per_image 1e6 %g %g  train train_exaflop 1e-6 %g %g  infer-s infer_s 1e-3 %g %g  train-s train_s 4.1667e-4 %g %g", \
    low[1], high[1], low[2], high[2], low[3], high[3], low[4], high[4])
set print $facts
print system("awk -v bottom=0.6 -v top=1 -v wide=385 -v high=245 -v panels='" . panels . "' \"$(cat experiments/csv.awk experiments/headline.awk)\" \
    experiments/results/fronts-time/times.csv " . summaries("pareto pareto-configurations pareto-vmoe facts-experts facts-slots facts-slack reduced-compute") \
    . " more=1 " . summaries("experts-matched-time cooldown facts-passes"))
unset print
methods = "dense soft tokens-choice experts-choice"
names = "'dense' 'Soft MoE' 'Tokens Choice' 'Experts Choice'"
colours = "#000000 #0072b2 #009e73 #d55e00"
array marks[4] = [13, 7, 9, 5]
photographs(name) = "< experiments/tables.sh " . name . " | awk -F' *[|] *' '/^[|] setting|^[|]---/ { tables += /setting/; next } \
    tables == 1 && NF > 5 { sub(/, lr .*/, \"\", $2); sub(/, capacity .*/, \"\", $2); sub(/, C .*/, \"\", $2); sub(/soft-temperatures|Soft MoE with two temperatures/, \"Soft MoE, temperatures\", $2); \
        print ++n \"\\t\" $2 \"\\t\" $4 \"\\t\" ($3 == 3 ? 4.303 : $3 == 4 ? 3.182 : $3 == 5 ? 2.776 : $3 == 6 ? 2.571 : 2.365) * $5 / sqrt($3) }'"
set multiplot
set border 3
set tics nomirror
set grid lc rgb "#e4e4e4"
set bars 0
unset key
set title offset 0,-0.6
set xlabel offset 0,0.7
set logscale x 2
set yrange [0.6:1]
left = 'set lmargin at screen 50/900.; set rmargin at screen 435/900.; set ylabel "test precision\\@1" offset 1.5,0'
right = 'set lmargin at screen 503/900.; set rmargin at screen 888/900.; unset ylabel'
upper = 'set tmargin at screen 1-25/1165.; set bmargin at screen 1-270/1165.'
lower = 'set tmargin at screen 1-337/1165.; set bmargin at screen 1-582/1165.'
fronts = 'panel = word(panels, 5 * n - 4); set xrange [low[n]:high[n]]; plot for [i=1:4] $facts index sprintf("points %s %s", panel, word(methods, i)) using 1:2:3 with yerrorbars lw 1 pt 0 lc rgb word(colours, i), \
    for [i=1:4] $facts index sprintf("points %s %s", panel, word(methods, i)) using 1:2 with linespoints lw 2 pt marks[i] ps 0.65 lc rgb word(colours, i), \
    for [i=1:4] $facts index sprintf("numbers %s %s", panel, word(methods, i)) using 4:5:($6-$4):($7-$5) with vectors nohead lw 0.5 lc rgb word(colours, i), \
    for [i=1:4] $facts index sprintf("numbers %s %s", panel, word(methods, i)) using 1:2:3 with labels center font ",10" tc rgb word(colours, i)'
eval left; eval upper
set title "facts (synthetic), one pass: FLOPs of inference"
set xlabel "MFLOP per image"
n = 1; eval fronts
eval right
set title "facts (synthetic), one pass and more: FLOPs of training"
set xlabel "TFLOP"
n = 2; eval fronts
eval left; eval lower
set title "facts (synthetic), one pass: measured time of inference"
set xlabel "ms for 64 images, one thread"
n = 3; eval fronts
eval right
set title "facts (synthetic), one pass: measured time of training"
set xlabel "seconds, one thread"
n = 4; eval fronts
# the list of the configurations
unset logscale x; unset border; unset xtics; unset ytics; unset grid; unset xlabel; unset title
set lmargin at screen 0; set rmargin at screen 1; set tmargin at screen 1-627/1165.; set bmargin at screen 1-895/1165.
set xrange [0:900]; set yrange [20:-0.6]
start = "6 203 443 665"
do for [i=1:4] {
    set label word(names, i) at word(start, i)+22,0 font "sans-serif Bold,11" tc rgb word(colours, i)
    set label "" at word(start, i)+10,0 point pt marks[i] ps 0.8 lc rgb word(colours, i)
}
set label "Unless said: 2,400 steps (one pass). MoE: the last 2 of 4 blocks, 1 slot per expert (Soft MoE), groups of 8 images, K=1 expert per token (Tokens Choice)," at 12,18.3 font ",10"
set label "capacity C=1. Group 1: each image by itself. Last-1: the last block only. Every-2: every second block. Bars: 95% intervals over seeds." at 12,19.3 font ",10"
plot for [i=1:4] $facts index "list ".word(methods, i) using (word(start, i)+16):1:2 with labels right font ",10" tc rgb word(colours, i), \
    for [i=1:4] $facts index "list ".word(methods, i) using (word(start, i)+22):1:3 with labels left font ",10"
unset label
set border 3; set grid lc rgb "#e4e4e4"
set xrange [0.5:6.5]
set xtics nomirror rotate by 35 right font ",10"; set ytics nomirror font ",10"
set datafile separator "\t"
set title font ",11"
set tmargin at screen 1-953/1165.; set bmargin at screen 1-1085/1165.
panel(n) = sprintf("set lmargin at screen %.3f; set rmargin at screen %.3f", 0.05 + 0.163 * n, 0.16 + 0.163 * n)
eval panel(0)
set title "CIFAR-10\n20 passes, tuned rates"
set yrange [0.6:0.68]
plot photographs("photographs-tuned") using 1:3:4:xtic(2) with yerrorbars lw 2 pt 7 ps 0.8 lc rgb "#555555"
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
