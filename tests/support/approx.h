/* Numbers that must agree. cmocka's assert_float_equal compares in single precision and lets NaN
 * pass; these do neither. */
#ifndef SMOE_TEST_CLOSE_H
#define SMOE_TEST_CLOSE_H

/* |x - right| <= tolerance in double; equal infinities agree, NaN agrees with nothing. */
#define assert_close(x, right, tolerance) \
    approx_check((double)(x), (double)(right), (double)(tolerance), #x, __FILE__, __LINE__)

void approx_check(double x, double right, double tolerance, const char *what, const char *file,
                  int line);

#endif
