/* The files of the report's page as bytes of the library. The assembler reads them; make knows that
 * this file depends on them. */
#include "draw/page.h"

#include <string.h>

/* FILE lies beside this source; the compiler runs at the root of the tree. */
#define PART(symbol, file)                          \
    __asm__(".pushsection .rodata\n"                \
            ".global smoe_part_" #symbol "\n"       \
            ".hidden smoe_part_" #symbol "\n"       \
            "smoe_part_" #symbol ":\n"              \
            ".incbin \"lib/draw/" file "\"\n"       \
            ".global smoe_part_" #symbol "_end\n"   \
            ".hidden smoe_part_" #symbol "_end\n"   \
            "smoe_part_" #symbol "_end:\n.byte 0\n" \
            ".popsection\n");                       \
    extern const char smoe_part_##symbol[], smoe_part_##symbol##_end[]

PART(html, "report.html");
PART(css, "report.css");
PART(js, "report.js");
PART(figure, "report_figure.js");
PART(viewer, "report_viewer.js");
PART(live_html, "live.html");
PART(live_css, "live.css");
PART(live_js, "live.js");

const char *smoe_page_part(const char *name, size_t *size) {
    const struct {
        const char *name, *start, *end;
    } parts[] = {
        {"report.html", smoe_part_html, smoe_part_html_end},
        {"report.css", smoe_part_css, smoe_part_css_end},
        {"report.js", smoe_part_js, smoe_part_js_end},
        {"report_figure.js", smoe_part_figure, smoe_part_figure_end},
        {"report_viewer.js", smoe_part_viewer, smoe_part_viewer_end},
        {"live.html", smoe_part_live_html, smoe_part_live_html_end},
        {"live.css", smoe_part_live_css, smoe_part_live_css_end},
        {"live.js", smoe_part_live_js, smoe_part_live_js_end},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (!strcmp(name, parts[i].name)) {
            *size = (size_t)(parts[i].end - parts[i].start);
            return parts[i].start;
        }
    return NULL;
}
