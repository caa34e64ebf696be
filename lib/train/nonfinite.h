/* What is reported where an evaluation finds a number that is not finite. */
#ifndef SMOE_NONFINITE_H
#define SMOE_NONFINITE_H

#include "vit/model.h"

/* SMOE_NONFINITE, naming image and tensor. Returns -1. */
int smoe_nonfinite_image(smoe_model *model, uint64_t image, double loss, smoe_err *err);

#endif
