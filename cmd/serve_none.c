/* smoe serve in a build without libmicrohttpd; see serve.c. */
#include "cmd.h"

int cmd_serve(const smoe_options *options, smoe_err *err) {
    (void)options;
    return smoe_fail(err, SMOE_RUNTIME,
                     "this build cannot serve: install libmicrohttpd-dev and build again; "
                     "`smoe watch` follows runs in a terminal");
}
