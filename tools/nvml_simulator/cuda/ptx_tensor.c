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

#include <stdlib.h>
#include <string.h>

enum { SIDE = 32 };

struct product {
    double a64[SIDE][SIDE], b64[SIDE][SIDE], c64[SIDE][SIDE];
    float a[SIDE][SIDE], b[SIDE][SIDE], c[SIDE][SIDE];
    int64_t ci[SIDE][SIDE];
};

/* Branchless, so that whole rows are converted at once. */
static inline float wide_f16(uint32_t bits)
{
    uint32_t sign = (bits & 0x8000u) << 16, top = (bits & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0;
    return f32_of_bits(sign | top | bits_of_f32(f32_of_bits((bits & 0x7fffu) << 13) * 0x1p112f));
}

static bool integral(struct type type)
{
    return type.kind == 's' || type.kind == 'u';
}

/* Where the elements of a fragment belong: element n of lane l at place[n * LANES + l], row * SIDE + column. */
typedef uint16_t places[SIDE * LANES];

static float table_e4m3[256], table_e5m2[256];

static void __attribute__((constructor)) make_tables(void)
{
    for (uint32_t bits = 0; bits < 256; bits++) {
        table_e4m3[bits] = e4m3_to_f32(bits);
        table_e5m2[bits] = e5m2_to_f32(bits);
    }
}

/* All elements of fragment A or B, as f32, to their places. */
FOR_WIDE_VECTORS static void spread_out(const struct warp *warp, const struct operands *o, unsigned int which, unsigned int count, const uint16_t *place, float *to)
{
    const struct type type = o->type[which];
    const unsigned int each = 32u / type.bits;
    for (unsigned int n = 0; n < count; n++, place += LANES) {
        const uint32_t *word = ROW(uint32_t, warp, o->row[o->fragment[which] + n / each]);
        const unsigned int shift = n % each * type.bits;
        float value[LANES];
        switch (type.kind) {
        case 's':
            for (int l = 0; l < LANES; l++)
                value[l] = (float)(int8_t)(word[l] >> shift);
            break;
        case 'u':
            for (int l = 0; l < LANES; l++)
                value[l] = (float)(uint8_t)(word[l] >> shift);
            break;
        case 'h':
            for (int l = 0; l < LANES; l++)
                value[l] = f32_of_bits(word[l] >> shift << 16);
            break;
        case 't':
            for (int l = 0; l < LANES; l++)
                value[l] = f32_of_bits(word[l] & ~0x1fffu);
            break;
        case '4':
            for (int l = 0; l < LANES; l++)
                value[l] = table_e4m3[word[l] >> shift & 255];
            break;
        case '5':
            for (int l = 0; l < LANES; l++)
                value[l] = table_e5m2[word[l] >> shift & 255];
            break;
        default:
            for (int l = 0; l < LANES; l++)
                value[l] = wide_f16(word[l] >> shift);
        }
        for (int l = 0; l < LANES; l++)
            to[place[l]] = value[l];
    }
}

FOR_WIDE_VECTORS static void multiply(struct product *p, const struct operands *o)
{
    const unsigned int m = o->m, n = o->n, k = o->k;
    if (o->type[1].bits == 64) {
        for (unsigned int r = 0; r < m; r++)
            for (unsigned int x = 0; x < k; x++)
                for (unsigned int c = 0; c < n; c++)
                    p->c64[r][c] = fma(p->a64[r][x], p->b64[x][c], p->c64[r][c]);
        return;
    }
    const bool whole = integral(o->type[1]); /* 32 products of bytes are exact in f32 */
    for (unsigned int r = 0; r < m; r++)
        for (unsigned int c = 0; c < n; c += 8) {
            float sum[8];
            memcpy(sum, &p->c[r][c], sizeof(sum));
            for (unsigned int e = 0; e < 8 && whole; e++)
                sum[e] = 0;
            for (unsigned int x = 0; x < k; x++) {
                const float by = p->a[r][x];
                for (unsigned int e = 0; e < 8; e++)
                    sum[e] += by * p->b[x][c + e];
            }
            memcpy(&p->c[r][c], sum, sizeof(sum));
            for (unsigned int e = 0; e < 8 && whole; e++)
                p->ci[r][c + e] += (int64_t)sum[e];
        }
}

/* C, or D, from and to its places. */
FOR_WIDE_VECTORS static void take_sums(const struct warp *warp, const struct operands *o, struct product *p, unsigned int count, const uint16_t *place)
{
    const struct type type = o->type[3];
    for (unsigned int n = 0; n < count; n++, place += LANES) {
        const uint32_t row = o->row[o->fragment[3] + (type.bits == 16 ? n / 2 : n)];
        for (int l = 0; l < LANES; l++) {
            if (type.bits == 64)
                (&p->c64[0][0])[place[l]] = ROW(double, warp, row)[l];
            else if (integral(type))
                (&p->ci[0][0])[place[l]] = ROW(int32_t, warp, row)[l];
            else if (type.bits == 16)
                (&p->c[0][0])[place[l]] = f16_to_f32(ROW(uint32_t, warp, row)[l] >> n % 2 * 16 & 0xffff);
            else
                (&p->c[0][0])[place[l]] = ROW(float, warp, row)[l];
        }
    }
}

FOR_WIDE_VECTORS static void give_sums(struct warp *warp, const struct operands *o, const struct product *p, unsigned int count, const uint16_t *place)
{
    const struct type type = o->type[0];
    for (unsigned int n = 0; n < count; n++, place += LANES) {
        const uint32_t row = o->row[type.bits == 16 ? n / 2 : n];
        for (int l = 0; l < LANES; l++) {
            if (type.bits == 64) {
                ROW(double, warp, row)[l] = (&p->c64[0][0])[place[l]];
            } else if (integral(type)) {
                int64_t sum = (&p->ci[0][0])[place[l]];
                if (o->saturate)
                    sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
                ROW(uint32_t, warp, row)[l] = (uint32_t)sum;
            } else if (type.bits == 16) {
                uint32_t *word = &ROW(uint32_t, warp, row)[l];
                unsigned int shift = n % 2 * 16;
                *word = (*word & ~(0xffffu << shift)) | f16_of_f32((&p->c[0][0])[place[l]]) << shift;
            } else {
                ROW(float, warp, row)[l] = (&p->c[0][0])[place[l]];
            }
        }
    }
}

/* The places of A, B and of C and D, made once for each shape, kind and type. */
struct layout {
    bool wmma;
    unsigned int m, n, k, bits, count[3];
    places place[3];
    struct layout *next;
};

static void find_places(struct layout *layout)
{
    const unsigned int m = layout->m, n = layout->n, k = layout->k, each = layout->bits == 64 ? 1 : 32u / layout->bits, high = m == 16 ? 2 : 1;
    layout->count[0] = m * k / LANES;
    layout->count[1] = k * n / LANES;
    layout->count[2] = m * n / LANES;
    for (unsigned int l = 0; l < LANES; l++) {
        const unsigned int group = l >> 2, within = l & 3;
        for (unsigned int which = 0; which < 3; which++)
            for (unsigned int e = 0; e < layout->count[which]; e++) {
                const unsigned int columns = which == 0 ? k : n, word = e / each;
                unsigned int row = (l * layout->count[which] + e) / columns, column = (l * layout->count[which] + e) % columns;
                if (!layout->wmma && which == 0) {
                    row = group + 8 * (word % high);
                    column = within * each + e % each + word / high * 4 * each;
                } else if (!layout->wmma && which == 1) {
                    row = within * each + e % each + word * 4 * each;
                    column = group;
                } else if (!layout->wmma) {
                    row = group + e / 2 * 8;
                    column = within * 2 + e % 2;
                }
                layout->place[which][e * LANES + l] = (uint16_t)(row * SIDE + column);
            }
    }
}

static const struct layout *layout_of(const struct operands *o, bool wmma)
{
    static struct layout *layouts;
    struct layout *one = layouts;
    while (one != NULL && (one->wmma != wmma || one->m != o->m || one->n != o->n || one->k != o->k || one->bits != o->type[1].bits))
        one = one->next;
    if (one == NULL) {
        one = calloc(1, sizeof(*one));
        if (one == NULL)
            abort();
        *one = (struct layout){.wmma = wmma, .m = o->m, .n = o->n, .k = o->k, .bits = o->type[1].bits, .next = layouts};
        find_places(one);
        layouts = one;
    }
    return one;
}

/* All lanes take part, or it is undefined. */
static void run_product(struct warp *warp, const struct operands *o, bool wmma)
{
    static struct product p; /* one thread runs kernels at a time */
    const struct layout *layout = layout_of(o, wmma);
    if (o->type[1].bits == 64) {
        for (int l = 0; l < LANES; l++) {
            p.a64[layout->place[0][l] / SIDE][layout->place[0][l] % SIDE] = ROW(double, warp, o->row[o->fragment[1]])[l];
            p.b64[layout->place[1][l] / SIDE][layout->place[1][l] % SIDE] = ROW(double, warp, o->row[o->fragment[2]])[l];
        }
    } else {
        spread_out(warp, o, 1, layout->count[0], layout->place[0], &p.a[0][0]);
        spread_out(warp, o, 2, layout->count[1], layout->place[1], &p.b[0][0]);
    }
    take_sums(warp, o, &p, layout->count[2], layout->place[2]);
    multiply(&p, o);
    give_sums(warp, o, &p, layout->count[2], layout->place[2]);
}

void run_mma(struct warp *warp, const struct instruction *i, uint32_t mask)
{
    (void)mask;
    run_product(warp, i->more, false);
}

void run_wmma(struct warp *warp, const struct instruction *i, uint32_t mask)
{
    (void)mask;
    run_product(warp, i->more, true);
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
