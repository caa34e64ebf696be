/* A list of trial numbers; see choose.h. */
#include "sweep/choose.h"
#include "base/alloc.h"
#include "sweep/trial.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Reads a number without sign or space, and moves on behind it. */
static bool choose_number(const char **at, unsigned long long *to) {
    char *end;
    if (!isdigit((unsigned char)**at)) return false;
    *to = strtoull(*at, &end, 10);
    *at = end;
    return true;
}

/* Takes the trials of one part of the list, "17" or "17-20". */
static int choose_part(smoe_sweep *sweep, const char *part, const char *from, smoe_err *err) {
    unsigned long long first = 0, last;
    const char *at = part;
    bool good = choose_number(&at, &first), found = false;
    last = first;
    if (good && *at == '-') {
        at++;
        good = choose_number(&at, &last);
    }
    if (!good || *at || first > last)
        return smoe_fail(err, SMOE_USAGE,
                         "%s: '%s': expected the numbers of cells, as 3,17-20; --dry-run and "
                         "--status list them",
                         from, part);
    for (size_t i = 0; i < sweep->trials; i++) {
        unsigned long long n = smoe_trial_number(&sweep->trial[i]);
        if (n < first || n > last) continue;
        sweep->trial[i].left_out = false;
        found = true;
    }
    if (found) return 0;
    return smoe_fail(err, SMOE_USAGE, "%s: '%s': no cell of %s has that number", from, part,
                     sweep->name);
}

int smoe_choose_trials(smoe_sweep *sweep, const char *list, const char *from, smoe_err *err) {
    char *copy = smoe_alloc_text(list), *rest = copy, *part;
    int status = 0;
    for (size_t i = 0; i < sweep->trials; i++) sweep->trial[i].left_out = true;
    while (!status && (part = strsep(&rest, ","))) status = choose_part(sweep, part, from, err);
    free(copy);
    return status;
}

size_t smoe_choose_count(const smoe_sweep *sweep) {
    size_t chosen = 0;
    for (size_t i = 0; i < sweep->trials; i++) chosen += !sweep->trial[i].left_out;
    return chosen;
}
