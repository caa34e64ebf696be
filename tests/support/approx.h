/* Comparison of numbers. cmocka's assert_float_equal compares in single precision and accepts
 * NaN; these functions do neither. */
#pragma once

/* |x - right| <= tolerance in double; equal infinities agree, NaN never agrees. */
#define assert_close(x, right, tolerance) \
    approx_check((double)(x), (double)(right), (double)(tolerance), #x, __FILE__, __LINE__)

void approx_check(double x, double right, double tolerance, const char *what, const char *file,
                  int line);
