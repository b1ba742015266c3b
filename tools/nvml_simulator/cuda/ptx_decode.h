/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* What all files that make instructions of text use. */
#ifndef PTX_DECODE_H
#define PTX_DECODE_H

#include "ptx_read.h"

struct opcode {
    char whole[256], copy[256];
    const char *part[PARTS];
    unsigned int parts;
};

struct read {
    unsigned int count;
    struct operand operand[6];
};

bool without(struct opcode *opcode, const char *modifier);
void unknown(struct reader *reader, const struct opcode *opcode);
void mismatch(struct reader *reader, const struct opcode *opcode);
struct instruction *append(struct reader *reader);
struct operands *more(struct instruction *i);
uint32_t source(struct reader *reader, const struct opcode *opcode, const struct operand *operand, struct type type);
bool address(struct reader *reader, const struct opcode *opcode, const struct operand *operand, struct instruction *i);
void decode_mma(struct reader *reader, struct opcode *opcode, struct read *read);
void decode_wmma(struct reader *reader, struct opcode *opcode, struct read *read);

#endif
