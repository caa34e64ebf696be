/* GELU of a vector, with its slope. For files named kern_*.c, as math/simd.h. */
#ifndef SMOE_ACTIVATION_H
#define SMOE_ACTIVATION_H

#include "math/gelu.h"
#include "math/simd.h"

/* erf:  x Phi(x), derivative Phi(x) + x phi(x).
 * tanh: x s(2z), z = sqrt(2/pi)(x + 0.044715 x^3), s the logistic function, since
 *       (1 + tanh z)/2 = s(2z); derivative s + x s(1 - s) 2z'. */
static inline vreal gelu_parts(vreal x, smoe_gelu kind, vreal *slope) {
    if (kind == SMOE_GELU_ERF) {
        vreal density, phi = vnormal(x, &density);
        *slope = phi + x * density;
        return x * phi;
    }
    const real c = (real)0.79788456080286535588, q = (real)0.044715;
    vreal x2 = x * x;
    vreal z2 = 2 * c * (x + q * x2 * x), dz2 = 2 * c * (1 + 3 * q * x2);
    vreal s = 1 / (1 + vexp(-z2));
    *slope = s + x * s * (1 - s) * dz2;
    return x * s;
}

#endif
