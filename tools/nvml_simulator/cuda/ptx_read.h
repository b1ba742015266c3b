/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Read a PTX text: words, declarations of a module and of a kernel, operands. ptx_decode.c makes instructions of them. */
#ifndef PTX_READ_H
#define PTX_READ_H

#include "ptx.h"

enum token { WORD, NUMBER, TEXT, SIGN, END };
enum { NAME = 128, FAMILIES = 512, LABELS = 512, FIXUPS = 4096, VARIABLES = 64, PARTS = 24 };

/* .reg .u64 %rd<12>: `count` registers from `row` on, `stride` apart; without a number count is 0. */
struct family {
    char prefix[NAME];
    unsigned int count;
    struct type type;
    uint32_t row, stride;
};

struct place {
    char name[NAME];
    uint32_t at; /* of a label its instruction, of a variable its offset; of a fixup the instruction that wants it */
    unsigned int line;
};

struct constant {
    uint64_t value;
    uint32_t row;
    bool wide;
};

enum operand_kind { REGISTER, INTEGER, FLOATING, ADDRESS, LIST, SINK, SYMBOL, SPECIAL_REGISTER };

struct operand {
    enum operand_kind kind;
    char name[NAME];
    struct type type;
    uint32_t row, second; /* second: of p|q */
    uint64_t value;
    double number;
    bool hexadecimal, negated, is_double;
    int special;
    unsigned int count;
    uint32_t list[MAX_OPERANDS];
    struct type list_type;
    struct operand *values; /* of a list whose elements are no registers */
};

struct reader {
    const char *at;
    unsigned int line;
    enum token token;
    char text[256];
    uint64_t number;
    double real;
    char number_kind; /* 'i' integer, 'f' 0f, 'd' 0d, 'r' decimal fraction */
    bool failed;
    char *log;
    size_t log_bytes;
    /* of the kernel that is read */
    struct module *module;
    struct kernel *kernel;
    struct family family[FAMILIES];
    unsigned int families;
    struct place label[LABELS], fixup[FIXUPS], variable[VARIABLES];
    unsigned int labels, fixups, variables;
    struct constant *constant;
    unsigned int constants, constant_room;
    uint32_t rows_end;
};

void next(struct reader *reader);
/* The text is refused: a line for the log; the first one counts. */
void refuse_text(struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool is_sign(const struct reader *reader, char sign);
bool take_sign(struct reader *reader, char sign);
void want_sign(struct reader *reader, char sign);
bool is_word(const struct reader *reader, const char *word);
bool type_of_word(const char *word, struct type *type);
uint32_t new_row(struct reader *reader, unsigned int bytes);
uint32_t constant_row(struct reader *reader, uint64_t value, bool wide);
void read_operand(struct reader *reader, struct operand *operand);
bool find_register(const struct reader *reader, const char *name, struct type *type, uint32_t *row);

/* ptx_decode.c */
void decode_instruction(struct reader *reader);
void finish_kernel(struct reader *reader);

#endif
