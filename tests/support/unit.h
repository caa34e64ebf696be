/* cmocka, with the headers that must stand before it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* Most tests have no fixture, and so no use for their parameter. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/* An entry of the list of tests: one with a fixture, FIXTURE_setup and FIXTURE_teardown. */
#define unit_test_with(test, fixture) \
    cmocka_unit_test_setup_teardown(test, fixture##_setup, fixture##_teardown)
