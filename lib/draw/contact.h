/*
 * A sheet of images of a data set, a row per class: as evaluations have them and, if data.augment
 * changes anything, the same images beside them as training has them.
 */
#pragma once

#include "data/dataset.h"

/* FOLDER/contact-images.png, and from it by gnuplot (smoe_gnuplot_draw) contact.png and contact.svg
 * with the names of the classes. */
int smoe_contact_write(const smoe_dataset *set, const smoe_spec *spec, const char *folder,
                       bool *drawn, smoe_err *err) SMOE_MUST_CHECK;
