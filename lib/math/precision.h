/* In which precision the operands of products are; sums are in F32 always. */
#pragma once

typedef enum smoe_precision {
    SMOE_PRECISION_F32,    /* as they are */
    SMOE_PRECISION_BF16X3, /* as a number in BF16 and a remainder in BF16; the product of the two
                              remainders is left out: an error of 3 * 2^-16 of each product at
                              most */
    SMOE_PRECISION_BF16    /* rounded to BF16 */
} smoe_precision;
