/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Operations on registers: integers, floating point, predicates, conversions, exchange within a warp. */
#include "ptx.h"
#include "ptx_text.h"
#include "number.h"

#include <math.h>
#include <string.h>

/* Rows are the same or apart, so lanes never depend on each other. */
#if defined(__GNUC__) && !defined(__clang__)
#define EACH_LANE _Pragma("GCC ivdep") for (int l = 0; l < LANES; l++)
#else
#define EACH_LANE for (int l = 0; l < LANES; l++)
#endif
#define EACH_ACTIVE for (int l = 0; l < LANES; l++) if (mask >> l & 1)

#define HEAD(name) static void name(struct warp *warp, const struct instruction *i, uint32_t mask)
#define DO(body)                                                                                                               \
    if (mask == ALL_LANES) {                                                                                                   \
        EACH_LANE { body; }                                                                                                    \
    } else {                                                                                                                   \
        EACH_ACTIVE { body; }                                                                                                  \
    }

#define OP1(name, R, A, expression)                                                                                            \
    HEAD(name)                                                                                                                 \
    {                                                                                                                          \
        R *d = ROW(R, warp, i->d);                                                                                             \
        const A *a = ROW(A, warp, i->a);                                                                                       \
        DO(const A x = a[l]; d[l] = (R)(expression))                                                                           \
    }
#define OP2(name, R, A, B, expression)                                                                                         \
    HEAD(name)                                                                                                                 \
    {                                                                                                                          \
        R *d = ROW(R, warp, i->d);                                                                                             \
        const A *a = ROW(A, warp, i->a);                                                                                       \
        const B *b = ROW(B, warp, i->b);                                                                                       \
        DO(const A x = a[l]; const B y = b[l]; d[l] = (R)(expression))                                                         \
    }
#define OP3(name, R, A, B, C, expression)                                                                                      \
    HEAD(name)                                                                                                                 \
    {                                                                                                                          \
        R *d = ROW(R, warp, i->d);                                                                                             \
        const A *a = ROW(A, warp, i->a);                                                                                       \
        const B *b = ROW(B, warp, i->b);                                                                                       \
        const C *c = ROW(C, warp, i->c);                                                                                       \
        DO(const A x = a[l]; const B y = b[l]; const C z = c[l]; d[l] = (R)(expression))                                       \
    }
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

/* Integers. 16-bit values live in rows of 32 bits, zero above. ------------------------------------------------------- */

OP2(add_32, u32, u32, u32, x + y)
OP2(add_64, u64, u64, u64, x + y)
OP2(add_16, u32, u32, u32, (x + y) & 0xffff)
OP2(sub_32, u32, u32, u32, x - y)
OP2(sub_64, u64, u64, u64, x - y)
OP2(sub_16, u32, u32, u32, (x - y) & 0xffff)
OP2(add_sat, u32, s32, s32, (s64)x + y > INT32_MAX ? INT32_MAX : (s64)x + y < INT32_MIN ? INT32_MIN : (s64)x + y)
OP2(sub_sat, u32, s32, s32, (s64)x - y > INT32_MAX ? INT32_MAX : (s64)x - y < INT32_MIN ? INT32_MIN : (s64)x - y)
OP2(mul_lo_32, u32, u32, u32, x * y)
OP2(mul_lo_64, u64, u64, u64, x * y)
OP2(mul_lo_16, u32, u32, u32, (x * y) & 0xffff)
OP2(mul_wide_u16, u32, u32, u32, (x & 0xffff) * (y & 0xffff))
OP2(mul_wide_s16, u32, u32, u32, (s32)(int16_t)x * (int16_t)y)
OP2(mul_hi_u32, u32, u32, u32, (u64)x * y >> 32)
OP2(mul_hi_s32, u32, s32, s32, ((s64)x * y) >> 32)
OP2(mul_wide_u32, u64, u32, u32, (u64)x * y)
OP2(mul_wide_s32, u64, s32, s32, (s64)x * y)
__extension__ typedef unsigned __int128 u128;
__extension__ typedef __int128 s128;
OP2(mul_hi_u64, u64, u64, u64, ((u128)x * y) >> 64)
OP2(mul_hi_s64, u64, s64, s64, ((s128)x * y) >> 64)
OP3(mad_lo_32, u32, u32, u32, u32, x * y + z)
OP3(mad_lo_64, u64, u64, u64, u64, x * y + z)
OP3(mad_hi_u32, u32, u32, u32, u32, ((u64)x * y >> 32) + z)
OP3(mad_hi_s32, u32, s32, s32, u32, (u32)(((s64)x * y) >> 32) + z)
OP3(mad_wide_u32, u64, u32, u32, u64, (u64)x * y + z)
OP3(mad_wide_s32, u64, s32, s32, u64, (u64)((s64)x * y) + z)
OP2(div_u32, u32, u32, u32, y ? x / y : UINT32_MAX)
OP2(div_u64, u64, u64, u64, y ? x / y : UINT64_MAX)
OP2(div_s32, u32, s32, s32, y ? (s64)x / y : -1)
OP2(div_s64, u64, s64, s64, y == 0 ? -1 : y == -1 ? (s64)(0 - (u64)x) : x / y)
OP2(rem_u32, u32, u32, u32, y ? x % y : x)
OP2(rem_u64, u64, u64, u64, y ? x % y : x)
OP2(rem_s32, u32, s32, s32, y ? (s64)x % y : x)
OP2(rem_s64, u64, s64, s64, y == 0 ? x : y == -1 ? 0 : x % y)
OP2(min_u32, u32, u32, u32, x < y ? x : y)
OP2(max_u32, u32, u32, u32, x > y ? x : y)
OP2(min_s32, u32, s32, s32, x < y ? x : y)
OP2(max_s32, u32, s32, s32, x > y ? x : y)
OP2(min_u64, u64, u64, u64, x < y ? x : y)
OP2(max_u64, u64, u64, u64, x > y ? x : y)
OP2(min_s64, u64, s64, s64, x < y ? x : y)
OP2(max_s64, u64, s64, s64, x > y ? x : y)
OP1(abs_s32, u32, u32, x >> 31 ? 0 - x : x)
OP1(abs_s64, u64, u64, x >> 63 ? 0 - x : x)
OP1(neg_32, u32, u32, 0 - x)
OP1(neg_64, u64, u64, 0 - x)
OP2(and_32, u32, u32, u32, x & y)
OP2(or_32, u32, u32, u32, x | y)
OP2(xor_32, u32, u32, u32, x ^ y)
OP1(not_32, u32, u32, ~x)
OP1(not_16, u32, u32, ~x & 0xffff)
OP2(and_64, u64, u64, u64, x & y)
OP2(or_64, u64, u64, u64, x | y)
OP2(xor_64, u64, u64, u64, x ^ y)
OP1(not_64, u64, u64, ~x)
OP2(shl_32, u32, u32, u32, y > 31 ? 0 : x << y)
OP2(shl_64, u64, u64, u32, y > 63 ? 0 : x << y)
OP2(shl_16, u32, u32, u32, y > 15 ? 0 : (x << y) & 0xffff)
OP2(shr_u32, u32, u32, u32, y > 31 ? 0 : x >> y)
OP2(shr_s32, u32, s32, u32, x >> (y > 31 ? 31 : y))
OP2(shr_u64, u64, u64, u32, y > 63 ? 0 : x >> y)
OP2(shr_s64, u64, s64, u32, x >> (y > 63 ? 63 : y))
OP2(shr_u16, u32, u32, u32, y > 15 ? 0 : x >> y)
OP1(popc_32, u32, u32, __builtin_popcount(x))
OP1(popc_64, u32, u64, __builtin_popcountll(x))
OP1(clz_32, u32, u32, x ? __builtin_clz(x) : 32)
OP1(clz_64, u32, u64, x ? __builtin_clzll(x) : 64)
static u32 reversed(u32 x)
{
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
OP1(brev_32, u32, u32, reversed(x))
OP1(brev_64, u64, u64, (u64)reversed((u32)x) << 32 | reversed((u32)(x >> 32)))
OP3(bfe_u32, u32, u32, u32, u32, ((y & 255) > 31 ? 0 : x >> (y & 255)) & ((z & 255) > 31 ? UINT32_MAX : (1u << (z & 255)) - 1))
OP3(shf_l_wrap, u32, u32, u32, u32, ((u64)y << 32 | x) << (z & 31) >> 32)
OP3(shf_r_wrap, u32, u32, u32, u32, ((u64)y << 32 | x) >> (z & 31))
OP3(shf_l_clamp, u32, u32, u32, u32, z > 31 ? x : ((u64)y << 32 | x) << z >> 32)
OP3(shf_r_clamp, u32, u32, u32, u32, z > 31 ? y : ((u64)y << 32 | x) >> z)
static u32 permuted(u32 x, u32 y, u32 select)
{
    u64 bytes = (u64)y << 32 | x;
    u32 result = 0;
    for (int n = 0; n < 4; n++) {
        u32 wanted = select >> (4 * n) & 15, byte = bytes >> (8 * (wanted & 7)) & 255;
        result |= (wanted & 8 ? (byte & 128 ? 255u : 0u) : byte) << (8 * n);
    }
    return result;
}
OP3(prmt, u32, u32, u32, u32, permuted(x, y, z))
OP3(sad_u32, u32, u32, u32, u32, (x > y ? x - y : y - x) + z)
static s32 dot4(u32 x, u32 y, s32 z, bool is_signed)
{
    for (int n = 0; n < 32; n += 8)
        z = (s32)((u32)z + (is_signed ? (u32)((s32)(int8_t)(x >> n) * (int8_t)(y >> n)) : (x >> n & 255) * (y >> n & 255)));
    return z;
}
OP3(dp4a_s32, u32, u32, u32, s32, dot4(x, y, z, true))
OP3(dp4a_u32, u32, u32, u32, s32, dot4(x, y, z, false))

/* d, a, b, c, position, length */
HEAD(run_bfi)
{
    u32 *d = ROW(u32, warp, i->d);
    const u32 *a = ROW(u32, warp, i->a), *b = ROW(u32, warp, i->b), *p = ROW(u32, warp, i->c), *n = ROW(u32, warp, i->e);
    DO(u32 at = p[l] & 255; u32 length = n[l] & 255;
       u32 field = at > 31 ? 0 : (length > 31 ? UINT32_MAX : (1u << length) - 1) << at;
       d[l] = (b[l] & ~field) | (at > 31 ? 0 : a[l] << at & field))
}

HEAD(run_lop3)
{
    u32 *d = ROW(u32, warp, i->d);
    const u32 *a = ROW(u32, warp, i->a), *b = ROW(u32, warp, i->b), *c = ROW(u32, warp, i->c);
    const u32 table = *ROW(u32, warp, i->e);
    DO(u32 x = a[l]; u32 y = b[l]; u32 z = c[l]; u32 r = 0;
       for (int n = 0; n < 8; n++) if (table >> n & 1) r |= (n & 4 ? x : ~x) & (n & 2 ? y : ~y) & (n & 1 ? z : ~z);
       d[l] = r)
}

/* Floating point. option bit 0: .ftz, bit 1: .sat -------------------------------------------------------------------- */

static inline float flushed(float x)
{
    return (bits_of_f32(x) & 0x7f800000u) == 0 ? copysignf(0.0f, x) : x;
}
static float with_option(float x, unsigned int option)
{
    if (option & FLUSH)
        x = flushed(x);
    if (option & SATURATE)
        x = isnan(x) || x < 0 ? 0.0f : x > 1 ? 1.0f : x;
    return x;
}
#define F32_1(name, expression)                                                                                                \
    HEAD(name)                                                                                                                 \
    {                                                                                                                          \
        float *d = ROW(float, warp, i->d);                                                                                     \
        const float *a = ROW(float, warp, i->a);                                                                               \
        if (i->option == 0) {                                                                                                  \
            DO(const float x = a[l]; d[l] = (expression))                                                                      \
        } else {                                                                                                               \
            EACH_ACTIVE                                                                                                        \
            {                                                                                                                  \
                const float x = i->option & FLUSH ? flushed(a[l]) : a[l];                                                      \
                d[l] = with_option((expression), i->option);                                                                   \
            }                                                                                                                  \
        }                                                                                                                      \
    }
#define F32_3(name, expression)                                                                                                \
    FOR_WIDE_VECTORS HEAD(name)                                                                                                                 \
    {                                                                                                                          \
        float *d = ROW(float, warp, i->d);                                                                                     \
        const float *a = ROW(float, warp, i->a), *b = ROW(float, warp, i->b), *c = ROW(float, warp, i->c);                     \
        (void)c;                                                                                                               \
        if (i->option == 0) {                                                                                                  \
            DO(const float x = a[l]; const float y = b[l]; const float z = c[l]; (void)z; d[l] = (expression))                 \
        } else {                                                                                                               \
            EACH_ACTIVE                                                                                                        \
            {                                                                                                                  \
                bool flush = i->option & FLUSH;                                                                                \
                const float x = flush ? flushed(a[l]) : a[l], y = flush ? flushed(b[l]) : b[l], z = flush ? flushed(c[l]) : c[l]; \
                (void)z;                                                                                                       \
                d[l] = with_option((expression), i->option);                                                                   \
            }                                                                                                                  \
        }                                                                                                                      \
    }
F32_3(add_f32, x + y)
F32_3(sub_f32, x - y)
F32_3(mul_f32, x *y)
F32_3(div_f32, x / y)
F32_3(fma_f32, fmaf(x, y, z))
F32_3(min_f32, fminf(x, y))
F32_3(max_f32, fmaxf(x, y))
F32_1(abs_f32, fabsf(x))
F32_1(neg_f32, -x)
F32_1(sqrt_f32, sqrtf(x))
F32_1(rcp_f32, 1.0f / x)
F32_1(rsqrt_f32, (float)(1.0 / sqrt((double)x)))
F32_1(ex2_f32, exp2f(x))
F32_1(lg2_f32, log2f(x))
F32_1(sin_f32, sinf(x))
F32_1(cos_f32, cosf(x))
OP2(add_f64, double, double, double, x + y)
OP2(sub_f64, double, double, double, x - y)
OP2(mul_f64, double, double, double, x *y)
OP2(div_f64, double, double, double, x / y)
FOR_WIDE_VECTORS OP3(fma_f64, double, double, double, double, fma(x, y, z))
OP2(min_f64, double, double, double, fmin(x, y))
OP2(max_f64, double, double, double, fmax(x, y))
OP1(abs_f64, double, double, fabs(x))
OP1(neg_f64, double, double, -x)
OP1(sqrt_f64, double, double, sqrt(x))
OP1(rcp_f64, double, double, 1.0 / x)

#define H16(bits) f16_to_f32((bits) & 0xffff)
#define B16(bits) bf16_to_f32((bits) & 0xffff)
static inline u32 f16_fma(u32 x, u32 y, u32 z)
{
    return f16_of_double((double)H16(x) * (double)H16(y) + (double)H16(z)); /* the sum is exact, or no tie is near */
}
static inline u32 bf16_fma(u32 x, u32 y, u32 z)
{
    return bf16_of_f32(fmaf(B16(x), B16(y), B16(z)));
}
OP2(add_f16, u32, u32, u32, f16_of_f32(H16(x) + H16(y)))
OP2(sub_f16, u32, u32, u32, f16_of_f32(H16(x) - H16(y)))
OP2(mul_f16, u32, u32, u32, f16_of_f32(H16(x) * H16(y)))
OP3(fma_f16, u32, u32, u32, u32, f16_fma(x, y, z))
OP3(fma_bf16, u32, u32, u32, u32, bf16_fma(x, y, z))
#define PAIR(function) (function(x, y) | function(x >> 16, y >> 16) << 16)
#define ADD_F16(p, q) f16_of_f32(H16(p) + H16(q))
#define SUB_F16(p, q) f16_of_f32(H16(p) - H16(q))
#define MUL_F16(p, q) f16_of_f32(H16(p) * H16(q))
OP2(add_f16x2, u32, u32, u32, PAIR(ADD_F16))
OP2(sub_f16x2, u32, u32, u32, PAIR(SUB_F16))
OP2(mul_f16x2, u32, u32, u32, PAIR(MUL_F16))
OP3(fma_f16x2, u32, u32, u32, u32, f16_fma(x, y, z) | f16_fma(x >> 16, y >> 16, z >> 16) << 16)
OP3(fma_bf16x2, u32, u32, u32, u32, bf16_fma(x, y, z) | bf16_fma(x >> 16, y >> 16, z >> 16) << 16)

/* Predicates: a word of 32 bits ---------------------------------------------------------------------------------------- */

#define PREDICATE(name, expression)                                                                                            \
    HEAD(name)                                                                                                                 \
    {                                                                                                                          \
        u32 *d = ROW(u32, warp, i->d);                                                                                         \
        const u32 x = *ROW(u32, warp, i->a), y = *ROW(u32, warp, i->b);                                                        \
        (void)y;                                                                                                               \
        *d = (*d & ~mask) | ((expression) & mask);                                                                             \
    }
PREDICATE(and_pred, x & y)
PREDICATE(or_pred, x | y)
PREDICATE(xor_pred, x ^ y)
PREDICATE(not_pred, ~x)
PREDICATE(move_pred, x)

HEAD(move_32)
{
    u32 *d = ROW(u32, warp, i->d);
    const u32 *a = ROW(u32, warp, i->a);
    DO(d[l] = a[l])
}
HEAD(move_64)
{
    u64 *d = ROW(u64, warp, i->d);
    const u64 *a = ROW(u64, warp, i->a);
    DO(d[l] = a[l])
}

#define COMPARE(T, expression)                                                                                                 \
    {                                                                                                                          \
        const T *a = ROW(T, warp, i->a), *b = ROW(T, warp, i->b);                                                              \
        for (int l = 0; l < LANES; l++) {                                                                                      \
            const T x = a[l], y = b[l];                                                                                        \
            found |= (u32)(expression) << l;                                                                                   \
        }                                                                                                                      \
        break;                                                                                                                 \
    }
#define INTEGERS(T)                                                                                                            \
    switch (i->option) {                                                                                                       \
    case EQ: COMPARE(T, x == y)                                                                                                \
    case NE: COMPARE(T, x != y)                                                                                                \
    case LT: COMPARE(T, x < y)                                                                                                 \
    case LE: COMPARE(T, x <= y)                                                                                                \
    case GT: COMPARE(T, x > y)                                                                                                 \
    case GE: COMPARE(T, x >= y)                                                                                                \
    }
#define FLOATS(T)                                                                                                              \
    switch (i->option) {                                                                                                       \
    case EQ: COMPARE(T, x == y)                                                                                                \
    case NE: COMPARE(T, x != y && !isnan(x) && !isnan(y))                                                                      \
    case LT: COMPARE(T, x < y)                                                                                                 \
    case LE: COMPARE(T, x <= y)                                                                                                \
    case GT: COMPARE(T, x > y)                                                                                                 \
    case GE: COMPARE(T, x >= y)                                                                                                \
    case EQU: COMPARE(T, x == y || isnan(x) || isnan(y))                                                                       \
    case NEU: COMPARE(T, x != y)                                                                                               \
    case LTU: COMPARE(T, !(x >= y))                                                                                            \
    case LEU: COMPARE(T, !(x > y))                                                                                             \
    case GTU: COMPARE(T, !(x <= y))                                                                                            \
    case GEU: COMPARE(T, !(x < y))                                                                                             \
    case NUM: COMPARE(T, !isnan(x) && !isnan(y))                                                                               \
    case IS_NAN: COMPARE(T, isnan(x) || isnan(y))                                                                              \
    }

/* space: the operation that joins the comparison with predicate c: 0 none, 'a' and, 'o' or, 'x' xor; offset: c is negated. */
void run_setp(struct warp *warp, const struct instruction *i, uint32_t mask)
{
    u32 found = 0;
    bool wide = i->from.bits == 64;
    if (i->from.kind == 'f' && wide)
        FLOATS(double)
    else if (i->from.kind == 'f')
        FLOATS(float)
    else if (i->from.kind == 's' && wide)
        INTEGERS(s64)
    else if (i->from.kind == 's')
        INTEGERS(s32)
    else if (wide)
        INTEGERS(u64)
    else
        INTEGERS(u32)
    u32 other = ~found;
    if (i->space != 0) {
        u32 c = *ROW(u32, warp, i->c) ^ (i->offset ? ALL_LANES : 0);
        found = i->space == 'a' ? found & c : i->space == 'o' ? found | c : found ^ c;
        other = i->space == 'a' ? other & c : i->space == 'o' ? other | c : other ^ c;
    }
    if (i->d != NOWHERE)
        *ROW(u32, warp, i->d) = (*ROW(u32, warp, i->d) & ~mask) | (found & mask);
    if (i->e != NOWHERE)
        *ROW(u32, warp, i->e) = (*ROW(u32, warp, i->e) & ~mask) | (other & mask);
}

void run_selp(struct warp *warp, const struct instruction *i, uint32_t mask)
{
    const u32 chosen = *ROW(u32, warp, i->c);
    if (i->from.bits == 64) {
        u64 *d = ROW(u64, warp, i->d);
        const u64 *a = ROW(u64, warp, i->a), *b = ROW(u64, warp, i->b);
        EACH_ACTIVE d[l] = chosen >> l & 1 ? a[l] : b[l];
    } else {
        u32 *d = ROW(u32, warp, i->d);
        const u32 *a = ROW(u32, warp, i->a), *b = ROW(u32, warp, i->b);
        EACH_ACTIVE d[l] = chosen >> l & 1 ? a[l] : b[l];
    }
}

/* Conversions ------------------------------------------------------------------------------------------------------------ */

static u64 low_bits(u64 value, unsigned int bits)
{
    return bits >= 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

static double rounded(double value, unsigned int option)
{
    switch (option & ROUNDING) {
    case TO_ZERO:
        return trunc(value);
    case DOWN:
        return floor(value);
    case UP:
        return ceil(value);
    default:
        return nearbyint(value);
    }
}

static u64 integer_of_double(double value, struct type to)
{
    if (isnan(value))
        return to.bits == 64 ? UINT64_C(1) << 63 : 0;
    double above = ldexp(1.0, to.kind == 's' ? to.bits - 1 : to.bits), below = to.kind == 's' ? -above : 0.0;
    if (value >= above)
        return to.kind == 's' ? (UINT64_C(1) << (to.bits - 1)) - 1 : low_bits(UINT64_MAX, to.bits);
    if (value <= below)
        return to.kind == 's' ? low_bits(UINT64_C(1) << (to.bits - 1), to.bits) : 0;
    return to.kind == 's' ? low_bits((u64)(s64)value, to.bits) : (u64)value;
}

static float f32_of_double(double value, unsigned int option)
{
    float near = (float)value;
    switch (option & ROUNDING) {
    case TO_ZERO:
        return fabs((double)near) > fabs(value) ? nextafterf(near, 0.0f) : near;
    case DOWN:
        return (double)near > value ? nextafterf(near, -INFINITY) : near;
    case UP:
        return (double)near < value ? nextafterf(near, INFINITY) : near;
    default:
        return near;
    }
}

static double number_of(const struct warp *warp, uint32_t row, int l, struct type type)
{
    if (type.bits == 64)
        return ROW(const double, warp, row)[l];
    u32 bits = ROW(const u32, warp, row)[l];
    if (type.kind == 'h')
        return (double)bf16_to_f32(bits & 0xffff);
    return (double)(type.bits == 16 ? f16_to_f32(bits & 0xffff) : f32_of_bits(bits));
}

static u64 pattern_of(double value, struct type type, unsigned int option)
{
    u64 bits = 0;
    if (type.kind == 'f' && type.bits == 64)
        memcpy(&bits, &value, sizeof(bits));
    else if (type.kind == 't')
        bits = tf32_of_f32((float)value);
    else if (type.kind == 'h')
        bits = option & SATURATE && value < 0 ? 0 : bf16_of_f32(f32_of_double(value, option));
    else if (type.kind == '4' || type.kind == '5')
        bits = small_of_double(value, type.kind == '4' ? 4 : 5, type.kind == '4' ? 3 : 2, type.kind == '4', 1);
    else if (type.bits == 16)
        bits = f16_of_double(value);
    else
        bits = bits_of_f32(with_option(f32_of_double(value, option), option & (FLUSH | SATURATE)));
    return bits;
}

static bool is_float(struct type type)
{
    return type.kind != 'u' && type.kind != 's' && type.kind != 'b';
}

/* option: rounding, FLUSH, SATURATE; b: of two sources (packed formats) the second, else NOWHERE; bytes: of the result's
 * register, which may be wider than its type. */
void run_convert(struct warp *warp, const struct instruction *i, uint32_t mask)
{
    const struct type to = i->to, from = i->from;
    EACH_ACTIVE
    {
        u64 result;
        if (i->b != NOWHERE) { /* two numbers into one register; the first is the upper half */
            unsigned int half = to.kind == '4' || to.kind == '5' ? 8 : 16;
            result = pattern_of(number_of(warp, i->a, l, from), to, i->option) << half | pattern_of(number_of(warp, i->b, l, from), to, i->option);
        } else if (is_float(from)) {
            double value = number_of(warp, i->a, l, from);
            if (is_float(to)) {
                if (from.kind == 'f' && i->option & INTEGRAL)
                    value = rounded(value, i->option);
                result = pattern_of(value, to, i->option);
            } else {
                result = integer_of_double(rounded(value, i->option), to);
            }
        } else {
            u64 value = from.bits == 64 ? ROW(const u64, warp, i->a)[l] : low_bits(ROW(const u32, warp, i->a)[l], from.bits);
            bool negative = from.kind == 's' && from.bits < 64 && value >> (from.bits - 1) & 1;
            if (negative)
                value |= ~low_bits(UINT64_MAX, from.bits);
            if (is_float(to)) {
                /* One rounding: to the format itself where it is IEEE's single or double. */
                if (to.bits == 32 && to.kind == 'f' && (i->option & ROUNDING) == NEAREST)
                    result = bits_of_f32(from.kind == 's' ? (float)(s64)value : (float)value);
                else
                    result = pattern_of(from.kind == 's' ? (double)(s64)value : (double)value, to, i->option);
            } else if (i->option & SATURATE) {
                bool below = from.kind == 's' && (s64)value < 0;
                u64 top = to.kind == 's' ? low_bits(UINT64_MAX, to.bits - 1u) : low_bits(UINT64_MAX, to.bits);
                if (below && to.kind != 's')
                    value = 0;
                else if (below && (s64)value < -(s64)top - 1)
                    value = ~top;
                else if (!below && value > top)
                    value = top;
                result = low_bits(value, i->bytes * 8u);
            } else {
                result = low_bits(value, to.bits);
                if (to.kind == 's' && to.bits < 32 && result >> (to.bits - 1) & 1)
                    result |= low_bits(~low_bits(UINT64_MAX, to.bits), i->bytes * 8u);
            }
        }
        if (i->bytes == 8)
            ROW(u64, warp, i->d)[l] = result;
        else
            ROW(u32, warp, i->d)[l] = (u32)result;
    }
}

/* mov {a,b,..},d and mov d,{a,b,..}: `vector` parts of `bytes` each. */
void run_pack(struct warp *warp, const struct instruction *i, uint32_t mask)
{
    const struct operands *parts = i->more;
    EACH_ACTIVE
    {
        u64 value = 0;
        for (unsigned int n = 0; n < parts->count; n++)
            value |= low_bits(ROW(u32, warp, parts->row[n])[l], 8u * i->bytes) << (8u * i->bytes * n);
        if (i->to.bits == 64)
            ROW(u64, warp, i->d)[l] = value;
        else
            ROW(u32, warp, i->d)[l] = (u32)value;
    }
}

void run_unpack(struct warp *warp, const struct instruction *i, uint32_t mask)
{
    const struct operands *parts = i->more;
    EACH_ACTIVE
    {
        u64 value = i->to.bits == 64 ? ROW(u64, warp, i->a)[l] : ROW(u32, warp, i->a)[l];
        for (unsigned int n = 0; n < parts->count; n++)
            if (parts->row[n] != NOWHERE)
                ROW(u32, warp, parts->row[n])[l] = (u32)low_bits(value >> (8u * i->bytes * n), 8u * i->bytes);
    }
}

/* Exchange within a warp ------------------------------------------------------------------------------------------------- */

void run_shuffle(struct warp *warp, const struct instruction *i, uint32_t mask)
{
    u32 *d = ROW(u32, warp, i->d), taken[LANES], valid = 0;
    const u32 *a = ROW(u32, warp, i->a), *b = ROW(u32, warp, i->b), *c = ROW(u32, warp, i->c);
    memcpy(taken, a, sizeof(taken));
    EACH_ACTIVE
    {
        int bound = (int)(c[l] & 31), segment = (int)(c[l] >> 8 & 31), by = (int)(b[l] & 31), from = l;
        int highest = (l & segment) | (bound & ~segment), lowest = l & segment;
        bool fits = true;
        switch (i->option) {
        case 'u':
            from = l - by;
            fits = from >= highest;
            break;
        case 'd':
            from = l + by;
            fits = from <= highest;
            break;
        case 'b':
            from = l ^ by;
            fits = from <= highest;
            break;
        default:
            from = lowest | (by & ~segment);
            fits = from <= highest;
        }
        d[l] = taken[fits ? from : l];
        valid |= (u32)fits << l;
    }
    if (i->e != NOWHERE)
        *ROW(u32, warp, i->e) = (*ROW(u32, warp, i->e) & ~mask) | valid;
}

void run_vote(struct warp *warp, const struct instruction *i, uint32_t mask)
{
    u32 found = (*ROW(u32, warp, i->a) ^ (i->offset ? ALL_LANES : 0)) & mask;
    u32 answer = i->option == 'a' ? (found == mask ? ALL_LANES : 0) : i->option == 'n' ? (found ? ALL_LANES : 0)
               : i->option == 'u' ? (found == mask || found == 0 ? ALL_LANES : 0) : found;
    if (i->option == 'b') {
        u32 *d = ROW(u32, warp, i->d);
        EACH_ACTIVE d[l] = answer;
    } else {
        *ROW(u32, warp, i->d) = (*ROW(u32, warp, i->d) & ~mask) | (answer & mask);
    }
}

void run_activemask(struct warp *warp, const struct instruction *i, uint32_t mask)
{
    u32 *d = ROW(u32, warp, i->d);
    EACH_ACTIVE d[l] = mask;
}

/* The table ---------------------------------------------------------------------------------------------------------------- */

/* An instruction of an execution unit counts as the two operations of a multiply and add, as data sheets do. Logic, shifts
 * and comparisons have a unit beside that of integer multiplication and are fused in pairs; moves are no work. */
enum { ONE = 2 * LANES, LOGIC = LANES };
#define SIGNS(op, bits, shape, run, work) {op ".u" #bits, shape, run, INT32, work}, {op ".s" #bits, shape, run, INT32, work}
#define BITS3(op, run16, run32, run64, run_predicate)                                                                          \
    {op ".b16", "hhh", run16, INT32, LOGIC}, {op ".b32", "www", run32, INT32, LOGIC}, {op ".b64", "lll", run64, INT32, 2 * LOGIC}, \
    {op ".pred", "ppp", run_predicate, INT32, LOGIC}
const struct operation operations[] = {
    SIGNS("add", 32, "www", add_32, ONE), SIGNS("add", 64, "lll", add_64, 2 * ONE), SIGNS("add", 16, "hhh", add_16, ONE),
    SIGNS("sub", 32, "www", sub_32, ONE), SIGNS("sub", 64, "lll", sub_64, 2 * ONE), SIGNS("sub", 16, "hhh", sub_16, ONE),
    {"add.sat.s32", "www", add_sat, INT32, ONE}, {"sub.sat.s32", "www", sub_sat, INT32, ONE},
    SIGNS("mul.lo", 32, "www", mul_lo_32, ONE), SIGNS("mul.lo", 64, "lll", mul_lo_64, 4 * ONE), SIGNS("mul.lo", 16, "hhh", mul_lo_16, ONE),
    {"mul.wide.u16", "whh", mul_wide_u16, INT32, ONE}, {"mul.wide.s16", "whh", mul_wide_s16, INT32, ONE},
    {"mul.hi.u32", "www", mul_hi_u32, INT32, ONE}, {"mul.hi.s32", "www", mul_hi_s32, INT32, ONE},
    {"mul.hi.u64", "lll", mul_hi_u64, INT32, 4 * ONE}, {"mul.hi.s64", "lll", mul_hi_s64, INT32, 4 * ONE},
    {"mul.wide.u32", "lww", mul_wide_u32, INT32, ONE}, {"mul.wide.s32", "lww", mul_wide_s32, INT32, ONE},
    SIGNS("mad.lo", 32, "wwww", mad_lo_32, ONE), SIGNS("mad.lo", 64, "llll", mad_lo_64, 4 * ONE),
    {"mad.hi.u32", "wwww", mad_hi_u32, INT32, ONE}, {"mad.hi.s32", "wwww", mad_hi_s32, INT32, ONE},
    {"mad.wide.u32", "lwwl", mad_wide_u32, INT32, ONE}, {"mad.wide.s32", "lwwl", mad_wide_s32, INT32, ONE},
    {"div.u32", "www", div_u32, INT32, 16 * ONE}, {"div.s32", "www", div_s32, INT32, 16 * ONE},
    {"div.u64", "lll", div_u64, INT32, 64 * ONE}, {"div.s64", "lll", div_s64, INT32, 64 * ONE},
    {"rem.u32", "www", rem_u32, INT32, 16 * ONE}, {"rem.s32", "www", rem_s32, INT32, 16 * ONE},
    {"rem.u64", "lll", rem_u64, INT32, 64 * ONE}, {"rem.s64", "lll", rem_s64, INT32, 64 * ONE},
    {"min.u32", "www", min_u32, INT32, ONE}, {"max.u32", "www", max_u32, INT32, ONE},
    {"min.s32", "www", min_s32, INT32, ONE}, {"max.s32", "www", max_s32, INT32, ONE},
    {"min.u64", "lll", min_u64, INT32, 2 * ONE}, {"max.u64", "lll", max_u64, INT32, 2 * ONE},
    {"min.s64", "lll", min_s64, INT32, 2 * ONE}, {"max.s64", "lll", max_s64, INT32, 2 * ONE},
    {"abs.s32", "ww", abs_s32, INT32, ONE}, {"abs.s64", "ll", abs_s64, INT32, ONE},
    {"neg.s32", "ww", neg_32, INT32, ONE}, {"neg.s64", "ll", neg_64, INT32, ONE},
    BITS3("and", and_32, and_32, and_64, and_pred), BITS3("or", or_32, or_32, or_64, or_pred), BITS3("xor", xor_32, xor_32, xor_64, xor_pred),
    {"not.b16", "hh", not_16, INT32, LOGIC}, {"not.b32", "ww", not_32, INT32, LOGIC}, {"not.b64", "ll", not_64, INT32, 2 * LOGIC}, {"not.pred", "pp", not_pred, INT32, LOGIC},
    {"shl.b16", "hhw", shl_16, INT32, LOGIC}, {"shl.b32", "www", shl_32, INT32, LOGIC}, {"shl.b64", "llw", shl_64, INT32, 2 * LOGIC},
    {"shr.u16", "hhw", shr_u16, INT32, LOGIC}, {"shr.b16", "hhw", shr_u16, INT32, LOGIC},
    {"shr.u32", "www", shr_u32, INT32, LOGIC}, {"shr.b32", "www", shr_u32, INT32, LOGIC}, {"shr.s32", "www", shr_s32, INT32, LOGIC},
    {"shr.u64", "llw", shr_u64, INT32, 2 * LOGIC}, {"shr.b64", "llw", shr_u64, INT32, 2 * LOGIC}, {"shr.s64", "llw", shr_s64, INT32, 2 * LOGIC},
    {"popc.b32", "ww", popc_32, INT32, 4 * ONE}, {"popc.b64", "wl", popc_64, INT32, 8 * ONE}, {"clz.b32", "ww", clz_32, INT32, 4 * ONE}, {"clz.b64", "wl", clz_64, INT32, 8 * ONE},
    {"brev.b32", "ww", brev_32, INT32, 4 * ONE}, {"brev.b64", "ll", brev_64, INT32, 8 * ONE}, {"bfe.u32", "wwww", bfe_u32, INT32, LOGIC},
    {"bfi.b32", "wwwww", run_bfi, INT32, LOGIC}, {"lop3.b32", "wwwww", run_lop3, INT32, LOGIC}, {"prmt.b32", "wwww", prmt, INT32, LOGIC},
    {"shf.l.wrap.b32", "wwww", shf_l_wrap, INT32, LOGIC}, {"shf.r.wrap.b32", "wwww", shf_r_wrap, INT32, LOGIC},
    {"shf.l.clamp.b32", "wwww", shf_l_clamp, INT32, LOGIC}, {"shf.r.clamp.b32", "wwww", shf_r_clamp, INT32, LOGIC},
    {"sad.u32", "wwww", sad_u32, INT32, ONE}, {"dp4a.s32.s32", "wwww", dp4a_s32, INT32, ONE}, {"dp4a.u32.u32", "wwww", dp4a_u32, INT32, ONE},
    {"add.f32", "fff", add_f32, FP32, ONE}, {"sub.f32", "fff", sub_f32, FP32, ONE}, {"mul.f32", "fff", mul_f32, FP32, ONE}, {"fma.f32", "ffff", fma_f32, FP32, ONE},
    {"mad.f32", "ffff", fma_f32, FP32, ONE}, {"div.f32", "fff", div_f32, FP32, 16 * ONE}, {"min.f32", "fff", min_f32, FP32, ONE}, {"max.f32", "fff", max_f32, FP32, ONE},
    {"abs.f32", "ff", abs_f32, FP32, ONE}, {"neg.f32", "ff", neg_f32, FP32, ONE}, {"sqrt.f32", "ff", sqrt_f32, FP32, 8 * ONE}, {"rcp.f32", "ff", rcp_f32, FP32, 8 * ONE},
    {"rsqrt.f32", "ff", rsqrt_f32, FP32, 8 * ONE}, {"ex2.f32", "ff", ex2_f32, FP32, 8 * ONE}, {"lg2.f32", "ff", lg2_f32, FP32, 8 * ONE},
    {"sin.f32", "ff", sin_f32, FP32, 8 * ONE}, {"cos.f32", "ff", cos_f32, FP32, 8 * ONE},
    {"add.f64", "ddd", add_f64, FP64, ONE}, {"sub.f64", "ddd", sub_f64, FP64, ONE}, {"mul.f64", "ddd", mul_f64, FP64, ONE}, {"fma.f64", "dddd", fma_f64, FP64, ONE},
    {"mad.f64", "dddd", fma_f64, FP64, ONE}, {"div.f64", "ddd", div_f64, FP64, 16 * ONE}, {"min.f64", "ddd", min_f64, FP64, ONE}, {"max.f64", "ddd", max_f64, FP64, ONE},
    {"abs.f64", "dd", abs_f64, FP64, ONE}, {"neg.f64", "dd", neg_f64, FP64, ONE}, {"sqrt.f64", "dd", sqrt_f64, FP64, 16 * ONE}, {"rcp.f64", "dd", rcp_f64, FP64, 16 * ONE},
    {"add.f16", "hhh", add_f16, FP32, ONE}, {"sub.f16", "hhh", sub_f16, FP32, ONE}, {"mul.f16", "hhh", mul_f16, FP32, ONE}, {"fma.f16", "hhhh", fma_f16, FP32, ONE},
    {"add.f16x2", "www", add_f16x2, FP32, ONE}, {"sub.f16x2", "www", sub_f16x2, FP32, ONE}, {"mul.f16x2", "www", mul_f16x2, FP32, ONE}, {"fma.f16x2", "wwww", fma_f16x2, FP32, ONE},
    {"fma.bf16", "hhhh", fma_bf16, FP32, ONE}, {"fma.bf16x2", "wwww", fma_bf16x2, FP32, ONE},
    {"mov.pred", "pp", move_pred, FREE, 0},
    {"mov.b16", "hh", move_32, FREE, 0}, {"mov.u16", "hh", move_32, FREE, 0}, {"mov.s16", "hh", move_32, FREE, 0}, {"mov.f16", "hh", move_32, FREE, 0},
    {"mov.b32", "ww", move_32, FREE, 0}, {"mov.u32", "ww", move_32, FREE, 0}, {"mov.s32", "ww", move_32, FREE, 0}, {"mov.f32", "ff", move_32, FREE, 0},
    {"mov.b64", "ll", move_64, FREE, 0}, {"mov.u64", "ll", move_64, FREE, 0}, {"mov.s64", "ll", move_64, FREE, 0}, {"mov.f64", "dd", move_64, FREE, 0},
    {NULL, NULL, NULL, 0, 0},
};
