/* The files of the report's page and of that of smoe serve as bytes of the library. The assembler
 * reads them; make knows that this file depends on them. */
#include "draw/page.h"

/* PART(symbol, file): the file lies beside this source; the compiler runs at the root of the
 * tree. */
#define PARTS                               \
    PART(report_html, "report.html")        \
    PART(report_css, "report.css")          \
    PART(report_js, "report.js")            \
    PART(report_figure, "report_figure.js") \
    PART(report_viewer, "report_viewer.js") \
    PART(live_html, "live.html")            \
    PART(live_js, "live.js")

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
    extern const char smoe_part_##symbol[], smoe_part_##symbol##_end[];
PARTS
#undef PART

const char *smoe_page_part(const char *name, size_t *size) {
#define PART(symbol, file) {file, smoe_part_##symbol, smoe_part_##symbol##_end},
    const struct { const char *name, *start, *end; } parts[] = {PARTS};
#undef PART
    for (size_t i = 0; i < SMOE_COUNT(parts); i++)
        if (!strcmp(name, parts[i].name)) {
            *size = (size_t)(parts[i].end - parts[i].start);
            return parts[i].start;
        }
    return NULL;
}
