/*
 * Looks into safetensors files.
 *     tensors FILE        per tensor name, type, shape, CRC-32 of its data, least and largest value
 *     tensors A B         names the first tensor and element that differ; exit status 1 if any does
 *     tensors --sum FILE  CRC-32 over the names and the data of all tensors, without metadata
 */
#include "tensors/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static size_t bytes_of(const smoe_tensor *t) {
    return t->size * smoe_dtype_bytes(t->dtype);
}

static uint32_t crc_of(const smoe_tensor *t, uint32_t crc) {
    const unsigned char *p = t->data;
    for (size_t left = bytes_of(t); left;) {
        size_t n = left < (1u << 30) ? left : 1u << 30;
        crc = (uint32_t)crc32(crc, p, (uInt)n);
        p += n;
        left -= n;
    }
    return crc;
}

static void print_shape(const smoe_tensor *t) {
    putchar('[');
    for (int i = 0; i < t->ndim; i++) printf("%s%zu", i ? "," : "", t->dim[i]);
    putchar(']');
}

static void list(const smoe_safetensors *file) {
    for (size_t i = 0; i < smoe_safetensors_count(file); i++) {
        const smoe_tensor *t = smoe_safetensors_at(file, i);
        double low = INFINITY, high = -INFINITY;
        for (size_t j = 0; j < t->size; j++) {
            real x;
            if (!smoe_tensor_convert(&x, t, j, 1)) break;
            if (x < low) low = x;
            if (x > high) high = x;
        }
        printf("%s %s ", t->name, t->type);
        print_shape(t);
        printf(" %08x %.9g %.9g\n", crc_of(t, 0), low, high);
    }
}

static uint32_t sum(const smoe_safetensors *file) {
    uint32_t crc = 0;
    for (size_t i = 0; i < smoe_safetensors_count(file); i++) {
        const smoe_tensor *t = smoe_safetensors_at(file, i);
        crc = (uint32_t)crc32(crc, (const Bytef *)t->name, (uInt)strlen(t->name) + 1);
        crc = crc_of(t, crc);
    }
    return crc;
}

static bool same_shape(const smoe_tensor *a, const smoe_tensor *b) {
    bool same = a->ndim == b->ndim && !strcmp(a->type, b->type);
    for (int i = 0; same && i < a->ndim; i++) same = a->dim[i] == b->dim[i];
    return same;
}

/* Prints the first difference in value of two tensors of one shape. */
static void print_difference(const smoe_tensor *a, const smoe_tensor *b) {
    size_t each = smoe_dtype_bytes(a->dtype);
    for (size_t j = 0; j < a->size; j++) {
        real x = NAN, y = NAN;
        if (!memcmp((const char *)a->data + j * each, (const char *)b->data + j * each, each))
            continue;
        if (smoe_tensor_convert(&x, a, j, 1) && smoe_tensor_convert(&y, b, j, 1))
            printf("%s: element %zu of %zu: %.9g and %.9g\n", a->name, j, a->size, x, y);
        else
            printf("%s: element %zu of %zu\n", a->name, j, a->size);
        return;
    }
}

/* Returns 1 if the files differ. Tensors are compared in the order of the first file. */
static int compare(const smoe_safetensors *first, const smoe_safetensors *second) {
    for (size_t i = 0; i < smoe_safetensors_count(first); i++) {
        const smoe_tensor *a = smoe_safetensors_at(first, i);
        const smoe_tensor *b = smoe_safetensors_find(second, a->name);
        if (!b)
            printf("%s: only in %s\n", a->name, smoe_safetensors_path(first));
        else if (!same_shape(a, b))
            printf("%s: type or shape differs\n", a->name);
        else if (memcmp(a->data, b->data, bytes_of(a)))
            print_difference(a, b);
        else
            continue;
        return 1;
    }
    for (size_t i = 0; i < smoe_safetensors_count(second); i++) {
        const char *name = smoe_safetensors_at(second, i)->name;
        if (smoe_safetensors_find(first, name)) continue;
        printf("%s: only in %s\n", name, smoe_safetensors_path(second));
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    bool summed = argc == 3 && !strcmp(argv[1], "--sum");
    smoe_safetensors *file[2] = {NULL, NULL};
    smoe_err err = {0};
    int status = 2;
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: tensors FILE | tensors A B | tensors --sum FILE\n");
        return 2;
    }
    for (int i = summed ? 2 : 1; i < argc; i++)
        if (smoe_safetensors_open(&file[summed ? 0 : i - 1], argv[i], &err)) {
            fprintf(stderr, "tensors: %s\n", err.text);
            goto out;
        }
    status = 0;
    if (summed)
        printf("%08x\n", sum(file[0]));
    else if (file[1])
        status = compare(file[0], file[1]);
    else
        list(file[0]);
out:
    smoe_safetensors_free(file[0]);
    smoe_safetensors_free(file[1]);
    return status;
}
