/* From what a user calls a model to the file that holds it; see smoe_run_locate in run.h. */
#include "train/run.h"
#include "train/safetensors.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool holds(const char *dir, const char *name) {
    char *path = smoe_text_format("%s/%s", dir, name);
    bool there = path && !access(path, F_OK);
    free(path);
    return there;
}

/* The path of the model file that arg means, fresh; NULL with err. */
static char *model_path(const char *arg, const char *which, smoe_err *err) {
    struct stat there;
    if (stat(arg, &there)) {
        smoe_fail_errno(err, SMOE_USAGE, "%s: neither a run, a checkpoint nor a file", arg);
        return NULL;
    }
    bool folder = S_ISDIR(there.st_mode), checkpoint = folder && holds(arg, "model.safetensors");
    if (folder && !checkpoint && holds(arg, "spec.yaml"))
        return smoe_checkpoint_find(arg, which, err);
    if (!checkpoint && !S_ISREG(there.st_mode)) {
        smoe_fail(err, SMOE_USAGE,
                  "%s: neither a run (no spec.yaml in it), a checkpoint (no model.safetensors) nor "
                  "a file",
                  arg);
        return NULL;
    }
    char *path = checkpoint ? smoe_text_format("%s/model.safetensors", arg) : strdup(arg);
    if (!path) smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", arg);
    return path;
}

bool smoe_run_is_model(const char *arg) {
    struct stat there;
    if (stat(arg, &there)) return false;
    if (S_ISDIR(there.st_mode)) return true;
    unsigned char length[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    int fd = open(arg, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool whole = fd >= 0 && read(fd, length, sizeof length) == (ssize_t)sizeof length;
    if (fd >= 0) close(fd);
    return whole && !length[4] && !length[5] && !length[6] && !length[7];
}

int smoe_run_locate(const char *arg, const char *which, char **model, char **spec_text,
                    smoe_err *err) {
    smoe_safetensors *file = NULL;
    *spec_text = NULL;
    *model = model_path(arg, which, err);
    if (!*model) return -1;
    int status = smoe_safetensors_open(&file, *model, err);
    const char *spec = status ? NULL : smoe_safetensors_metadata(file, "smoe.spec");
    if (spec && !(*spec_text = strdup(spec)))
        status = smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", *model);
    smoe_safetensors_free(file);
    if (!status) return 0;
    free(*model);
    *model = NULL;
    return -1;
}
