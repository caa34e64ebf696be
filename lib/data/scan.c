/* Requests to stop a scan of data, and its progress; see scan.h. */
#include "data/scan.h"

smoe_scan smoe_scan_until(const smoe_scan *scan, const volatile sig_atomic_t *stop) {
    smoe_scan until = scan ? *scan : (smoe_scan){0};
    until.stop = stop;
    return until;
}

static void scan_tell(const smoe_scan *scan, size_t done, size_t all, const char *what) {
    if (scan->show) scan->show(scan->user, done, all, what);
}

void smoe_scan_begin(smoe_scan *scan) {
    if (!scan || scan->depth++) return;
    scan->found = 0;
    scan_tell(scan, 0, 0, NULL);
}

int smoe_scan_end(smoe_scan *scan, int status) {
    if (scan && !--scan->depth) scan_tell(scan, 0, 0, NULL);
    return status;
}

int smoe_scan_asked(const smoe_scan *scan, smoe_err *err) {
    if (!scan || !scan->stop || !*scan->stop) return 0;
    return smoe_fail(err, SMOE_STOPPED, "stopped on request while the data was read");
}

int smoe_scan_at(smoe_scan *scan, size_t done, size_t all, const char *what, smoe_err *err) {
    if (smoe_scan_asked(scan, err)) return -1;
    if (scan) scan_tell(scan, all ? done : ++scan->found, all, what);
    return 0;
}
