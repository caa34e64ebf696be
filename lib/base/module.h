/*
 * Modules: parts of the program with a library of their own (MPI, SentencePiece), loaded only when
 * they are needed. They lie beside the program or the shared library, in ../lib/smoe, or where the
 * environment variable SMOE_MODULES says.
 */
#pragma once

#include "base/base.h"

typedef enum smoe_module_found {
    SMOE_MODULE_MISSING, /* no such file: this build has none; err is as it was */
    SMOE_MODULE_BROKEN,  /* it cannot be loaded; err says why */
    SMOE_MODULE_HERE
} smoe_module_found;

/* Loads the module smoe_NAME.so for the rest of the program and finds the function `entry` in it.
 * `global`: its libraries' symbols are seen by plug-ins that these libraries load. */
smoe_module_found smoe_module_load(const char *name, const char *entry, bool global,
                                   void (**function)(void), smoe_err *err);
