/*
 * smoe serve: runs while they train, in a browser of this machine. Only GET, only what is listed in
 * `pages` and runs.json, only on the loopback interface; a request for another host is refused, so
 * that a page from elsewhere cannot read it through a name of its own.
 */
#include "cmd.h"
#include "base/clock.h"
#include "base/stop.h"
#include "draw/report.h"
#include "store/curves.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>

enum {
    PORT = 8008,
    MOST_POINTS = 2000,
    CONNECTIONS = 128, /* at once; of each address: */
    CONNECTIONS_EACH = 64,
    IDLE_SECONDS = 10,
    REQUEST_BYTES = 1 << 14
};

static volatile sig_atomic_t ended;

static void serve_on_signal(int number) {
    (void)number;
    ended = 1;
}

/* ---- runs.json ------------------------------------------------------------------------------- */

/* At most MOST_POINTS of a list, evenly, the last one among them. */
static void serve_add_points(smoe_result *curve, const char *key, const double *value,
                             size_t points) {
    size_t n = points < MOST_POINTS ? points : MOST_POINTS;
    SMOE_FREED double *some = smoe_alloc(n, sizeof *some);
    for (size_t k = 0; k < n; k++)
        some[k] = value[n < 2 ? 0 : (size_t)((double)k * (double)(points - 1) / (double)(n - 1))];
    smoe_result_numbers(curve, key, some, n);
}

/* What the only thread that answers has. */
typedef struct server {
    const smoe_options *options;
    smoe_follow of;
    struct MHD_Response *answer; /* the last one, which all connections share */
    double made, took;
} server;

/* Seconds; a part of the time, that reading runs and making an answer take at most. */
static const double answer_for = 1, share = 10;

/* A run that cannot be read, as one that was removed, is listed with the reason. */
static void serve_add_run(smoe_result *result, const smoe_followed *run) {
    const bool lost = run->problem != NULL;
    smoe_result_facts(
        result, {"run", SMOE_TEXT_OF(run->dir)}, {"status", SMOE_TEXT_OF(run->status)},
        {"problem", SMOE_TEXT_OF(run->problem), .optional = true},
        {"step", .number = lost ? 0 : run->curves.step},
        {"steps", .number = isfinite(run->steps) ? run->steps : 0},
        {smoe_metrics[SMOE_METRIC_WALL_S].name, .number = lost ? NAN : run->curves.wall_s});
    /* of the page's table: heading and curve */
    smoe_result *columns = smoe_result_object(result, "columns");
    smoe_result_facts(columns, {"loss", .text = smoe_metrics[SMOE_METRIC_TRAIN_LOSS].name},
                      {"test loss", .text = smoe_metrics[SMOE_METRIC_LOSS].name},
                      {"test top-1 accuracy", .text = smoe_metrics[SMOE_METRIC_PRECISION].name},
                      {"images/s", .text = smoe_metrics[SMOE_METRIC_IMAGES_PER_S].name});
    smoe_result *curves = smoe_result_object(result, "curves");
    for (size_t k = 0; k < run->curves.count && !lost; k++) {
        const smoe_curve *c = &run->curves.curve[k];
        smoe_result *curve = smoe_result_object(curves, c->name);
        serve_add_points(curve, "step", c->step, c->points);
        serve_add_points(curve, "value", c->value, c->points);
    }
}

/* All runs of all arguments; NULL and err if `strict` and one of them cannot be read. */
static json_t *runs_json(server *s, bool strict, smoe_err *err) {
    SMOE_FREED_BY(smoe_result_free) smoe_result result = {0};
    if (smoe_follow_read(&s->of, s->options->arg, s->options->args, strict, err)) return NULL;
    smoe_result_list(&result, "");
    for (size_t i = 0; i < s->of.runs; i++)
        serve_add_run(smoe_result_part(&result, ""), &s->of.run[i]);
    return smoe_result_json(&result);
}

/* ---- answers --------------------------------------------------------------------------------- */

static struct MHD_Response *response(const char *type, const void *bytes, size_t size,
                                     enum MHD_ResponseMemoryMode mode) {
    struct MHD_Response *r = MHD_create_response_from_buffer(size, (void *)bytes, mode);
    if (!r) return NULL;
    MHD_add_response_header(r, "Content-Type", type);
    MHD_add_response_header(r, "Cache-Control", "no-store");
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(r, "Content-Security-Policy",
                            "default-src 'self'; img-src data:; base-uri 'none'; form-action "
                            "'none'; frame-ancestors 'none'");
    return r;
}

static enum MHD_Result answer(struct MHD_Connection *to, unsigned code, const char *type,
                              const char *text, size_t size) {
    struct MHD_Response *r = response(type, text, size, MHD_RESPMEM_PERSISTENT);
    if (!r) return MHD_NO;
    enum MHD_Result result = MHD_queue_response(to, code, r);
    MHD_destroy_response(r);
    return result;
}

static enum MHD_Result serve_refuse(struct MHD_Connection *to, unsigned code, const char *text) {
    return answer(to, code, "text/plain; charset=utf-8", text, strlen(text));
}

static bool is_local(const char *host) {
    static const char *const names[] = {"localhost", "127.0.0.1"};
    size_t n = host ? strcspn(host, ":") : 0;
    for (size_t i = 0; i < SMOE_COUNT(names); i++)
        if (n == strlen(names[i]) && !strncmp(host, names[i], n)) return true;
    return false;
}

static enum MHD_Result answer_runs(struct MHD_Connection *to, server *s) {
    double now = smoe_now(), fresh = fmax(answer_for, share * s->took);
    if (!s->answer || now - s->made >= fresh) {
        json_auto_t *runs = runs_json(s, false, NULL);
        char *text = smoe_json_dump(runs, 0);
        if (s->answer) MHD_destroy_response(s->answer); /* when it was sent to all */
        s->answer = response("application/json", text, strlen(text), MHD_RESPMEM_MUST_FREE);
        s->made = smoe_now();
        s->took = s->made - now;
    }
    return s->answer ? MHD_queue_response(to, MHD_HTTP_OK, s->answer) : MHD_NO;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *to, const char *url,
                                  const char *method, const char *version, const char *body,
                                  size_t *size, void **state) {
    static const struct {
        const char *url, *part, *type;
    } pages[] = {{"/", "live.html", "text/html; charset=utf-8"},
                 {"/live.js", "live.js", "text/javascript; charset=utf-8"},
                 {"/report_figure.js", "report_figure.js", "text/javascript; charset=utf-8"},
                 {"/report.css", "report.css", "text/css; charset=utf-8"}};
    static int begun;
    (void)version, (void)body;
    if (!*state) { /* headers alone have been read; the answer may follow now */
        *state = &begun;
        return MHD_YES;
    }
    if (*size) { /* what a request carries is dropped; the answer follows behind it */
        *size = 0;
        return MHD_YES;
    }
    if (strcmp(method, "GET") && strcmp(method, "HEAD"))
        return serve_refuse(to, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET");
    if (!is_local(MHD_lookup_connection_value(to, MHD_HEADER_KIND, "Host")))
        return serve_refuse(to, MHD_HTTP_FORBIDDEN, "only for this machine");
    if (!strcmp(url, "/runs.json")) return answer_runs(to, user);
    for (size_t i = 0; i < SMOE_COUNT(pages); i++) {
        size_t length;
        const char *part = smoe_page_part(pages[i].part, &length);
        if (!strcmp(url, pages[i].url)) return answer(to, MHD_HTTP_OK, pages[i].type, part, length);
    }
    return serve_refuse(to, MHD_HTTP_NOT_FOUND, "no such page");
}

/* ---- the command ----------------------------------------------------------------------------- */

int cmd_serve(const smoe_options *options, smoe_err *err) {
    server s = {.options = options};
    long port = options->port ? options->port : PORT;
    if (port > 65535) return smoe_fail(err, SMOE_USAGE, "--port: %ld is above 65535", port);
    json_auto_t *runs = runs_json(&s, true, err); /* reports now what cannot be read */
    if (!runs) return -1;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    errno = 0;
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD, (uint16_t)port, NULL, NULL, on_request,
                         &s, MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_CONNECTION_TIMEOUT,
                         (unsigned)IDLE_SECONDS, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS,
                         MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)CONNECTIONS_EACH,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES, MHD_OPTION_END);
    if (!daemon)
        return smoe_fail(err, SMOE_RUNTIME,
                         "port %ld of 127.0.0.1 cannot be used: %s; --port N takes another one",
                         port, errno ? strerror(errno) : "it may be taken");
    smoe_stop_words(NULL);
    signal(SIGINT, serve_on_signal);
    signal(SIGTERM, serve_on_signal);
    printf("http://127.0.0.1:%ld/\n", port);
    int status = smoe_cmd_flush(err);
    if (!status && !options->quiet) fputs("Ctrl-C ends it\n", stderr);
    while (!status && !ended) (void)poll(NULL, 0, 500);
    MHD_stop_daemon(daemon);
    smoe_follow_free(&s.of);
    if (s.answer) MHD_destroy_response(s.answer);
    return status;
}
