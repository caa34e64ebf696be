/* Colours; see palette.h. Those of series are Okabe and Ito's, which are easy to distinguish, a
 * little darker by day and lighter by night, so that thin lines are visible. */
#include "draw/palette.h"

#include <math.h>
#include <stdio.h>

typedef struct shade {
    unsigned rgb[2]; /* by day, by night */
} shade;

static const shade ink = {{0x1c2126, 0xe4e2dd}};
static const shade series[] = {{{0x1f6fb2, 0x5ea9e0}}, {{0xc2571a, 0xee8d52}},
                               {{0x2d8a6b, 0x52c09a}}, {{0xa64f8f, 0xd890c4}},
                               {{0xb98a00, 0xe3b94a}}, {{0x5a9bc4, 0xa3d0ec}}};
static const shade ordered[] = {
    {{0x3f2c73, 0x7c6bc0}}, {{0x3f4b8c, 0x6f86cf}}, {{0x34688e, 0x5a9fcd}}, {{0x28838e, 0x49b3c0}},
    {{0x219a84, 0x4fc4a4}}, {{0x45a869, 0x79d184}}, {{0x7fae45, 0xb0d96a}}, {{0xbda428, 0xecdf6a}}};
static const shade bands[] = {{{0xdceaf5, 0x1f3345}},
                              {{0xb7d5ea, 0x264a69}},
                              {{0x8dbcde, 0x2f638f}},
                              {{0x5f9fcc, 0x3c7fb5}},
                              {{0x3a82b6, 0x5ea0d4}}};
static const shade little_to_much[SMOE_SCALE_STOPS] = {{{0xf6f8fa, 0x1c2128}},
                                                       {{0xc6d9e8, 0x203e5c}},
                                                       {{0x7aaad0, 0x3070a4}},
                                                       {{0x2e6ca0, 0x7ab6de}},
                                                       {{0x0c2c54, 0xecf6fd}}};
static const shade below_to_above[SMOE_SCALE_STOPS] = {{{0x14548c, 0x7ebeec}},
                                                       {{0x7aaad0, 0x306896}},
                                                       {{0xf7f6f3, 0x22262c}},
                                                       {{0xe7a06a, 0xa45826}},
                                                       {{0xac4a0e, 0xfab078}}};
#define COUNT(list) (sizeof(list) / sizeof *(list))

static const char *palette_put(unsigned rgb, char buf[SMOE_COLOUR_TEXT]) {
    snprintf(buf, SMOE_COLOUR_TEXT, "#%06x", rgb & 0xFFFFFF);
    return buf;
}

/* Interpolates between the two nearest colours of the ramp. */
static unsigned on_ramp(double at, bool night) {
    double place = fmin(fmax(at, 0), 1) * (COUNT(ordered) - 1);
    size_t below = (size_t)place, above = below + 1 < COUNT(ordered) ? below + 1 : below;
    unsigned from = ordered[below].rgb[night], to = ordered[above].rgb[night], mixed = 0;
    for (unsigned shift = 0; shift < 24; shift += 8) {
        double low = from >> shift & 0xFF, high = to >> shift & 0xFF;
        mixed |= (unsigned)lrint(low + (place - (double)below) * (high - low)) << shift;
    }
    return mixed;
}

const char *smoe_colour_text(smoe_colour colour, bool night, char buf[SMOE_COLOUR_TEXT]) {
    size_t i = colour.at > 0 ? (size_t)colour.at : 0;
    switch (colour.kind) {
    case SMOE_SERIES: return palette_put(series[i % COUNT(series)].rgb[night], buf);
    case SMOE_BAND: return palette_put(bands[i % COUNT(bands)].rgb[night], buf);
    case SMOE_ORDERED: return palette_put(on_ramp(colour.at, night), buf);
    default: return palette_put(ink.rgb[night], buf);
    }
}

const char *smoe_scale_text(size_t stop, bool diverging, bool night, char buf[SMOE_COLOUR_TEXT]) {
    return palette_put((diverging ? below_to_above : little_to_much)[stop].rgb[night], buf);
}
