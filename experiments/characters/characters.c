/*
 * Writes an image folder of Chinese characters as a tar file: SPLIT/CLASS/NUMBER.png, 32 pixels
 * square, a class per character, drawn with the faces below by FreeType. Splits: train and test are
 * drawn alike; val is drawn in a face that the others never show (eval.split=val). It is the data
 * of experiments/characters.yaml, a program beside libsmoe, not part of it.
 *
 * An image is a function of (seed, split, character, number) alone. What is not integer arithmetic
 * is +, -, *, / on doubles, without functions whose last bit depends on the machine, and PNG files
 * hold their rows uncompressed (they are noise), so the same fonts and the same FreeType give the
 * same archive, byte for byte. Its first member, README, says which they were.
 */
#include "base/rng.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <ft2build.h>
#include <getopt.h>
#include <iconv.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include FT_FREETYPE_H
#include FT_OUTLINE_H

enum {
    SIDE = 32,      /* of an image, pixels */
    EM = 64 * 64,   /* units of an outline per em: FreeType's 64ths of a pixel at 64 pixels */
    LATTICE = 5,    /* points of a texture, each way */
    FIRST = 0x4e00, /* the unified ideographs of Unicode 1.1 */
    LAST = 0x9fa5,
    MOST_CLASSES = 20000,
    MOST_IMAGES = 100000 /* per class and split, in the mean */
};

typedef struct options {
    size_t classes, train, test, channels;
    double zipf;    /* offset of Zipf's law, 0: classes are equally frequent */
    double distort; /* factor of everything that place() draws */
    double light;   /* share of images with light ink on dark */
    uint64_t seed;
    const char *path;
} options;

static _Noreturn void die(int status, const char *format, ...) SMOE_PRINTF(2, 3);
static void die(int status, const char *format, ...) {
    va_list list;
    va_start(list, format);
    fputs("characters: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(status);
}

/* ---- faces ----------------------------------------------------------------------------------- */

static const struct {
    const char *package, *path;
    long index; /* within a collection: the face with the forms of mainland China */
    const char *family;
} source[] = {
    {"fonts-noto-cjk", "opentype/noto/NotoSansCJK-Regular.ttc", 2, "Noto Sans CJK SC"},
    {"fonts-noto-cjk", "opentype/noto/NotoSansCJK-Bold.ttc", 2, "Noto Sans CJK SC"},
    {"fonts-noto-cjk", "opentype/noto/NotoSerifCJK-Regular.ttc", 2, "Noto Serif CJK SC"},
    {"fonts-noto-cjk", "opentype/noto/NotoSerifCJK-Bold.ttc", 2, "Noto Serif CJK SC"},
    {"fonts-arphic-uming", "truetype/arphic/uming.ttc", 0, "AR PL UMing CN"},
    {"fonts-arphic-ukai", "truetype/arphic/ukai.ttc", 0, "AR PL UKai CN"},
    {"fonts-wqy-microhei", "truetype/wqy/wqy-microhei.ttc", 0, "WenQuanYi Micro Hei"},
    {"fonts-wqy-zenhei", "truetype/wqy/wqy-zenhei.ttc", 0, "WenQuanYi Zen Hei"},
    {"fonts-lxgw-wenkai", "truetype/lxgw-wenkai/LXGWWenKai-Regular.ttf", 0, "LXGW WenKai"},
};
enum { FACES = sizeof source / sizeof *source, HELD_OUT = FACES - 1 };

typedef struct faces {
    FT_Library library;
    FT_Face face[FACES];
} faces;

static void font_path(char path[256], size_t k) {
    snprintf(path, 256, "/usr/share/fonts/%s", source[k].path);
}

static faces open_faces(void) {
    faces f;
    char path[256];
    if (FT_Init_FreeType(&f.library)) die(1, "FreeType does not start");
    for (size_t k = 0; k < FACES; k++) {
        font_path(path, k);
        if (FT_New_Face(f.library, path, source[k].index, &f.face[k]))
            die(1, "%s: cannot be opened; the package %s has it", path, source[k].package);
        if (strcmp(f.face[k]->family_name, source[k].family) != 0)
            die(1, "%s: face %ld is %s, not %s", path, source[k].index, f.face[k]->family_name,
                source[k].family);
        if (FT_Set_Pixel_Sizes(f.face[k], 0, EM / 64)) die(1, "%s: FreeType cannot scale it", path);
    }
    return f;
}

/* The outline of a character, EM units per em, or NULL where the face has none. */
static FT_Outline *outline_of(FT_Face face, uint32_t character) {
    FT_UInt glyph = FT_Get_Char_Index(face, character);
    if (!glyph || FT_Load_Glyph(face, glyph, FT_LOAD_NO_HINTING | FT_LOAD_NO_BITMAP) ||
        face->glyph->format != FT_GLYPH_FORMAT_OUTLINE || !face->glyph->outline.n_points)
        return NULL;
    return &face->glyph->outline;
}

/* ---- classes --------------------------------------------------------------------------------- */

typedef struct class {
    uint32_t character;
    unsigned level; /* of GB 2312: 1 common, 2 less so, 3 not in it */
    uint64_t key;
    size_t drawn; /* faces that training draws it in, */
    uint8_t face[FACES];
    size_t images; /* and how many images of it there are to train with */
} class;

static unsigned level_of(iconv_t to_gb, uint32_t character) {
    char utf[4] = {(char)(0xe0 | character >> 12), (char)(0x80 | (character >> 6 & 0x3f)),
                   (char)(0x80 | (character & 0x3f))};
    char gb[2] = {0}, *in = utf, *out = gb;
    size_t in_left = 3, out_left = 2;
    iconv(to_gb, NULL, NULL, NULL, NULL);
    if (iconv(to_gb, &in, &in_left, &out, &out_left) == (size_t)-1 || out_left) return 3;
    return (unsigned char)gb[0] < 0xd8 ? 1 : 2; /* level 1 is rows 16 to 55 */
}

static int compare_classes(const void *x, const void *y) {
    const class *a = x, *b = y;
    if (a->level != b->level) return a->level < b->level ? -1 : 1;
    return (a->key > b->key) - (a->key < b->key);
}

/* In how many faces of training there is an outline; 0 where the face held out has none. */
static size_t faces_with(const faces *f, class *c) {
    c->drawn = 0;
    if (!outline_of(f->face[HELD_OUT], c->character)) return 0;
    for (size_t k = 0; k < HELD_OUT; k++)
        if (outline_of(f->face[k], c->character)) c->face[c->drawn++] = (uint8_t)k;
    return c->drawn;
}

/* Images of the class of rank r to train with: `train`, or in proportion to 1/(r + zipf) with
 * `train` as their mean, one at least. */
static void share_images(class *c, const options *o) {
    double sum = 0, all = (double)o->train * (double)o->classes;
    for (size_t r = 0; r < o->classes; r++) sum += 1 / ((double)r + o->zipf);
    for (size_t r = 0; r < o->classes; r++) {
        size_t share = (size_t)(all / (((double)r + o->zipf) * sum) + .5);
        c[r].images = o->zipf == 0 ? o->train : share ? share : 1;
    }
}

/* The first `classes` characters by level, in an order within it that is random but always the
 * same: neither the number of classes nor the seed changes who comes first. */
static class *choose_classes(const faces *f, const options *o) {
    enum { ALL = LAST - FIRST + 1 };
    class *c = calloc(ALL, sizeof *c);
    iconv_t to_gb = iconv_open("GB2312", "UTF-8");
    if (!c) die(1, "out of memory");
    if (to_gb == (iconv_t)-1) die(1, "the C library does not know GB2312");
    for (uint32_t k = 0; k < ALL; k++) {
        smoe_rng rng = smoe_rng_at(0, SMOE_RNG_LABELS, 0, 0, FIRST + k);
        c[k] = (class){
            .character = FIRST + k, .level = level_of(to_gb, FIRST + k), .key = smoe_rng_u64(&rng)};
    }
    iconv_close(to_gb);
    qsort(c, ALL, sizeof *c, compare_classes);
    size_t count = 0;
    for (size_t k = 0; k < ALL && count < o->classes; k++) {
        class candidate = c[k];
        if (faces_with(f, &candidate) > 1) c[count++] = candidate;
    }
    if (count < o->classes) die(1, "the fonts have %zu characters in common", count);
    share_images(c, o);
    return c;
}

/* ---- an image -------------------------------------------------------------------------------- */

static double between(smoe_rng *rng, double low, double high) {
    return low + (high - low) * smoe_rng_uniform(rng);
}

static FT_Pos rounded(double x) {
    FT_Pos below = (FT_Pos)x - (x < 0);
    return below + (x - (double)below >= .5);
}

/*
 * Bends, shears, stretches, rotates, scales and places an outline: in ems about the centre of the
 * character's square,
 *     (u, v) -> (u + p v^2, v + q u^2) -> (w (u + k v), v) -> rotated by 2 atan(t) -> side (u, v)
 * and from there to the image, 64 units per pixel and y upwards.
 */
static void place(FT_Outline *outline, double much, smoe_rng *rng) {
    const double middle = .38; /* of a character above its baseline, in all of these faces */
    double x = SIDE / 2. + much * between(rng, -1.5, 1.5);
    double y = SIDE / 2. + much * between(rng, -1.5, 1.5);
    double side = 27 * (1 + much * between(rng, -.1, .08)), w = 1 + much * between(rng, -.08, .08);
    double p = much * between(rng, -.1, .1), q = much * between(rng, -.1, .1);
    double k = much * between(rng, -.1, .1), t = much * between(rng, -.05, .05);
    double cosine = (1 - t * t) / (1 + t * t), sine = 2 * t / (1 + t * t);
    for (FT_Vector *point = outline->points; point < outline->points + outline->n_points; point++) {
        double u = (double)point->x / EM - .5, v = (double)point->y / EM - middle;
        double bent = u + p * v * v, risen = v + q * u * u, wide = w * (bent + k * risen);
        point->x = rounded(64 * (x + side * (cosine * wide - sine * risen)));
        point->y = rounded(64 * (y + side * (sine * wide + cosine * risen)));
    }
}

/* A surface: colour, slope and a lattice of random heights, linear between its points. */
typedef struct surface {
    double colour[3], slope[2], height[LATTICE][LATTICE];
} surface;

static surface draw_surface(smoe_rng *rng, double level, double tint, double roughness) {
    surface s;
    for (size_t c = 0; c < 3; c++) s.colour[c] = level + between(rng, -tint, tint);
    for (size_t k = 0; k < 2; k++) s.slope[k] = between(rng, -30, 30);
    for (size_t j = 0; j < LATTICE; j++)
        for (size_t i = 0; i < LATTICE; i++) s.height[j][i] = between(rng, -roughness, roughness);
    return s;
}

/* What a surface adds to its colour at a pixel. */
static double relief(const surface *s, size_t y, size_t x) {
    double down = (double)y / SIDE, right = (double)x / SIDE;
    size_t j = y * (LATTICE - 1) / SIDE, i = x * (LATTICE - 1) / SIDE;
    double v = down * (LATTICE - 1) - (double)j, u = right * (LATTICE - 1) - (double)i;
    double above = s->height[j][i] * (1 - u) + s->height[j][i + 1] * u;
    double below = s->height[j + 1][i] * (1 - u) + s->height[j + 1][i + 1] * u;
    return s->slope[0] * (down - .5) + s->slope[1] * (right - .5) + above * (1 - v) + below * v;
}

/* About normal, of variance 1: a sum of eight random bytes, whose mean is 1020. */
static double noise(smoe_rng *rng) {
    uint64_t word = smoe_rng_u64(rng);
    int sum = -1020;
    for (; word; word >>= 8) sum += (int)(word & 0xff);
    return sum / 209.;
}

/* pixel [SIDE, SIDE, channels]: ink of one surface on a background of another. */
static void paint(uint8_t *pixel, const uint8_t *ink, const options *o, smoe_rng *rng) {
    double dark = between(rng, 10, 130), light = dark + between(rng, 70, 125);
    bool reversed = smoe_rng_uniform(rng) < o->light;
    double tint = o->channels == 1 ? 0 : 35; /* in grey it could hide the ink */
    surface back = draw_surface(rng, reversed ? dark : light, tint, between(rng, 0, 60));
    surface front = draw_surface(rng, reversed ? light : dark, tint, between(rng, 0, 30));
    double grain = between(rng, 0, 20);
    for (size_t y = 0; y < SIDE; y++)
        for (size_t x = 0; x < SIDE; x++) {
            double share = ink[y * SIDE + x] / 255.;
            double shade = (1 - share) * relief(&back, y, x) + share * relief(&front, y, x);
            for (size_t c = 0; c < o->channels; c++) {
                double colour = (1 - share) * back.colour[c] + share * front.colour[c];
                double v = colour + shade + grain * noise(rng) + .5;
                *pixel++ = v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)v;
            }
        }
}

typedef enum split { TRAIN, TEST, VAL, SPLITS } split;
static const char *const split_name[] = {"train", "test", "val"};

static void draw(uint8_t *pixel, const faces *f, const class *c, split s, size_t number,
                 const options *o) {
    smoe_rng rng = smoe_rng_at(o->seed, SMOE_RNG_SHAPES, s, c->character, number);
    size_t face = s == VAL ? HELD_OUT : c->face[smoe_rng_below(&rng, c->drawn)];
    uint8_t ink[SIDE * SIDE] = {0};
    FT_Bitmap bitmap = {.rows = SIDE,
                        .width = SIDE,
                        .pitch = SIDE,
                        .buffer = ink,
                        .num_grays = 256,
                        .pixel_mode = FT_PIXEL_MODE_GRAY};
    FT_Outline *outline = outline_of(f->face[face], c->character);
    double weight = between(&rng, -.04, .04); /* below 0, half of the time: as the face is */
    if (!outline || FT_Outline_Embolden(outline, weight > 0 ? rounded(weight * EM) : 0))
        die(1, "U+%04X: FreeType cannot load it from %s", (unsigned)c->character,
            source[face].path);
    place(outline, o->distort, &rng);
    if (FT_Outline_Get_Bitmap(f->library, outline, &bitmap))
        die(1, "U+%04X: FreeType cannot draw it from %s", (unsigned)c->character,
            source[face].path);
    paint(pixel, ink, o, &rng);
}

/* ---- files ----------------------------------------------------------------------------------- */

enum { MOST_ROWS = SIDE * (1 + 3 * SIDE), MOST_PNG = MOST_ROWS + 128 };

static uint8_t *put_u32(uint8_t *at, uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) *at++ = (uint8_t)(value >> shift);
    return at;
}

static uint8_t *put_chunk(uint8_t *at, const char *kind, const uint8_t *data, size_t size) {
    uint8_t *start = put_u32(at, (uint32_t)size);
    memcpy(start, kind, 4);
    memcpy(start + 4, data, size);
    return put_u32(start + 4 + size, (uint32_t)crc32(0, start, (uInt)size + 4));
}

/* PNG (ISO/IEC 15948): header, one block of stored bytes as the zlib stream, end. */
static size_t png(uint8_t *out, const uint8_t *pixel, size_t channels) {
    size_t row = channels * SIDE, size = SIDE * (1 + row);
    uint8_t header[13] = {0}, data[MOST_ROWS + 16], *at = data;
    put_u32(put_u32(header, SIDE), SIDE);
    header[8] = 8;                     /* bits per sample */
    header[9] = channels == 1 ? 0 : 2; /* grey, colour */
    const uint8_t begin[] = {0x78, 1, 1, size & 0xff, size >> 8, ~size & 0xff, ~size >> 8 & 0xff};
    memcpy(at, begin, sizeof begin);
    at += sizeof begin;
    uint8_t *rows = at;
    for (size_t y = 0; y < SIDE; y++, at += row) {
        *at++ = 0; /* filter: none */
        memcpy(at, pixel + y * row, row);
    }
    at = put_u32(at, (uint32_t)adler32(1, rows, (uInt)size));
    memcpy(out, "\x89PNG\r\n\x1a\n", 8);
    uint8_t *end = put_chunk(out + 8, "IHDR", header, sizeof header);
    end = put_chunk(end, "IDAT", data, (size_t)(at - data));
    return (size_t)(put_chunk(end, "IEND", data, 0) - out);
}

typedef struct tar {
    struct archive *archive;
    struct archive_entry *entry;
    const char *path;
} tar;

static void check(const tar *t, int status) {
    if (status != ARCHIVE_OK) die(1, "%s: %s", t->path, archive_error_string(t->archive));
}

static tar open_tar(const char *path) {
    tar t = {archive_write_new(), archive_entry_new(), path};
    if (!t.archive || !t.entry) die(1, "out of memory");
    check(&t, archive_write_set_format_ustar(t.archive));
    check(&t, archive_write_open_filename(t.archive, path));
    return t;
}

static void add(const tar *t, const char *name, const void *bytes, size_t size) {
    archive_entry_clear(t->entry);
    archive_entry_set_pathname(t->entry, name);
    archive_entry_set_filetype(t->entry, AE_IFREG);
    archive_entry_set_perm(t->entry, 0644);
    archive_entry_set_mtime(t->entry, 0, 0);
    archive_entry_set_size(t->entry, (la_int64_t)size);
    check(t, archive_write_header(t->archive, t->entry));
    if (archive_write_data(t->archive, bytes, size) != (la_ssize_t)size) check(t, ARCHIVE_FATAL);
}

static void close_tar(tar *t) {
    check(t, archive_write_close(t->archive));
    archive_write_free(t->archive);
    archive_entry_free(t->entry);
}

static uint32_t checksum(const char *path) {
    uint8_t bytes[1 << 16];
    uLong sum = 0;
    size_t n;
    FILE *file = fopen(path, "rb");
    if (!file) die(1, "%s: %s", path, strerror(errno));
    while ((n = fread(bytes, 1, sizeof bytes, file)) > 0) sum = crc32(sum, bytes, (uInt)n);
    if (ferror(file)) die(1, "%s: cannot be read", path);
    fclose(file);
    return (uint32_t)sum;
}

static void add_readme(const tar *t, const faces *f, const options *o) {
    char text[4096], path[256];
    int major, minor, patch;
    FT_Library_Version(f->library, &major, &minor, &patch);
    int n = snprintf(text, sizeof text,
                     "characters --classes %zu --train %zu --test %zu --zipf %g --distort %g "
                     "--light %g --channels %zu --seed %llu\n"
                     "Drawn by FreeType %d.%d.%d with these faces, the last in val/ only (CRC-32 "
                     "of the file, face):\n",
                     o->classes, o->train, o->test, o->zipf, o->distort, o->light, o->channels,
                     (unsigned long long)o->seed, major, minor, patch);
    for (size_t k = 0; k < FACES; k++) {
        font_path(path, k);
        n += snprintf(text + n, sizeof text - (size_t)n, "    %08x %s %s, of %s\n",
                      (unsigned)checksum(path), f->face[k]->family_name, f->face[k]->style_name,
                      source[k].package);
    }
    add(t, "README", text, (size_t)n);
}

/* ---- command line ---------------------------------------------------------------------------- */

static const char usage[] =
    "usage: characters [options] FILE.tar\n"
    "Chinese characters in several fonts, as an image folder to train on.\n"
    "  -c, --classes N    characters, the most common ones first [1000]\n"
    "  -m, --train N      images per character to train with [100]\n"
    "  -k, --test N       to test with; as many more, in val/, in a font not trained on [10]\n"
    "  -z, --zipf X       training images in proportion to 1/(rank + X), rank 0 first; -m is "
    "their\n"
    "                     mean; 0: all alike [0]\n"
    "  -d, --distort X    0 to 4: how much is moved, scaled, bent, sheared and turned [1]\n"
    "  -l, --light X      0 to 1: share of images with light ink on dark [0]\n"
    "      --channels N   1 grey or 3 colour [1]\n"
    "  -s, --seed N       other images of the same characters [0]\n";

static double number(const char *name, const char *text, double low, double high) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= low && value <= high))
        die(2, "--%s: a number from %g to %g, not '%s'", name, low, high, text);
    return value;
}

static size_t integer(const char *name, const char *text, double low, double high) {
    double value = number(name, text, low, high);
    if (value != (double)(size_t)value) die(2, "--%s: an integer, not '%s'", name, text);
    return (size_t)value;
}

static options parse(int argc, char **argv) {
    static const struct option known[] = {{"classes", 1, NULL, 'c'}, {"train", 1, NULL, 'm'},
                                          {"test", 1, NULL, 'k'},    {"zipf", 1, NULL, 'z'},
                                          {"seed", 1, NULL, 's'},    {"channels", 1, NULL, 'C'},
                                          {"distort", 1, NULL, 'd'}, {"light", 1, NULL, 'l'},
                                          {"help", 0, NULL, 'h'},    {0}};
    options o = {.classes = 1000, .train = 100, .test = 10, .distort = 1, .channels = 1};
    for (int c; (c = getopt_long(argc, argv, "c:m:k:z:d:l:s:h", known, NULL)) != -1;) {
        switch (c) {
        case 'c': o.classes = integer("classes", optarg, 2, MOST_CLASSES); break;
        case 'm': o.train = integer("train", optarg, 1, MOST_IMAGES); break;
        case 'k': o.test = integer("test", optarg, 1, MOST_IMAGES); break;
        case 'z': o.zipf = number("zipf", optarg, 0, 1e6); break;
        case 'd': o.distort = number("distort", optarg, 0, 4); break;
        case 'l': o.light = number("light", optarg, 0, 1); break;
        case 's': o.seed = integer("seed", optarg, 0, 0x1p53); break;
        case 'C': o.channels = integer("channels", optarg, 1, 3); break;
        case 'h': fputs(usage, stdout); exit(0);
        default: fputs(usage, stderr); exit(2);
        }
    }
    if (o.channels == 2) die(2, "--channels: 1 or 3, not 2");
    if (optind != argc - 1) {
        fputs(usage, stderr);
        exit(2);
    }
    o.path = argv[optind];
    return o;
}

int main(int argc, char **argv) {
    options o = parse(argc, argv);
    faces f = open_faces();
    class *c = choose_classes(&f, &o);
    char part[4096], name[64];
    uint8_t pixel[3 * SIDE * SIDE], file[MOST_PNG];
    size_t written = 0;
    if ((size_t)snprintf(part, sizeof part, "%s.part", o.path) >= sizeof part)
        die(2, "the name of the archive is too long");
    tar t = open_tar(part);
    add_readme(&t, &f, &o);
    for (split s = 0; s < SPLITS; s++)
        for (size_t k = 0; k < o.classes; k++)
            for (size_t i = 0; i < (s == TRAIN ? c[k].images : o.test); i++, written++) {
                draw(pixel, &f, &c[k], s, i, &o);
                snprintf(name, sizeof name, "%s/U+%04X/%06zu.png", split_name[s],
                         (unsigned)c[k].character, i);
                add(&t, name, file, png(file, pixel, o.channels));
            }
    close_tar(&t);
    if (rename(part, o.path)) die(1, "%s: %s", o.path, strerror(errno));
    printf("%s: %zu images of %zu characters\n", o.path, written, o.classes);
    free(c);
    for (size_t k = 0; k < FACES; k++) FT_Done_Face(f.face[k]);
    FT_Done_FreeType(f.library);
    return 0;
}
