/* smoe sweep --slurm; see slurm.h. */
#include "slurm.h"
#include "trial_cost.h"
#include "cmd.h"
#include "base/file.h"
#include "base/threads.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct script {
    const smoe_sweep *sweep;
    const char *program, *folder; /* absolute */
    size_t open;                  /* cells that are not done */
    double megabytes;             /* of the largest cell */
} script;

/* The bytes of training the trial. */
static int slurm_bytes_of(double *bytes, const smoe_trial *trial, const smoe_options *options,
                          smoe_err *err) {
    smoe_spec spec = {0};
    smoe_cost cost = {0};
    size_t classes;
    int status = smoe_trial_cost(&spec, &classes, &cost, trial, options, err);
    *bytes = smoe_cost_bytes(&cost);
    smoe_cost_free(&cost);
    smoe_spec_free(&spec);
    return status;
}

static int slurm_measure(script *s, const smoe_options *options, smoe_err *err) {
    /* the program, its libraries and what the loader keeps, for which there is no formula */
    static const double rest = 1 << 30, margin = 1.2;
    double most = 0, bytes;
    for (size_t i = 0; i < s->sweep->trials; i++) {
        const smoe_trial *trial = &s->sweep->trial[i];
        if (trial->state == SMOE_TRIAL_DONE) continue;
        if (slurm_bytes_of(&bytes, trial, options, err)) return -1;
        most = fmax(most, bytes);
        s->open++;
    }
    s->megabytes = ceil((margin * most + rest) / (1 << 20));
    return 0;
}

static int print_script(FILE *out, const void *context, smoe_err *err) {
    const script *s = context;
    (void)err;
    fprintf(out,
            "#!/bin/sh\n"
            "# Each task of this array takes cells of the sweep until none is left. sbatch's own\n"
            "# options, such as --time, --partition and --array=1-N with fewer tasks, go before\n"
            "# the name of this file.\n"
            "#SBATCH --job-name=%s\n"
            "#SBATCH --array=1-%zu\n"
            "#SBATCH --ntasks=1\n"
            "#SBATCH --cpus-per-task=%d\n"
            "#SBATCH --mem=%.0fM\n"
            "#SBATCH --signal=USR1@120\n"
            "exec srun --ntasks=1 ",
            s->sweep->name, s->open, smoe_threads(), s->megabytes);
    smoe_cmd_put_quoted(out, s->program);
    fputs(" sweep --resume --no-progress -q ", out);
    smoe_cmd_put_quoted(out, s->folder);
    fputc('\n', out);
    return 0;
}

int smoe_slurm_write(const smoe_sweep *sweep, const smoe_options *options, smoe_err *err) {
    char program[PATH_MAX], folder[PATH_MAX];
    script s = {.sweep = sweep, .program = program, .folder = folder};
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0 || !realpath(sweep->dir, folder))
        return smoe_fail_errno(err, SMOE_RUNTIME,
                               "%s: cannot find the path of the program or of %s", options->slurm,
                               sweep->dir);
    program[n] = '\0';
    if (slurm_measure(&s, options, err)) return -1;
    if (!s.open)
        return smoe_fail(err, SMOE_USAGE, "%s: every cell is done, there is no work for a job",
                         sweep->dir);
    if (smoe_file_print(options->slurm, print_script, &s, err)) return -1;
    if (!options->quiet)
        smoe_cmd_print(stdout, "%s: %zu cells of %.0f MB at most; sbatch %s\n", options->slurm,
                       s.open, s.megabytes, options->slurm);
    return 0;
}
