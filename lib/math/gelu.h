/* The two GELUs: with the normal distribution function itself, and with its tanh approximation. */
#ifndef SMOE_GELU_H
#define SMOE_GELU_H

typedef enum smoe_gelu { SMOE_GELU_ERF, SMOE_GELU_TANH } smoe_gelu;

#endif
