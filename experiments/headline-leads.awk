# What figures/headline.svg shows of photographs, as data sets for gnuplot: for each row of headline-leads.csv, an experiment and the number
# of a contrast in its primary.csv, the line, the difference and both ends of its interval in points, 1 (positive), -1 (negative) or 0 (open),
# and the label. "turned": the difference of the other two rows. The panels are data sets, in the order of the file.
{ split_csv($0, row) }
NR == 1 || row[1] == "" { next }
{
    file = "experiments/results/" row[2] "/primary.csv"
    for (n = 0; n <= row[3] && (getline line < file) > 0; n++) {
        split_csv(line, f)
        if (!n) for (i in f) at[f[i]] = i
    }
    close(file)
    sign = row[4] == "turned" ? -1 : 1
    value = 100 * sign * f[at["value"]]; low = 100 * sign * f[at["low"]]; high = 100 * sign * f[at["high"]]
    if (sign < 0) { other = low; low = high; high = other }
    if (panel != "" && panel != row[1]) { print "\n"; count = 0 }
    panel = row[1]
    decided = f[at["finding"]] == "open" ? 0 : value < 0 ? -1 : 1
    printf "%d %.4g %.4g %.4g %d \"%s\"\n", ++count, value, low, high, decided, row[5]
}
