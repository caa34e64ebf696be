/* Short names of what folder_listing.h declares, for folder_list.c and folder_settle.c alone. */
#ifndef SMOE_DATA_FOLDER_NAMES_H
#define SMOE_DATA_FOLDER_NAMES_H

#include "data/folder_listing.h"

typedef smoe_folder_image image;
typedef smoe_folder_images images;
typedef smoe_listing listing;
typedef smoe_listing_class class;

enum {
    TRAIN = SMOE_LISTING_TRAIN,
    TEST = SMOE_LISTING_TEST,
    VAL = SMOE_LISTING_VAL,
    SPLITS = SMOE_LISTING_SPLITS,
    LOOSE = SMOE_LISTING_LOOSE,
    PLACES = SMOE_LISTING_PLACES
};

#endif
