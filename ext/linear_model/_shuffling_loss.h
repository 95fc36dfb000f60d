/* The losses as functions of the linear predictor z and the target y.
 *
 * `loss` is a compile-time constant wherever these functions are inlined into a loop over rows,
 * so the switch disappears and each loss has a loop of its own.
 */
#ifndef SKML_SHUFFLING_LOSS_H
#define SKML_SHUFFLING_LOSS_H

#include <math.h>

#include "_clones.h"

enum {
    SKML_SQUARED_ERROR = 0,
    SKML_HUBER = 1,
    SKML_LOG_LOSS = 2,
    SKML_SQUARED_HINGE = 3,
    SKML_MODIFIED_HUBER = 4,
    SKML_POISSON = 5,
    SKML_GAMMA = 6,
    SKML_EXPONENTIAL = 7,
    SKML_POWER = 8,
    SKML_N_LOSSES = 9
};

/* f(z); `parameter` is epsilon of "huber" and the exponent of "power". */
SKML_INLINE double skml_loss_value(int loss, double parameter, double z, double y) {
    double r = z - y, m = y * z;
    switch (loss) {
    case SKML_SQUARED_ERROR:
        return 0.5 * r * r;
    case SKML_HUBER:
        r = fabs(r);
        return r <= parameter ? 0.5 * r * r : parameter * r - 0.5 * parameter * parameter;
    case SKML_LOG_LOSS: /* the exponent is never positive, so nothing overflows */
        return log1p(exp(-fabs(m))) + (m < 0 ? -m : 0.0);
    case SKML_SQUARED_HINGE:
        return m < 1 ? (1 - m) * (1 - m) : 0.0 * m;
    case SKML_MODIFIED_HUBER:
        return m >= 1 ? 0.0 : (m >= -1 ? (1 - m) * (1 - m) : -4 * m);
    case SKML_POISSON:
        return exp(z) - y * z;
    case SKML_GAMMA:
        return z + y * exp(-z);
    case SKML_EXPONENTIAL:
        return exp(-m);
    default:
        return pow(fabs(r), parameter) / parameter;
    }
}

/* f'(z) */
SKML_INLINE double skml_loss_slope(int loss, double parameter, double z, double y) {
    double r = z - y, m = y * z;
    switch (loss) {
    case SKML_SQUARED_ERROR:
        return r;
    case SKML_HUBER:
        return r > parameter ? parameter : (r < -parameter ? -parameter : r);
    case SKML_LOG_LOSS:
        return -y / (1 + exp(m));
    case SKML_SQUARED_HINGE:
        return m < 1 ? -2 * y * (1 - m) : 0.0 * m;
    case SKML_MODIFIED_HUBER:
        return m >= 1 ? 0.0 : (m >= -1 ? -2 * y * (1 - m) : -4 * y);
    case SKML_POISSON:
        return exp(z) - y;
    case SKML_GAMMA:
        return 1 - y * exp(-z);
    case SKML_EXPONENTIAL:
        return -y * exp(-m);
    default:
        return copysign(pow(fabs(r), parameter - 1), r);
    }
}

/* f''(z), the one-sided value where it jumps */
SKML_INLINE double skml_loss_curvature(int loss, double parameter, double z, double y) {
    double r = z - y, m = y * z, p;
    switch (loss) {
    case SKML_SQUARED_ERROR:
        return 1.0;
    case SKML_HUBER:
        return fabs(r) <= parameter ? 1.0 : 0.0;
    case SKML_LOG_LOSS:
        p = 1 / (1 + exp(-fabs(m)));
        return p * (1 - p);
    case SKML_SQUARED_HINGE:
        return m < 1 ? 2.0 : 0.0;
    case SKML_MODIFIED_HUBER:
        return m >= -1 && m < 1 ? 2.0 : 0.0;
    case SKML_POISSON:
        return exp(z);
    case SKML_GAMMA:
        return y * exp(-z);
    case SKML_EXPONENTIAL:
        return exp(-m);
    default:
        return (parameter - 1) * pow(fabs(r), parameter - 2);
    }
}

#endif
