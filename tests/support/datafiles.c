/* See datafiles.h. */
#include "datafiles.h"
#include "scratch.h"
#include "unit.h"

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <turbojpeg.h>
#include <webp/encode.h>
#include <zlib.h>

smoe_spec datafiles_spec(smoe_source source, const char *path, size_t image_size, size_t channels) {
    smoe_spec spec = {0};
    spec.data.source = source;
    spec.data.path = (char *)path;
    spec.data.image_size = image_size;
    spec.data.channels = channels;
    spec.data.mean.item[0] = spec.data.std.item[0] = 0.5;
    spec.data.cache_mb = 64;
    spec.data.shapes.size = 1;
    spec.data.shapes.distractors = 3;
    spec.data.facts.entities = 40;
    spec.data.facts.classes = 4;
    spec.data.facts.cells = 4;
    spec.data.facts.bits = 8;
    spec.data.facts.noise = 8;
    return spec;
}

uint8_t *datafiles_png(const uint8_t *pixel, size_t width, size_t height, size_t channels,
                       size_t *size) {
    static const png_uint_32 format[] = {0, PNG_FORMAT_GRAY, 0, PNG_FORMAT_RGB, PNG_FORMAT_RGBA};
    png_image png = {.version = PNG_IMAGE_VERSION,
                     .width = (png_uint_32)width,
                     .height = (png_uint_32)height,
                     .format = format[channels]};
    png_alloc_size_t room = PNG_IMAGE_PNG_SIZE_MAX(png);
    uint8_t *bytes = malloc(room);
    assert_non_null(bytes);
    assert_true(png_image_write_to_memory(&png, bytes, &room, 0, pixel, 0, NULL));
    *size = room;
    return bytes;
}

uint8_t *datafiles_jpeg(const uint8_t *pixel, size_t width, size_t height, size_t channels,
                        size_t *size) {
    tjhandle tj = tjInitCompress();
    unsigned char *made = NULL;
    unsigned long n = 0;
    int format = channels == 1 ? TJPF_GRAY : channels == 3 ? TJPF_RGB : TJPF_CMYK;
    assert_int_equal(tjCompress2(tj, pixel, (int)width, 0, (int)height, format, &made, &n,
                                 channels == 1 ? TJSAMP_GRAY : TJSAMP_420, 90, 0),
                     0);
    uint8_t *bytes = malloc(n);
    assert_non_null(bytes);
    memcpy(bytes, made, n);
    *size = n;
    tjFree(made);
    tjDestroy(tj);
    return bytes;
}

uint8_t *datafiles_webp(const uint8_t *pixel, size_t width, size_t height, size_t channels,
                        size_t *size) {
    uint8_t *made = NULL;
    int w = (int)width, h = (int)height, stride = (int)(width * channels);
    *size = channels == 4 ? WebPEncodeLosslessRGBA(pixel, w, h, stride, &made)
                          : WebPEncodeLosslessRGB(pixel, w, h, stride, &made);
    assert_true(*size > 0);
    uint8_t *bytes = malloc(*size);
    assert_non_null(bytes);
    memcpy(bytes, made, *size);
    WebPFree(made);
    return bytes;
}

void datafiles_picture(uint8_t *pixel, size_t width, size_t height, size_t channels,
                       unsigned seed) {
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++)
            for (size_t c = 0; c < channels; c++)
                pixel[(y * width + x) * channels + c] =
                    (uint8_t)((x * (3 + c + seed % 5) + y * (7 - 2 * c) + seed * 37) % 256 / 2 +
                              60);
}

void datafiles_tree(const char *folder, const datafile *file, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char path[SCRATCH_PATH];
        assert_true(snprintf(path, sizeof path, "%s/%s", folder, file[i].name) < SCRATCH_PATH);
        for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
            *slash = 0;
            mkdir(path, 0777);
            *slash = '/';
        }
        if (path[strlen(path) - 1] != '/') scratch_write(path, file[i].bytes, file[i].size);
    }
}

static bool ends_with(const char *text, const char *end) {
    return strlen(text) > strlen(end) && !strcmp(text + strlen(text) - strlen(end), end);
}

void datafiles_archive(const char *path, const datafile *file, size_t count) {
    struct archive *a = archive_write_new();
    locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0), before;
    assert_true(utf8 != (locale_t)0);
    before = uselocale(utf8); /* names are marked as UTF-8 */
    if (ends_with(path, ".zip"))
        archive_write_set_format_zip(a);
    else
        archive_write_set_format_pax_restricted(a);
    if (ends_with(path, "gz")) archive_write_add_filter_gzip(a);
    assert_int_equal(archive_write_open_filename(a, path), ARCHIVE_OK);
    for (size_t i = 0; i < count; i++) {
        struct archive_entry *entry = archive_entry_new();
        bool folder = ends_with(file[i].name, "/");
        archive_entry_set_pathname(entry, file[i].name);
        archive_entry_set_filetype(entry, folder ? AE_IFDIR : AE_IFREG);
        archive_entry_set_perm(entry, folder ? 0755 : 0644);
        archive_entry_set_size(entry, folder ? 0 : (la_int64_t)file[i].size);
        assert_int_equal(archive_write_header(a, entry), ARCHIVE_OK);
        if (!folder && file[i].size)
            assert_int_equal(archive_write_data(a, file[i].bytes, file[i].size), file[i].size);
        archive_entry_free(entry);
    }
    assert_int_equal(archive_write_close(a), ARCHIVE_OK);
    archive_write_free(a);
    uselocale(before);
    freelocale(utf8);
}

uint8_t *datafiles_gzip(const void *bytes, size_t n, size_t *size) {
    z_stream z = {.next_in = (Bytef *)bytes, .avail_in = (uInt)n};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t room = deflateBound(&z, n);
    uint8_t *to = malloc(room);
    assert_non_null(to);
    z.next_out = to;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    *size = z.total_out;
    deflateEnd(&z);
    return to;
}

/* What a listing does not look at: the bytes of an image. */
static bool blames_bytes(const char *text) {
    static const char *const word[] = {"damaged", "unknown format", "only JPEG", "an empty file",
                                       "LFS pointer"};
    for (size_t k = 0; k < sizeof word / sizeof *word; k++)
        if (strstr(text, word[k])) return true;
    return false;
}

void datafiles_listed(const smoe_spec *spec, const char *split, const smoe_dataset *opened,
                      const smoe_err *refused) {
    char a[SMOE_IMAGE_NAME], b[SMOE_IMAGE_NAME];
    smoe_dataset *set;
    smoe_err err = {0};
    if (smoe_dataset_list(&set, spec, split, NULL, &err)) {
        assert_null(opened);
        assert_int_equal(err.code, refused->code);
        assert_string_equal(err.text, refused->text);
        return;
    }
    if (!opened && !blames_bytes(refused->text)) fail_msg("listed in spite of %s", refused->text);
    size_t classes = opened ? smoe_dataset_classes(opened) : 0;
    size_t images = opened ? smoe_dataset_images(opened) : 0;
    if (opened) {
        assert_int_equal(smoe_dataset_classes(set), classes);
        assert_int_equal(smoe_dataset_images(set), images);
        assert_int_equal(smoe_dataset_found(set)->remarks, smoe_dataset_found(opened)->remarks);
    }
    for (size_t k = 0; k < classes; k++)
        assert_string_equal(smoe_dataset_class_name(set, k), smoe_dataset_class_name(opened, k));
    for (size_t i = 0; i < images && !smoe_dataset_endless(set); i++) {
        assert_int_equal(smoe_dataset_label(set, i), smoe_dataset_label(opened, i));
        assert_string_equal(smoe_dataset_image_name(set, i, a, sizeof a),
                            smoe_dataset_image_name(opened, i, b, sizeof b));
    }
    smoe_dataset_free(set);
}

void datafiles_refused(const smoe_spec *spec, const char *split, smoe_code code, ...) {
    smoe_dataset *set;
    smoe_err err = {0};
    if (!smoe_dataset_open(&set, spec, split, NULL, &err)) {
        smoe_dataset_free(set);
        fail_msg("%s was accepted", spec->data.path);
    }
    assert_null(set);
    datafiles_listed(spec, split, NULL, &err);
    if (err.code != code) fail_msg("code %d, not %d: %s", (int)err.code, (int)code, err.text);
    va_list words;
    va_start(words, code);
    for (const char *w; (w = va_arg(words, const char *));)
        if (!strstr(err.text, w)) fail_msg("no '%s' in: %s", w, err.text);
    va_end(words);
}
