# The plots of a simulated fleet, from the tables that `run` has left in this folder.
set terminal svg size 720,400 font "sans,12" background "white"
set grid lw 0.5
set key outside bottom center horizontal

set output "fleet-operations.svg"
set title "Store operations a request: 1,000 per 5 s, a million callers by Zipf's law"
set xlabel "nodes"
set ylabel "calls a request"
set y2label "% of the quota unused"
set logscale x
set yrange [0:1.6]
set y2range [0:16]
set ytics nomirror
set y2tics
plot "fleets.txt" using 1:2 with linespoints lw 2 title "calls", \
     "fleets.txt" using 1:(100 * $3) axes x1y2 with linespoints lw 2 title "unused (right)"

set output "fleet-quotas.svg"
set title "What a larger quota saves: a thousand nodes, of which each caller reaches three"
set xlabel "quota (per 5 s)"
plot "quotas.txt" using 1:2 with linespoints lw 2 title "calls", \
     "quotas.txt" using 1:(100 * $3) axes x1y2 with linespoints lw 2 title "unused (right)"

set output "fleet-outage.svg"
unset logscale
unset y2label
unset y2tics
set ytics mirror
set yrange [0:*]
set title "The store is away from 10 to 20 s: a thousand nodes, 3,000 requests/s"
set xlabel "seconds"
set ylabel "requests/s"
plot [5:35] "outages-10.txt" using 1:($3 * 10) with lines lw 2 title "admitted", \
     "outages-10.txt" using 1:($5 * 10) with lines lw 2 title "503: no verdict", \
     "outages-10.txt" using 1:($6 * 10) with lines lw 2 title "calls of the store"
