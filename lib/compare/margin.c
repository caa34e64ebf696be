/* Margins of equivalence; see margin.h. */
#include "compare/margin.h"
#include "compare/settings.h"
#include "spec/metrics.h"

#include <math.h>

double smoe_margin_of(const char *text, const char *metric) {
    SMOE_FREED_BY(smoe_settings_free) smoe_settings s = {0};
    double margin = NAN;
    if (text) {
        smoe_settings_read(&s, text);
        const char *own = smoe_settings_value(&s, metric);
        if (own)
            margin = strtod(own, NULL);
        else if (!s.item[0].value && smoe_metric_is_share(metric))
            margin = strtod(s.item[0].key, NULL);
    }
    return margin;
}

int smoe_margin_check(const char *text, const char *from, smoe_err *err) {
    SMOE_FREED_BY(smoe_settings_free) smoe_settings s = {0};
    double x;
    int status = 0;
    smoe_settings_read(&s, text);
    for (size_t i = 0; i < s.count && !status; i++) {
        const char *number = s.item[i].value ? s.item[i].value : s.item[i].key;
        if (!smoe_settings_number(number, &x) || (!s.item[i].value && s.count > 1))
            status = smoe_fail(
                err, SMOE_USAGE,
                "%s: '%s' is not a margin: a positive number, or METRIC=NUMBER separated by commas",
                from, text);
        else if (s.item[i].value && !smoe_metric_is_measured(s.item[i].key))
            status = smoe_fail(err, SMOE_USAGE, "%s: '%s' is not measured", from, s.item[i].key);
    }
    return status;
}
