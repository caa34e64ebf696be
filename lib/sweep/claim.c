/* Claims on a shared folder; see claim.h. */
#include "sweep/claim.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

enum { TEXT_MOST = 4096 };

/* ---- the file -------------------------------------------------------------------------------- */

static char *claim_text_of(const smoe_claim *claim) {
    char node[128] = "?", place[SMOE_PROCESS_PLACE];
    if (gethostname(node, sizeof node - 1)) node[0] = '?';
    smoe_process_place(place);
    json_auto_t *json = json_pack(
        "{s:o, s:s, s:I, s:I, s:I, s:I, s:o, s:I, s:i}", "node", smoe_json_text(node), "place",
        place, "pid", (json_int_t)getpid(), "began", (json_int_t)smoe_process_began(getpid()),
        "worker", (json_int_t)claim->worker, "worker_began",
        (json_int_t)smoe_process_began(claim->worker), "token", smoe_json_text(claim->token),
        "beat", (json_int_t)claim->beat, "lease_s", (int)claim->lease);
    return json_dumps(json, JSON_COMPACT);
}

/* 1: read; 0: there is none; -1: cannot be read. An empty text is one that is being written, which
 * can be seen only where there are no hard links. */
static int claim_read(const char *path, char text[TEXT_MOST], smoe_err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ESTALE)) return 0;
    ssize_t n = fd < 0 ? -1 : TEMP_FAILURE_RETRY(read(fd, text, TEXT_MOST - 1));
    int status = n < 0 ? smoe_fail_errno(err, SMOE_RUNTIME, "%s: cannot read", path) : 1;
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = '\0';
    return status;
}

/* 1: created with this text; 0: it exists. */
static int create(const char *path, const char *text, smoe_err *err) {
    return smoe_file_write_new(path, text, strlen(text), err);
}

static bool is_token(const char *text, const char *token) {
    json_auto_t *json = json_loads(text, 0, NULL);
    const char *own = json_string_value(json_object_get(json, "token"));
    return own && !strcmp(own, token);
}

typedef enum standing { LIVE, DEAD, UNKNOWN } standing;

/* Whether the holder lives, where that can be seen from here. */
static standing claim_look(const json_t *json) {
    char place[SMOE_PROCESS_PLACE];
    const char *own = json_string_value(json_object_get(json, "place"));
    static const char *const pid[] = {"pid", "worker"}, *const start[] = {"began", "worker_began"};
    smoe_process_place(place);
    if (!own || strcmp(own, place) || !smoe_process_began(getpid())) return UNKNOWN;
    for (size_t i = 0; i < 2; i++) {
        uint64_t then = (uint64_t)json_integer_value(json_object_get(json, start[i]));
        pid_t process = (pid_t)json_integer_value(json_object_get(json, pid[i]));
        if (then && smoe_process_began(process) == then) return LIVE;
    }
    return DEAD;
}

static unsigned lease_of(const json_t *json) {
    json_int_t lease = json_integer_value(json_object_get(json, "lease_s"));
    return lease > 0 && lease < 1000000 ? (unsigned)lease : SMOE_CLAIM_LEASE;
}

/* Whether the claim with that text may be taken over. */
static bool is_over(const char *text, smoe_claim_sight *seen) {
    json_auto_t *json = json_loads(text, 0, NULL);
    standing how = claim_look(json);
    uint32_t sum = (uint32_t)crc32_z(0, (const Bytef *)text, strlen(text));
    unsigned lease = lease_of(json);
    if (how != UNKNOWN || !seen) return how == DEAD;
    if (!seen->since || seen->sum != sum) *seen = (smoe_claim_sight){sum, smoe_now()};
    return smoe_now() - seen->since > lease;
}

/* ---- claims ---------------------------------------------------------------------------------- */

/* The claim of a holder that is gone is replaced by a process that holds a second claim, on
 * PATH.next, and reads the first one again: so no process replaces the claim of a successor. */
static int claim_take(smoe_claim *claim, const char *path, unsigned lease, smoe_claim_seen *seen,
                      size_t level, smoe_err *err) {
    enum { TRIES = 4 };
    char was[TEXT_MOST], now[TEXT_MOST];
    uint64_t bits[2] = {(uint64_t)getpid(), (uint64_t)time(NULL)};
    *claim = (smoe_claim){.lease = lease, .renewed = smoe_now()};
    (void)!getrandom(bits, sizeof bits, 0);
    snprintf(claim->token, sizeof claim->token, "%016" PRIx64 "%016" PRIx64, bits[0], bits[1]);
    SMOE_FREED char *text = claim_text_of(claim), *next = smoe_text_format("%s.next", path);
    int got = create(path, text, err);
    for (int i = 0; !got && i < TRIES; i++) {
        smoe_claim right;
        int there = claim_read(path, was, err);
        if (there <= 0) {
            got = there ? -1 : create(path, text, err);
        } else if (level + 1 == SMOE_CLAIM_LEVELS ||
                   !is_over(was, seen ? &seen->level[level] : NULL)) {
            break;
        } else if ((got = claim_take(&right, next, lease, seen, level + 1, err)) == 1) {
            there = claim_read(path, now, err);
            if (there <= 0)
                got = there ? -1 : create(path, text, err);
            else if (strcmp(now, was))
                got = 0; /* another process was faster */
            else if (smoe_file_write(path, text, strlen(text), err))
                got = -1;
            smoe_claim_release(&right);
        }
    }
    if (got == 1) claim->path = smoe_alloc_text(path);
    return got;
}

int smoe_claim_take(smoe_claim *claim, const char *path, unsigned lease, smoe_claim_seen *seen,
                    smoe_err *err) {
    return claim_take(claim, path, lease, seen, 0, err);
}

/* 1: written; 0: another process has the claim; -1. */
static int rewrite(smoe_claim *claim, smoe_err *err) {
    char now[TEXT_MOST];
    int there = claim_read(claim->path, now, err);
    if (there < 0) return -1;
    if (there && !is_token(now, claim->token)) return 0;
    SMOE_FREED char *text = claim_text_of(claim);
    int got = there ? 1 : create(claim->path, text, err);
    if (there && smoe_file_write(claim->path, text, strlen(text), err)) got = -1;
    return got;
}

int smoe_claim_renew(smoe_claim *claim, pid_t worker, smoe_err *err) {
    double since = smoe_now() - claim->renewed;
    if (worker == claim->worker && since < SMOE_CLAIM_RENEW) return 0;
    smoe_claim next = *claim;
    next.worker = worker;
    next.beat++;
    int got = rewrite(&next, err);
    if (got < 0) return 2 * since < claim->lease ? 0 : -1;
    next.renewed = smoe_now();
    if (got) *claim = next;
    if (got) return 0;
    smoe_fail(err, SMOE_RUNTIME,
              "%s: another process has taken it over, since it was not renewed for %u s",
              claim->path, claim->lease);
    return 1;
}

void smoe_claim_release(smoe_claim *claim) {
    char now[TEXT_MOST];
    if (!claim->path) return;
    if (claim_read(claim->path, now, NULL) > 0 && is_token(now, claim->token)) unlink(claim->path);
    free(claim->path);
    claim->path = NULL;
}

char *smoe_claim_holder(const char *path) {
    char text[TEXT_MOST];
    struct stat st;
    if (claim_read(path, text, NULL) <= 0) return NULL;
    json_auto_t *json = json_loads(text, 0, NULL);
    standing how = claim_look(json);
    /* a time far in the future is that of a clock which does not agree with this one */
    bool old = stat(path, &st) || fabs(difftime(time(NULL), st.st_mtime)) > lease_of(json);
    const char *node = json_string_value(json_object_get(json, "node"));
    long pid = (long)json_integer_value(json_object_get(json, "pid"));
    if (how == DEAD || (how == UNKNOWN && old)) return NULL;
    if (!node) return smoe_alloc_text("another process"); /* still without a name */
    return smoe_text_format("process %ld on %s", pid, node);
}
