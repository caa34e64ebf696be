/* The report without a browser: a self-contained file that makes no requests, well-formed, safe
 * with names that contain markup, not too large, with the numbers of the tables and samples. */
#include "approx.h"
#include "data/decode.h"
#include "draw/figures.h"
#include "draw/overlay.h"
#include "draw/report.h"
#include "sample_tables.h"
#include "scratch.h"
#include "unit.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The page for these frames and samples, to be freed. */
static char *page(const smoe_frame *frames, size_t count, const smoe_sample *samples,
                  size_t sample_count) {
    scratch s;
    char path[SCRATCH_PATH];
    smoe_err err = {0};
    const smoe_report report = {.command = "smoe inspect",
                                .title = "a, <b>&\"c\"'d and choice",
                                .lead = "What the routers of 2 runs do.",
                                .frames = frames,
                                .frame_count = count,
                                .samples = samples,
                                .sample_count = sample_count};
    scratch_make(&s);
    if (smoe_report_write(&report, scratch_path(&s, path, "report.html"), &err))
        fail_msg("%s", err.text);
    char *text = scratch_read(path, NULL);
    scratch_remove(&s);
    return text;
}

static char *sample_tables_page(const sample_tables *d) {
    return page(d->frame, SAMPLE_FRAMES, d->sample, SAMPLE_SAMPLES);
}

/* ---- the page -------------------------------------------------------------------------------- */

static size_t count_of(const char *text, const char *part) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) count++;
    return count;
}

/* Every value of the attribute begins with '#' or is embedded data. */
static void check_attribute(const char *text, const char *name) {
    for (const char *at = text; (at = strstr(at, name)); at++)
        if (strncmp(at + strlen(name), "\"#", 2) && strncmp(at + strlen(name), "\"data:", 6))
            fail_msg("the page reaches out: %.60s", at);
}

static void test_alone(void **state) {
    char *text = sample_tables_page(*state);
    static const char *const calls[] = {"@import",
                                        "fetch(",
                                        "XMLHttpRequest",
                                        "import(",
                                        "WebSocket",
                                        "EventSource",
                                        "sendBeacon",
                                        "<iframe",
                                        "<object",
                                        "<embed",
                                        "<link rel=\"stylesheet"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        assert_int_equal(count_of(text, calls[i]), 0);
    check_attribute(text, " src=");
    check_attribute(text, " href=");
    /* What is referred to by url() is in the page itself. */
    assert_int_equal(count_of(text, "url("), count_of(text, "url(#"));
    /* The only address is the name of the SVG namespace. */
    assert_int_equal(count_of(text, "://"), count_of(text, "'http://www.w3.org/2000/svg'"));
    assert_int_equal(count_of(text, "default-src 'none'"), 1);
    assert_int_equal(count_of(text, "{{"), 0);
    assert_true(!strncmp(text, "<!doctype html>", 15));
    free(text);
}

static bool is_void(const char *name) {
    static const char *const names[] = {"meta", "link", "br", "img", "input", "hr"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

/* The end of a tag that begins at `at`: quoted values may contain '>'. */
static const char *tag_end(const char *at) {
    for (char quote = 0; *at && (quote || *at != '>'); at++)
        if (quote ? *at == quote : *at == '"' || *at == '\'') quote = quote ? 0 : *at;
    return *at ? at : NULL;
}

/* Every element is closed by its own end tag, in order; the contents of script and style are not
 * markup. */
static void test_well_formed(void **state) {
    char *text = sample_tables_page(*state), open[32][16];
    size_t depth = 0, elements = 0;
    for (const char *at = text; at && (at = strchr(at, '<')); elements++) {
        char name[16] = "", end[24];
        bool close = at[1] == '/';
        if (at[1] == '!') {
            at += 2;
            continue;
        }
        for (size_t i = 0; i < 15 && isalnum((unsigned char)at[1 + close + i]); i++)
            name[i] = at[1 + close + i];
        if (!*name) fail_msg("a bare '<': %.60s", at);
        const char *after = tag_end(at);
        if (!after) {
            fail_msg("a tag without its end: %.60s", at);
            break;
        }
        if (close) {
            if (!depth || strcmp(open[--depth], name))
                fail_msg("</%s> closes <%s>", name, depth < 32 ? open[depth] : "");
        } else if (!is_void(name)) {
            assert_true(depth < 32);
            strcpy(open[depth++], name);
        }
        at = after;
        snprintf(end, sizeof end, "</%s", name);
        if (!close && (!strcmp(name, "script") || !strcmp(name, "style"))) at = strstr(at, end);
    }
    assert_int_equal(depth, 0);
    assert_true(elements > 50);
    free(text);
}

static void test_escapes(void **state) {
    char *text = sample_tables_page(*state);
    assert_int_equal(count_of(text, "<b>"), 0);
    assert_int_equal(count_of(text, "a, &lt;b&gt;&amp;&quot;c&quot;&#39;d"),
                     5); /* title, h1, runs, two rows of routing */
    assert_true(count_of(text, "\"a, \\u003cb\\u003e\\u0026\\\"c\\\"'d\"") > 5);
    assert_int_equal(
        count_of(text, "<title>a, &lt;b&gt;&amp;&quot;c&quot;&#39;d and choice</title>"), 1);
    assert_int_equal(count_of(text, "shapes/test/<0>"), 0);
    assert_int_equal(count_of(text, "1\xe2\x80\xaf"
                                    "234\xe2\x80\xaf"
                                    "567"),
                     2);
    free(text);
}

/* Different data give a different report; the same data the same bytes. */
static void test_same(void **state) {
    char *one = sample_tables_page(*state), *two = sample_tables_page(*state);
    assert_string_equal(one, two);
    free(one);
    free(two);
}

/* ---- the data in it -------------------------------------------------------------------------- */

static json_t *data_of(const char *text) {
    static const char start[] = "<script type=\"application/json\" id=\"data\">";
    const char *from = strstr(text, start);
    assert_non_null(from);
    from += strlen(start);
    json_error_t error;
    json_t *data = json_loadb(from, (size_t)(strstr(from, "</script>") - from), 0, &error);
    if (!data) fail_msg("%s", error.text);
    return data;
}

/* The r-th value of a packed column: from its list, or from runs of equal values. */
static json_t *value_at(json_t *column, size_t r) {
    json_t *runs = json_object_get(column, "runs"),
           *value = json_array_get(json_object_get(column, "list"), r);
    for (size_t i = 0; runs && i < json_array_size(runs); i += 2) {
        size_t times = (size_t)json_integer_value(json_array_get(runs, i + 1));
        value = json_array_get(runs, i);
        if (r < times) break;
        r -= times;
    }
    json_t *names = json_object_get(column, "names");
    return names ? json_array_get(names, (size_t)json_integer_value(value)) : value;
}

static void check_cell(const smoe_frame *f, size_t r, size_t c, json_t *value) {
    if (f->column[c].words) {
        assert_string_equal(json_string_value(value), smoe_frame_text_at(f, r, c));
        return;
    }
    double want = smoe_frame_number_at(f, r, c);
    if (isnan(want))
        assert_true(json_is_null(value));
    else if (want == rint(want))
        assert_true(json_number_value(value) == want);
    else /* five digits: half a unit of the last */
        assert_close(json_number_value(value), want, 5e-5 * fabs(want));
}

static void test_tables(void **state) {
    const sample_tables *d = *state;
    char *text = sample_tables_page(d);
    json_t *data = data_of(text);
    for (size_t i = 0; i < SAMPLE_FRAMES; i++) {
        const smoe_frame *f = &d->frame[i];
        json_t *packed = json_object_get(json_object_get(data, "frames"), f->name);
        assert_string_equal(json_string_value(json_object_get(packed, "title")), f->title);
        assert_int_equal(json_integer_value(json_object_get(packed, "rows")), f->rows);
        assert_int_equal(json_array_size(json_object_get(packed, "data")), f->columns);
        for (size_t c = 0; c < f->columns; c++) {
            assert_string_equal(
                json_string_value(json_array_get(json_object_get(packed, "columns"), c)),
                f->column[c].name);
            for (size_t r = 0; r < f->rows; r++)
                check_cell(f, r, c,
                           value_at(json_array_get(json_object_get(packed, "data"), c), r));
        }
    }
    json_decref(data);
    free(text);
}

/* The page has the plots that gnuplot draws: panels, marks, and the rows and columns that they
 * name. */
static void test_plots(void **state) {
    const sample_tables *d = *state;
    char *text = sample_tables_page(d);
    json_t *data = data_of(text), *figures = json_object_get(data, "figures");
    size_t count = 0;
    for (size_t i = 0; smoe_figure_at(i); i++) {
        smoe_plot plot;
        smoe_figure_plot(&plot, smoe_figure_at(i), d->frame, SAMPLE_FRAMES);
        json_t *figure = plot.panels ? json_array_get(figures, count++) : NULL;
        json_t *panels = json_object_get(figure, "panels");
        assert_int_equal(json_array_size(panels), plot.panels);
        for (size_t p = 0; p < plot.panels; p++) {
            const smoe_panel *panel = &plot.panel[p];
            json_t *packed = json_array_get(panels, p), *marks = json_object_get(packed, "marks");
            assert_string_equal(json_string_value(json_object_get(packed, "title")), panel->title);
            assert_close(json_number_value(json_object_get(json_object_get(packed, "y"), "high")),
                         panel->y.high, 1e-9 * fabs(panel->y.high));
            assert_int_equal(json_array_size(marks), panel->marks);
            for (size_t m = 0; m < panel->marks; m++) {
                const smoe_mark *mark = &panel->mark[m];
                json_t *one = json_array_get(marks, m), *rows = json_object_get(one, "rows");
                assert_int_equal(json_integer_value(json_array_get(rows, 0)), mark->rows.first);
                assert_int_equal(json_integer_value(json_array_get(rows, 1)), mark->rows.last);
                assert_string_equal(json_string_value(json_object_get(one, "x")), mark->x);
                assert_string_equal(json_string_value(json_object_get(one, "name")), mark->name);
            }
        }
        smoe_plot_free(&plot);
    }
    assert_int_equal(json_array_size(figures), count);
    assert_int_equal(count, 6);
    json_decref(data);
    free(text);
}

/* The bytes of base64 in newly allocated memory. */
static uint8_t *bytes_of(json_t *value, size_t *size) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *text = json_string_value(value);
    size_t length = json_string_length(value);
    assert_int_equal(length % 4, 0);
    uint8_t *out = calloc(length + 1, 1);
    uint32_t bits = 0;
    *size = 0;
    for (size_t i = 0; i < length && text[i] != '='; i++) {
        const char *at = strchr(letters, text[i]);
        assert_non_null(at);
        bits = bits << 6 | (uint32_t)(at - letters);
        if (i % 4) out[(*size)++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    return out;
}

/* Rows of bytes, in units of 1/255 of their maximum: within half a unit, and within the four
 * digits of the maximum. */
static void check_weights(json_t *image, const char *name, const float *w, size_t rows,
                          size_t columns, size_t row_step, size_t column_step) {
    char most[32];
    size_t size;
    snprintf(most, sizeof most, "%sMax", name);
    uint8_t *byte = bytes_of(json_object_get(image, name), &size);
    assert_int_equal(size, rows * columns);
    for (size_t r = 0; r < rows; r++) {
        double max = json_number_value(json_array_get(json_object_get(image, most), r));
        uint8_t largest = 0;
        for (size_t c = 0; c < columns; c++) {
            uint8_t q = byte[r * columns + c];
            assert_close(q / 255.0 * max, w[r * row_step + c * column_step],
                         max * (0.5 / 255 + 5e-4));
            if (q > largest) largest = q;
        }
        assert_int_equal(largest, 255);
    }
    free(byte);
}

static void check_picture(json_t *image, const smoe_sample *s) {
    size_t size;
    uint8_t *bytes = bytes_of(json_object_get(image, "png"), &size);
    smoe_image want = {0}, got = {0};
    smoe_image_header header;
    smoe_err err = {0};
    assert_int_equal(smoe_overlay_picture(s, &want, &err), 0);
    assert_int_equal(smoe_decode_header(&header, bytes, size, &err), 0);
    assert_int_equal(smoe_decode(&got, &(smoe_image_file){&header, bytes, size}, 3, 1, &err), 0);
    assert_memory_equal(got.pixel, want.pixel, 48);
    smoe_image_free(&want);
    smoe_image_free(&got);
    free(bytes);
}

static void test_samples(void **state) {
    const sample_tables *d = *state;
    char *text = sample_tables_page(d);
    json_t *data = data_of(text), *samples = json_object_get(data, "samples"),
           *run = json_array_get(samples, 0);
    assert_int_equal(json_array_size(samples), 2);
    assert_string_equal(json_string_value(json_object_get(run, "run")), SAMPLE_RUN);
    assert_int_equal(json_array_size(json_object_get(run, "images")), 2);
    for (size_t i = 0; i < 2; i++) {
        const smoe_sample *s = &d->sample[i];
        json_t *image = json_array_get(json_object_get(run, "images"), i);
        assert_string_equal(json_string_value(json_object_get(image, "predictedName")),
                            i ? "dog" : "cat");
        check_picture(image, s);
        for (size_t l = 0; l < 2; l++) {
            json_t *layer = json_array_get(json_object_get(run, "layers"), l);
            json_t *weights = json_array_get(json_object_get(layer, "images"), i);
            assert_int_equal(json_integer_value(json_object_get(layer, "block")), 1 + 2 * l);
            check_weights(weights, "dispatch", s->layer[l].dispatch, 4, 4, 1, 4);
            check_weights(weights, "combine", s->layer[l].combine, 4, 4, 4, 1);
        }
    }
    run = json_array_get(samples, 1);
    assert_int_equal(json_integer_value(json_object_get(run, "first")), 1);
    json_t *layer = json_array_get(json_object_get(run, "layers"), 1);
    json_t *places =
        json_object_get(json_array_get(json_object_get(layer, "images"), 0), "placements");
    char *written = json_dumps(places, JSON_COMPACT);
    assert_string_equal(written, "[[1,0,0.75],[2,0,0.25],[2,1,0.5],[4,1,0.125]]");
    free(written);
    json_decref(data);
    free(text);
}

/* ---- size ------------------------------------------------------------------------------------ */

/* A table that would take more than 6 MB is named, not included; small ones after it are. */
static void test_large_tables(void **state) {
    const sample_tables *d = *state;
    smoe_frame frames[3] = {
        *sample_tables_frame(d, "runs"), {0}, *sample_tables_frame(d, "routing")};
    sample_tables_init(&frames[1], "slot_correlation");
    for (size_t i = 0; i < 500000; i++)
        smoe_frame_put(&frames[1], {"run", .text = "choice"}, {"block", .number = 1},
                       {"slot", .number = (double)(i / 512)},
                       {"other", .number = (double)(i % 512)},
                       {"cosine", .number = 1 / (double)(i + 3)});
    char *text = page(frames, 3, d->sample, 1);
    json_t *data = data_of(text), *packed = json_object_get(data, "frames");
    assert_true(strlen(text) < 200000);
    assert_null(json_object_get(json_object_get(packed, "slot_correlation"), "data"));
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(packed, "slot_correlation"), "rows")),
        500000);
    assert_non_null(json_object_get(json_object_get(packed, "routing"), "data"));
    smoe_frame_free(&frames[1]);
    json_decref(data);
    free(text);
}

/* The largest tables of a model of the size of the papers' S/16: six layers of 128 experts with
 * one slot each, 196 positions. */
static void test_tables_of_the_papers(void **state) {
    const sample_tables *d = *state;
    enum { LAYERS = 6, E = 128, T = 196 };
    smoe_frame frames[2];
    sample_tables_init(&frames[0], "slot_correlation");
    sample_tables_init(&frames[1], "position_expert");
    for (size_t i = 0; i < LAYERS * E * E; i++)
        smoe_frame_put(
            &frames[0], {"run", .text = "soft"}, {"block", .number = 6 + (double)(i / E / E)},
            {"slot", .number = (double)(i / E % E)}, {"other", .number = (double)(i % E)},
            {"cosine", .number = sin((double)i) / 8});
    for (size_t i = 0; i < LAYERS * T * E; i++) {
        double position = (double)(i / E % T), lift = 1 + sin((double)i) / 2;
        smoe_frame_put(&frames[1], {"run", .text = "soft"},
                       {"block", .number = 6 + (double)(i / E / T)},
                       {"position", .number = position}, {"row", .number = floor(position / 14)},
                       {"column", .number = fmod(position, 14)},
                       {"expert", .number = (double)(i % E)}, {"weight", .number = lift / E},
                       {"lift", .number = lift}, {"position_rank", .number = T - position},
                       {"expert_rank", .number = (double)(E - i % E)});
    }
    char *text = page(frames, 2, d->sample, 1);
    json_t *data = data_of(text), *packed = json_object_get(data, "frames");
    for (size_t i = 0; i < 2; i++) {
        assert_non_null(json_object_get(json_object_get(packed, frames[i].name), "data"));
        smoe_frame_free(&frames[i]);
    }
    assert_true(strlen(text) < 6000000);
    json_decref(data);
    free(text);
}

/* Weights of 256 tokens and 1024 slots take 0.7 MB per image: of eight images three are
 * included. */
static void test_large_samples(void **state) {
    const sample_tables *d = *state;
    enum { T = 256, S = 1024, IMAGES = 8 };
    float *w = malloc(T * S * sizeof *w);
    for (size_t i = 0; i < T * S; i++) w[i] = (float)(i % 251) / 251;
    smoe_sample_layer layer = {.block = 1, .E = S, .P = 1, .S = S, .dispatch = w, .combine = w};
    smoe_sample samples[IMAGES];
    for (size_t i = 0; i < IMAGES; i++) {
        samples[i] = d->sample[0];
        samples[i].image = i;
        samples[i].T = T;
        samples[i].side = 16;
        samples[i].layer = &layer;
        samples[i].layers = 1;
    }
    char *text = page(d->frame, SAMPLE_FRAMES, samples, IMAGES);
    json_t *data = data_of(text), *run = json_array_get(json_object_get(data, "samples"), 0);
    assert_true(strlen(text) < 5000000);
    assert_int_equal(json_array_size(json_object_get(run, "images")), 3);
    assert_int_equal(json_integer_value(json_object_get(run, "left")), 5);
    json_decref(data);
    free(text);
    free(w);
}

static void test_refused(void **state) {
    const sample_tables *d = *state;
    smoe_err err = {0};
    const smoe_report report = {
        .command = "", .title = "", .lead = "", .frames = d->frame, .frame_count = SAMPLE_FRAMES};
    assert_int_equal(smoe_report_write(&report, "/nowhere/report.html", &err), -1);
    assert_int_equal(err.code, SMOE_RUNTIME);
    assert_non_null(strstr(err.text, "/nowhere/report.html"));
    size_t size;
    assert_null(smoe_page_part("report", &size));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_well_formed),
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_plots),
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_large_tables),
        cmocka_unit_test(test_tables_of_the_papers),
        cmocka_unit_test(test_large_samples),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, sample_tables_setup, sample_tables_teardown);
}
