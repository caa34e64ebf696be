/* Files that hold their digest; see sealed.h. */
#include "sweep/sealed.h"
#include "base/digest.h"
#include "base/file.h"

#include <string.h>

static const char MARK[] = "\"xxh3\": \"";

int smoe_sealed_write(const char *path, json_t *object, smoe_err *err) {
    json_object_set_new(object, "xxh3", json_string(SMOE_DIGEST_ZEROS));
    SMOE_FREED char *text = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    smoe_digest_seal(text, strlen(text), strlen(text), MARK);
    return smoe_file_write(path, text, strlen(text), err);
}

json_t *smoe_sealed_parse(const char *text, size_t size, const char *path, bool *sealed,
                          smoe_err *err) {
    json_error_t error;
    smoe_seal seal = smoe_digest_sealed(text, size, size, MARK);
    json_t *value = json_loadb(text, size, 0, &error);
    *sealed = seal == SMOE_SEAL_RIGHT;
    if (value && seal != SMOE_SEAL_WRONG) return value;
    if (!value)
        smoe_fail(err, SMOE_DATA, "%s:%d: %s; remove the file to compute it again", path,
                  error.line, error.text);
    else
        smoe_fail(err, SMOE_DATA,
                  "%s: changed since it was written: its digest is another; "
                  "remove the file to compute it again",
                  path);
    json_decref(value);
    return NULL;
}
