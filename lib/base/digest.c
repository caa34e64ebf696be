/* Digests by libxxhash; see digest.h. */
#include "base/digest.h"

#include <assert.h>
#include <inttypes.h>
#include <xxhash.h>

smoe_digest *smoe_digest_new(void) {
    smoe_digest *digest = XXH3_createState();
    if (!digest) smoe_alloc_end();
    XXH3_64bits_reset(digest);
    return digest;
}

void smoe_digest_add(smoe_digest *digest, const void *bytes, size_t size) {
    if (size) XXH3_64bits_update(digest, bytes, size);
}

const char *smoe_digest_text(const smoe_digest *digest, char buf[SMOE_DIGEST_DIGITS + 1]) {
    snprintf(buf, SMOE_DIGEST_DIGITS + 1, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(digest));
    return buf;
}

void smoe_digest_free(smoe_digest *digest) {
    XXH3_freeState(digest);
}

uint64_t smoe_digest_number(const void *bytes, size_t size) {
    return XXH3_64bits(bytes, size);
}

/* The digits behind the last mark, or NULL. */
static const char *digits_of(const char *bytes, size_t size, const char *mark) {
    size_t length = strlen(mark), need = length + SMOE_DIGEST_DIGITS;
    for (size_t at = size; at >= need; at--) {
        const char *from = bytes + (at - need);
        if (*from == *mark && !memcmp(from, mark, length)) return from + length;
    }
    return NULL;
}

const char *smoe_digest_without(const char *bytes, size_t size, const char *digits,
                                char buf[SMOE_DIGEST_DIGITS + 1]) {
    SMOE_FREED_BY(smoe_digest_freed) smoe_digest *digest = smoe_digest_new();
    const char *rest = digits + SMOE_DIGEST_DIGITS;
    smoe_digest_add(digest, bytes, (size_t)(digits - bytes));
    smoe_digest_add(digest, SMOE_DIGEST_ZEROS, SMOE_DIGEST_DIGITS);
    smoe_digest_add(digest, rest, size - (size_t)(rest - bytes));
    return smoe_digest_text(digest, buf);
}

void smoe_digest_seal(char *bytes, size_t size, size_t head, const char *mark) {
    char text[SMOE_DIGEST_DIGITS + 1];
    const char *digits = digits_of(bytes, head, mark);
    assert(digits);
    smoe_digest_without(bytes, size, digits, text);
    memcpy(bytes + (digits - bytes), text, SMOE_DIGEST_DIGITS);
}

smoe_seal smoe_digest_sealed(const char *bytes, size_t size, size_t head, const char *mark) {
    char text[SMOE_DIGEST_DIGITS + 1];
    const char *digits = digits_of(bytes, head, mark);
    if (!digits) return SMOE_SEAL_NONE;
    smoe_digest_without(bytes, size, digits, text);
    return memcmp(digits, text, SMOE_DIGEST_DIGITS) ? SMOE_SEAL_WRONG : SMOE_SEAL_RIGHT;
}
