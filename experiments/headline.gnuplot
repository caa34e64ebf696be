# Draws figures/headline.svg from the summaries of finished sweeps: on facts the front of each method over widths, experts, slots and
# capacities, against the FLOPs of inference and of training and against measured time of both (results/fronts-time/times.csv, by
# fronts-time.sh), with the number of a configuration at each point; on photographs the planned contrasts of headline-leads.csv, with their
# intervals over seeds and test images. On facts intervals: 95%, Student's t over seeds.
# From the top of the tree: gnuplot experiments/headline.gnuplot
set terminal svg size 900,1325 font "sans-serif,12" background "white"
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
set print $leads
print system("awk \"$(cat experiments/csv.awk experiments/headline-leads.awk)\" experiments/headline-leads.csv")
unset print
set multiplot
# photographs: a line for each contrast, with its label at the left
found(k) = k > 0 ? 0x0072b2 : k < 0 ? 0xd55e00 : 0x888888
leads = 'set arrow 1 from first 0,graph 0 to first 0,graph 1 nohead lc rgb "#888888"; \
    set yrange [*:*]; stats $leads index n using 2 nooutput; set yrange [STATS_records + 0.6:0.4]; \
    plot $leads index n using 2:1:3:4:(found(column(5))):yticlabels(6) with xerrorbars lw 2 pt 7 ps 0.8 lc rgb variable'
set border 1; set xtics nomirror; set ytics scale 0 font ",10.5"; set grid xtics lc rgb "#e4e4e4"
set bars 0; unset key
set xlabel "points of precision\\@1" offset 0,0.7
set tmargin at screen 1-48/1325.; set bmargin at screen 1-363/1325.
set lmargin at screen 250/900.; set rmargin at screen 445/900.
set label 1 "Photographs: Soft MoE with two temperatures minus dense," at screen 12/900.,1-16/1325. font "sans-serif Bold,11.5"
set label 2 "equal training time unless said" at screen 12/900.,1-33/1325. font ",11"
set xrange [-2.5:4]; n = 0; eval leads
set label 1 "Photographs: the same minus another router, equal steps" at screen 465/900.,1-16/1325. font "sans-serif Bold,11.5"
set label 2 "dot: difference; line: 95% interval; grey: open" at screen 465/900.,1-33/1325. font ",11"
set lmargin at screen 710/900.; set rmargin at screen 888/900.
set xrange [-2:4.5]; n = 1; eval leads
unset label; unset arrow; set ytics scale 1 font ",12"; set xtics font ",12"
set border 3
set tics nomirror
set grid lc rgb "#e4e4e4"
set title offset 0,-0.6
set xlabel offset 0,0.7
set logscale x 2
set yrange [0.6:1]
left = 'set lmargin at screen 50/900.; set rmargin at screen 435/900.; set ylabel "test precision\\@1" offset 1.5,0'
right = 'set lmargin at screen 503/900.; set rmargin at screen 888/900.; unset ylabel'
upper = 'set tmargin at screen 1-445/1325.; set bmargin at screen 1-690/1325.'
lower = 'set tmargin at screen 1-757/1325.; set bmargin at screen 1-1002/1325.'
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
set lmargin at screen 0; set rmargin at screen 1; set tmargin at screen 1-1047/1325.; set bmargin at screen 1-1315/1325.
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
unset multiplot
