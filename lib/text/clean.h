/*
 * Texts as open_clip cleans them before its tokenizers: what ftfy repairs (except letters that were
 * decoded wrongly), HTML's names of characters, then lower case. smoe-spec(5) lists what differs.
 */
#pragma once

#include <stdbool.h>

/* A fresh text in UTF-8, NFC, whose words are separated by one blank; `canonical`: without
 * punctuation of ASCII, as for SigLIP. Bytes that are not UTF-8 become U+FFFD. */
char *smoe_clean_text(const char *text, bool canonical);
