/* Profiles: sets of keys with the values of the papers, or of their authors' public code; rows of
 * profiles.def. */
#ifndef SMOE_SPEC_PROFILES_H
#define SMOE_SPEC_PROFILES_H

typedef struct smoe_profile_row {
    const char *profile, *key, *value, *source;
} smoe_profile_row;

enum {
    SMOE_PROFILES = 0
#define PROFILE(...) +1
#include "spec/profiles.def"
#undef PROFILE
};

extern const smoe_profile_row smoe_profiles[SMOE_PROFILES];

#endif
