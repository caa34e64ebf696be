/* Words of command lines that messages show, for a shell that they are pasted into. */
#pragma once

#include "base/base.h"

/* The word, fresh: in single quotes if a shell would read it otherwise. */
char *smoe_shell_word(const char *text);
