/* From the argument of a user to the file of a model; see smoe_run_locate in run.h. */
#include "base/file.h"
#include "store/run.h"
#include "store/run_files.h"
#include "tensors/foreign.h"
#include "tensors/shards.h"

#include <ctype.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first of a sweep's cells, fresh; NULL where there is none. */
static char *first_cell(const char *dir) {
    SMOE_FREED char **names = smoe_file_names(dir);
    for (char **name = names; name && *name; name++) {
        char *path = smoe_text_format("%s/%s", dir, *name);
        if (isdigit((unsigned char)**name) && smoe_file_holds(path, "spec.yaml")) return path;
        free(path);
    }
    return NULL;
}

int smoe_run_no_sweep(const char *dir, const char *instead, smoe_err *err) {
    if (!smoe_file_holds(dir, "cells.jsonl")) return 0;
    SMOE_FREED char *cell = first_cell(dir);
    if (cell)
        smoe_fail(err, SMOE_USAGE, "%s: is a sweep: name one of its cells, as %s%s", dir, cell,
                  instead);
    else
        smoe_fail(err, SMOE_USAGE, "%s: is a sweep, and has no run in it%s", dir, instead);
    return -1;
}

/* Other kinds of files, by their first bytes or the end of their names, with advice for the user;
 * each %s is the file. */
static const struct {
    const char *magic; /* NULL: any */
    size_t length;
    const char *ending; /* NULL: any */
    const char *text;
} others[] = {
    {"\200", 1, NULL,
     "a pickle, but not one of torch.save; .pth, .npz and safetensors files are read"},
    {"\211HDF", 4, NULL, "an HDF5 file; .pth, .npz and safetensors files are read"},
    {"GGUF", 4, NULL, "a GGUF file; .pth, .npz and safetensors files are read"},
    {NULL, 0, ".onnx", "an ONNX graph; .pth, .npz and safetensors files are read"},
    {NULL, 0, ".msgpack", "a Flax file; .pth, .npz and safetensors files are read"},
    {NULL, 0, ".jsonl", "records, and not a model; a model is in the folder of the run"},
    {"\x93NUMPY", 6, NULL, "a single NumPy array; .pth, .npz and safetensors files are read"},
    {"\xff\xd8\xff", 3, NULL, "an image: `smoe predict RUN %s` classifies it"},
    {"\211PNG", 4, NULL, "an image: `smoe predict RUN %s` classifies it"},
    {"\x1f\x8b", 2, NULL, "gzip data: `gunzip -k %s` unpacks it"},
    {"<!", 2, NULL, "an HTML page, perhaps of a failed download"},
    {"<html", 5, NULL, "an HTML page, perhaps of a failed download"},
    {"{\"", 2, ".safetensors", "JSON text, perhaps of a failed download"},
    {NULL, 0, ".yaml", "a spec: `smoe train %s` trains it; give the run that it writes"},
    {NULL, 0, ".yml", "a spec: `smoe train %s` trains it; give the run that it writes"},
};

/* Reads the first 9 bytes of a file (a length, and one byte more), or as many as it has; fewer than
 * 1: it cannot be read. */
enum { FIRST = 9 };
static ssize_t first_bytes(const char *arg, char first[FIRST]) {
    int fd = open(arg, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = fd >= 0 ? read(fd, first, FIRST) : 0;
    if (fd >= 0) close(fd);
    return got;
}

/* Whether a safetensors file begins so: with the length of its header, then the header. */
static bool begins_as_ours(const char first[FIRST], ssize_t got) {
    return got == FIRST && !memcmp(first + 4, "\0\0\0\0{", 5);
}

/* Whether arg is a file of a kind that is not read (tensors/foreign.h reads .npz and .pth); err
 * then says so. */
static bool of_another_kind(const char *arg, smoe_err *err) {
    char first[FIRST] = {0};
    ssize_t got = first_bytes(arg, first);
    bool here = begins_as_ours(first, got);
    here |= got > 0 && smoe_foreign_begins(first, (size_t)got);
    for (size_t i = 0; i < SMOE_COUNT(others) && got > 0 && !here; i++) {
        bool is = !others[i].magic || !memcmp(first, others[i].magic, others[i].length);
        if (!is || (others[i].ending && !smoe_text_ends(arg, others[i].ending))) continue;
        const char *text = others[i].text, *name = strstr(text, "%s");
        size_t before = name ? (size_t)(name - text) : strlen(text);
        SMOE_FREED char *word = smoe_shell_word(arg);
        smoe_fail(err, SMOE_DATA, "%s: is %.*s%s%s", arg, (int)before, text, name ? word : "",
                  name ? name + 2 : "");
        return true;
    }
    return false;
}

/* The model file in a folder of this program, of Hugging Face's save_pretrained, or of open_clip;
 * NULL: none. */
static const char *held_by(const char *folder) {
    static const char *const names[] = {"model.safetensors", "open_clip_model.safetensors",
                                        "pytorch_model.bin", "open_clip_pytorch_model.bin"};
    for (size_t i = 0; i < SMOE_COUNT(names); i++)
        if (smoe_shards_held(folder, names[i])) return names[i];
    return NULL;
}

/* The path of the model file for arg, fresh; NULL with err. */
static char *model_path(const char *arg, const char *which, smoe_err *err) {
    struct stat there;
    if (stat(arg, &there) && smoe_shards_there(arg)) return smoe_alloc_text(arg);
    if (stat(arg, &there) || (S_ISDIR(there.st_mode) && access(arg, X_OK)))
        return smoe_fail_errno(err, SMOE_DATA, "%s: neither a run, a checkpoint nor a file", arg),
               NULL;
    bool folder = S_ISDIR(there.st_mode);
    const char *checkpoint = folder && !smoe_run_is_folder(arg) ? held_by(arg) : NULL;
    if (folder && smoe_run_no_sweep(arg, "", err)) return NULL;
    if (folder && !checkpoint && smoe_file_holds(arg, "spec.yaml"))
        return smoe_run_own(arg, err) ? NULL : smoe_checkpoint_find(arg, which, err);
    if (!checkpoint && !S_ISREG(there.st_mode))
        return smoe_fail(err, SMOE_DATA,
                         "%s: neither a run (no spec.yaml in it), a checkpoint (no "
                         "model.safetensors) nor a file",
                         arg),
               NULL;
    return checkpoint ? smoe_text_format("%s/%s", arg, checkpoint) : smoe_alloc_text(arg);
}

bool smoe_run_is_model(const char *arg) {
    static const char *const foreign[] = {".npz", ".pth",  ".pt",
                                          ".bin", ".ckpt", SMOE_SHARDS_INDEX};
    struct stat there;
    if (stat(arg, &there)) return smoe_text_ends(arg, ".safetensors");
    if (S_ISDIR(there.st_mode)) return true;
    for (size_t i = 0; i < SMOE_COUNT(foreign); i++)
        if (smoe_text_ends(arg, foreign[i])) return true;
    char first[FIRST];
    /* what is read from a pipe is gone */
    return S_ISREG(there.st_mode) && begins_as_ours(first, first_bytes(arg, first));
}

bool smoe_run_is_checkpoint(const char *dir) {
    return held_by(dir) && !smoe_run_is_folder(dir);
}

bool smoe_run_is_folder(const char *dir) {
    return smoe_file_holds(dir, "spec.yaml") && smoe_file_holds(dir, "STATUS");
}

/* What a user asks for. */
typedef struct wanted {
    const char *arg, *which;
    smoe_file_choice choice;
    bool verify;
} wanted;

/* Opens the file that is wanted, in one attempt; its path is fresh, NULL where there is none. */
static int locate_look(const wanted *w, smoe_safetensors **file, char **path, smoe_err *err) {
    const char *weights = w->choice.weights;
    SMOE_FREED char *found = model_path(w->arg, w->which, err);
    if (!found) return -1;
    bool within = strcmp(found, w->arg) != 0, average = weights && !strcmp(weights, "ema");
    SMOE_FREED char *beside = smoe_file_beside(found, SMOE_CHECKPOINT_AVERAGE);
    *path = smoe_alloc_text(within && average && smoe_shards_there(beside) ? beside : found);
    if (!smoe_text_ends(*path, SMOE_SHARDS_INDEX) && of_another_kind(*path, err)) return -1;
    /* A checkpoint has its average in another file. */
    if (within && smoe_text_ends(*path, "/" SMOE_CHECKPOINT_AVERAGE)) {
        if (weights && !average)
            return smoe_fail(err, SMOE_USAGE, "%s: is an average, not what --weights %s asks for",
                             *path, weights);
        weights = NULL;
    }
    if (smoe_safetensors_peek(file, *path, weights, err)) return -1;
    bool own = smoe_safetensors_metadata(*file, "smoe.spec");
    if (w->choice.rows && (own || !smoe_safetensors_find(*file, "pos_embed")))
        return smoe_fail(err, SMOE_USAGE, "%s: --grid has no effect: %s", *path,
                         own ? "grids of this program are squares"
                             : "the file has no position embeddings");
    smoe_safetensors_set_grid(*file, w->choice.rows, w->choice.columns);
    if (w->verify && smoe_safetensors_verify(*file, err)) return -1;
    /* other programs, which write no step, may have changed the weights */
    bool stepped = smoe_safetensors_metadata(*file, "smoe.step") != NULL;
    return stepped ? smoe_checkpoint_check_step(*file, err) : 0;
}

/* A run in another process may delete the checkpoint after its link has been read and before its
 * file is opened; then there is a newer one. */
static int look_again(const wanted *w, smoe_safetensors **file, smoe_err *err) {
    enum { TRIES = 20 };
    for (int try = 1;; try++) {
        SMOE_FREED char *path = NULL, *again = NULL;
        *file = NULL;
        if (!locate_look(w, file, &path, err)) return 0;
        smoe_safetensors_free(*file);
        *file = NULL;
        if (path && !smoe_shards_there(path)) again = model_path(w->arg, w->which, NULL);
        if (!again || !strcmp(again, path) || try == TRIES) return -1;
    }
}

int smoe_run_locate(smoe_safetensors **file, const char *arg, const char *which, smoe_err *err) {
    const wanted w = {.arg = arg, .which = which};
    return look_again(&w, file, err);
}

int smoe_run_model(smoe_safetensors **file, const char *arg, const char *which,
                   const smoe_file_choice *choice, smoe_err *err) {
    wanted w = {.arg = arg, .which = which, .verify = true};
    if (choice) w.choice = *choice;
    return look_again(&w, file, err);
}

int smoe_run_latest_spec(smoe_spec *spec, const char *dir, smoe_err *err) {
    SMOE_FREED_BY(smoe_safetensors_freed) smoe_safetensors *file = NULL;
    const char *text = smoe_run_model(&file, dir, NULL, NULL, NULL)
                           ? NULL
                           : smoe_safetensors_metadata(file, "smoe.spec");
    if (!text) return 1;
    if (smoe_spec_parse(
            spec,
            &(smoe_spec_text){.text = text, .label = smoe_safetensors_path(file), .folder = dir},
            NULL, 0, err))
        return -1;
    smoe_spec_continue(spec);
    return 0;
}
