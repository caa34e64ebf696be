/* Digests by libxxhash; see digest.h. */
#include "base/digest.h"

#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

static XXH3_state_t *state_of(const smoe_digest *digest) {
    return (XXH3_state_t *)(void *)digest;
}

static const char *text_of(XXH64_hash_t hash, char buf[SMOE_DIGEST_DIGITS + 1]) {
    snprintf(buf, SMOE_DIGEST_DIGITS + 1, "%016" PRIx64, (uint64_t)hash);
    return buf;
}

smoe_digest *smoe_digest_new(void) {
    XXH3_state_t *state = XXH3_createState();
    if (state) XXH3_64bits_reset(state);
    return (smoe_digest *)(void *)state;
}

void smoe_digest_add(smoe_digest *digest, const void *bytes, size_t size) {
    if (size) XXH3_64bits_update(state_of(digest), bytes, size);
}

const char *smoe_digest_text(const smoe_digest *digest, char buf[SMOE_DIGEST_DIGITS + 1]) {
    return text_of(XXH3_64bits_digest(state_of(digest)), buf);
}

void smoe_digest_free(smoe_digest *digest) {
    XXH3_freeState(state_of(digest));
}

const char *smoe_digest_of(const void *bytes, size_t size, char buf[SMOE_DIGEST_DIGITS + 1]) {
    return text_of(XXH3_64bits(bytes, size), buf);
}
