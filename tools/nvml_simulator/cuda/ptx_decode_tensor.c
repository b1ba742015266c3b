/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Make instructions of mma and wmma: products of matrices, and the moves of their fragments. */
#include "ptx_decode.h"

#include <stdio.h>
#include <string.h>

static uint8_t tensor_unit(struct type a)
{
    switch (a.kind) {
    case 'h':
        return TENSOR_BF16;
    case 't':
        return TENSOR_TF32;
    case '4':
    case '5':
        return TENSOR_FP8;
    case 's':
    case 'u':
        return TENSOR_INT8;
    default:
        return a.bits == 64 ? TENSOR_FP64 : TENSOR_F16;
    }
}

/* How many registers of a lane hold a fragment of m by n elements. */
static unsigned int registers(unsigned int elements, struct type type)
{
    return type.bits == 64 ? elements / LANES : elements * type.bits / 32 / LANES;
}

static bool add_fragment(struct operands *o, const struct operand *operand, unsigned int expected, struct type type)
{
    struct type in_register = operand->kind == LIST ? operand->list_type : operand->type;
    unsigned int count = operand->kind == LIST ? operand->count : 1;
    if ((operand->kind != LIST && operand->kind != REGISTER) || count != expected || o->count + count > MAX_OPERANDS)
        return false;
    if (in_register.bits != (type.bits == 64 ? 64 : 32) || in_register.kind == 'p')
        return false;
    if (in_register.kind == 'f' && type.kind != 'f')
        return false;
    if (operand->kind == LIST)
        memcpy(&o->row[o->count], operand->list, count * sizeof(o->row[0]));
    else
        o->row[o->count] = operand->row;
    o->count += count;
    return true;
}

static const struct shape {
    const char *kind;
    unsigned int m, n, k;
    const char *types; /* kinds of A, with their bits */
} mma_shapes[] = {
    {"m16n8k16", 16, 8, 16, "f16 h16 s8 u8"}, {"m16n8k8", 16, 8, 8, "f16 h16 t32"}, {"m16n8k4", 16, 8, 4, "t32"}, {"m16n8k32", 16, 8, 32, "s8 u8 48 58"},
    {"m8n8k16", 8, 8, 16, "s8 u8"}, {"m8n8k4", 8, 8, 4, "f64"}, {NULL, 0, 0, 0, NULL},
}, wmma_shapes[] = {
    {"m16n16k16", 16, 16, 16, "f16 h16 s8 u8"}, {"m16n16k8", 16, 16, 8, "t32"}, {"m32n8k16", 32, 8, 16, "f16 h16 s8 u8"}, {"m8n32k16", 8, 32, 16, "f16 h16 s8 u8"},
    {NULL, 0, 0, 0, NULL},
};

static const struct shape *find_shape(const struct shape *shape, const char *word, const struct type *a)
{
    char type[8] = "";
    if (a != NULL)
        snprintf(type, sizeof(type), "%c%u", a->kind, a->bits);
    for (; shape->kind != NULL; shape++)
        if (strcmp(shape->kind, word) == 0 && strstr(shape->types, type) != NULL)
            return shape;
    return NULL;
}

static bool sums_fit(const struct type *type)
{
    const struct type d = type[0], a = type[1], c = type[3];
    bool integers = a.kind == 's' || a.kind == 'u', b_is_of_kind = integers ? type[2].kind == 's' || type[2].kind == 'u' : a.kind == '4' || a.kind == '5'
                                                                    ? type[2].kind == '4' || type[2].kind == '5' : type[2].kind == a.kind;
    if (!b_is_of_kind || type[2].bits != a.bits)
        return false;
    if (integers)
        return d.kind == 's' && d.bits == 32 && c.kind == 's' && c.bits == 32;
    if (a.bits == 64)
        return d.bits == 64 && c.bits == 64;
    if (a.kind == 'f' && d.kind == 'f' && d.bits == 16)
        return c.kind == 'f' && c.bits == 16;
    return d.kind == 'f' && d.bits == 32 && c.kind == 'f' && c.bits == 32;
}

static void product(struct reader *reader, struct opcode *opcode, struct read *read, const struct shape *shape, const struct type *type, bool wmma)
{
    if (shape == NULL || !sums_fit(type)) {
        unknown(reader, opcode);
        return;
    }
    if (read->count != 4) {
        mismatch(reader, opcode);
        return;
    }
    struct instruction *i = append(reader);
    struct operands *o = more(i);
    const unsigned int elements[] = {shape->m * shape->n, shape->m * shape->k, shape->k * shape->n, shape->m * shape->n};
    for (unsigned int n = 0; n < 4; n++) {
        unsigned int count = registers(elements[n], type[n]);
        if (wmma && type[n].kind == 'f' && type[n].bits == 16 && (n == 1 || n == 2))
            count = 8; /* every element twice, as Volta has it */
        o->fragment[n] = o->count;
        o->type[n] = type[n];
        if (!add_fragment(o, &read->operand[n], count, type[n])) {
            mismatch(reader, opcode);
            return;
        }
    }
    o->fragment[4] = o->count;
    o->m = shape->m;
    o->n = shape->n;
    o->k = shape->k;
    i->run = wmma ? run_wmma : run_mma;
    i->to = type[0].bits == 64 ? (struct type){'f', 64} : (struct type){'f', 32};
    i->unit = tensor_unit(type[1]);
    i->work = 2.0 * shape->m * shape->n * shape->k;
}

void decode_mma(struct reader *reader, struct opcode *opcode, struct read *read)
{
    const bool saturate = without(opcode, "satfinite");
    struct type type[4];
    (void)without(opcode, "kind::f8f6f4");
    /* mma.sync.aligned.SHAPE.row.col.D.A.B.C */
    bool known = opcode->parts == 10 && strcmp(opcode->part[1], "sync") == 0 && strcmp(opcode->part[2], "aligned") == 0 && strcmp(opcode->part[4], "row") == 0 &&
                 strcmp(opcode->part[5], "col") == 0;
    for (unsigned int n = 0; n < 4 && known; n++)
        known = type_of_word(opcode->part[6 + n], &type[n]);
    if (!known) {
        unknown(reader, opcode);
        return;
    }
    product(reader, opcode, read, find_shape(mma_shapes, opcode->part[3], &type[1]), type, false);
    if (!reader->failed)
        reader->kernel->code[reader->kernel->length - 1].more->saturate = saturate;
}

static void decode_matrix_move(struct reader *reader, struct opcode *opcode, struct read *read, bool load)
{
    /* wmma.load.a.sync.aligned.LAYOUT.SHAPE{.global|.shared}.TYPE */
    const bool shared = without(opcode, "shared");
    const struct shape *shape;
    struct type type;
    (void)without(opcode, "global");
    bool known = opcode->parts == 8 && strcmp(opcode->part[3], "sync") == 0 && strcmp(opcode->part[4], "aligned") == 0 &&
                 (strcmp(opcode->part[5], "row") == 0 || strcmp(opcode->part[5], "col") == 0) && type_of_word(opcode->part[7], &type);
    const char which = known ? opcode->part[2][0] : ' ';
    known = known && strchr(load ? "abc" : "d", which) != NULL && (shape = find_shape(wmma_shapes, opcode->part[6], NULL)) != NULL;
    if (!known) {
        unknown(reader, opcode);
        return;
    }
    if (read->count < 2 || read->count > 3) {
        mismatch(reader, opcode);
        return;
    }
    uint32_t stride = read->count == 3 ? source(reader, opcode, &read->operand[2], (struct type){'u', 32}) : NOWHERE;
    struct instruction *i = append(reader);
    struct operands *o = more(i);
    o->m = which == 'b' ? shape->k : shape->m;
    o->n = which == 'a' ? shape->k : shape->n;
    o->column_major = opcode->part[5][0] == 'c';
    o->stride = stride;
    unsigned int count = registers(o->m * o->n, type);
    if (type.kind == 'f' && type.bits == 16 && (which == 'a' || which == 'b'))
        count = 8;
    if (!add_fragment(o, &read->operand[load ? 0 : 1], count, type))
        mismatch(reader, opcode);
    i->run = load ? run_wmma_load : run_wmma_store;
    i->space = shared ? SHARED : GLOBAL;
    i->to = type;
    (void)address(reader, opcode, &read->operand[load ? 1 : 0], i);
    if (!(i->bytes & 128))
        mismatch(reader, opcode);
}

void decode_wmma(struct reader *reader, struct opcode *opcode, struct read *read)
{
    struct type type[4];
    if (opcode->parts > 2 && strcmp(opcode->part[1], "load") == 0) {
        decode_matrix_move(reader, opcode, read, true);
        return;
    }
    if (opcode->parts > 2 && strcmp(opcode->part[1], "store") == 0) {
        decode_matrix_move(reader, opcode, read, false);
        return;
    }
    const bool saturate = without(opcode, "satfinite");
    (void)without(opcode, "rn");
    /* wmma.mma.sync.aligned.row.col.SHAPE.D.C (f16) or .D.A.B.C. Our fragments hold elements, so the layout changes nothing. */
    bool known = (opcode->parts == 9 || opcode->parts == 11) && strcmp(opcode->part[1], "mma") == 0 && strcmp(opcode->part[2], "sync") == 0 &&
                 strcmp(opcode->part[3], "aligned") == 0;
    for (unsigned int n = 4; n < 6 && known; n++)
        known = strcmp(opcode->part[n], "row") == 0 || strcmp(opcode->part[n], "col") == 0;
    if (known && opcode->parts == 9) {
        type[1] = type[2] = (struct type){'f', 16};
        known = type_of_word(opcode->part[7], &type[0]) && type_of_word(opcode->part[8], &type[3]);
    } else {
        for (unsigned int n = 0; n < 4 && known; n++)
            known = type_of_word(opcode->part[7 + n], &type[n]);
    }
    if (!known) {
        unknown(reader, opcode);
        return;
    }
    product(reader, opcode, read, find_shape(wmma_shapes, opcode->part[6], &type[1]), type, true);
    if (!reader->failed)
        reader->kernel->code[reader->kernel->length - 1].more->saturate = saturate;
}
