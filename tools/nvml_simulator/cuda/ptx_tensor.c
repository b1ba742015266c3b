/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Products of small matrices by a whole warp: wmma and mma.sync.
 *
 * The layout of fragments of mma.sync is NVIDIA's (PTX ISA, "Matrix fragments for mma"). That of wmma, which NVIDIA leaves
 * open, is our own: the elements of a matrix, row by row, are dealt to the lanes in equal parts. Where a fragment has room
 * for more (f16 on Volta: twice), the rest is not used. Sums are made in f32, f64 or s32, in the order of k. */
#include "gpu.h"
#include "number.h"

#include <string.h>

enum { SIDE = 32 };

struct product {
    double a64[SIDE][SIDE], b64[SIDE][SIDE], c64[SIDE][SIDE];
    float a[SIDE][SIDE], b[SIDE][SIDE], c[SIDE][SIDE];
    int32_t ai[SIDE][SIDE], bi[SIDE][SIDE];
    int64_t ci[SIDE][SIDE];
};

static float element_f32(uint32_t bits, struct type type)
{
    switch (type.kind) {
    case 'h':
        return bf16_to_f32(bits & 0xffff);
    case 't':
        return f32_of_bits(bits & ~0x1fffu);
    case '4':
        return e4m3_to_f32(bits);
    case '5':
        return e5m2_to_f32(bits);
    default:
        return type.bits == 16 ? f16_to_f32(bits & 0xffff) : f32_of_bits(bits);
    }
}

static bool integral(struct type type)
{
    return type.kind == 's' || type.kind == 'u';
}

/* Element `n` of a fragment that begins at operand `at`, of one lane. */
static uint32_t element(const struct warp *warp, const struct operands *o, unsigned int at, unsigned int n, struct type type, int l)
{
    unsigned int each = 32u / type.bits;
    uint32_t word = ROW(uint32_t, warp, o->row[at + n / each])[l];
    return each == 1 ? word : word >> (n % each * type.bits) & ((1u << type.bits) - 1);
}

static void put_in(struct product *p, int which, unsigned int row, unsigned int column, uint32_t bits, struct type type)
{
    if (integral(type)) {
        int32_t value = type.kind == 's' ? (int32_t)(int8_t)bits : (int32_t)(bits & 0xff);
        if (which == 1)
            p->ai[row][column] = value;
        else
            p->bi[row][column] = value;
    } else if (which == 1) {
        p->a[row][column] = element_f32(bits, type);
    } else {
        p->b[row][column] = element_f32(bits, type);
    }
}

static void multiply(struct product *p, const struct operands *o)
{
    const unsigned int m = o->m, n = o->n, k = o->k;
    if (o->type[1].bits == 64) {
        for (unsigned int r = 0; r < m; r++)
            for (unsigned int x = 0; x < k; x++)
                for (unsigned int c = 0; c < n; c++)
                    p->c64[r][c] = fma(p->a64[r][x], p->b64[x][c], p->c64[r][c]);
    } else if (integral(o->type[1])) {
        for (unsigned int r = 0; r < m; r++)
            for (unsigned int x = 0; x < k; x++)
                for (unsigned int c = 0; c < n; c++)
                    p->ci[r][c] += p->ai[r][x] * p->bi[x][c];
    } else if (n == 16) {
        for (unsigned int r = 0; r < m; r++)
            for (unsigned int x = 0; x < k; x++) {
                const float by = p->a[r][x];
                for (unsigned int c = 0; c < 16; c++)
                    p->c[r][c] += by * p->b[x][c];
            }
    } else {
        for (unsigned int r = 0; r < m; r++)
            for (unsigned int x = 0; x < k; x++) {
                const float by = p->a[r][x];
                for (unsigned int c = 0; c < n; c += 8)
                    for (unsigned int e = c; e < c + 8; e++)
                        p->c[r][e] += by * p->b[x][e];
            }
    }
}

static void take_sum(const struct warp *warp, const struct operands *o, struct product *p, unsigned int n, unsigned int row, unsigned int column, int l)
{
    const struct type type = o->type[3];
    const unsigned int at = o->fragment[3];
    if (type.bits == 64)
        p->c64[row][column] = ROW(double, warp, o->row[at + n])[l];
    else if (integral(type))
        p->ci[row][column] = ROW(int32_t, warp, o->row[at + n])[l];
    else
        p->c[row][column] = element_f32(element(warp, o, at, n, type, l), type);
}

static void give_sum(struct warp *warp, const struct operands *o, const struct product *p, unsigned int n, unsigned int row, unsigned int column, int l)
{
    const struct type type = o->type[0];
    if (type.bits == 64) {
        ROW(double, warp, o->row[n])[l] = p->c64[row][column];
    } else if (integral(type)) {
        int64_t sum = p->ci[row][column];
        if (o->saturate)
            sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
        ROW(uint32_t, warp, o->row[n])[l] = (uint32_t)sum;
    } else if (type.bits == 16) {
        uint32_t *word = &ROW(uint32_t, warp, o->row[n / 2])[l];
        unsigned int shift = n % 2 * 16;
        *word = (*word & ~(0xffffu << shift)) | f16_of_f32(p->c[row][column]) << shift;
    } else {
        ROW(float, warp, o->row[n])[l] = p->c[row][column];
    }
}

void run_mma(struct warp *warp, const struct instruction *i, uint32_t mask)
{
    const struct operands *o = i->more;
    const struct type a = o->type[1], b = o->type[2];
    static _Thread_local struct product p;
    (void)mask; /* all lanes take part, or it is undefined */
    for (int l = 0; l < LANES; l++) {
        const unsigned int group = (unsigned int)l >> 2, within = (unsigned int)l & 3;
        if (a.bits == 64) {
            p.a64[group][within] = ROW(double, warp, o->row[o->fragment[1]])[l];
            p.b64[within][group] = ROW(double, warp, o->row[o->fragment[2]])[l];
        } else {
            const unsigned int each = 32u / a.bits, high = o->m == 16 ? 2 : 1;
            const unsigned int as = o->fragment[2] - o->fragment[1], bs = o->fragment[3] - o->fragment[2];
            for (unsigned int n = 0; n < as * each; n++) {
                unsigned int word = n / each;
                put_in(&p, 1, group + 8 * (word % high), within * each + n % each + word / high * 4 * each, element(warp, o, o->fragment[1], n, a, l), a);
            }
            for (unsigned int n = 0; n < bs * each; n++)
                put_in(&p, 2, within * each + n % each + n / each * 4 * each, group, element(warp, o, o->fragment[2], n, b, l), b);
        }
        for (unsigned int n = 0; n < o->m * o->n / LANES; n++)
            take_sum(warp, o, &p, n, group + n / 2 * 8, within * 2 + n % 2, l);
    }
    multiply(&p, o);
    for (int l = 0; l < LANES; l++)
        for (unsigned int n = 0; n < o->m * o->n / LANES; n++)
            give_sum(warp, o, &p, n, ((unsigned int)l >> 2) + n / 2 * 8, ((unsigned int)l & 3) * 2 + n % 2, l);
}

void run_wmma(struct warp *warp, const struct instruction *i, uint32_t mask)
{
    const struct operands *o = i->more;
    static _Thread_local struct product p;
    (void)mask;
    const unsigned int as = o->m * o->k / LANES, bs = o->k * o->n / LANES, cs = o->m * o->n / LANES;
    for (unsigned int l = 0; l < LANES; l++) {
        for (unsigned int n = 0; n < as; n++)
            put_in(&p, 1, (l * as + n) / o->k, (l * as + n) % o->k, element(warp, o, o->fragment[1], n, o->type[1], (int)l), o->type[1]);
        for (unsigned int n = 0; n < bs; n++)
            put_in(&p, 2, (l * bs + n) / o->n, (l * bs + n) % o->n, element(warp, o, o->fragment[2], n, o->type[2], (int)l), o->type[2]);
        for (unsigned int n = 0; n < cs; n++)
            take_sum(warp, o, &p, n, (l * cs + n) / o->n, (l * cs + n) % o->n, (int)l);
    }
    multiply(&p, o);
    for (unsigned int l = 0; l < LANES; l++)
        for (unsigned int n = 0; n < cs; n++)
            give_sum(warp, o, &p, n, (l * cs + n) / o->n, (l * cs + n) % o->n, (int)l);
}

/* A matrix in memory, m by n here, to or from the fragment of a warp. */
static void move_matrix(struct warp *warp, const struct instruction *i, bool load)
{
    const struct operands *o = i->more;
    const unsigned int each = 32u / i->to.bits, bytes = i->to.bits / 8u, count = o->m * o->n / LANES;
    for (unsigned int l = 0; l < LANES; l++) {
        uint64_t begin = ROW(uint64_t, warp, i->e)[l] + (uint64_t)i->offset;
        uint64_t stride = o->stride == NOWHERE ? (o->column_major ? o->m : o->n) : ROW(uint32_t, warp, o->stride)[l];
        for (unsigned int n = 0; n < o->count * each; n++) {
            unsigned int place = l * count + n % count, row = place / o->n, column = place % o->n;
            uint64_t address = begin + bytes * (o->column_major ? column * stride + row : row * stride + column);
            unsigned char *memory;
            enum unit unit = MEMORY_BYTES;
            uint32_t *word = &ROW(uint32_t, warp, o->row[n / each])[l], value = 0, shift = n % each * i->to.bits;
            if (n >= count && !load)
                break;
            if (i->space == SHARED)
                memory = address + bytes <= warp->launch->shared_bytes ? warp->block->shared + address : NULL;
            else
                memory = gpu_reach(warp->launch, address, bytes, load, &unit);
            if (memory == NULL) {
                if (warp->launch->fault == 0)
                    warp->launch->fault = 700;
                return;
            }
            if (n < count && i->space != SHARED)
                warp->used[unit] += bytes;
            if (load) {
                memcpy(&value, memory, bytes);
                *word = each == 1 ? value : (*word & ~(((1u << i->to.bits) - 1) << shift)) | value << shift;
            } else {
                value = *word >> shift;
                memcpy(memory, &value, bytes);
            }
        }
    }
}

void run_wmma_load(struct warp *warp, const struct instruction *i, uint32_t mask)
{
    (void)mask;
    move_matrix(warp, i, true);
}

void run_wmma_store(struct warp *warp, const struct instruction *i, uint32_t mask)
{
    (void)mask;
    move_matrix(warp, i, false);
}
