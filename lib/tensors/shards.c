/* Opening files of weights, of this program or another one, in one file or several, and writing
 * several; see shards.h and safetensors.h. The format itself is in safetensors.c, those of other
 * programs in foreign.c. */
#include "tensors/shards.h"
#include "base/file.h"
#include "base/json.h"
#include "tensors/foreign.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

static const char ENDING[] = ".safetensors";
enum { INDEX_MOST = 100 * 1000 * 1000 }; /* bytes, as of a header */

bool smoe_shards_there(const char *path) {
    SMOE_FREED char *index =
        access(path, F_OK) ? smoe_text_format("%s" SMOE_SHARDS_INDEX, path) : NULL;
    return index ? !access(index, F_OK) : !access(path, F_OK);
}

bool smoe_shards_held(const char *folder, const char *name) {
    SMOE_FREED char *path = smoe_text_format("%s/%s", folder, name);
    return smoe_shards_there(path);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Whether the next file is for this process to write. */
static bool turns_next(smoe_turns *turns) {
    return turns->next++ % turns->writers == turns->own;
}

static size_t shards_bytes_of(const smoe_tensor *t) {
    return t->size * smoe_dtype_bytes(t->dtype);
}

/* The end of the shard that begins with tensor `first`. */
static size_t shard_end(const smoe_tensor *tensors, size_t first, size_t count, uint64_t most) {
    size_t end = first + 1;
    for (uint64_t bytes = shards_bytes_of(&tensors[first]); end < count; end++) {
        bytes += shards_bytes_of(&tensors[end]);
        if (bytes > most) break;
    }
    return end;
}

/* "FOLDER/NAME-00001-of-00004.safetensors", fresh. */
static char *shard_path(const char *path, size_t i, size_t shards) {
    size_t stem = strlen(path) - (sizeof ENDING - 1);
    return smoe_text_format("%.*s-%05zu-of-%05zu%s", (int)stem, path, i + 1, shards, ENDING);
}

/* One shard, if it is this process's turn, and its tensors in the map of the index. */
static int shard_write(const char *path, json_t *map, const smoe_content *content,
                       smoe_turns *turns, smoe_err *err) {
    if (turns_next(turns) && smoe_safetensors_write(path, content, err)) return -1;
    for (size_t i = 0; i < content->count; i++)
        json_object_set_new(map, content->tensor[i].name, json_string(basename(path)));
    return 0;
}

int smoe_shards_write(const char *path, uint64_t most, const smoe_content *content,
                      smoe_turns *turns, smoe_err *err) {
    smoe_turns alone = {.writers = 1};
    const size_t count = content->count;
    uint64_t total = 0;
    size_t shards = 0, first = 0;
    if (!turns) turns = &alone;
    for (size_t i = 0; i < count; i++) total += shards_bytes_of(&content->tensor[i]);
    if (total <= most || count < 2)
        return turns_next(turns) ? smoe_safetensors_write(path, content, err) : 0;
    SMOE_FREED smoe_tensor *sorted = smoe_alloc(count, sizeof *sorted);
    json_auto_t *map = json_object();
    memcpy(sorted, content->tensor, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, smoe_text_compare);
    for (size_t i = 0; i < count; i = shard_end(sorted, i, count, most)) shards++;
    for (size_t i = 0; i < shards; i++) {
        size_t end = shard_end(sorted, first, count, most);
        SMOE_FREED char *file = shard_path(path, i, shards);
        const smoe_content shard = {sorted + first, end - first, content->pair, content->pairs};
        if (shard_write(file, map, &shard, turns, err)) return -1;
        first = end;
    }
    if (!turns_next(turns)) return 0;
    SMOE_FREED char *index = smoe_text_format("%s" SMOE_SHARDS_INDEX, path);
    json_auto_t *json =
        json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)total, "weight_map", map);
    return smoe_json_write(index, json, err);
}

/* ---- one file -------------------------------------------------------------------------------- */

/* Gives the tensors of an open file this program's names, if they have another's; on failure *file
 * is NULL, and freed. */
static int rename_tensors(smoe_safetensors **result, const char *weights, smoe_err *err) {
    smoe_safetensors *file = *result;
    int renamed = smoe_foreign_rename(result, file, weights, err);
    if (!renamed) *result = file;
    if (!renamed) return 0;
    /* A changed byte in a name must not make a file of another program of it. */
    int status = smoe_safetensors_verify(file, err);
    smoe_safetensors_free(file);
    if (!status && renamed > 0) return 0;
    smoe_safetensors_free(*result);
    *result = NULL;
    return -1;
}

/* Maps a file; one that is empty is not mapped. */
static int map_file(void **map, size_t *size, const char *path, smoe_err *err) {
    int fd = smoe_file_open(path, O_RDONLY, err);
    if (fd < 0) return -1;
    *size = (size_t)lseek(fd, 0, SEEK_END); /* of a regular file */
    if (*size) *map = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (!*size || *map != MAP_FAILED) return 0;
    return smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot map %zu bytes", path, *size);
}

/* Opens a file as it is; *foreign if it is none of safetensors, but was made into one; `part`: of
 * several, whose names are not those of a model. */
static int shards_open_file(smoe_safetensors **result, bool *foreign, const char *path,
                            const char *weights, bool part, smoe_err *err) {
    void *map;
    size_t size;
    int status = -1;
    *result = NULL;
    if (map_file(&map, &size, path, err)) return -1;
    if (!size) return smoe_safetensors_parse(result, "", 0, path, err);
    *foreign = smoe_foreign_begins(map, size);
    if (smoe_file_is_pointer(map, size))
        smoe_fail(err, SMOE_DATA, "%s: " SMOE_FILE_POINTER, path);
    else if (*foreign)
        status = smoe_foreign_open(result, map, size, path, weights, part, err);
    else
        status = smoe_safetensors_parse(result, map, size, path, err);
    if (!status && !*foreign)
        smoe_safetensors_own(*result, map, size);
    else
        munmap(map, size);
    return status;
}

/* ---- several files --------------------------------------------------------------------------- */

typedef struct reading {
    const char *path; /* of the index */
    json_t *json, *map;
    smoe_safetensors **shard; /* opened */
    const char **name;        /* their files, borrowed from the map */
    size_t shards;
} reading;

static int index_parse(reading *r, smoe_err *err) {
    char *text = NULL;
    size_t size;
    json_error_t bad;
    if (smoe_file_read(r->path, INDEX_MOST, &text, &size, err)) return -1;
    r->json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &bad);
    free(text);
    if (!r->json)
        return smoe_fail(err, SMOE_DATA, "%s:%d:%d: not an index of shards: %s", r->path, bad.line,
                         bad.column, bad.text);
    r->map = json_object_get(r->json, "weight_map");
    if (!json_is_object(r->map) || !json_object_size(r->map))
        return smoe_fail(err, SMOE_DATA, "%s: not an index of shards: it has no \"weight_map\"",
                         r->path);
    return 0;
}

/* The shard of that file name, in which the index says that the tensor is. It is opened on first
 * use; NULL with err. */
static smoe_safetensors *shard_of(reading *r, const char *tensor, const char *name, smoe_err *err) {
    for (size_t i = r->shards; i-- > 0;)
        if (!strcmp(r->name[i], name)) return r->shard[i];
    if (strchr(name, '/') || !(smoe_text_ends(name, ENDING) || smoe_text_ends(name, ".bin"))) {
        smoe_fail(err, SMOE_DATA,
                  "%s: %.120s is not the name of a safetensors or .bin file in the same folder",
                  r->path, name);
        return NULL;
    }
    SMOE_FREED char *path = smoe_file_beside(r->path, name);
    if (access(path, F_OK)) {
        smoe_fail(err, SMOE_DATA, "%s: tensor %.120s: its file %s is not there", r->path, tensor,
                  path);
        return NULL;
    }
    r->shard = smoe_alloc_next(r->shard, r->shards, sizeof *r->shard);
    r->name = smoe_alloc_next(r->name, r->shards, sizeof *r->name);
    bool foreign;
    if (shards_open_file(&r->shard[r->shards], &foreign, path, NULL, true, err)) return NULL;
    r->name[r->shards] = name;
    return r->shard[r->shards++];
}

/* What the files say of themselves must agree: they could be of different checkpoints. */
static int same_metadata(const reading *r, smoe_err *err) {
    SMOE_FREED smoe_pair *pairs = NULL;
    if (!r->shards) return 0;
    size_t count = smoe_safetensors_pairs(r->shard[0], &pairs);
    for (size_t s = 1; s < r->shards; s++)
        for (size_t i = 0; i < count; i++) {
            const char *there = smoe_safetensors_metadata(r->shard[s], pairs[i].key);
            if (!strncmp(pairs[i].key, "smoe.", 5) && !(there && !strcmp(there, pairs[i].value)))
                return smoe_fail(err, SMOE_DATA,
                                 "%s: %s and %s differ in %s: they do not belong together", r->path,
                                 r->name[0], r->name[s], pairs[i].key);
        }
    return 0;
}

/* Every tensor of the index is in its file, and every tensor of the files in the index. */
static int check_tensors(reading *r, smoe_err *err) {
    const char *tensor;
    json_t *value;
    size_t there = 0;
    uint64_t bytes = 0;
    json_object_foreach(r->map, tensor, value) {
        const char *name = json_string_value(value);
        if (!name)
            return smoe_fail(err, SMOE_DATA, "%s: tensor %.120s: the name of a file was expected",
                             r->path, tensor);
        const smoe_safetensors *shard = shard_of(r, tensor, name, err);
        if (!shard) return -1;
        const smoe_tensor *t = smoe_safetensors_find(shard, tensor);
        if (!t)
            return smoe_fail(err, SMOE_DATA, "%s: tensor %.120s is not in %s", r->path, tensor,
                             name);
        bytes += t->size * smoe_type_bytes(t->type); /* also of types that hold no weights */
    }
    for (size_t s = 0; s < r->shards; s++) there += smoe_safetensors_count(r->shard[s]);
    if (there != json_object_size(r->map))
        return smoe_fail(err, SMOE_DATA, "%s: %zu tensors, but its files have %zu", r->path,
                         json_object_size(r->map), there);
    const json_t *total = smoe_json_at(r->json, "metadata.total_size");
    if (json_is_integer(total) && (uint64_t)json_integer_value(total) != bytes)
        return smoe_fail(err, SMOE_DATA,
                         "%s: total_size is %" JSON_INTEGER_FORMAT ", but the tensors have %" PRIu64
                         " bytes",
                         r->path, json_integer_value(total), bytes);
    return same_metadata(r, err);
}

static void reading_free(reading *r) {
    for (size_t s = 0; s < r->shards; s++) smoe_safetensors_free(r->shard[s]);
    free(r->shard);
    free(r->name);
    json_decref(r->json);
}

int smoe_shards_open(smoe_safetensors **file, const char *path, const char *index, smoe_err *err) {
    SMOE_FREED_BY(reading_free) reading r = {.path = index};
    *file = NULL;
    if (index_parse(&r, err) || check_tensors(&r, err)) return -1;
    *file = smoe_safetensors_join(path, r.shard, r.shards);
    r.shards = 0; /* they are the file's */
    return 0;
}

/* ---- one file or several ------------------------------------------------------------------- */

/* The path of an index, fresh: what was given, or beside a file that is not there. NULL: none. */
static char *index_of(const char *path) {
    if (smoe_text_ends(path, SMOE_SHARDS_INDEX)) return smoe_alloc_text(path);
    if (!access(path, F_OK) || !smoe_shards_there(path)) return NULL;
    return smoe_text_format("%s" SMOE_SHARDS_INDEX, path);
}

int smoe_safetensors_peek(smoe_safetensors **result, const char *path, const char *weights,
                          smoe_err *err) {
    SMOE_FREED char *index = index_of(path);
    bool foreign = false;
    int status = index ? smoe_shards_open(result, path, index, err)
                       : shards_open_file(result, &foreign, path, weights, false, err);
    return status || foreign ? status : rename_tensors(result, weights, err);
}

int smoe_safetensors_open(smoe_safetensors **result, const char *path, smoe_err *err) {
    if (smoe_safetensors_peek(result, path, NULL, err)) return -1;
    if (!smoe_safetensors_verify(*result, err)) return 0;
    smoe_safetensors_free(*result);
    *result = NULL;
    return -1;
}
