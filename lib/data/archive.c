/* Files in directories and archives, see archive.h. */
#include "data/archive.h"
#include "base/file.h"
#include "base/limits.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <locale.h>
#include <pthread.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { BLOCK = 1 << 14, TAR_BLOCK = 512, FIRST_GUESS = 1 << 16, ZIP_END = 22 };
#define MOST_MEMBERS (UINT64_C(1) << 24)

int smoe_place_kind_of(smoe_place_kind *kind, const char *path, smoe_err *err) {
    static const char *const ending[] = {".tar", ".tar.gz", ".tgz", ".zip"};
    struct stat st;
    if (stat(path, &st)) return smoe_fail_errno(err, SMOE_DATA, "%s", path);
    *kind = SMOE_PLACE_FILE;
    if (S_ISDIR(st.st_mode)) {
        *kind = SMOE_PLACE_FOLDER;
        return 0;
    }
    if (!S_ISREG(st.st_mode))
        return smoe_fail(err, SMOE_DATA, "%s: neither a directory nor a regular file", path);
    for (size_t i = 0; i < SMOE_COUNT(ending); i++)
        if (smoe_text_ends(path, ending[i])) *kind = SMOE_PLACE_ARCHIVE;
    char first[262] = {0}; /* with the mark of a tar */
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, first, sizeof first) == sizeof first &&
        (!memcmp(first, "PK\3\4", 4) || !memcmp(first + 257, "ustar", 5)))
        *kind = SMOE_PLACE_ARCHIVE;
    if (fd >= 0) close(fd);
    return 0;
}

int smoe_place_prefix(smoe_place_kind kind, const char *path, const char *name, smoe_err *err) {
    if (kind == SMOE_PLACE_FOLDER) return smoe_fail_prefix(err, "%s/%s", path, name);
    if (kind == SMOE_PLACE_ARCHIVE) return smoe_fail_prefix(err, "%s: %s", path, name);
    return smoe_fail_prefix(err, "%s", path);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

int smoe_place_open(const char *path, size_t others) {
    enum { MOST = 64 };
    return others < MOST ? smoe_file_open(path, O_RDONLY, NULL) : -1;
}

static int place_fill(uint8_t *out, int fd, const char *path, uint64_t at, size_t size,
                      smoe_err *err) {
    for (size_t used = 0; used < size;) {
        ssize_t n = pread(fd, out + used, size - used, (off_t)(at + used));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return smoe_fail_errno(err, SMOE_DATA, "%s", path);
        if (!n)
            return smoe_fail(err, SMOE_DATA, "%s: truncated: %zu bytes expected at %llu", path,
                             size, (unsigned long long)at);
        used += (size_t)n;
    }
    out[size] = '\0';
    return 0;
}

int smoe_place_read(uint8_t **bytes, int fd, const char *path, uint64_t at, size_t size,
                    smoe_err *err) {
    int from = fd < 0 ? smoe_file_open(path, O_RDONLY, err) : fd;
    *bytes = NULL;
    if (from < 0) return -1;
    uint8_t *out = malloc(size + 1);
    int status = out ? place_fill(out, from, path, at, size, err)
                     : smoe_fail(err, SMOE_RUNTIME, "%s: out of memory for %zu bytes", path, size);
    if (from != fd) close(from);
    if (status) free(out);
    if (!status) *bytes = out;
    return status;
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool hidden_component(const char *name, size_t n) {
    static const char *const litter[] = {
        "__MACOSX",   "Thumbs.db", "ehthumbs.db",  "desktop.ini",
        "Picasa.ini", "@eaDir",    "@Recycle",     "@Recently-Snapshot",
        "#recycle",   "#snapshot", "$RECYCLE.BIN", "System Volume Information",
        "lost+found"};
    if (name[0] == '.') return true;
    for (size_t i = 0; i < SMOE_COUNT(litter); i++)
        if (strlen(litter[i]) == n && !strncasecmp(name, litter[i], n)) return true;
    return false;
}

bool smoe_member_hidden(const char *name) {
    for (;;) {
        size_t n = strcspn(name, "/");
        if (hidden_component(name, n)) return true;
        if (!name[n]) return false;
        name += n + 1;
    }
}

static const char CONTROL[] = "a control character in the name";

/* Why a name is not allowed; NULL: it is. Empty components ("a//b") are refused too. */
static const char *name_trick(const char *name) {
    if (name[0] == '/') return "an absolute name";
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127) return CONTROL;
    for (const char *p = name;;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && !memcmp(p, "..", 2)) return "'..' in the name";
        if (n == 0) return "an empty folder name";
        if (!p[n]) return NULL;
        p += n + 1;
    }
}

/* A name with control characters is not printed; the number of the member is used instead. */
static int refuse_member(const smoe_member *member, const char *why, smoe_err *err) {
    if (why == CONTROL)
        return smoe_fail(err, SMOE_DATA, "%s: member %llu: %s", member->path,
                         (unsigned long long)member->ordinal, why);
    return smoe_fail(err, SMOE_DATA, "%s: %s: %s", member->path, member->name, why);
}

/* ---- archives -------------------------------------------------------------------------------- */

/* An archive being read. gzip data is inflated by zlib and not by libarchive, which ignores the
 * checksum at the end: damage would then change images or lose some of them. libarchive converts
 * names to the character set of the locale, and fails for names marked as UTF-8 with characters
 * that the locale does not have; so this thread uses a UTF-8 locale while it reads. */
typedef struct opened {
    struct archive *archive;
    const char *path;
    gzFile gzip;             /* NULL: the file is not inflated: */
    int file;                /* this one, */
    uint64_t begin, at, end; /* its part that is the archive, and what is still unread of it */
    uint64_t next;           /* of a tar: where its next header is expected */
    bool unread;             /* the file could not be read */
    smoe_scan *scan;
    bool stopped;    /* on request, in a member that may take long */
    bool zip;        /* it begins as one */
    bool lying;      /* its members are read in place (smoe_walk_tar) */
    size_t most;     /* bytes of a member, by the size of the archive */
    locale_t before; /* 0: there is no UTF-8 locale, so the old one is in force */
    size_t filled;   /* bytes of the block that was read last */
    uint8_t block[BLOCK];
} opened;

static int tar_damaged(const opened *o, const char *what, smoe_err *err) {
    return smoe_fail(err, SMOE_DATA, "%s: at byte %llu: %s", o->path, (unsigned long long)o->next,
                     what);
}

/* libarchive only warns about it, and uses the shortened name of the ustar header. */
static bool pax_damaged(const opened *o) {
    const char *why = archive_error_string(o->archive);
    return why && strstr(why, "pax extended attribute");
}

/* The reason why zlib, or else libarchive, could not continue. */
static int archive_failed(const opened *o, const char *name, smoe_err *err) {
    int gzip = Z_OK;
    if (o->stopped) return smoe_scan_asked(o->scan, err);
    const char *why = o->gzip ? gzerror(o->gzip, &gzip) : NULL;
    if (gzip == Z_BUF_ERROR)
        return smoe_fail(err, SMOE_DATA, "%s: gzip data is truncated at byte %lld", o->path,
                         (long long)gzoffset(o->gzip));
    if (gzip == Z_DATA_ERROR) /* zlib's message begins with the path */
        return smoe_fail(err, SMOE_DATA, "%s: damaged gzip data near byte %lld: %s", o->path,
                         (long long)gzoffset(o->gzip), why + strlen(o->path) + 2);
    why = archive_error_string(o->archive);
    bool pax = pax_damaged(o);
    if (pax) why = "a pax header is damaged";
    smoe_code code = archive_errno(o->archive) == ENOMEM ? SMOE_RUNTIME : SMOE_DATA;
    if (o->lying && !o->unread && code == SMOE_DATA)
        return tar_damaged(o,
                           pax                            ? why
                           : o->next + TAR_BLOCK > o->end ? "the archive ends in a header"
                                                          : "not a tar header",
                           err);
    if (o->zip && !archive_format(o->archive))
        return smoe_fail(err, SMOE_DATA, "%s: %s", o->path,
                         o->end - o->begin == ZIP_END
                             ? "a zip archive without files"
                             : "a zip archive whose list of files, which is at its end, is not "
                               "found: the file is cut off or damaged");
    return smoe_fail(err, code, "%s: %s%sat byte %lld of the %sarchive: %s", o->path,
                     name ? name : "", name ? ": " : "",
                     (long long)archive_filter_bytes(o->archive, -1), o->gzip ? "inflated " : "",
                     why ? why : "cannot be read");
}

/* libarchive's read callback: the next block, inflated if necessary; 0 at the end, after the
 * checksum was verified; -1 on failure, and archive_failed gives the reason. */
static la_ssize_t read_block(struct archive *a, void *user, const void **block) {
    opened *o = user;
    uint64_t left = o->end - o->at;
    int code = Z_ERRNO;
    *block = o->block;
    if (smoe_scan_asked(o->scan, NULL)) return o->stopped = true, -1;
    errno = 0;
    la_ssize_t n = o->gzip ? gzread(o->gzip, o->block, BLOCK)
                           : pread(o->file, o->block, left < BLOCK ? left : BLOCK, (off_t)o->at);
    if (o->gzip) (void)gzerror(o->gzip, &code);
    if (n >= 0 && !o->gzip) o->at += (uint64_t)n;
    o->filled = n > 0 ? (size_t)n : 0;
    if (code == Z_OK || (n >= 0 && !o->gzip)) return n;
    o->unread = true;
    archive_set_error(a, code == Z_MEM_ERROR ? ENOMEM : errno, "%s",
                      code == Z_ERRNO ? strerror(errno) : "out of memory inflating");
    return -1;
}

static la_int64_t skip_bytes(struct archive *a, void *user, la_int64_t n) {
    opened *o = user;
    uint64_t left = o->gzip ? 0 : o->end - o->at;
    (void)a;
    if ((uint64_t)n < left) left = (uint64_t)n;
    o->at += left;
    return (la_int64_t)left;
}

static la_int64_t seek_to(struct archive *a, void *user, la_int64_t n, int whence) {
    opened *o = user;
    n += (la_int64_t)(whence == SEEK_SET ? 0 : whence == SEEK_CUR ? o->at : o->end);
    if (n < 0 || (uint64_t)n > o->end) {
        archive_set_error(a, EINVAL, "an offset beyond the end of the file");
        return ARCHIVE_FATAL;
    }
    return (la_int64_t)(o->at = (uint64_t)n);
}

static bool all_zero(const uint8_t *bytes, size_t size) {
    return !size || (!*bytes && !memcmp(bytes, bytes + 1, size - 1));
}

/* Reads what follows the end of a tar: zeros, or the members of another one would be left out. To
 * the end of the file, because a checksum of gzip covers it too. */
static int read_rest(opened *o, smoe_err *err) {
    const void *block;
    la_ssize_t n;
    uint64_t used = (uint64_t)archive_filter_bytes(o->archive, -1);
    size_t ahead = o->gzip ? (size_t)gztell(o->gzip) - used : 0;
    if (ahead > o->filled) ahead = o->filled;
    bool zero = all_zero(o->block + o->filled - ahead, ahead);
    if (!o->gzip) o->at = o->begin + used;
    while ((n = read_block(o->archive, o, &block)) > 0) zero &= all_zero(block, (size_t)n);
    if (n < 0) return archive_failed(o, NULL, err);
    if (zero) return 0;
    return smoe_fail(err, SMOE_DATA,
                     "%s: the tar ends at byte %llu%s, and more follows: archives that were joined "
                     "by cat? `tar --concatenate --file=A.tar B.tar` joins them%s",
                     o->path, (unsigned long long)(o->begin + used),
                     o->gzip ? " of what is unpacked" : "",
                     o->gzip ? " before they are compressed" : "");
}

/* The end of the part of a zip that libarchive needs. It looks for the record at the end of the
 * directory only in the last 16 KiB, but a comment of up to 64 KiB may follow the record. */
static uint64_t zip_end(const opened *o) {
    enum { LONGEST = UINT16_MAX, LENGTH_AT = 20 };
    uint64_t most = ZIP_END + LONGEST, size = o->end - o->begin, tail = size < most ? size : most;
    SMOE_FREED uint8_t *bytes = NULL;
    if (tail < ZIP_END || smoe_place_read(&bytes, o->file, o->path, o->end - tail, tail, NULL))
        return o->end;
    for (uint64_t at = tail - ZIP_END + 1; at-- > 0;) {
        const uint8_t *record = bytes + at, *length = record + LENGTH_AT;
        uint64_t end = at + ZIP_END + length[0] + 256U * length[1];
        if (!memcmp(record, "PK\5\6", 4) && end == tail) return o->end - tail + at + ZIP_END;
    }
    return o->end;
}

static pthread_once_t made_utf8 = PTHREAD_ONCE_INIT;
static locale_t utf8;

static void make_utf8(void) {
    utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
}

static void archive_close(opened *o) {
    if (o->archive) archive_read_free(o->archive);
    if (o->gzip) gzclose_r(o->gzip);
    if (o->file >= 0) close(o->file);
    if (o->before) uselocale(o->before);
}

/* Opens bytes [o->begin, o->begin + size) of the file, or as many as it has; o->archive stays NULL
 * for a tar of no bytes. archive_close must be called after a failure too. */
static int archive_open(opened *o, uint64_t size, smoe_err *err) {
    struct stat st;
    o->file = open(o->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would be waited for */
    if (o->file < 0 || fstat(o->file, &st)) return smoe_fail_errno(err, SMOE_DATA, "%s", o->path);
    if (!S_ISREG(st.st_mode)) return smoe_fail(err, SMOE_DATA, "%s: not a regular file", o->path);
    o->end = (uint64_t)st.st_size;
    o->most = smoe_most_inflated((size_t)st.st_size);
    if (o->begin > o->end) o->begin = o->end;
    if (size < o->end - o->begin) o->end = o->begin + size;
    o->at = o->next = o->begin;
    size = o->end - o->begin;
    ssize_t n = pread(o->file, o->block, size < BLOCK ? size : BLOCK, (off_t)o->at);
    if (n > 0 && smoe_file_is_pointer(o->block, (size_t)n))
        return smoe_fail(err, SMOE_DATA, "%s: " SMOE_FILE_POINTER, o->path);
    bool gzip = n >= 2 && o->block[0] == 0x1f && o->block[1] == 0x8b;
    if (gzip && o->lying)
        return tar_damaged(
            o, "gzip data; a tar that is read without unpacking must be plain: use gunzip", err);
    o->zip = n >= 4 && !memcmp(o->block, "PK", 2);
    if (!gzip && !o->lying) o->end = zip_end(o);
    if (o->lying && o->begin == o->end) return 0; /* libarchive would not recognise it */
    errno = 0;
    if (gzip) o->gzip = gzopen(o->path, "rbe");
    if (gzip && !o->gzip && !errno) smoe_alloc_end();
    if (gzip && !o->gzip) return smoe_fail_errno(err, SMOE_DATA, "%s", o->path);
    pthread_once(&made_utf8, make_utf8);
    if (utf8) o->before = uselocale(utf8);
    o->archive = archive_read_new();
    if (!o->archive) smoe_alloc_end();
    archive_read_support_format_tar(o->archive);
    if (!gzip && !o->lying) archive_read_support_format_zip_seekable(o->archive);
    archive_read_set_read_callback(o->archive, read_block);
    archive_read_set_skip_callback(o->archive, skip_bytes);
    if (!gzip) archive_read_set_seek_callback(o->archive, seek_to);
    archive_read_set_callback_data(o->archive, o);
    return archive_read_open1(o->archive) == ARCHIVE_OK ? 0 : archive_failed(o, NULL, err);
}

char *smoe_member_plain(const char *name) {
    char *plain = smoe_alloc_text(name), *to = plain;
    for (const char *p = name; *p;) { /* each component with its slash */
        size_t n = strcspn(p, "/"), slash = p[n] == '/';
        if (n != 1 || p[0] != '.') {
            memmove(to, p, n + slash);
            to += n + slash;
        }
        p += n + slash;
    }
    *to = '\0';
    if (to > plain + 1 && to[-1] == '/') to[-1] = '\0';
    return plain;
}

/* Why a member is not allowed; NULL: it is. */
static const char *unwanted(struct archive_entry *entry) {
    unsigned type = archive_entry_filetype(entry);
    if (archive_entry_sparse_count(entry))
        return "a sparse file, stored with holes; tar without --sparse stores files whole";
    if (archive_entry_hardlink(entry))
        return "a hard link; only files and folders are accepted, and tar --hard-dereference "
               "stores files";
    if (type != AE_IFDIR && type != AE_IFREG)
        return type == AE_IFLNK ? "a symbolic link; only files and folders are accepted, and tar "
                                  "--dereference stores files"
                                : "a device or pipe; only files and folders are accepted";
    return NULL;
}

/* In a tar whose members are read in place, folders are passed over, what is no plain file is
 * refused, and names are used as they are. */
static int visit_lying(opened *o, smoe_member *member, const char *why, const smoe_visitor *to,
                       smoe_err *err) {
    if (member->folder) return 0;
    if (!*member->name || !smoe_text_printable(member->name))
        return tar_damaged(o, "the name of a member is not printable", err);
    if (why) return refuse_member(member, why, err);
    return to->visit(to->user, member, err) < 0 ? -1 : 0;
}

static int visit_entry(opened *o, struct archive_entry *entry, smoe_member *member,
                       const smoe_visitor *to, smoe_err *err) {
    const char *raw = archive_entry_pathname(entry), *why = unwanted(entry);
    if (!raw) raw = archive_entry_pathname_utf8(entry);
    if (!raw)
        return smoe_fail(err, SMOE_DATA,
                         "%s: member %llu: its name is marked as UTF-8, but is not valid UTF-8",
                         member->path, (unsigned long long)member->ordinal);
    SMOE_FREED char *name = o->lying ? smoe_alloc_text(raw) : smoe_member_plain(raw);
    bool tar = archive_format(o->archive) != ARCHIVE_FORMAT_ZIP;
    const char *trick = name_trick(name);
    member->name = name;
    member->folder = archive_entry_filetype(entry) == AE_IFDIR;
    member->size = archive_entry_size_is_set(entry) ? (uint64_t)archive_entry_size(entry) : 0;
    member->at = tar && !o->gzip ? o->begin + (uint64_t)archive_filter_bytes(o->archive, -1) : 0;
    member->handle = o;
    if (!why && member->at && member->size > o->end - member->at)
        return tar_damaged(o, "the archive ends in a member", err);
    o->next = member->at + (member->size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
    if (o->lying) return visit_lying(o, member, why, to, err);
    if (!name[0]) return 0; /* the root */
    if (trick) return refuse_member(member, trick, err);
    if (smoe_member_hidden(name)) return 0;
    if (why) return refuse_member(member, why, err);
    return to->visit(to->user, member, err) < 0 ? -1 : 0;
}

static int walk_archive(opened *o, uint64_t size, const smoe_visitor *to, smoe_err *err) {
    smoe_member member = {.path = o->path};
    int status = archive_open(o, size, err);
    /* A tar may be empty, and may end without the two empty blocks: many writers leave them out. */
    for (; !status && o->archive; member.ordinal++) {
        struct archive_entry *entry;
        if ((status = smoe_scan_at(to->scan, 0, 0, "files found", err))) break;
        int code = archive_read_next_header(o->archive, &entry);
        if (code == ARCHIVE_EOF) {
            if (to->unclosed && !o->gzip && !o->zip && o->next >= o->end) ++*to->unclosed;
            break;
        }
        if (code < ARCHIVE_WARN || code == ARCHIVE_RETRY ||
            (code == ARCHIVE_WARN && pax_damaged(o)))
            status = archive_failed(o, NULL, err);
        else if (member.ordinal >= MOST_MEMBERS)
            status = smoe_fail(err, SMOE_DATA, "%s: more than %llu members", o->path,
                               (unsigned long long)MOST_MEMBERS);
        else
            status = visit_entry(o, entry, &member, to, err);
    }
    if (!status && o->archive && !o->zip) status = read_rest(o, err);
    archive_close(o);
    return status;
}

/* The memory doubles, so it is never more than twice what was read. */
static int opened_read_entry(const smoe_member *member, size_t most, uint8_t **bytes, size_t *size,
                             smoe_err *err) {
    const opened *o = member->handle;
    if (most > o->most) most = o->most;
    size_t claim = member->size ? (size_t)member->size : FIRST_GUESS;
    size_t room = claim < FIRST_GUESS ? claim : FIRST_GUESS;
    *bytes = smoe_alloc(room + 1, 1);
    for (*size = 0;;) {
        la_ssize_t n = archive_read_data(o->archive, *bytes + *size, room + 1 - *size);
        if (n == ARCHIVE_RETRY) continue;
        if (!n) return 0;
        if (n > 0 && (*size += (size_t)n) <= room) continue;
        uint8_t *larger = n > 0 && room < most ? realloc(*bytes, 2 * room + 1) : NULL;
        if (!larger) break;
        *bytes = larger;
        room = room * 2 < most ? room * 2 : most;
    }
    free(*bytes);
    *bytes = NULL;
    if (*size <= room) return archive_failed(o, member->name, err);
    if (room < most)
        return smoe_fail(err, SMOE_RUNTIME, "%s: %s: out of memory for %zu bytes", member->path,
                         member->name, 2 * room);
    return smoe_fail(err, SMOE_DATA, "%s: %s: more than the %zu bytes accepted", member->path,
                     member->name, most); /* or than its header says */
}

int smoe_member_skim(const smoe_member *member, smoe_err *err) {
    const opened *o = member->handle;
    char block[BLOCK];
    la_ssize_t n;
    do n = archive_read_data(o->archive, block, sizeof block);
    while (n > 0 || n == ARCHIVE_RETRY);
    return n < 0 ? archive_failed(o, member->name, err) : 0;
}

int smoe_member_read(const smoe_member *member, size_t most, uint8_t **bytes, size_t *size,
                     smoe_err *err) {
    if (member->size > most)
        return smoe_fail(err, SMOE_DATA, "%s%s%s: claims %llu bytes, at most %zu are accepted",
                         member->path, member->handle ? ": " : "/", member->name,
                         (unsigned long long)member->size, most);
    if (member->handle) return opened_read_entry(member, most, bytes, size, err);
    SMOE_FREED char *path = smoe_text_format("%s/%s", member->path, member->name);
    char *text = NULL;
    int status = smoe_file_read(path, most, &text, size, err);
    *bytes = (uint8_t *)text;
    return status;
}

/* ---- directories ----------------------------------------------------------------------------- */

/* Why a name that was found cannot be used. Fails if the data is not to blame. */
static int find_problem(const FTSENT *e, smoe_err *problem, smoe_err *err) {
    int code = e->fts_errno;
    struct stat st;
    if (e->fts_info == FTS_SLNONE && stat(e->fts_path, &st)) code = errno;
    if (e->fts_info == FTS_DEFAULT)
        return smoe_fail(problem, SMOE_DATA, "%s: neither a file nor a folder", e->fts_path), 0;
    if (e->fts_info == FTS_SLNONE && code == ENOENT)
        return smoe_fail(problem, SMOE_DATA, "%s: a link to a file that is not there", e->fts_path),
               0;
    bool ours = code == EMFILE || code == ENFILE || code == ENOMEM, fails = ours || !e->fts_level;
    errno = code;
    smoe_fail_errno(fails ? err : problem, ours ? SMOE_RUNTIME : SMOE_DATA, "%s", e->fts_path);
    return fails ? -1 : 0;
}

/* Visits what was found, and enters it if it is a folder. */
static int visit_name(FTS *tree, FTSENT *e, smoe_member *member, const smoe_visitor *to,
                      smoe_err *err) {
    smoe_err problem = {0};
    bool bad = e->fts_info == FTS_DNR || e->fts_info == FTS_NS || e->fts_info == FTS_SLNONE ||
               e->fts_info == FTS_DEFAULT || e->fts_info == FTS_ERR;
    if (e->fts_info == FTS_DP || (!e->fts_level && !bad)) return 0;
    if (e->fts_level && hidden_component(e->fts_name, e->fts_namelen))
        return (void)fts_set(tree, e, FTS_SKIP), 0;
    if (bad && find_problem(e, &problem, err)) return -1;
    member->name = e->fts_path + strlen(member->path);
    member->name += strspn(member->name, "/");
    member->loop = e->fts_info == FTS_DC;
    member->folder = e->fts_info == FTS_D || e->fts_info == FTS_DC || e->fts_info == FTS_DNR;
    member->size = e->fts_info == FTS_F ? (uint64_t)e->fts_statp->st_size : 0;
    member->problem = bad ? &problem : NULL;
    int status = to->visit(to->user, member, err);
    member->ordinal++;
    if (status > 0) (void)fts_set(tree, e, FTS_SKIP);
    return status < 0 ? -1 : 0;
}

/* So that of several mistakes the same one is found first on every file system. */
static int by_name(const FTSENT **a, const FTSENT **b) {
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Links are followed: the tree is the user's own. */
static int walk_folder(const char *path, const smoe_visitor *to, smoe_err *err) {
    FTS *tree = fts_open((char *const[]){(char *)path, NULL}, FTS_LOGICAL | FTS_NOCHDIR, by_name);
    smoe_member member = {.path = path};
    int status = 0;
    if (!tree) return smoe_fail_errno(err, SMOE_RUNTIME, "%s", path);
    for (FTSENT *e; !status;) {
        errno = 0;
        e = fts_read(tree);
        if (!e && errno) status = smoe_fail_errno(err, SMOE_RUNTIME, "%s", path);
        if (!e) break;
        status = smoe_scan_at(to->scan, 0, 0, "files found", err);
        if (!status) status = visit_name(tree, e, &member, to, err);
    }
    fts_close(tree);
    return status;
}

/* ---- either ---------------------------------------------------------------------------------- */

static int visit_file(const char *path, const smoe_visitor *to, smoe_err *err) {
    SMOE_FREED char *folder = smoe_file_folder(path);
    struct stat st;
    if (stat(path, &st)) return smoe_fail_errno(err, SMOE_DATA, "%s", path);
    smoe_member member = {.path = folder, .name = basename(path), .size = (uint64_t)st.st_size};
    return to->visit(to->user, &member, err) < 0 ? -1 : 0;
}

int smoe_walk(const char *path, const smoe_visitor *to, smoe_err *err) {
    smoe_place_kind kind = SMOE_PLACE_FILE;
    if (smoe_place_kind_of(&kind, path, err)) return -1;
    if (kind == SMOE_PLACE_FILE) return visit_file(path, to, err);
    smoe_scan_begin(to->scan);
    return smoe_scan_end(to->scan,
                         kind == SMOE_PLACE_ARCHIVE
                             ? walk_archive(&(opened){.path = path, .file = -1, .scan = to->scan},
                                            UINT64_MAX, to, err)
                             : walk_folder(path, to, err));
}

int smoe_walk_tar(const char *path, uint64_t at, uint64_t size, const smoe_visitor *to,
                  smoe_err *err) {
    opened o = {.path = path, .file = -1, .begin = at, .lying = true, .scan = to->scan};
    return walk_archive(&o, size, to, err);
}
