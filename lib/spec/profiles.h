/* Profiles: sets of keys with the values of the papers, or of their authors' public code; entries
 * of profiles.def. */
#ifndef SMOE_SPEC_PROFILES_H
#define SMOE_SPEC_PROFILES_H

typedef struct smoe_profile_entry {
    const char *profile, *key, *value, *source;
} smoe_profile_entry;

enum {
    SMOE_PROFILES = 0
#define PROFILE(...) +1
#include "spec/profiles.def"
#undef PROFILE
};

extern const smoe_profile_entry smoe_profiles[SMOE_PROFILES];

#endif
