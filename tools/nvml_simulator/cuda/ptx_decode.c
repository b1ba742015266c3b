/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Make an instruction of its text. What is not known is refused: nothing is skipped. */
#include "ptx_decode.h"
#include "ptx_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The dots within "L1::no_allocate" do not separate. */
static void split(struct opcode *opcode, const char *text)
{
    snprintf(opcode->whole, sizeof(opcode->whole), "%s", text);
    snprintf(opcode->copy, sizeof(opcode->copy), "%s", text);
    opcode->parts = 0;
    for (char *rest = opcode->copy; rest != NULL && opcode->parts < PARTS;) {
        opcode->part[opcode->parts++] = rest;
        rest = strchr(rest, '.');
        if (rest != NULL)
            *rest++ = '\0';
    }
}

static bool one_of(const char *word, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strcmp(word, *words) == 0)
            return true;
    return false;
}

/* Take a modifier out, if it is there. */
bool without(struct opcode *opcode, const char *modifier)
{
    for (unsigned int i = 1; i < opcode->parts; i++)
        if (strcmp(opcode->part[i], modifier) == 0) {
            memmove(&opcode->part[i], &opcode->part[i + 1], (opcode->parts - i - 1) * sizeof(opcode->part[0]));
            opcode->parts--;
            return true;
        }
    return false;
}

void unknown(struct reader *reader, const struct opcode *opcode)
{
    refuse_text(reader, "Not a name of any known instruction: '%s'", opcode->whole);
}

void mismatch(struct reader *reader, const struct opcode *opcode)
{
    refuse_text(reader, "Arguments mismatch for instruction '%s'", opcode->whole);
}

struct instruction *append(struct reader *reader)
{
    struct kernel *kernel = reader->kernel;
    if (kernel->length == kernel->capacity) {
        kernel->capacity = 2 * kernel->capacity + 64;
        kernel->code = realloc(kernel->code, kernel->capacity * sizeof(*kernel->code));
        if (kernel->code == NULL)
            abort();
    }
    struct instruction *i = &kernel->code[kernel->length++];
    memset(i, 0, sizeof(*i));
    i->d = i->a = i->b = i->c = i->e = i->predicate = i->target = i->loop = NOWHERE;
    i->unit = INT32;
    i->work = LANES;
    i->line = reader->line;
    return i;
}

struct operands *more(struct instruction *i)
{
    i->more = calloc(1, sizeof(*i->more));
    if (i->more == NULL)
        abort();
    i->more->stride = NOWHERE;
    return i->more;
}

/* May a register of this type be an operand of that type? */
static bool fits(struct type wanted, struct type type)
{
    bool integers = (wanted.kind == 'u' || wanted.kind == 's') && (type.kind == 'u' || type.kind == 's');
    if (wanted.kind == 'p' || type.kind == 'p')
        return wanted.kind == type.kind;
    return wanted.bits == type.bits && (wanted.kind == 'b' || type.kind == 'b' || integers || wanted.kind == type.kind || strchr("ht", wanted.kind) != NULL);
}

/* The row of a source; a clock is read by an instruction of its own, before. */
uint32_t source(struct reader *reader, const struct opcode *opcode, const struct operand *operand, struct type type)
{
    uint64_t bits = operand->value;
    float single;
    double number = operand->number;
    switch (operand->kind) {
    case REGISTER:
        if (!fits(type, operand->type))
            mismatch(reader, opcode);
        return operand->row;
    case SPECIAL_REGISTER:
        if (!fits(type, operand->type))
            mismatch(reader, opcode);
        uint32_t *row = &reader->kernel->special[operand->special];
        if (*row == NOWHERE)
            *row = new_row(reader, operand->type.bits == 64 ? 256 : 128);
        if (operand->special >= CLOCK) {
            struct instruction *clock = append(reader);
            clock->run = run_clock;
            clock->option = (uint8_t)operand->special;
            clock->d = *row;
        }
        return *row;
    case INTEGER:
        if (type.kind == 'p')
            mismatch(reader, opcode);
        if (type.kind == 'f' && type.bits >= 32) /* an integer is no constant of a floating-point instruction */
            mismatch(reader, opcode);
        return constant_row(reader, type.bits < 32 ? bits & ((1u << type.bits) - 1) : bits, type.bits == 64);
    case FLOATING:
        if (type.bits == 64 && operand->hexadecimal && !operand->is_double) {
            uint32_t low = (uint32_t)bits;
            memcpy(&single, &low, sizeof(single));
            number = (double)single;
            memcpy(&bits, &number, sizeof(bits));
        } else if (type.bits == 64 && !operand->hexadecimal) {
            memcpy(&bits, &number, sizeof(bits));
        } else if (type.bits == 32 && (!operand->hexadecimal || operand->is_double)) {
            if (operand->hexadecimal)
                memcpy(&number, &bits, sizeof(number));
            single = (float)number;
            uint32_t low;
            memcpy(&low, &single, sizeof(low));
            bits = low;
        }
        if (type.bits < 32 || type.kind == 'u' || type.kind == 's')
            mismatch(reader, opcode);
        return constant_row(reader, bits, type.bits == 64);
    case SYMBOL:
        for (unsigned int n = 0; n < reader->variables; n++)
            if (strcmp(reader->variable[n].name, operand->name) == 0)
                return constant_row(reader, reader->variable[n].at, type.bits == 64);
        refuse_text(reader, "Unknown symbol '%s'", operand->name);
        return NOWHERE;
    default:
        mismatch(reader, opcode);
        return NOWHERE;
    }
}

static uint32_t result(struct reader *reader, const struct opcode *opcode, const struct operand *operand, struct type type)
{
    if (operand->kind == SINK)
        return NOWHERE;
    if (operand->kind != REGISTER || !fits(type, operand->type))
        mismatch(reader, opcode);
    return operand->row;
}

/* Operations of the table ---------------------------------------------------------------------------------------------------- */

static struct type letter_type(char letter, struct type type)
{
    switch (letter) {
    case 'p':
        return (struct type){'p', 1};
    case 'f':
        return (struct type){'f', 32};
    case 'd':
        return (struct type){'f', 64};
    case 'h':
        return (struct type){type.bits == 16 ? type.kind : 'u', 16};
    case 'l':
        return (struct type){type.kind == 'f' ? 'b' : type.kind, 64};
    default:
        return (struct type){type.kind == 'f' ? 'b' : type.kind, 32};
    }
}

static void decode_operation(struct reader *reader, struct opcode *opcode, struct read *read)
{
    uint8_t option = 0;
    struct type type = {'b', 32};
    char name[256];
    int length = 0;
    (void)type_of_word(opcode->part[opcode->parts - 1], &type);
    bool floating = type.kind == 'f' || type.kind == 'h' || strstr(opcode->whole, "f16x2") != NULL;
    if (floating) {
        option |= without(opcode, "ftz") ? FLUSH : 0;
        option |= without(opcode, "sat") ? SATURATE : 0;
        if (!without(opcode, "rn") && !without(opcode, "approx"))
            (void)without(opcode, "full");
    }
    for (unsigned int i = 0; i < opcode->parts; i++)
        length += snprintf(name + length, sizeof(name) - (size_t)length, "%s%s", i > 0 ? "." : "", opcode->part[i]);
    const struct operation *operation = operations;
    while (operation->name != NULL && strcmp(operation->name, name) != 0)
        operation++;
    if (operation->name == NULL || (option != 0 && type.bits != 32)) {
        unknown(reader, opcode);
        return;
    }
    if (read->count != strlen(operation->shape)) {
        mismatch(reader, opcode);
        return;
    }
    uint32_t row[6] = {NOWHERE, NOWHERE, NOWHERE, NOWHERE, NOWHERE, NOWHERE};
    bool shift = strncmp(name, "sh", 2) == 0;
    for (unsigned int n = 1; n < read->count; n++) {
        struct type wanted = letter_type(operation->shape[n], type);
        if (shift && n == read->count - 1)
            wanted = (struct type){'b', 32};
        row[n] = source(reader, opcode, &read->operand[n], wanted);
    }
    struct instruction *i = append(reader);
    i->to = letter_type(operation->shape[0], type);
    i->d = result(reader, opcode, &read->operand[0], i->to);
    i->run = operation->run;
    i->unit = operation->unit;
    i->work = operation->work;
    i->option = option;
    i->a = row[1];
    i->b = row[2] != NOWHERE ? row[2] : row[1];
    i->c = row[3] != NOWHERE ? row[3] : row[1];
    i->e = row[4];
    if (strncmp(name, "bfi", 3) == 0) { /* d, a, b, position, length */
        i->c = row[3];
        i->e = row[4];
    }
    if (i->d == NOWHERE)
        mismatch(reader, opcode);
}

/* Those with operands of their own ------------------------------------------------------------------------------------------------ */

static const char *const comparisons[] = {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan", NULL};

static int comparison(const char *word)
{
    for (int i = 0; comparisons[i] != NULL; i++)
        if (strcmp(comparisons[i], word) == 0)
            return i;
    if (strcmp(word, "lo") == 0)
        return LT;
    if (strcmp(word, "ls") == 0)
        return LE;
    return strcmp(word, "hi") == 0 ? GT : strcmp(word, "hs") == 0 ? GE : -1;
}

static void decode_setp(struct reader *reader, struct opcode *opcode, struct read *read)
{
    struct type type;
    (void)without(opcode, "ftz");
    int compare = opcode->parts >= 3 ? comparison(opcode->part[1]) : -1;
    if (compare < 0 || opcode->parts > 4 || !type_of_word(opcode->part[opcode->parts - 1], &type) || type.kind == 'p' ||
        (type.bits < 32 && (type.kind != 'u' || type.bits != 16)) || (type.kind != 'f' && compare > GE)) {
        unknown(reader, opcode);
        return;
    }
    bool joined = opcode->parts == 4;
    if (read->count != (joined ? 4u : 3u)) {
        mismatch(reader, opcode);
        return;
    }
    const struct type predicate = {'p', 1};
    uint32_t a = source(reader, opcode, &read->operand[1], type), b = source(reader, opcode, &read->operand[2], type), c = NOWHERE;
    if (joined)
        c = source(reader, opcode, &read->operand[3], predicate);
    struct instruction *i = append(reader);
    i->run = run_setp;
    i->d = result(reader, opcode, &read->operand[0], predicate);
    i->e = read->operand[0].second;
    i->a = a;
    i->b = b;
    i->c = c;
    i->from = type;
    i->option = (uint8_t)compare;
    i->space = joined ? opcode->part[2][0] : 0;
    i->offset = joined && read->operand[3].negated;
    if (joined && strcmp(opcode->part[2], "and") != 0 && strcmp(opcode->part[2], "or") != 0 && strcmp(opcode->part[2], "xor") != 0)
        unknown(reader, opcode);
    if (type.kind == 'f')
        i->unit = type.bits == 64 ? FP64 : FP32;
}

static void decode_selp(struct reader *reader, struct opcode *opcode, struct read *read)
{
    struct type type;
    if (opcode->parts != 2 || !type_of_word(opcode->part[1], &type) || type.kind == 'p' || read->count != 4) {
        unknown(reader, opcode);
        return;
    }
    uint32_t a = source(reader, opcode, &read->operand[1], type), b = source(reader, opcode, &read->operand[2], type);
    uint32_t c = source(reader, opcode, &read->operand[3], (struct type){'p', 1});
    struct instruction *i = append(reader);
    i->run = run_selp;
    i->d = result(reader, opcode, &read->operand[0], type);
    i->a = a;
    i->b = b;
    i->c = c;
    i->from = type;
}

static bool packed_type(const char *word, struct type *type)
{
    static const struct {
        const char *word;
        struct type type;
    } types[] = {{"bf16x2", {'h', 16}}, {"f16x2", {'f', 16}}, {"e4m3x2", {'4', 8}}, {"e5m2x2", {'5', 8}}};
    for (size_t n = 0; n < sizeof(types) / sizeof(types[0]); n++)
        if (strcmp(types[n].word, word) == 0) {
            *type = types[n].type;
            return true;
        }
    return false;
}

static void decode_convert(struct reader *reader, struct opcode *opcode, struct read *read)
{
    static const struct {
        const char *word;
        uint8_t option;
    } roundings[] = {{"rn", NEAREST}, {"rz", TO_ZERO}, {"rm", DOWN}, {"rp", UP}, {"rna", NEAREST},
                     {"rni", NEAREST | INTEGRAL}, {"rzi", TO_ZERO | INTEGRAL}, {"rmi", DOWN | INTEGRAL}, {"rpi", UP | INTEGRAL}};
    uint8_t option = 0;
    bool given = false;
    for (size_t n = 0; n < sizeof(roundings) / sizeof(roundings[0]); n++)
        if (without(opcode, roundings[n].word)) {
            option |= roundings[n].option;
            given = true;
        }
    option |= without(opcode, "ftz") ? FLUSH : 0;
    option |= without(opcode, "sat") ? SATURATE : 0;
    bool finite = without(opcode, "satfinite"), relu = without(opcode, "relu");
    struct type to, from, in_register;
    bool packed = opcode->parts == 3 && packed_type(opcode->part[1], &to);
    if (opcode->parts != 3 || (!packed && !type_of_word(opcode->part[1], &to)) || !type_of_word(opcode->part[2], &from) || relu ||
        to.kind == 'p' || from.kind == 'p' || to.kind == 'b' || from.kind == 'b' || read->count != (packed ? 3u : 2u)) {
        unknown(reader, opcode);
        return;
    }
    /* What ptxas demands: a rounding where digits get lost, and none where they do not. */
    bool real_to = to.kind != 'u' && to.kind != 's', real_from = from.kind != 'u' && from.kind != 's';
    if ((real_from && !real_to && !given) || (real_to && !real_from && !given) || (real_to && real_from && to.bits < from.bits && !given) ||
        ((to.kind == '4' || to.kind == '5') && !finite))
        mismatch(reader, opcode);
    uint32_t a = NOWHERE, b = NOWHERE;
    for (unsigned int n = read->count - 1; n >= 1; n--) {
        const struct operand *operand = &read->operand[n];
        /* The register of a source may be wider than its type. */
        in_register = from;
        if (operand->kind == REGISTER && !real_from && operand->type.kind != 'f' && operand->type.bits >= from.bits)
            in_register = operand->type;
        if (real_from && from.bits == 16)
            in_register = (struct type){'b', 16};
        b = a;
        a = source(reader, opcode, operand, in_register);
    }
    struct instruction *i = append(reader);
    const struct operand *d = &read->operand[0];
    in_register = to;
    if (to.kind == 't' || (packed && to.bits == 16))
        in_register = (struct type){'b', 32};
    else if (packed || to.kind == 'h')
        in_register = (struct type){'b', 16};
    else if (!real_to && d->kind == REGISTER && d->type.kind != 'f' && d->type.bits >= to.bits)
        in_register = d->type;
    i->run = run_convert;
    i->d = result(reader, opcode, d, in_register);
    i->a = a;
    i->b = b;
    i->to = to;
    i->from = from;
    i->bytes = in_register.bits == 64 ? 8 : in_register.bits == 16 ? 2 : in_register.bits == 8 ? 1 : 4;
    i->option = option;
}

static void decode_move(struct reader *reader, struct opcode *opcode, struct read *read)
{
    struct type type;
    if (read->count != 2 || opcode->parts != 2 || !type_of_word(opcode->part[1], &type) || (read->operand[0].kind != LIST && read->operand[1].kind != LIST)) {
        decode_operation(reader, opcode, read);
        return;
    }
    bool pack = read->operand[1].kind == LIST;
    const struct operand *list = &read->operand[pack ? 1 : 0], *whole = &read->operand[pack ? 0 : 1];
    const unsigned int part = type.bits / list->count;
    if (type.kind != 'b' || (list->count != 2 && list->count != 4) || part < 8 || list->list_type.bits != part) {
        mismatch(reader, opcode);
        return;
    }
    uint32_t row = pack ? result(reader, opcode, whole, type) : source(reader, opcode, whole, type);
    struct instruction *i = append(reader);
    i->run = pack ? run_pack : run_unpack;
    i->unit = FREE;
    i->to = type;
    i->bytes = (uint8_t)(part / 8);
    i->d = i->a = row;
    struct operands *parts = more(i);
    parts->count = list->count;
    memcpy(parts->row, list->list, sizeof(parts->row));
}

bool address(struct reader *reader, const struct opcode *opcode, const struct operand *operand, struct instruction *i)
{
    if (operand->kind != ADDRESS) {
        mismatch(reader, opcode);
        return false;
    }
    i->offset = (int64_t)operand->value;
    i->e = operand->row;
    bool named = operand->row == NOWHERE && operand->name[0] != '\0';
    if (i->space == PARAM) {
        for (unsigned int n = 0; n < reader->kernel->parameters; n++) {
            const struct parameter *parameter = &reader->kernel->parameter[n];
            if (named && strcmp(parameter->name, operand->name) == 0 && i->offset >= 0 && i->offset + (i->bytes & 127) * i->vector <= parameter->bytes) {
                i->offset += parameter->offset;
                return true;
            }
        }
        refuse_text(reader, "Unknown symbol '%s'", operand->name);
        return false;
    }
    if (named) {
        for (unsigned int n = 0; n < reader->variables; n++)
            if (i->space == SHARED && strcmp(reader->variable[n].name, operand->name) == 0) {
                i->offset += reader->variable[n].at;
                return true;
            }
        refuse_text(reader, "Unknown symbol '%s'", operand->name);
        return false;
    }
    if (operand->row != NOWHERE && operand->type.bits == 64)
        i->bytes |= 128;
    else if (operand->row != NOWHERE && (operand->type.bits != 32 || i->space == GLOBAL)) /* .address_size 64 */
        mismatch(reader, opcode);
    return true;
}

static void decode_memory(struct reader *reader, struct opcode *opcode, struct read *read, bool load)
{
    static const char *const ignored[] = {"weak", "relaxed", "acquire", "release", "volatile", "cta", "cluster", "gpu", "sys", "ca", "cg", "cs", "lu", "cv", "nc", "wb", "wt",
                                          "L1::evict_first", "L1::evict_last", "L1::no_allocate", "L1::evict_normal", "L1::evict_unchanged", "L2::128B", "L2::256B", "L2::64B", NULL};
    int space = GLOBAL;
    unsigned int vector = 1;
    struct type type;
    bool known = opcode->parts >= 2 && type_of_word(opcode->part[opcode->parts - 1], &type) && type.kind != 'p';
    for (unsigned int n = 1; n + 1 < opcode->parts && known; n++) {
        const char *part = opcode->part[n];
        if (strcmp(part, "shared") == 0)
            space = SHARED;
        else if (strcmp(part, "param") == 0)
            space = PARAM;
        else if (strcmp(part, "v2") == 0 || strcmp(part, "v4") == 0)
            vector = part[1] - '0';
        else if (strcmp(part, "global") != 0 && !one_of(part, ignored))
            known = false;
    }
    if (!known || (space == PARAM && !load) || vector * type.bits > 128) {
        unknown(reader, opcode);
        return;
    }
    if (read->count != 2) {
        mismatch(reader, opcode);
        return;
    }
    const struct operand *data = &read->operand[load ? 0 : 1], *place = &read->operand[load ? 1 : 0];
    uint32_t row = NOWHERE;
    struct type in_register = data->kind == LIST ? data->list_type : data->type;
    if ((data->kind == LIST) != (vector > 1) || (data->kind == LIST && data->count != vector)) {
        mismatch(reader, opcode);
        return;
    }
    if (data->kind == REGISTER || data->kind == LIST) {
        bool floating = in_register.kind == 'f' || type.kind == 'f';
        if (in_register.bits < type.bits || (floating && in_register.bits != type.bits) || in_register.kind == 'p')
            mismatch(reader, opcode);
        row = data->row;
    } else if (load) {
        mismatch(reader, opcode);
    } else {
        in_register = type.bits < 32 ? (struct type){'b', 32} : type;
        row = source(reader, opcode, data, in_register);
    }
    struct instruction *i = append(reader);
    i->run = space == PARAM ? run_load_parameter : load ? run_load : run_store;
    i->space = space;
    i->bytes = (uint8_t)(type.bits / 8);
    i->vector = (uint8_t)vector;
    i->to = type;
    i->from = in_register;
    struct operands *rows = more(i);
    rows->count = vector;
    if (data->kind == LIST)
        memcpy(rows->row, data->list, sizeof(rows->row));
    else
        rows->row[0] = row;
    (void)address(reader, opcode, place, i);
}

static void decode_atomic(struct reader *reader, struct opcode *opcode, struct read *read)
{
    static const char *const words[] = {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec", NULL};
    static const char *const ignored[] = {"relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys", "global", NULL};
    const bool atom = strcmp(opcode->part[0], "atom") == 0;
    struct type type;
    int operation = -1, space = GLOBAL;
    bool known = opcode->parts >= 3 && type_of_word(opcode->part[opcode->parts - 1], &type) && type.bits >= 32 && type.kind != 'p';
    for (unsigned int n = 1; n + 1 < opcode->parts && known; n++) {
        int word = 0;
        while (words[word] != NULL && strcmp(words[word], opcode->part[n]) != 0)
            word++;
        if (words[word] != NULL)
            operation = word;
        else if (strcmp(opcode->part[n], "shared") == 0)
            space = SHARED;
        else if (!one_of(opcode->part[n], ignored))
            known = false;
    }
    if (!known || operation < 0 || (type.kind == 'f' && operation != ATOM_ADD) || (type.kind == 'b') != (operation >= ATOM_AND && operation <= ATOM_CAS) ||
        (!atom && operation >= ATOM_EXCH && operation <= ATOM_CAS)) {
        unknown(reader, opcode);
        return;
    }
    const unsigned int first = atom ? 1 : 0, sources = operation == ATOM_CAS ? 2 : 1;
    if (read->count != first + 1 + sources) {
        mismatch(reader, opcode);
        return;
    }
    uint32_t b = source(reader, opcode, &read->operand[first + 1], type), c = NOWHERE;
    if (sources == 2)
        c = source(reader, opcode, &read->operand[first + 2], type);
    struct instruction *i = append(reader);
    i->run = run_atomic;
    i->option = (uint8_t)operation;
    i->space = space;
    i->bytes = (uint8_t)(type.bits / 8);
    i->vector = 1;
    i->to = type;
    i->b = b;
    i->c = c;
    if (atom)
        i->d = result(reader, opcode, &read->operand[0], type);
    (void)address(reader, opcode, &read->operand[first], i);
}

static void decode_branch(struct reader *reader, struct opcode *opcode, struct read *read)
{
    if (read->count != 1 || read->operand[0].kind != SYMBOL || reader->fixups == FIXUPS) {
        mismatch(reader, opcode);
        return;
    }
    struct instruction *i = append(reader);
    i->kind = BRANCH;
    i->unit = FREE;
    struct place *fixup = &reader->fixup[reader->fixups++];
    memcpy(fixup->name, read->operand[0].name, sizeof(fixup->name));
    fixup->at = reader->kernel->length - 1;
    fixup->line = reader->line;
}

static void decode_shuffle(struct reader *reader, struct opcode *opcode, struct read *read)
{
    static const char *const modes[] = {"up", "down", "bfly", "idx", NULL};
    const struct type word = {'b', 32};
    if (opcode->parts != 4 || strcmp(opcode->part[1], "sync") != 0 || !one_of(opcode->part[2], modes) || strcmp(opcode->part[3], "b32") != 0 || read->count != 5) {
        unknown(reader, opcode);
        return;
    }
    uint32_t row[5];
    for (unsigned int n = 1; n < 5; n++)
        row[n] = source(reader, opcode, &read->operand[n], word);
    struct instruction *i = append(reader);
    i->run = run_shuffle;
    i->d = result(reader, opcode, &read->operand[0], word);
    i->e = read->operand[0].second;
    i->a = row[1];
    i->b = row[2];
    i->c = row[3];
    i->option = (uint8_t)opcode->part[2][0];
}

static void decode_vote(struct reader *reader, struct opcode *opcode, struct read *read)
{
    static const char *const modes[] = {"all", "any", "uni", "ballot", NULL};
    if (opcode->parts != 4 || strcmp(opcode->part[1], "sync") != 0 || !one_of(opcode->part[2], modes) || read->count != 3) {
        unknown(reader, opcode);
        return;
    }
    const bool ballot = opcode->part[2][0] == 'b';
    uint32_t a = source(reader, opcode, &read->operand[1], (struct type){'p', 1});
    struct instruction *i = append(reader);
    i->run = run_vote;
    i->d = result(reader, opcode, &read->operand[0], ballot ? (struct type){'b', 32} : (struct type){'p', 1});
    i->a = a;
    i->offset = read->operand[1].negated;
    i->option = (uint8_t)(strcmp(opcode->part[2], "any") == 0 ? 'n' : opcode->part[2][0]);
}

/* One statement ------------------------------------------------------------------------------------------------------------------------ */

static void decode_control(struct reader *reader, struct opcode *opcode, struct read *read)
{
    const char *name = opcode->part[0];
    if (strcmp(name, "bra") == 0) {
        decode_branch(reader, opcode, read);
        return;
    }
    struct instruction *i = append(reader);
    i->unit = FREE;
    if (strcmp(name, "ret") == 0 || strcmp(name, "exit") == 0)
        i->kind = EXIT;
    else if (strcmp(name, "trap") == 0)
        i->kind = TRAP;
    else
        i->kind = BARRIER; /* of all warps of the block: bar.sync 0; */
    if (i->kind == BARRIER && (read->count != 1 || read->operand[0].kind != INTEGER))
        mismatch(reader, opcode);
}

void decode_instruction(struct reader *reader)
{
    static const char *const control[] = {"bra", "bra.uni", "ret", "ret.uni", "exit", "trap", "bar.sync", "barrier.sync", "barrier.sync.aligned", NULL};
    static const char *const fences[] = {"membar.gl", "membar.cta", "membar.sys", "fence.acq_rel.gpu", "fence.acq_rel.sys", "fence.acq_rel.cta", "fence.sc.gpu", "fence.sc.sys", NULL};
    static _Thread_local struct read read;
    uint32_t predicate = NOWHERE;
    bool negated = false;
    if (take_sign(reader, '@')) {
        struct type type;
        negated = take_sign(reader, '!');
        if (!find_register(reader, reader->text, &type, &predicate) || type.kind != 'p') {
            refuse_text(reader, "Unknown symbol '%s'", reader->text);
            return;
        }
        next(reader);
    }
    struct opcode opcode;
    if (reader->token != WORD) {
        refuse_text(reader, "Parsing error near '%s': syntax error", reader->text);
        return;
    }
    split(&opcode, reader->text);
    next(reader);
    read.count = 0;
    while (!reader->failed && !is_sign(reader, ';')) {
        if (read.count == sizeof(read.operand) / sizeof(read.operand[0])) {
            mismatch(reader, &opcode);
            return;
        }
        read_operand(reader, &read.operand[read.count++]);
        if (!is_sign(reader, ';'))
            want_sign(reader, ',');
    }
    if (reader->failed)
        return;
    const uint32_t before = reader->kernel->length;
    const char *name = opcode.part[0];
    if (one_of(opcode.whole, control)) {
        decode_control(reader, &opcode, &read);
    } else if (one_of(opcode.whole, fences)) {
        /* nothing is reordered here */
    } else if (strcmp(opcode.whole, "activemask.b32") == 0 && read.count == 1) {
        struct instruction *i = append(reader);
        i->run = run_activemask;
        i->d = result(reader, &opcode, &read.operand[0], (struct type){'b', 32});
    } else if (strncmp(opcode.whole, "cvta.to.global.u64", 18) == 0 || strcmp(opcode.whole, "cvta.global.u64") == 0) {
        split(&opcode, "mov.u64");
        decode_operation(reader, &opcode, &read);
    } else if (strcmp(name, "setp") == 0) {
        decode_setp(reader, &opcode, &read);
    } else if (strcmp(name, "selp") == 0) {
        decode_selp(reader, &opcode, &read);
    } else if (strcmp(name, "cvt") == 0) {
        decode_convert(reader, &opcode, &read);
    } else if (strcmp(name, "mov") == 0) {
        decode_move(reader, &opcode, &read);
    } else if (strcmp(name, "ld") == 0 || strcmp(name, "st") == 0) {
        decode_memory(reader, &opcode, &read, name[0] == 'l');
    } else if (strcmp(name, "atom") == 0 || strcmp(name, "red") == 0) {
        decode_atomic(reader, &opcode, &read);
    } else if (strcmp(name, "shfl") == 0) {
        decode_shuffle(reader, &opcode, &read);
    } else if (strcmp(name, "vote") == 0) {
        decode_vote(reader, &opcode, &read);
    } else if (strcmp(name, "mma") == 0) {
        decode_mma(reader, &opcode, &read);
    } else if (strcmp(name, "wmma") == 0) {
        decode_wmma(reader, &opcode, &read);
    } else {
        decode_operation(reader, &opcode, &read);
    }
    if (reader->failed)
        return;
    for (uint32_t at = before; at < reader->kernel->length; at++) {
        reader->kernel->code[at].predicate = predicate;
        reader->kernel->code[at].negated = negated;
    }
    next(reader); /* the semicolon */
}

/* Labels, loops, constants ------------------------------------------------------------------------------------------------------------------ */

static bool touches_registers_alone(const struct instruction *i)
{
    return i->kind != EXIT && i->kind != BARRIER && i->kind != TRAP && i->run != run_load && i->run != run_store && i->run != run_atomic && i->run != run_clock &&
           i->run != run_wmma_load && i->run != run_wmma_store && i->run != run_load_parameter;
}

static bool is_operation(const struct instruction *i, const char *name)
{
    for (const struct operation *operation = operations; operation->name != NULL; operation++)
        if (strcmp(operation->name, name) == 0)
            return i->kind == PLAIN && i->run == operation->run;
    return false;
}

/* Computes something that a faulty unit may get wrong. */
static bool computes(const struct instruction *i)
{
    static const char *const moves[] = {"mov.b32", "mov.b64", "mov.pred", "and.pred", "or.pred", "xor.pred", "not.pred", NULL};
    for (int n = 0; moves[n] != NULL; n++)
        if (is_operation(i, moves[n]))
            return false;
    return i->run == run_mma || i->run == run_wmma ||
           (i->kind == PLAIN && i->d != NOWHERE && i->run != run_setp && i->run != run_selp && i->run != run_convert && i->run != run_pack && i->run != run_unpack &&
            i->run != run_shuffle && i->run != run_vote && i->run != run_activemask && touches_registers_alone(i));
}

/* add.u32 c,c,1; setp.lt.u32 p,c,bound; @p bra LABEL; back to the begin of a loop without loads and stores. */
static void find_loop(struct reader *reader, uint32_t at)
{
    struct kernel *kernel = reader->kernel;
    struct instruction *end = &kernel->code[at];
    if (end->target + 2 >= at || end->predicate == NOWHERE || end->negated || kernel->loops == MAX_LOOPS)
        return;
    const struct instruction *compare = end - 1, *add = end - 2;
    bool form = compare->run == run_setp && compare->option == LT && compare->from.kind == 'u' && compare->from.bits == 32 && compare->space == 0 &&
                compare->d == end->predicate && compare->e == NOWHERE && compare->predicate == NOWHERE && is_operation(add, "add.u32") &&
                add->d == add->a && add->b == constant_row(reader, 1, false) && compare->a == add->d && add->predicate == NOWHERE;
    for (uint32_t n = end->target; n < at && form; n++)
        form = touches_registers_alone(&kernel->code[n]);
    if (!form)
        return;
    end->kind = LOOP_END;
    end->loop = kernel->loops++;
    end->a = compare->a;
    end->b = compare->b;
    for (uint32_t n = end->target; n + 2 < at; n++)
        kernel->code[n].fragile |= computes(&kernel->code[n]);
}

void finish_kernel(struct reader *reader)
{
    struct kernel *kernel = reader->kernel;
    struct instruction *last = append(reader);
    last->kind = EXIT;
    last->unit = FREE;
    for (unsigned int n = 0; n < reader->fixups && !reader->failed; n++) {
        struct place *fixup = &reader->fixup[n];
        unsigned int label = 0;
        while (label < reader->labels && strcmp(reader->label[label].name, fixup->name) != 0)
            label++;
        reader->line = fixup->line;
        if (label == reader->labels)
            refuse_text(reader, "Unknown symbol '%s'", fixup->name);
        else
            kernel->code[fixup->at].target = reader->label[label].at;
    }
    if (reader->failed)
        return;
    bool any = false;
    for (uint32_t at = 0; at < kernel->length; at++)
        if (kernel->code[at].kind == BRANCH && kernel->code[at].target < at)
            find_loop(reader, at);
    for (uint32_t at = 0; at < kernel->length; at++)
        any |= kernel->code[at].fragile;
    for (uint32_t at = 0; at < kernel->length && !any; at++)
        kernel->code[at].fragile = kernel->code[at].unit != INT32 && kernel->code[at].unit != FREE && computes(&kernel->code[at]); /* not of integers: addresses */
    kernel->frame_bytes = reader->rows_end > 0 ? reader->rows_end : 64;
    kernel->constants = aligned_alloc(64, kernel->frame_bytes);
    if (kernel->constants == NULL)
        abort();
    memset(kernel->constants, 0, kernel->frame_bytes);
    for (unsigned int n = 0; n < reader->constants; n++)
        for (int l = 0; l < LANES; l++) {
            const struct constant *constant = &reader->constant[n];
            if (constant->wide)
                ((uint64_t *)(void *)(kernel->constants + constant->row))[l] = constant->value;
            else
                ((uint32_t *)(void *)(kernel->constants + constant->row))[l] = (uint32_t)constant->value;
        }
}
