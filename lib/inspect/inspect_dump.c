/* --dump-routing: the weights or placements of the images kept whole, as .npy; smoe-inspect(1) has
 * the format. */
#include "inspect/inspect_view.h"
#include "base/alloc.h"
#include "tensors/npy.h"

#include <stdlib.h>
#include <string.h>

/* [images, layers, 2, T, S]: dispatch, then combine weights. */
static int dump_dense(const smoe_inspection *r, const char *path, smoe_err *err) {
    size_t n = r->T * r->S;
    const size_t dim[] = {r->subject.images, r->layers, 2, r->T, r->S};
    float *all = calloc(dim[0] * dim[1] * 2 * n + 1, sizeof *all), *at = all;
    if (!all) return smoe_fail(err, SMOE_RUNTIME, "%s: out of memory", path);
    for (size_t i = 0; i < r->subject.images; i++)
        for (size_t l = 0; l < r->layers; l++, at += 2 * n) {
            memcpy(at, r->sample[i].layer[l].dispatch, n * sizeof *at);
            memcpy(at + n, r->sample[i].layer[l].combine, n * sizeof *at);
        }
    int status = smoe_npy_write(path, "<f4", all, 5, dim, err);
    free(all);
    return status;
}

enum { PLACE_COLUMNS = 6 };

/* [placements, 6]: image, block, token, expert, slot of the expert's buffer, weight. */
static int dump_sparse(const smoe_inspection *r, const char *path, smoe_err *err) {
    size_t dim[] = {0, PLACE_COLUMNS};
    for (size_t i = 0; i < r->subject.images; i++)
        for (size_t l = 0; l < r->layers; l++) dim[0] += r->sample[i].layer[l].places;
    double *all = smoe_alloc(dim[0] * PLACE_COLUMNS + 1, sizeof *all), *at = all;
    for (size_t i = 0; i < r->subject.images; i++)
        for (size_t l = 0; l < r->layers; l++) {
            const smoe_sample_layer *layer = &r->sample[i].layer[l];
            for (size_t k = 0; k < layer->places; k++, at += PLACE_COLUMNS) {
                const smoe_sample_place *place = &layer->place[k];
                const double row[] = {(double)r->sample[i].image, (double)layer->block,
                                      (double)place->token,       (double)place->expert,
                                      (double)place->slot,        (double)place->weight};
                memcpy(at, row, sizeof row);
            }
        }
    int status = smoe_npy_write(path, "<f8", all, 2, dim, err);
    free(all);
    return status;
}

int smoe_inspect_dump(const smoe_inspection *r, const char *path, smoe_err *err) {
    return r->has & SMOE_INSPECT_DENSE ? dump_dense(r, path, err) : dump_sparse(r, path, err);
}
