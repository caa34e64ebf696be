/* Remarks on the losses of a run; see watch.h. */
#include "train/watch.h"
#include "spec/tasks.h"
#include "train/task.h"

static const double memory = 0.95; /* of the running mean of losses, per step */
static const double grows = 3;     /* times the loss of guessing: the loss has grown */
static const double near = 0.98;   /* above this share of the loss of guessing, nothing is learnt */
static const double memorises = 0.5; /* share of the test loss, above that of guessing or risen */
static const double risen = 1.2;     /* times the least test loss */
enum { SOON = 200, LATE = 1000, LABELS = 10000 };

/* -p log p, in nats. */
static double surprise(double p) {
    return p > 0 ? -p * log(p) : 0;
}

/* Of the best constant prediction: the entropy of the class, or with a sigmoid per class the sum of
 * the entropies of having it. */
static double loss_of_guessing(const smoe_spec *spec, const smoe_dataset *train, size_t N) {
    size_t images = smoe_dataset_images(train), count = images < LABELS ? images : LABELS;
    SMOE_FREED double *share = smoe_alloc(N, sizeof *share);
    double sum = 0;
    if (smoe_task_pairs(spec->train.loss) || !count) return log((double)N);
    for (size_t i = 0; i < count; i++) {
        int64_t label = (int64_t)smoe_dataset_label(train, i * images / count);
        if (label >= 0 && (size_t)label < N) share[label] += 1 / (double)count;
    }
    for (size_t c = 0; c < N; c++) {
        sum += surprise(share[c]);
        if (smoe_task_of(spec->train.loss)->multi) sum += surprise(1 - share[c]);
    }
    return sum;
}

void smoe_watch_open(smoe_watch *w, const smoe_spec *spec, const smoe_dataset *train, size_t N) {
    *w = (smoe_watch){.spec = spec, .guess = loss_of_guessing(spec, train, N)};
}

/* The running mean, as if it had begun with the losses that it has seen. */
static double mean_loss(const smoe_watch *w) {
    return w->mean / w->weight;
}

static const char *say_grown(smoe_watch *w, uint64_t step) {
    w->grown = true;
    w->state = "loss grows";
    snprintf(w->text, sizeof w->text,
             "step %llu: the loss has grown to %.3g, %.3g times that of guessing: lower "
             "train.optimizer.lr (%g), or set a longer train.schedule.warmup",
             (unsigned long long)step, mean_loss(w), mean_loss(w) / w->guess,
             w->spec->train.optimizer.lr);
    return w->text;
}

static const char *say_guessing(smoe_watch *w, uint64_t step) {
    w->state = "at guessing";
    snprintf(w->text, sizeof w->text,
             "step %llu: the loss is %.4g, that of guessing %.4g: nothing is learnt yet; try a "
             "higher or a lower train.optimizer.lr (%g), or more steps",
             (unsigned long long)step, mean_loss(w), w->guess, w->spec->train.optimizer.lr);
    return w->text;
}

const char *smoe_watch_step(smoe_watch *w, uint64_t step, double loss) {
    uint64_t steps = w->spec->train.steps, half = steps / 2 < LATE ? steps / 2 : LATE;
    w->mean += (1 - memory) * (loss - w->mean);
    w->weight += (1 - memory) * (1 - w->weight);
    double mean = mean_loss(w);
    bool guesses = mean > near * w->guess;
    if (w->state && !guesses) w->state = NULL;
    if (w->guess <= 0) return NULL; /* one class */
    if (!w->grown && w->weight > 0.5 && mean > grows * w->guess) return say_grown(w, step);
    bool time = step >= SOON && (step == half || step == steps);
    if (time && guesses && !w->grown) return say_guessing(w, step);
    return NULL;
}

const char *smoe_watch_eval(smoe_watch *w, uint64_t step, double loss) {
    double mean = mean_loss(w);
    bool worse = w->least_step && loss > risen * w->least, last = step == w->spec->train.steps;
    if (!w->least_step || loss < w->least) {
        w->least = loss;
        w->least_step = step;
    }
    if (!last || w->grown || mean > memorises * loss || !(worse || loss > w->guess)) return NULL;
    snprintf(w->text, sizeof w->text,
             "the model memorises its training images: training loss %.3g, test loss %.3g (lowest "
             "%.3g at step %llu); more images, data.augment, a smaller model or fewer steps help",
             mean, loss, w->least, (unsigned long long)w->least_step);
    return w->text;
}
