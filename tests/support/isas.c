/* See isas.h. */
#include "isas.h"
#include "unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const isas_all[] = {"base", "v3", "v4", "v4-bf16", "amx", NULL};

static void run(const char *isa) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        if (nowhere < 0 || dup2(nowhere, 1) < 0 || dup2(nowhere, 2) < 0 ||
            setenv("SMOE_ISA", isa, 1))
            _exit(100);
        execl("/proc/self/exe", "test", (char *)NULL);
        _exit(101);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("SMOE_ISA=%s: status %x; run the test that way to see why", isa, status);
}

void isas_run_again(void **state) {
    const char *forced = getenv("SMOE_ISA"), *here = smoe_kernels_get()->isa;
    if (forced) {
        assert_string_equal(here, forced);
        return;
    }
    for (size_t i = 0; isas_all[i]; i++)
        if (smoe_kernels_of(isas_all[i]) && strcmp(isas_all[i], here)) run(isas_all[i]);
}
