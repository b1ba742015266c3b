/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Floating-point formats that C does not have: f16, bf16, tf32 and the two fp8 formats, as bit patterns. */
#ifndef NUMBER_H
#define NUMBER_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float f32_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* A small format: `exponent` and `mantissa` bits below the sign. `finite`: e4m3, which has no infinity and one NaN. */
static inline double small_to_double(uint32_t bits, int exponent, int mantissa, int finite)
{
    uint32_t sign = bits >> (exponent + mantissa) & 1, fraction = bits & ((1u << mantissa) - 1);
    int power = (int)(bits >> mantissa & ((1u << exponent) - 1)), bias = (1 << (exponent - 1)) - 1, top = (1 << exponent) - 1;
    double value;
    if (power == top && (finite ? fraction == (1u << mantissa) - 1 : fraction != 0))
        value = (double)NAN;
    else if (power == top && !finite)
        value = (double)INFINITY;
    else if (power == 0)
        value = ldexp((double)fraction, 1 - bias - mantissa);
    else
        value = ldexp((double)(fraction | 1u << mantissa), power - bias - mantissa);
    return sign ? -value : value;
}

/* Round to nearest, ties to even. `saturate`: the largest finite number instead of infinity. */
static inline uint32_t small_of_double(double value, int exponent, int mantissa, int finite, int saturate)
{
    int bias = (1 << (exponent - 1)) - 1, top = (1 << exponent) - 1;
    uint32_t sign = signbit(value) ? 1u << (exponent + mantissa) : 0;
    uint32_t all = (1u << (exponent + mantissa)) - 1; /* the NaN with all bits */
    uint32_t infinity = (uint32_t)top << mantissa, largest = finite ? all - 1 : infinity - 1;
    if (isnan(value))
        return finite ? sign | all : all;
    value = fabs(value);
    if (value == 0)
        return sign;
    int power = 0;
    uint32_t rounded = all;
    if (!isinf(value)) {
        (void)frexp(value, &power); /* value = m * 2^power, 0.5 <= m < 1 */
        power -= 1;
        if (power < 1 - bias)
            power = 1 - bias; /* subnormal */
        if (power <= bias + 1) {
            double units = nearbyint(ldexp(value, mantissa - power)); /* in units of the last place */
            rounded = (uint32_t)units + ((uint32_t)(power + bias - 1) << mantissa);
        }
    }
    if (rounded > largest)
        rounded = saturate ? largest : finite ? all : infinity;
    return sign | rounded;
}

static inline float f16_to_f32(uint32_t bits)
{
    uint32_t sign = (bits & 0x8000u) << 16, power = bits >> 10 & 31, fraction = bits & 0x3ff;
    if (power == 31)
        return f32_of_bits(sign | 0x7f800000u | fraction << 13);
    if (power == 0)
        return f32_of_bits(sign | bits_of_f32((float)fraction * 0x1p-24f));
    return f32_of_bits(sign | (power + 112) << 23 | fraction << 13);
}

static inline uint32_t f16_of_double(double value)
{
    return small_of_double(value, 5, 10, 0, 0);
}

static inline uint32_t f16_of_f32(float value)
{
    uint32_t bits = bits_of_f32(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest >= 0x38800000u && rest < 0x477ff000u) /* normal before and after */
        return sign | ((rest + 0xfff + (rest >> 13 & 1) - 0x38000000u) >> 13);
    return f16_of_double((double)value);
}

static inline float bf16_to_f32(uint32_t bits)
{
    return f32_of_bits(bits << 16);
}

static inline uint32_t bf16_of_f32(float value)
{
    uint32_t bits = bits_of_f32(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fff;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* Nearest, ties away from zero: the rounding that PTX has for tf32. */
static inline uint32_t tf32_of_f32(float value)
{
    uint32_t bits = bits_of_f32(value);
    if ((bits & 0x7f800000u) == 0x7f800000u)
        return bits;
    return (bits + 0x1000u) & ~0x1fffu;
}

static inline float e4m3_to_f32(uint32_t bits)
{
    return (float)small_to_double(bits & 0xff, 4, 3, 1);
}

static inline float e5m2_to_f32(uint32_t bits)
{
    return (float)small_to_double(bits & 0xff, 5, 2, 0);
}

#endif
