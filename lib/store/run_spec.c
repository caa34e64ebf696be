/* The spec of a run and the one that continues it, key by key; see run.h. */
#include "store/run.h"
#include "base/file.h"
#include "base/json.h"

bool smoe_run_spec_free(const char *key) {
    static const char keys[] =
        "name data.cache_mb train.steps train.experts_over train.log_every train.eval_every "
        "train.patience train.checkpoint_every train.checkpoint_minutes train.shard_bytes "
        "train.keep train.keep_every train.tensorboard";
    return !strncmp(key, "eval.", 5) || smoe_text_has_word(keys, ' ', key);
}

/* The data may have been moved: only the last name of its path must agree. */
static bool same_value(const char *key, const json_t *a, const json_t *b) {
    if ((strcmp(key, "data.path") && strcmp(key, "data.labels")) || !json_is_string(a) ||
        !json_is_string(b))
        return json_equal(a, b);
    return !strcmp(basename(json_string_value(a)), basename(json_string_value(b)));
}

static char *value_text(const json_t *value) {
    return value ? smoe_json_dump(value, 0) : smoe_alloc_text("absent");
}

typedef struct comparison {
    const char *dir;
    const smoe_spec *old, *now;
    smoe_run_spec_note *note;
    void *user;
    smoe_err refused; /* a line for each key that must not differ */
} comparison;

/* One key that differs: refused or noted. What has no effect in either spec may differ. */
static void run_spec_difference(void *user, const char *key, const json_t *old, const json_t *now) {
    comparison *c = user;
    if (old && now && same_value(key, old, now)) return;
    if (!smoe_spec_acts(c->old, key) && !smoe_spec_acts(c->now, key)) return;
    SMOE_FREED char *was = value_text(old);
    SMOE_FREED char *is = value_text(now);
    SMOE_FREED char *text = smoe_text_format("%s was %s, from now on it is %s", key, was, is);
    if (!smoe_run_spec_free(key))
        smoe_fail_more(&c->refused, SMOE_USAGE, "%s: cannot resume: %s was %s, now it is %s",
                       c->dir, key, was, is);
    else if (c->note)
        c->note(c->user, text);
}

int smoe_run_spec_check(const char *dir, const smoe_spec *old, const smoe_spec *now,
                        smoe_run_spec_note *note, void *user, smoe_err *err) {
    comparison c = {.dir = dir, .old = old, .now = now, .user = user};
    json_auto_t *a = smoe_spec_object(old), *b = smoe_spec_object(now);
    smoe_json_compare(a, b, run_spec_difference, &c);
    if (smoe_fail_found(err, &c.refused)) return -1;
    c.note = note; /* a run that is refused stays as it is */
    smoe_json_compare(a, b, run_spec_difference, &c);
    return 0;
}

static int print_spec(FILE *out, const void *context, smoe_err *err) {
    (void)err;
    return smoe_spec_write_yaml(context, out, false);
}

int smoe_run_spec_write(const char *path, const smoe_spec *spec, smoe_err *err) {
    return smoe_file_print(path, print_spec, spec, err);
}
