/*
 * The part of cmocka that the numerical tests use, in one header, for processors that have a
 * compiler but no cmocka. The first failure ends the program.
 */
#pragma once

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test)(void **state);
    int (*setup)(void **state), (*teardown)(void **state);
};

#define cmocka_unit_test(f) \
    { #f, f, NULL, NULL }
#define cmocka_unit_test_setup_teardown(f, setup, teardown) \
    { #f, f, setup, teardown }

#define fail_msg(...)                          \
    do {                                       \
        printf("%s:%d: ", __FILE__, __LINE__); \
        printf(__VA_ARGS__);                   \
        puts("");                              \
        exit(1);                               \
    } while (0)
#define assert_true(c)                    \
    do {                                  \
        if (!(c)) fail_msg("not %s", #c); \
    } while (0)
#define assert_false(c) assert_true(!(c))
#define assert_null(p) assert_true((p) == NULL)
#define assert_non_null(p) assert_true((p) != NULL)
#define assert_ptr_equal(a, b) assert_true((const void *)(a) == (const void *)(b))
#define assert_ptr_not_equal(a, b) assert_true((const void *)(a) != (const void *)(b))
#define assert_int_equal(a, b)                                              \
    do {                                                                    \
        long long a_ = (long long)(a), b_ = (long long)(b);                 \
        if (a_ != b_) fail_msg("%s = %lld, not %s = %lld", #a, a_, #b, b_); \
    } while (0)
#define assert_in_range(x, least, most) assert_true((x) >= (least) && (x) <= (most))
#define assert_memory_equal(a, b, size) assert_true(!memcmp(a, b, size))
#define assert_memory_not_equal(a, b, size) assert_true(memcmp(a, b, size))
#define assert_string_equal(a, b) assert_true(!strcmp(a, b))

#define print_error printf
#define _fail(file, line)                  \
    do {                                   \
        printf("%s:%d\n", (file), (line)); \
        exit(1);                           \
    } while (0)

/* A test that is skipped returns to portable_run: one variable for all files of a program. */
__attribute__((weak)) jmp_buf portable_next;
#define skip() longjmp(portable_next, 1)

static inline int portable_run(const struct CMUnitTest *tests, size_t count) {
    for (size_t i = 0; i < count; i++) {
        void *state = NULL;
        printf("%s\n", tests[i].name);
        fflush(stdout);
        if (tests[i].setup && tests[i].setup(&state)) return 1;
        if (!setjmp(portable_next)) tests[i].test(&state);
        if (tests[i].teardown && tests[i].teardown(&state)) return 1;
    }
    return 0;
}
#define cmocka_run_group_tests(tests, setup, teardown) \
    portable_run(tests, sizeof tests / sizeof *tests)
#define cmocka_run_group_tests_name(name, tests, setup, teardown) \
    cmocka_run_group_tests(tests, setup, teardown)
