/* From what a user calls a model to the file that holds it; see smoe_run_locate in run.h. */
#include "base/file.h"
#include "store/run.h"
#include "store/safetensors.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first of a sweep's cells, fresh; NULL where there is none. */
static char *first_cell(const char *dir) {
    struct dirent **name;
    char *cell = NULL;
    int count = scandir(dir, &name, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char *path = cell ? NULL : smoe_text_format("%s/%s", dir, name[i]->d_name);
        if (path && isdigit((unsigned char)*name[i]->d_name) && smoe_file_holds(path, "spec.yaml"))
            cell = path;
        else
            free(path);
        free(name[i]);
    }
    if (count >= 0) free(name);
    return cell;
}

int smoe_run_no_sweep(const char *dir, const char *instead, smoe_err *err) {
    if (!smoe_file_holds(dir, "cells.jsonl")) return 0;
    char *cell = first_cell(dir);
    if (cell)
        smoe_fail(err, SMOE_USAGE, "%s: is a sweep: name one of its cells, as %s%s", dir, cell,
                  instead);
    else
        smoe_fail(err, SMOE_USAGE, "%s: is a sweep that has no cells yet%s", dir, instead);
    free(cell);
    return -1;
}

/* The path of the model file that arg means, fresh; NULL with err. */
static char *model_path(const char *arg, const char *which, smoe_err *err) {
    struct stat there;
    if (stat(arg, &there)) {
        smoe_fail_errno(err, SMOE_DATA, "%s: neither a run, a checkpoint nor a file", arg);
        return NULL;
    }
    bool folder = S_ISDIR(there.st_mode);
    bool checkpoint = folder && smoe_file_holds(arg, "model.safetensors");
    if (folder && smoe_run_no_sweep(arg, "", err)) return NULL;
    if (folder && !checkpoint && smoe_file_holds(arg, "spec.yaml"))
        return smoe_checkpoint_find(arg, which, err);
    if (!checkpoint && !S_ISREG(there.st_mode)) {
        smoe_fail(err, SMOE_DATA,
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
    static const char ending[] = ".safetensors";
    struct stat there;
    size_t letters = strlen(arg), least = sizeof ending - 1;
    if (stat(arg, &there)) return letters > least && !strcmp(arg + letters - least, ending);
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
