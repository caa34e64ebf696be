/*
 * A fuzzer without a fuzzing engine: runs LLVMFuzzerTestOneInput over the files of a corpus folder,
 * then over mutations of them. The n-th mutation depends on n alone, so a failure is repeated by
 * its number.
 *
 *   fuzz_NAME [--seconds S] [--from N] [--count N] [FOLDER]
 *
 * FOLDER is build/corpus/NAME by default, which the build unpacks. If a sanitizer stops the program, the number of the
 * input at fault is printed before it ends.
 */
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

enum { MOST_FILES = 512, MOST_BYTES = 1 << 16 };

typedef struct input {
    uint8_t *data;
    size_t size;
} input;

/* For the death callback only. */
static const char *program;
static uint64_t current;

static void on_death(void) {
    char text[256];
    int n = snprintf(text, sizeof text,
                     "\nfuzz: stopped in input %llu; repeat with: %s --from %llu --count 1\n",
                     (unsigned long long)current, program, (unsigned long long)current);
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0) _exit(1);
}

static void on_signal(int number) {
    on_death();
    signal(number, SIG_DFL);
    raise(number);
}

/* splitmix64: a stream of numbers from one */
static uint64_t next(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t below(uint64_t *state, size_t n) {
    return n ? (size_t)(next(state) % n) : 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool read_file(const char *folder, const char *name, input *in) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    in->data = malloc(MOST_BYTES);
    in->size = in->data ? fread(in->data, 1, MOST_BYTES, file) : 0;
    fclose(file);
    return in->data != NULL;
}

/* The files of a folder in the order of their names. */
static size_t read_corpus(const char *folder, input *corpus) {
    struct dirent **entry = NULL;
    size_t count = 0;
    int n = scandir(folder, &entry, NULL, by_name);
    for (int i = 0; i < n; i++) {
        if (entry[i]->d_name[0] != '.' && count < MOST_FILES &&
            read_file(folder, entry[i]->d_name, &corpus[count]))
            count++;
        free(entry[i]);
    }
    free(entry);
    return count;
}

/* Numbers at the limits of their types, little-endian, at a random place. */
static void put_magic(uint64_t *state, uint8_t *data, size_t size) {
    static const uint64_t magic[] = {0,
                                     1,
                                     0x7f,
                                     0x80,
                                     0xff,
                                     0x7fff,
                                     0x8000,
                                     0xffff,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     0x7fffffffffffffff,
                                     0x8000000000000000,
                                     UINT64_MAX};
    uint64_t value = magic[below(state, sizeof magic / sizeof *magic)];
    size_t width = (size_t)1 << below(state, 4);
    if (width > size) return;
    size_t at = below(state, size - width + 1);
    bool big = next(state) & 1;
    for (size_t i = 0; i < width; i++)
        data[at + (big ? width - 1 - i : i)] = (uint8_t)(value >> (8 * i));
}

/* Copies a part of the data to another place and shifts the rest back. */
static size_t duplicate(uint64_t *state, uint8_t *data, size_t size) {
    size_t from = below(state, size), length = below(state, size - from) + 1,
           to = below(state, size + 1);
    if (length > MOST_BYTES - size) length = MOST_BYTES - size;
    uint8_t *copy = malloc(length + 1);
    if (!copy) return size;
    memcpy(copy, data + from, length);
    memmove(data + to + length, data + to, size - to);
    memcpy(data + to, copy, length);
    free(copy);
    return size + length;
}

static size_t mutate_once(uint64_t *state, uint8_t *data, size_t size, const input *other) {
    if (!size) return 0;
    switch (below(state, 8)) {
    case 0: /* truncate */ return below(state, size + 1);
    case 1: { /* remove a part */
        size_t at = below(state, size), length = below(state, size - at) + 1;
        memmove(data + at, data + at + length, size - at - length);
        return size - length;
    }
    case 2: return duplicate(state, data, size);
    case 3: { /* continue with another file */
        size_t keep = below(state, size + 1), from = below(state, other->size + 1);
        size_t length = other->size - from;
        if (length > MOST_BYTES - keep) length = MOST_BYTES - keep;
        memcpy(data + keep, other->data + from, length);
        return keep + length;
    }
    case 4: put_magic(state, data, size); return size;
    case 5: data[below(state, size)] = (uint8_t)next(state); return size;
    case 6: { /* insert a digit, a letter or a separator of text formats */
        static const char text[] = "0123456789-+.eE:,{}[]\"'#&*|>%\n\t ";
        data[below(state, size)] = (uint8_t)text[below(state, sizeof text - 1)];
        return size;
    }
    default: data[below(state, size)] ^= (uint8_t)(1u << below(state, 8)); return size;
    }
}

/* Each input is in memory of exactly its size, so that reads beyond it are detected. */
static void run(const uint8_t *data, size_t size) {
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact) return;
    if (size) memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static void run_mutation(uint64_t n, const input *corpus, size_t count, uint8_t *work) {
    uint64_t state = n * 0xd1342543de82ef95u + 1;
    const input *start = &corpus[below(&state, count)];
    size_t size = start->size, rounds = 1 + below(&state, 6);
    memcpy(work, start->data, size);
    for (size_t i = 0; i < rounds; i++)
        size = mutate_once(&state, work, size, &corpus[below(&state, count)]);
    run(work, size);
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int main(int argc, char **argv) {
    static input corpus[MOST_FILES];
    double seconds = 8;
    uint64_t from = 0, most = UINT64_MAX;
    char folder[512];
    const char *name = base_name(argv[0]);
    snprintf(folder, sizeof folder, "build/corpus/%s", strncmp(name, "fuzz_", 5) ? name : name + 5);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--seconds") && i + 1 < argc)
            seconds = strtod(argv[++i], NULL);
        else if (!strcmp(argv[i], "--from") && i + 1 < argc)
            from = strtoull(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--count") && i + 1 < argc)
            most = strtoull(argv[++i], NULL, 10);
        else
            snprintf(folder, sizeof folder, "%s", argv[i]);
    }
    program = argv[0];
    if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(on_death);
    signal(SIGABRT, on_signal);
    size_t count = read_corpus(folder, corpus);
    if (!count) {
        fprintf(stderr, "%s: no inputs; run it from the top of the tree, after make\n", folder);
        return 1;
    }
    uint8_t *work = malloc(MOST_BYTES);
    if (!work) return 1;
    time_t end = time(NULL) + (time_t)seconds;
    /* Inputs 0 .. count-1 are the files themselves, the others are mutations of them. */
    uint64_t done = 0;
    for (current = from; done < most && (most != UINT64_MAX || time(NULL) < end);
         current++, done++) {
        if (current < count)
            run(corpus[current].data, corpus[current].size);
        else
            run_mutation(current, corpus, count, work);
    }
    printf("%s: %zu files of %s, %llu inputs\n", name, count, folder, (unsigned long long)done);
    for (size_t i = 0; i < count; i++) free(corpus[i].data);
    free(work);
    return 0;
}
