/* Requests to stop a scan of data, and its progress; see scan.h. */
#include "data/scan.h"

static _Thread_local smoe_scan here;

smoe_scan *smoe_scan_here(void) {
    return &here;
}

static void scan_tell(size_t done, size_t all) {
    if (here.show) here.show(here.user, done, all);
}

smoe_scan *smoe_scan_begin(void) {
    if (!here.depth++) {
        here.found = 0;
        scan_tell(0, 0);
    }
    return &here;
}

int smoe_scan_end(int status) {
    if (!--here.depth) scan_tell(0, 0);
    return status;
}

static int scan_check(const smoe_scan *scan, smoe_err *err) {
    if (!scan->stop || !*scan->stop) return 0;
    return smoe_fail(err, SMOE_STOPPED, "stopped on request while the data was read");
}

int smoe_scan_asked(smoe_err *err) {
    return scan_check(&here, err);
}

int smoe_scan_at(smoe_scan *scan, size_t done, size_t all, smoe_err *err) {
    if (scan_check(scan, err)) return -1;
    if (scan == &here) scan_tell(all ? done : ++here.found, all);
    return 0;
}
