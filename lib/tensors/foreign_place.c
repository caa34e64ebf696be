/* Which tensors in a file are the model's; see foreign_place.h. */
#include "tensors/foreign_place.h"

#include <string.h>

typedef smoe_foreign_place place;
typedef smoe_foreign_piece piece;

/* The next part of a name; parts end with a dot or a slash. */
static const char *next_part(const char *name) {
    name += strcspn(name, "./");
    return *name ? name + 1 : name;
}

/* The place of the model whose patch embedding the piece is; false if it is none. */
static bool anchored(place *at, const piece *p) {
    for (const char *rest = p->name; *rest; rest = next_part(rest)) {
        if (!smoe_foreign_is_anchor(rest)) continue;
        memcpy(at->where, p->where, sizeof at->where);
        snprintf(at->prefix, sizeof at->prefix, "%.*s", (int)(rest - p->name), p->name);
        return true;
    }
    return false;
}

static bool same(const place *a, const place *b) {
    return !strcmp(a->where, b->where) && !strcmp(a->prefix, b->prefix);
}

static bool says(const place *at, const char *word) {
    return strstr(at->where, word) || strstr(at->prefix, word);
}

static int rank_of(const place *at, const char *weights) {
    bool average = says(at, "ema") || says(at, "teacher");
    if (weights) return average == !strcmp(weights, "ema");
    return says(at, "student") ? 0 : average ? 1 : 2;
}

static void place_put(FILE *out, const char *before, const place *at) {
    size_t letters = strlen(at->prefix);
    if (letters && strchr("./", at->prefix[letters - 1])) letters--;
    fprintf(out, "%s%s%s%.*s", before, at->where, *at->where && letters ? "." : "", (int)letters,
            at->prefix);
}

/* The dictionary with most tensors. */
static void most_tensors(place *at, const smoe_foreign_file *f) {
    size_t most = 0;
    for (size_t i = 0; i < f->pieces; i++) {
        const char *where = f->piece[i].where;
        size_t there = 0;
        if (most && !strcmp(where, at->where)) continue;
        for (size_t k = 0; k < f->pieces; k++) there += !strcmp(where, f->piece[k].where);
        if (there <= most) continue;
        most = there;
        memcpy(at->where, where, sizeof at->where);
    }
}

int smoe_foreign_place_of(place *chosen, const smoe_foreign_file *f, const char *weights,
                          FILE *note, smoe_err *err) {
    size_t found = 0, others = 0;
    *chosen = (place){{0}, {0}};
    for (size_t i = 0; i < f->pieces; i++) {
        place at;
        if (!anchored(&at, &f->piece[i])) continue;
        if (!found++ || rank_of(&at, weights) > rank_of(chosen, weights)) *chosen = at;
    }
    if (weights && (!found || !rank_of(chosen, weights)))
        return smoe_fail(err, SMOE_USAGE, "it has no %s weights, which --weights %s asks for",
                         !strcmp(weights, "ema") ? "averaged" : "raw", weights);
    if (!found) most_tensors(chosen, f);
    if (*chosen->where || *chosen->prefix) place_put(note, "weights of ", chosen);
    for (size_t i = 0; i < f->pieces; i++) {
        place at;
        if (!anchored(&at, &f->piece[i]) || same(&at, chosen)) continue;
        place_put(note, others++ ? ", " : " and not of ", &at);
    }
    if (others) fputs("; --weights raw and --weights ema choose", note);
    return 0;
}

bool smoe_foreign_place_other(const place *at, const smoe_foreign_file *f, const piece *p) {
    if (strcmp(p->where, at->where) != 0) return true;
    if (!strncmp(p->name, at->prefix, strlen(at->prefix))) return false;
    for (size_t i = 0; i < f->pieces; i++) {
        place other;
        if (!strcmp(f->piece[i].where, at->where) && anchored(&other, &f->piece[i]) &&
            !same(&other, at) && *other.prefix &&
            !strncmp(p->name, other.prefix, strlen(other.prefix)))
            return true;
    }
    return false;
}

const smoe_foreign_rule *smoe_foreign_place_rule(const place *at, const char **name,
                                                 char to[SMOE_FOREIGN_NAME]) {
    size_t whole = strlen(at->prefix);
    for (size_t n = whole + 1; n-- > 0;) {
        bool begins = !n || strchr("./", at->prefix[n - 1]);
        if (!begins || strncmp(*name, at->prefix, n) != 0) continue;
        const smoe_foreign_rule *r = smoe_foreign_rule_of(*name + n, to);
        if (r) {
            *name += n;
            return r;
        }
    }
    if (!strncmp(*name, at->prefix, whole)) *name += whole;
    return NULL;
}
