# Draws figures/headline.svg: quality against cost of Soft MoE, sparse routers and dense, on the task facts, from the summaries of
# facts-experts and facts-ablation. Intervals: 95%, Student's t over 8 seeds. From the top of the tree: gnuplot experiments/headline.gnuplot
set terminal svg size 760,430 font "sans-serif,13" background "white"
set output "experiments/figures/headline.svg"
# rows(FILE, KEY, VALUE, ...): lines "MFLOP precision half-width experts" of the rows with these values
rows(file, where) = sprintf("< awk -F, -v where='%s' 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; n = split(where, w, \" \"); next } \
    { for (k = 1; k <= n; k++) { split(w[k], kv, \"=\"); if ($at[kv[1]] != kv[2]) next } \
      print $at[\"flops_infer_per_image_mean\"] / 1e6, $at[\"precision_at_1_mean\"], \
            2.365 * $at[\"precision_at_1_sd\"] / sqrt(8), $at[\"model.moe.experts\"] }' experiments/results/%s/summary.csv", where, file)
set logscale x 2
set xlabel "MFLOP per image, inference"
set ylabel "test precision\\@1"
set grid lc rgb "#dddddd"
set border 3
set tics nomirror
set key right bottom Left reverse
set bars small
soft = rows("facts-experts", "model.moe.router=soft model.moe.group_images=1")
tokens = rows("facts-experts", "model.moe.router=tokens-choice model.moe.group_images=8")
experts = rows("facts-experts", "model.moe.router=experts-choice model.moe.group_images=8")
alone = rows("facts-experts", "model.moe.router=experts-choice model.moe.group_images=1")
dense = rows("facts-ablation", "model.moe.layers=none")
plot soft using 1:2:3 with yerrorlines lw 2 pt 7 ps 0.8 lc rgb "#0072b2" title "Soft MoE, 2 to 128 experts", \
     soft using 1:2:4 with labels right offset -0.9,0.7 font ",10" tc rgb "#0072b2" notitle, \
     experts using 1:2:3 with yerrorbars lw 2 pt 5 ps 0.8 lc rgb "#d55e00" title "Experts Choice, groups of 8 images", \
     alone using 1:2:3 with yerrorbars lw 2 pt 4 ps 0.8 lc rgb "#d55e00" title "Experts Choice, groups of 1", \
     tokens using 1:2:3 with yerrorbars lw 2 pt 9 ps 0.9 lc rgb "#009e73" title "Tokens Choice, groups of 8", \
     dense using 1:2:3 with yerrorbars lw 2 pt 13 ps 1.2 lc rgb "#000000" title "dense"
