/* Digests of bytes: XXH3, 64 bits, which a processor computes as fast as it reads memory. They
 * detect accidental damage; they do not protect against deliberate changes. */
#pragma once

#include "base/base.h"

enum { SMOE_DIGEST_DIGITS = 16 }; /* as text: hexadecimal, lower case */

typedef struct XXH3_state_s smoe_digest;

/* Of no bytes yet. */
smoe_digest *smoe_digest_new(void);
void smoe_digest_add(smoe_digest *digest, const void *bytes, size_t size);
/* Of the bytes so far, as text. Returns buf. */
const char *smoe_digest_text(const smoe_digest *digest, char buf[SMOE_DIGEST_DIGITS + 1]);
void smoe_digest_free(smoe_digest *digest);
SMOE_FREES(smoe_digest)

/* Of all bytes at once, as a number. */
uint64_t smoe_digest_number(const void *bytes, size_t size);

/* Of bytes among which are its own digits, which count as zeros, as text. Returns buf. */
#define SMOE_DIGEST_ZEROS "0000000000000000"
const char *smoe_digest_without(const char *bytes, size_t size, const char *digits,
                                char buf[SMOE_DIGEST_DIGITS + 1]);

/* Bytes that hold their own digest, after the last `mark` of the first `head` bytes. They are made
 * with zeros there, then sealed. */
typedef enum smoe_seal { SMOE_SEAL_NONE, SMOE_SEAL_RIGHT, SMOE_SEAL_WRONG } smoe_seal;
void smoe_digest_seal(char *bytes, size_t size, size_t head, const char *mark);
smoe_seal smoe_digest_sealed(const char *bytes, size_t size, size_t head, const char *mark);
