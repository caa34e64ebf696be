/* `smoe help papers`: what of the two papers is here, and the commands for it, from papers.def. */
#include "cmd.h"

typedef struct paper_entry {
    const char *where, *what, *command, *scale;
} paper_entry;

static const paper_entry papers[] = {
#define PAPER(where, what, command, scale) {where, what, command, scale},
#include "papers.def"
#undef PAPER
};

void smoe_papers_help(void) {
    puts("S: From Sparse to Soft Mixtures of Experts, arXiv:2308.00951v1\n"
         "V: Scaling Vision with Sparse Mixture of Experts, arXiv:2106.05974\n"
         "RUN is a run with a soft router, SPARSE one with Tokens Choice. Commands of\n"
         "experiments/paper/ are at the papers' own scale: append --dry-run.");
    for (size_t i = 0; i < sizeof papers / sizeof *papers; i++) {
        const paper_entry *p = &papers[i];
        printf("\n%s\n  ", p->where);
        smoe_cmd_wrap(stdout, p->what, 2);
        if (p->command) printf("  $ %s\n", p->command);
        if (p->scale) printf("  $ %s\n", p->scale);
    }
}
