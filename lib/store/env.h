/* Where and how a run was made: the contents of env.json. */
#pragma once

#include <jansson.h>

/* An object of version, compiler, flags, real, cpu, cores, threads, blas, kernel, argv, cwd, date,
 * host, system and matrix of this process; the caller owns it. */
json_t *smoe_env_here(int argc, char *const *argv);

/* Seconds since 1970; those of the variable SOURCE_DATE_EPOCH, where it is a number, so that what
 * is written again can be the same. */
long long smoe_env_now(void);

/* `seconds` since 1970 as 2026-01-31T12:00:00Z. Returns buf. */
enum { SMOE_DATE_TEXT = 32 };
const char *smoe_env_date(char buf[SMOE_DATE_TEXT], long long seconds);
