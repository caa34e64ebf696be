# Draws figures/fronts-time.svg: on facts the front of each method over widths, experts, slots and capacities, against measured time of
# inference and of training (results/fronts-time/times.csv, by fronts-time.sh). Intervals: 95%, Student's t over seeds.
# From the top of the tree: gnuplot experiments/fronts-time.gnuplot
set terminal svg size 1000,480 font "sans-serif,12" background "white"
set output "experiments/figures/fronts-time.svg"
front(method, cost, unit) = sprintf("< awk -v method=%s -v cost=%s -v unit=%s \"$(cat experiments/csv.awk experiments/headline.awk)\" \
    experiments/results/fronts-time/times.csv $(cut -d, -f1 experiments/results/fronts-time/times.csv | sed 1d | uniq | \
    sed 's,.*,experiments/results/&/summary.csv,')", method, cost, unit)
infer(method) = front(method, "infer_s", "1e-3")
train(method) = front(method, "train_s", "4.1667e-4")
set multiplot
set border 3
set tics nomirror
set grid lc rgb "#dddddd"
set bars small
set logscale x 2
set key at screen 0.99,0.5 right center vertical Left reverse samplen 2
set yrange [0.6:1]
set tmargin at screen 0.88; set bmargin at screen 0.16
set lmargin at screen 0.07; set rmargin at screen 0.42
set label "numbers: width:experts" at screen 0.84,0.3 font ",10"
set title "facts (synthetic), one pass"
set xlabel "ms for 64 images, inference, one thread"
set ylabel "test precision\\@1" offset 1.5,0
plot infer("dense") using 1:2:3 with yerrorlines lw 2 pt 13 ps 0.9 lc rgb "#000000" title "dense", \
     infer("soft") using 1:2:3 with yerrorlines lw 2 pt 7 ps 0.7 lc rgb "#0072b2" title "Soft MoE", \
     infer("tokens-choice") using 1:2:3 with yerrorlines lw 2 pt 9 ps 0.8 lc rgb "#009e73" title "Tokens Choice", \
     infer("experts-choice") using 1:2:3 with yerrorlines lw 2 pt 5 ps 0.7 lc rgb "#d55e00" title "Experts Choice", \
     infer("dense") using 1:2:4 with labels left offset 0.5,-0.7 font ",9" tc rgb "#000000" notitle, \
     infer("soft") using 1:2:4 with labels right offset -0.6,0.6 font ",9" tc rgb "#0072b2" notitle
unset key; unset label; unset ylabel
set lmargin at screen 0.48; set rmargin at screen 0.82
set xlabel "seconds, training, one thread"
plot train("dense") using 1:2:3 with yerrorlines lw 2 pt 13 ps 0.9 lc rgb "#000000", \
     train("soft") using 1:2:3 with yerrorlines lw 2 pt 7 ps 0.7 lc rgb "#0072b2", \
     train("tokens-choice") using 1:2:3 with yerrorlines lw 2 pt 9 ps 0.8 lc rgb "#009e73", \
     train("experts-choice") using 1:2:3 with yerrorlines lw 2 pt 5 ps 0.7 lc rgb "#d55e00", \
     train("dense") using 1:2:4 with labels left offset 0.5,-0.7 font ",9" tc rgb "#000000", \
     train("soft") using 1:2:4 with labels right offset -0.6,0.6 font ",9" tc rgb "#0072b2"
unset multiplot
