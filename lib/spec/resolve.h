/*
 * Resolving: everything that follows from several keys. resolve.c has the stage, resolve_moe.c what
 * concerns blocks with experts; problem.c and read.c have the functions that both use. A key that
 * they are given must exist.
 */
#pragma once

#include "spec/schema.h"

/* The number of a key among the entries; where its value comes from; whether the user gave it. */
int smoe_resolve_entry(const char *key);
smoe_provenance *smoe_resolve_origin(const smoe_reading *reading, const char *key);
bool smoe_resolve_given(const smoe_reading *reading, const char *key);

/* Sets an entry from a text that is known to be valid. */
void smoe_resolve_set(smoe_reading *reading, const char *key, const char *text);

/* A value of the file is replaced by another key that an override sets. */
bool smoe_resolve_gives_way(smoe_reading *reading, const char *key, const char *to,
                            smoe_provenance_kind kind);

/* Reports a contradiction between up to four keys (the rest NULL) at the one set closest to the
 * user, unless an error of one of them was reported already. */
#define clash(reading, keys, ...) smoe_resolve_clash(reading, keys, smoe_text_format(__VA_ARGS__))
#define KEYS(...) ((const char *const[4]){__VA_ARGS__})
void smoe_resolve_clash(smoe_reading *reading, const char *const keys[4], char *fresh);

/* Checks that a list has a number for each MoE layer, or channel, of which there are `count`; `of`
 * is the key that says so. */
void smoe_resolve_series(smoe_reading *reading, const char *key, const smoe_series *series,
                         const char *of, size_t count);

/* The blocks with experts; those of them with random scores; the keys of experts and slots. */
void smoe_resolve_layers(smoe_reading *reading);
void smoe_resolve_random(smoe_reading *reading);
void smoe_resolve_moe(smoe_reading *reading);
