/* The likeliest class of each image: predict RUN IMAGE...
 *     cc predict.c $(pkg-config --cflags --libs smoe) -o predict */
#include <smoe/smoe.h>
#include <stdio.h>
#include <stdlib.h>

static smoe_err err;

int main(int argc, char **argv) {
    smoe_model *model;
    if (argc < 3) return fputs("usage: predict RUN IMAGE...\n", stderr), SMOE_USAGE;
    if (smoe_model_load(&model, argv[1], &err)) return fprintf(stderr, "%s\n", err.text), err.code;
    size_t size = smoe_model_image_size(model), classes = smoe_model_classes(model);
    float *pixels = (float *)calloc(smoe_model_channels(model) * size * size, sizeof *pixels);
    float *p = (float *)calloc(classes, sizeof *p); /* logits, then probabilities */
    int status = pixels && p ? SMOE_OK : SMOE_RUNTIME;
    for (int i = 2; i < argc && !status; i++) {
        if (smoe_pixels_read(pixels, model, argv[i], &err) ||
            smoe_model_predict(model, p, pixels, 1, &err)) {
            fprintf(stderr, "%s\n", err.text);
            status = err.code;
            break;
        }
        smoe_model_probabilities(model, p, p, 1);
        size_t best = 0;
        for (size_t c = 1; c < classes; c++)
            if (p[c] > p[best]) best = c;
        printf("%s: class %zu, probability %.3f\n", argv[i], best, (double)p[best]);
    }
    free(pixels);
    free(p);
    smoe_model_free(model);
    return status;
}
