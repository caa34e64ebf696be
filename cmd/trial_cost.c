/* The cost of a trial; see trial_cost.h. */
#include "trial_cost.h"
#include "cmd.h"

#include <string.h>

int smoe_trial_cost(smoe_spec *spec, size_t *classes, smoe_cost *cost, const smoe_trial *trial,
                    const smoe_options *options, smoe_err *err) {
    size_t given = options->classes ? (size_t)options->classes : 0;
    if (smoe_spec_parse(spec, trial->spec, strlen(trial->spec), trial->name, NULL, NULL, 0, err) ||
        smoe_cmd_classes(spec, given, true, classes, err))
        return -1;
    return smoe_cost_estimate(cost, spec, *classes, NULL, err);
}
