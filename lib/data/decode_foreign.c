/* Formats of images that are not read; see decode_foreign.h. */
#include "data/decode_foreign.h"

#include <string.h>

/* HEIC and AVIF files are ISO media files: after the length of the first box come "ftyp" and the
 * name of what the rest is. mif1 and msf1 are the general names, which both use. */
enum { BOX = 4 };

static const struct {
    size_t at, size;
    const char *bytes, *format;
} first[] = {
    {0, 4, "GIF8", "GIF"},         {0, 2, "BM", "BMP"},
    {0, 4, "II*\0", "TIFF"},       {0, 4, "MM\0*", "TIFF"},
    {BOX, 8, "ftypavif", "AVIF"},  {BOX, 8, "ftypavis", "AVIF"},
    {BOX, 8, "ftypheic", "HEIC"},  {BOX, 8, "ftypheix", "HEIC"},
    {BOX, 8, "ftyphevc", "HEIC"},  {BOX, 8, "ftypmif1", "HEIF"},
    {BOX, 8, "ftypmsf1", "HEIF"},  {BOX, 8, "JXL \r\n\x87\n", "JPEG XL"},
    {0, 2, "\xff\x0a", "JPEG XL"}, {BOX, 8, "jP  \r\n\x87\n", "JPEG 2000"},
};

const char *smoe_decode_foreign(const uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if (size >= first[i].at + first[i].size &&
            !memcmp(bytes + first[i].at, first[i].bytes, first[i].size))
            return first[i].format;
    return NULL;
}
