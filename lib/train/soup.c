/* Soups of models; see soup.h. */
#include "train/soup.h"
#include "math/kernels.h"
#include "base/json.h"
#include "spec/routers.h"
#include "store/model_file.h"

typedef struct pot {
    const smoe_spec *spec;
    const smoe_dataset *set;
    const smoe_soup_options *options;
    smoe_model *model;
    smoe_params *params;
    size_t batch, evaluations, planned;
    smoe_arena memory;
    double *sum; /* of the members that stay [size] */
    real *base;  /* weights of the first path [size] */
    char *names; /* of the classes, of the first member that has them; owned */
    size_t members;
} pot;

static int pot_open(pot *p, smoe_err *err) {
    p->batch = smoe_moe_eval_batch(p->spec, smoe_dataset_images(p->set));
    if (smoe_model_create(&p->model, p->spec, smoe_dataset_classes(p->set), err)) return -1;
    p->params = smoe_model_params(p->model);
    if (smoe_params_allocate(p->params, 1, err)) return -1;
    smoe_arena_take(&p->memory, p->params->size, sizeof *p->sum + sizeof *p->base);
    if (smoe_arena_bind(&p->memory, err))
        return smoe_fail_prefix(err, "two copies of %zu weights", p->params->total);
    p->sum = (double *)p->memory.base;
    p->base = (real *)(p->sum + p->params->size);
    return smoe_model_reserve(p->model, p->batch, false, err);
}

static void pot_free(pot *p) {
    smoe_model_free(p->model);
    smoe_arena_free(&p->memory);
    free(p->names);
}

static int pot_load(pot *p, const char *path, smoe_err *err) {
    SMOE_FREED_BY(smoe_safetensors_freed) smoe_safetensors *file = NULL;
    if (smoe_safetensors_open(&file, path, err)) return -1;
    SMOE_FREED char *names = smoe_model_file_names(file, p->set);
    if (names && !p->names) p->names = smoe_alloc_text(names);
    if (names && strcmp(names, p->names) != 0)
        return smoe_fail(err, SMOE_DATA, "%s: its classes differ from those of the first model",
                         path);
    return smoe_params_load(p->params, file, SMOE_FIT_EXACT, NULL, err);
}

static int pot_evaluate(pot *p, smoe_eval *eval, const char *what, smoe_err *err) {
    if (smoe_evaluate(p->model, p->spec, p->set, p->batch, NULL, eval, err))
        return smoe_fail_prefix(err, "%s", what);
    p->evaluations++;
    const smoe_soup_options *o = p->options;
    if (o->progress) o->progress(o->user, p->evaluations, p->planned);
    return 0;
}

/* ---- experts --------------------------------------------------------------------------------- */

static double cosine(const real *x, const real *y, size_t n) {
    const smoe_row_kernels *kern = smoe_kernels_get()->row;
    double xx = kern->dot_double(x, x, n), yy = kern->dot_double(y, y, n);
    return xx > 0 && yy > 0 ? kern->dot_double(x, y, n) / sqrt(xx * yy) : 0;
}

/* Compares the experts of the current weights with those of the base. */
static void member_align(const pot *p, smoe_soup_member *m) {
    size_t experts = 0, aligned = 0;
    double cosines = 0;
    for (size_t i = 0; i < p->params->count; i++) {
        const smoe_param *param = &p->params->param[i];
        if (!smoe_text_ends(param->name, ".experts.fc1.weight")) continue;
        size_t E = param->dim[0], n = param->size / E;
        const real *now = p->params->w + param->offset, *base = p->base + param->offset;
        for (size_t e = 0; e < E; e++) {
            double own = cosine(now + e * n, base + e * n, n);
            size_t closer = 0;
#pragma omp parallel for schedule(static) reduction(+ : closer)
            for (size_t f = 0; f < E; f++)
                closer += f != e && cosine(now + e * n, base + f * n, n) > own;
            aligned += !closer;
            cosines += own;
            experts++;
        }
    }
    m->aligned = experts ? (double)aligned / (double)experts : NAN;
    m->cosine = experts ? cosines / (double)experts : NAN;
}

/* ---- making a soup --------------------------------------------------------------------------- */

static int measure_alone(pot *p, smoe_soup_member *m, bool first, smoe_err *err) {
    if (pot_load(p, m->path, err)) return -1;
    if (first) memcpy(p->base, p->params->w, p->params->size * sizeof *p->base);
    member_align(p, m);
    return pot_evaluate(p, &m->alone, m->path, err);
}

/* Replaces the weights, those of a new member, by the mean of the members and the new one. */
static void pot_blend(pot *p) {
    for (size_t i = 0; i < p->params->size; i++)
        p->params->w[i] = (real)((p->sum[i] + (double)p->params->w[i]) / (double)(p->members + 1));
}

static int pot_add(pot *p, smoe_soup_member *m, const smoe_eval *before, smoe_err *err) {
    if (pot_load(p, m->path, err)) return -1;
    pot_blend(p);
    if (pot_evaluate(p, &m->with, "soup", err)) return -1;
    m->in = !p->options->greedy || !p->members || m->with.precision_at_1 >= before->precision_at_1;
    if (!m->in) return 0;
    if (pot_load(p, m->path, err)) return -1;
    for (size_t i = 0; i < p->params->size; i++) p->sum[i] += (double)p->params->w[i];
    p->members++;
    return 0;
}

/* The best first; equal ones in the order in which they were given. */
static bool member_better(const smoe_eval *a, const smoe_eval *b) {
    if (a->precision_at_1 != b->precision_at_1) return a->precision_at_1 > b->precision_at_1;
    return a->loss < b->loss;
}

static void members_order(smoe_soup_member *member, size_t count) {
    for (size_t i = 1; i < count; i++) {
        smoe_soup_member m = member[i];
        size_t j = i;
        for (; j && member_better(&m.alone, &member[j - 1].alone); j--) member[j] = member[j - 1];
        member[j] = m;
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

static char *members_text(const smoe_soup_member *member, size_t count) {
    json_auto_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        if (member[i].in) json_array_append_new(list, smoe_json_text(member[i].path));
    return smoe_json_dump(list, 0);
}

/* The mean of the members, with the metadata of the file at `like`; a file of another program gets
 * the spec and the names of its classes. */
static int pot_save(pot *p, const smoe_soup_member *member, size_t count, const char *like,
                    smoe_err *err) {
    const char *out = p->options->out;
    SMOE_FREED_BY(smoe_safetensors_freed) smoe_safetensors *file = NULL;
    smoe_slab slab = {.prefix = "", .values = p->params->w};
    for (size_t i = 0; i < p->params->size; i++)
        p->params->w[i] = (real)(p->sum[i] / (double)p->members);
    if (smoe_safetensors_open(&file, like, err)) return -1;
    SMOE_FREED_BY(smoe_alloc_pool_free) smoe_alloc_pool texts = {0};
    SMOE_FREED char *text = members_text(member, count);
    SMOE_FREED smoe_tensor *tensors = smoe_params_tensors(p->params, &slab);
    bool own = smoe_safetensors_metadata(file, "smoe.spec");
    size_t known, kept = 0;
    SMOE_FREED smoe_pair *pairs =
        smoe_model_file_pairs(&known, file, own ? NULL : p->spec, p->set, &texts);
    for (size_t i = 0; i < known; i++)
        if (strcmp(pairs[i].key, "smoe.soup")) pairs[kept++] = pairs[i];
    pairs[kept++] = (smoe_pair){"smoe.soup", text};
    return smoe_safetensors_write(
        out, &(const smoe_content){tensors, p->params->count, pairs, kept}, err);
}

int smoe_soup_make(smoe_soup_member *member, size_t count, const smoe_spec *spec,
                   const smoe_dataset *set, const smoe_soup_options *options, smoe_eval *soup,
                   smoe_err *err) {
    SMOE_FREED_BY(pot_free)
    pot p = {.spec = spec, .set = set, .options = options, .planned = 2 * count};
    smoe_eval best = {0};
    const char *first = member[0].path;
    if (pot_open(&p, err)) return -1;
    for (size_t i = 0; i < count; i++) /* one that does not fit is found before the evaluations */
        if (pot_load(&p, member[i].path, err)) return -1;
    for (size_t i = 0; i < count; i++)
        if (measure_alone(&p, &member[i], i == 0, err)) return -1;
    if (options->greedy) members_order(member, count);
    for (size_t i = 0; i < count; i++) {
        if (pot_add(&p, &member[i], &best, err)) return -1;
        if (member[i].in) best = member[i].with;
    }
    *soup = best;
    return options->out ? pot_save(&p, member, count, first, err) : 0;
}
