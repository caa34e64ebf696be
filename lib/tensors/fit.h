/* How far a file may differ from the parameter table of the model that it is read into. */
#ifndef SMOE_FIT_H
#define SMOE_FIT_H

#include <stdbool.h>

typedef enum smoe_fit {
    SMOE_FIT_EXACT,   /* every parameter is there with its shape, and no other tensor */
    SMOE_FIT_RESIZED, /* so, but learned positions of another number of patches are resized */
    SMOE_FIT_INIT,    /* train --init: the whole model up to its head; learned positions of another
                         number of patches are resized; a head that is for another number of
                         classes, or not whole, counts as missing as a whole, and so do slot vectors
                         for another number of slots per expert; a router may be another one */
    SMOE_FIT_PARTIAL, /* train --init --partial: what there is: so, and any tensors may be missing
                         or unknown */
    SMOE_FIT_UPCYCLE /* train --init --upcycle: as SMOE_FIT_INIT, and each expert of a block that is
                         dense in the file starts as a copy of its MLP; there must be one */
} smoe_fit;

/* Whether every parameter must be there, and nothing else, head and all. */
static inline bool smoe_fit_whole(smoe_fit fit) {
    return fit == SMOE_FIT_EXACT || fit == SMOE_FIT_RESIZED;
}

#endif
