/* Transport plans; see transport.h. */
#include "route/transport.h"

/* Kernels are at least exp(-FLOOR), so that no sum of them is 0. */
static const double FLOOR = 600;

void smoe_transport_sinkhorn(double *plan, double *scratch, smoe_transport_gains gains,
                             size_t steps) {
    const real *z = gains.z;
    const size_t n = gains.n, E = gains.E;
    double *row = scratch, *column = scratch + n;
    for (size_t t = 0; t < n; t++) {
        double most = (double)z[t * E];
        for (size_t e = 1; e < E; e++) most = fmax(most, (double)z[t * E + e]);
        for (size_t e = 0; e < E; e++)
            plan[t * E + e] = exp(fmax((double)z[t * E + e] - most, -FLOOR));
        row[t] = 1;
    }
    for (size_t step = 0; step < steps; step++) {
        memset(column, 0, E * sizeof *column);
        for (size_t t = 0; t < n; t++)
            for (size_t e = 0; e < E; e++) column[e] += plan[t * E + e] * row[t];
        for (size_t e = 0; e < E; e++) column[e] = (double)n / ((double)E * column[e]);
        for (size_t t = 0; t < n; t++) {
            double sum = 0;
            for (size_t e = 0; e < E; e++) sum += plan[t * E + e] * column[e];
            row[t] = 1 / sum;
        }
    }
    for (size_t t = 0; t < n; t++) {
        double most = (double)z[t * E];
        for (size_t e = 1; e < E; e++) most = fmax(most, (double)z[t * E + e]);
        for (size_t e = 0; e < E; e++) plan[t * E + e] *= row[t] * column[e];
        row[t] = log(row[t]) - most;
    }
}

/* Column e: the projection of its k largest z - price onto the numbers that are not negative and
 * sum to n/E: x - tau where that is above 0, tau from the largest set of leading x that stay so.
 */
static void project(double *plan, const double *price, smoe_ranked *ranked,
                    smoe_transport_gains gains, size_t e, size_t k) {
    const size_t n = gains.n, E = gains.E;
    const double mass = (double)n / (double)E;
    double sum = 0, tau = 0;
    for (size_t t = 0; t < n; t++) {
        ranked[t] = (smoe_ranked){(double)gains.z[t * E + e] - price[t], (int32_t)t};
        plan[t * E + e] = 0;
    }
    smoe_ranked_select(ranked, n, k);
    qsort(ranked, k, sizeof *ranked, smoe_ranked_compare);
    for (size_t i = 0; i < k; i++) {
        sum += ranked[i].score;
        double next = (sum - mass) / (double)(i + 1);
        if (ranked[i].score > next) tau = next;
    }
    for (size_t i = 0; i < k; i++)
        plan[(size_t)ranked[i].index * E + e] = fmax(ranked[i].score - tau, 0);
}

/* The dual function has the gradient sum of the row - 1 in a token's price. A step of 1/2: few
 * experts want the same token, each with a mass of about one. A step halves the difference of two
 * tokens that one expert wants, so in single precision 20 steps would leave ties. */
void smoe_transport_sparse(double *plan, double *scratch, smoe_ranked *ranked,
                           smoe_transport_gains gains, size_t k, size_t steps) {
    const size_t n = gains.n, E = gains.E;
    double *price = scratch;
    if (k > n) k = n;
    memset(price, 0, n * sizeof *price);
    for (size_t step = 0; step < steps; step++) {
        for (size_t e = 0; e < E; e++) project(plan, price, ranked, gains, e, k);
        if (step + 1 == steps) return;
        for (size_t t = 0; t < n; t++) {
            double sum = 0;
            for (size_t e = 0; e < E; e++) sum += plan[t * E + e];
            price[t] += (sum - 1) / 2;
        }
    }
}
