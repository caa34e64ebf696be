/* See approx.h. */
#include "approx.h"
#include "unit.h"

#include <math.h>

void approx_check(double x, double right, double tolerance, const char *what, const char *file,
                  int line) {
    if (x == right || fabs(x - right) <= tolerance) return;
    print_error("%s = %.17g, not %.17g (within %g)\n", what, x, right, tolerance);
    _fail(file, line);
}
