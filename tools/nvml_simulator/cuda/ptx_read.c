/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
#include "ptx_read.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void refuse_text(struct reader *reader, const char *format, ...)
{
    if (reader->failed)
        return;
    reader->failed = true;
    char said[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(said, sizeof(said), format, arguments);
    va_end(arguments);
    snprintf(reader->log, reader->log_bytes, "ptxas application ptx input, line %u; error   : %s\nptxas fatal   : Ptx assembly aborted due to errors\n",
             reader->line, said);
}

/* Words ------------------------------------------------------------------------------------------------------------------- */

static void skip_blanks(struct reader *reader)
{
    for (;; reader->at++) {
        if (reader->at[0] == '/' && reader->at[1] == '/') {
            reader->at += strcspn(reader->at, "\n");
        } else if (reader->at[0] == '/' && reader->at[1] == '*') {
            const char *end = strstr(reader->at + 2, "*/");
            for (; end != NULL && reader->at < end; reader->at++)
                reader->line += *reader->at == '\n';
            reader->at = end == NULL ? reader->at + strlen(reader->at) : end + 1;
            if (end != NULL)
                continue;
        }
        if (*reader->at == '\n')
            reader->line++;
        if (!isspace((unsigned char)*reader->at))
            return;
    }
}

static void read_number(struct reader *reader)
{
    const char *at = reader->at;
    char *end;
    reader->token = NUMBER;
    reader->number_kind = 'i';
    if (at[0] == '0' && strchr("fFdD", at[1]) != NULL && at[1] != '\0' && isxdigit((unsigned char)at[2])) {
        reader->number = strtoull(at + 2, &end, 16);
        reader->number_kind = at[1] == 'f' || at[1] == 'F' ? 'f' : 'd';
    } else if (at[0] == '0' && (at[1] == 'b' || at[1] == 'B')) {
        reader->number = strtoull(at + 2, &end, 2);
    } else {
        reader->number = strtoull(at, &end, 0);
        if (at[1] != 'x' && at[1] != 'X' && (*end == '.' || *end == 'e' || *end == 'E')) {
            reader->real = strtod(at, &end);
            reader->number_kind = 'r';
        } else if (*end == 'U') {
            end++;
        }
    }
    snprintf(reader->text, sizeof(reader->text), "%.*s", (int)(end - at), at);
    reader->at = end;
}

void next(struct reader *reader)
{
    skip_blanks(reader);
    const char *at = reader->at, *end = at;
    if (*at == '\0') {
        reader->token = END;
        snprintf(reader->text, sizeof(reader->text), "end of file");
    } else if (isdigit((unsigned char)*at)) {
        read_number(reader);
    } else if (isalpha((unsigned char)*at) || strchr("_$%.", *at) != NULL) {
        for (end++; isalnum((unsigned char)*end) || (*end != '\0' && strchr("_$.", *end) != NULL) || (end[0] == ':' && end[1] == ':'); end++)
            end += end[0] == ':' ? 1 : 0;
        reader->token = WORD;
        snprintf(reader->text, sizeof(reader->text), "%.*s", (int)(end - at), at);
        reader->at = end;
    } else if (*at == '"') {
        for (end++; *end != '\0' && *end != '"'; end++)
            ;
        reader->token = TEXT;
        snprintf(reader->text, sizeof(reader->text), "%.*s", (int)(end - at - 1), at + 1);
        reader->at = *end == '"' ? end + 1 : end;
    } else {
        reader->token = SIGN;
        reader->text[0] = *at;
        reader->text[1] = '\0';
        reader->at++;
    }
}

bool is_sign(const struct reader *reader, char sign)
{
    return reader->token == SIGN && reader->text[0] == sign;
}

bool is_word(const struct reader *reader, const char *word)
{
    return reader->token == WORD && strcmp(reader->text, word) == 0;
}

bool take_sign(struct reader *reader, char sign)
{
    if (!is_sign(reader, sign))
        return false;
    next(reader);
    return true;
}

void want_sign(struct reader *reader, char sign)
{
    if (!take_sign(reader, sign))
        refuse_text(reader, "Parsing error near '%s': syntax error", reader->text);
}

static uint64_t want_number(struct reader *reader)
{
    uint64_t number = reader->number;
    if (reader->token != NUMBER || reader->number_kind != 'i')
        refuse_text(reader, "Parsing error near '%s': syntax error", reader->text);
    next(reader);
    return number;
}

bool type_of_word(const char *word, struct type *type)
{
    static const struct {
        const char *word;
        struct type type;
    } types[] = {
        {"pred", {'p', 1}}, {"b8", {'b', 8}}, {"u8", {'u', 8}}, {"s8", {'s', 8}}, {"b16", {'b', 16}}, {"u16", {'u', 16}}, {"s16", {'s', 16}},
        {"f16", {'f', 16}}, {"b32", {'b', 32}}, {"u32", {'u', 32}}, {"s32", {'s', 32}}, {"f32", {'f', 32}}, {"f16x2", {'b', 32}},
        {"b64", {'b', 64}}, {"u64", {'u', 64}}, {"s64", {'s', 64}}, {"f64", {'f', 64}}, {"bf16", {'h', 16}}, {"bf16x2", {'b', 32}}, {"tf32", {'t', 32}},
        {"e4m3", {'4', 8}}, {"e5m2", {'5', 8}},
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (strcmp(types[i].word, word + (*word == '.')) == 0) {
            *type = types[i].type;
            return true;
        }
    return false;
}

/* Registers, constants, operands -------------------------------------------------------------------------------------------- */

uint32_t new_row(struct reader *reader, unsigned int bytes)
{
    uint32_t row = reader->rows_end;
    reader->rows_end += (bytes + 63) / 64 * 64;
    if (reader->rows_end > 1u << 20)
        refuse_text(reader, "too many registers");
    return row;
}

uint32_t constant_row(struct reader *reader, uint64_t value, bool wide)
{
    if (!wide)
        value &= UINT32_MAX;
    for (unsigned int i = 0; i < reader->constants; i++)
        if (reader->constant[i].value == value && reader->constant[i].wide == wide)
            return reader->constant[i].row;
    if (reader->constants == reader->constant_room) {
        reader->constant_room = 2 * reader->constant_room + 64;
        reader->constant = realloc(reader->constant, reader->constant_room * sizeof(*reader->constant));
        if (reader->constant == NULL)
            abort();
    }
    uint32_t row = new_row(reader, wide ? 256 : 128);
    reader->constant[reader->constants++] = (struct constant){value, row, wide};
    return row;
}

bool find_register(const struct reader *reader, const char *name, struct type *type, uint32_t *row)
{
    for (unsigned int i = reader->families; i-- > 0;) {
        const struct family *family = &reader->family[i];
        size_t length = strlen(family->prefix);
        if (strncmp(family->prefix, name, length) != 0)
            continue;
        char *end;
        unsigned long number = 0;
        if (family->count == 0 ? name[length] != '\0' : !isdigit((unsigned char)name[length]))
            continue;
        if (family->count > 0) {
            number = strtoul(name + length, &end, 10);
            if (*end != '\0' || number >= family->count)
                continue;
        }
        *type = family->type;
        *row = family->row + (uint32_t)number * family->stride;
        return true;
    }
    return false;
}

static bool special_of(const char *name, int *special, struct type *type)
{
    static const char *const names[SPECIALS] = {
        "%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z",
        "%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt",
        "%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi",
    };
    for (int i = 0; i < SPECIALS; i++)
        if (strcmp(names[i], name) == 0) {
            *special = i;
            *type = (struct type){'u', i == CLOCK64 || i == GLOBALTIMER ? 64 : 32};
            return true;
        }
    return false;
}

static void name_operand(struct reader *reader, struct operand *operand)
{
    snprintf(operand->name, sizeof(operand->name), "%.*s", NAME - 1, reader->text);
    if (strcmp(operand->name, "_") == 0) {
        operand->kind = SINK;
        operand->row = NOWHERE;
    } else if (find_register(reader, operand->name, &operand->type, &operand->row)) {
        operand->kind = REGISTER;
    } else if (special_of(operand->name, &operand->special, &operand->type)) {
        operand->kind = SPECIAL_REGISTER;
    } else {
        operand->kind = SYMBOL;
        if (operand->name[0] == '%')
            refuse_text(reader, "Unknown symbol '%s'", operand->name);
    }
    next(reader);
}

static void number_operand(struct reader *reader, struct operand *operand)
{
    bool minus = take_sign(reader, '-');
    if (reader->token != NUMBER) {
        refuse_text(reader, "Parsing error near '%s': syntax error", reader->text);
        return;
    }
    operand->kind = reader->number_kind == 'i' ? INTEGER : FLOATING;
    operand->value = minus ? 0 - reader->number : reader->number;
    operand->hexadecimal = reader->number_kind == 'f' || reader->number_kind == 'd';
    operand->is_double = reader->number_kind == 'd';
    operand->number = minus ? -reader->real : reader->real;
    next(reader);
}

static void address_operand(struct reader *reader, struct operand *operand)
{
    next(reader);
    if (reader->token == WORD) {
        name_operand(reader, operand);
        if (take_sign(reader, '+')) {
            bool minus = take_sign(reader, '-');
            operand->value = minus ? 0 - want_number(reader) : want_number(reader);
        } else if (take_sign(reader, '-')) {
            operand->value = 0 - want_number(reader);
        }
    } else {
        operand->row = NOWHERE;
        operand->value = want_number(reader);
    }
    if (operand->kind == SYMBOL)
        operand->row = NOWHERE;
    operand->kind = ADDRESS;
    want_sign(reader, ']');
}

void read_operand(struct reader *reader, struct operand *operand)
{
    memset(operand, 0, sizeof(*operand));
    operand->row = operand->second = NOWHERE;
    operand->negated = take_sign(reader, '!');
    if (is_sign(reader, '[')) {
        address_operand(reader, operand);
    } else if (take_sign(reader, '{')) {
        operand->kind = LIST;
        do {
            struct operand *element = calloc(1, sizeof(*element));
            if (element == NULL || operand->count == MAX_OPERANDS) {
                refuse_text(reader, "too many elements of a vector");
                free(element);
                return;
            }
            read_operand(reader, element);
            if (element->kind == INTEGER)
                element->row = constant_row(reader, element->value, false);
            else if (element->kind == FLOATING)
                element->row = constant_row(reader, element->value, element->is_double);
            else if (element->kind != REGISTER && element->kind != SINK)
                refuse_text(reader, "Arguments mismatch for a vector");
            if (element->kind == REGISTER)
                operand->list_type = element->type;
            operand->list[operand->count++] = element->row;
            free(element);
        } while (!reader->failed && take_sign(reader, ','));
        want_sign(reader, '}');
    } else if (reader->token == NUMBER || is_sign(reader, '-')) {
        number_operand(reader, operand);
    } else if (reader->token == WORD) {
        name_operand(reader, operand);
        if (take_sign(reader, '|')) {
            struct type type;
            if (!is_word(reader, "_") && !find_register(reader, reader->text, &type, &operand->second))
                refuse_text(reader, "Unknown symbol '%s'", reader->text);
            next(reader);
        }
    } else {
        refuse_text(reader, "Parsing error near '%s': syntax error", reader->text);
    }
}

/* Declarations -------------------------------------------------------------------------------------------------------------- */

static void read_registers(struct reader *reader)
{
    struct type type;
    next(reader);
    if (reader->token != WORD || !type_of_word(reader->text, &type) || strchr("ht45", type.kind) != NULL) {
        refuse_text(reader, "Parsing error near '%s': syntax error", reader->text);
        return;
    }
    const uint32_t stride = type.kind == 'p' ? 64 : type.bits == 64 ? 256 : 128;
    do {
        struct family *family = &reader->family[reader->families];
        next(reader);
        if (reader->token != WORD || reader->families + 1 == FAMILIES) {
            refuse_text(reader, "Parsing error near '%s': syntax error", reader->text);
            return;
        }
        snprintf(family->prefix, sizeof(family->prefix), "%.*s", NAME - 1, reader->text);
        family->type = type;
        family->stride = stride;
        family->count = 0;
        next(reader);
        if (take_sign(reader, '<')) {
            family->count = (unsigned int)want_number(reader);
            want_sign(reader, '>');
        }
        if (family->count > 4096) {
            refuse_text(reader, "too many registers");
            return;
        }
        family->row = new_row(reader, stride * (family->count > 0 ? family->count : 1));
        reader->families++;
    } while (!reader->failed && is_sign(reader, ','));
    want_sign(reader, ';');
}

/* .shared .align 16 .b8 name[1024]; */
static void read_variable(struct reader *reader)
{
    unsigned int align = 1;
    struct type type = {'b', 8};
    next(reader);
    if (is_word(reader, ".align")) {
        next(reader);
        align = (unsigned int)want_number(reader);
    }
    if (reader->token != WORD || !type_of_word(reader->text, &type) || reader->variables == VARIABLES) {
        refuse_text(reader, "Parsing error near '%s': syntax error", reader->text);
        return;
    }
    next(reader);
    struct place *variable = &reader->variable[reader->variables++];
    snprintf(variable->name, sizeof(variable->name), "%.*s", NAME - 1, reader->text);
    next(reader);
    uint64_t count = 1;
    while (take_sign(reader, '[')) {
        count *= is_sign(reader, ']') ? 0 : want_number(reader);
        want_sign(reader, ']');
    }
    want_sign(reader, ';');
    if (align < type.bits / 8u)
        align = type.bits / 8u;
    struct kernel *kernel = reader->kernel;
    variable->at = (kernel->shared_bytes + align - 1) / align * align;
    if (count > 48 * 1024) {
        refuse_text(reader, "too much shared data");
        return;
    }
    kernel->shared_bytes = variable->at + (uint32_t)count * type.bits / 8u;
}

static void read_parameters(struct reader *reader)
{
    struct kernel *kernel = reader->kernel;
    unsigned int offset = 0;
    while (!reader->failed && !is_sign(reader, ')')) {
        struct parameter *parameter = &kernel->parameter[kernel->parameters];
        struct type type = {'b', 0}, found;
        if (kernel->parameters + 1 == MAX_PARAMETERS || !is_word(reader, ".param")) {
            refuse_text(reader, "Parsing error near '%s': syntax error", reader->text);
            return;
        }
        for (next(reader); reader->token == WORD || reader->token == NUMBER; next(reader)) {
            if (reader->token == NUMBER)
                continue; /* of .align */
            if (type.bits == 0 && type_of_word(reader->text, &found))
                type = found;
            else if (reader->text[0] != '.')
                snprintf(parameter->name, sizeof(parameter->name), "%.*s", NAME - 1, reader->text);
        }
        parameter->bytes = type.bits / 8u;
        if (take_sign(reader, '[')) {
            parameter->bytes *= (unsigned int)want_number(reader);
            want_sign(reader, ']');
        }
        if (type.bits == 0 || parameter->name[0] == '\0' || parameter->bytes > 4096) {
            refuse_text(reader, "Parsing error near '%s': syntax error", reader->text);
            return;
        }
        unsigned int align = type.bits / 8u;
        parameter->offset = offset = (offset + align - 1) / align * align;
        offset += parameter->bytes;
        kernel->parameters++;
        if (!take_sign(reader, ','))
            break;
    }
    kernel->parameter_bytes = offset;
    want_sign(reader, ')');
}

static void read_body(struct reader *reader)
{
    unsigned int depth = 1;
    want_sign(reader, '{');
    while (!reader->failed && depth > 0) {
        if (reader->token == END) {
            refuse_text(reader, "Parsing error near '%s': syntax error", reader->text);
        } else if (take_sign(reader, '{')) {
            depth++;
        } else if (take_sign(reader, '}')) {
            depth--;
        } else if (is_word(reader, ".reg")) {
            read_registers(reader);
        } else if (is_word(reader, ".shared")) {
            read_variable(reader);
        } else if (is_word(reader, ".loc")) {
            reader->at += strcspn(reader->at, "\n");
            next(reader);
        } else if (is_word(reader, ".pragma")) {
            next(reader);
            next(reader);
            want_sign(reader, ';');
        } else if (reader->token == WORD && reader->text[0] != '.') {
            char name[NAME];
            const char *before = reader->at;
            unsigned int line = reader->line;
            snprintf(name, sizeof(name), "%.*s", NAME - 1, reader->text);
            next(reader);
            if (is_sign(reader, ':') && reader->labels < LABELS) {
                struct place *label = &reader->label[reader->labels++];
                memcpy(label->name, name, sizeof(name));
                label->at = reader->kernel->length;
                next(reader);
            } else {
                reader->at = before;
                reader->line = line;
                reader->token = WORD;
                snprintf(reader->text, sizeof(reader->text), "%s", name);
                decode_instruction(reader);
            }
        } else if (is_sign(reader, '@')) {
            decode_instruction(reader);
        } else if (!take_sign(reader, ';')) {
            refuse_text(reader, "Parsing error near '%s': syntax error", reader->text);
        }
    }
}

static void read_kernel(struct reader *reader)
{
    struct module *module = reader->module;
    next(reader);
    if (reader->token != WORD) {
        refuse_text(reader, "Parsing error near '%s': syntax error", reader->text);
        return;
    }
    struct kernel **kernels = realloc(module->kernel, (module->kernels + 1) * sizeof(*kernels));
    struct kernel *kernel = calloc(1, sizeof(*kernel));
    if (kernels == NULL || kernel == NULL)
        abort();
    module->kernel = kernels;
    module->kernel[module->kernels++] = kernel;
    reader->kernel = kernel;
    snprintf(kernel->name, sizeof(kernel->name), "%.*s", NAME - 1, reader->text);
    kernel->module = module;
    for (int i = 0; i < SPECIALS; i++)
        kernel->special[i] = NOWHERE;
    reader->families = reader->labels = reader->fixups = reader->variables = reader->constants = 0;
    reader->rows_end = 0;
    next(reader);
    if (take_sign(reader, '('))
        read_parameters(reader);
    while (!reader->failed && !is_sign(reader, '{') && reader->token != END)
        next(reader); /* .maxntid and the like */
    read_body(reader);
    if (!reader->failed)
        finish_kernel(reader);
}

bool ptx_head(const char *text, int *version, int *target, bool *specific)
{
    struct reader reader = {.at = text, .line = 1, .log = (char[1]){0}, .log_bytes = 1};
    *version = *target = 0;
    *specific = false;
    for (next(&reader); reader.token != END && (*version == 0 || *target == 0); next(&reader)) {
        if (is_word(&reader, ".version")) {
            skip_blanks(&reader);
            int major, minor;
            if (sscanf(reader.at, "%d.%d", &major, &minor) == 2)
                *version = 10 * major + minor;
        } else if (*version != 0 && is_word(&reader, ".target")) {
            char end = '\0';
            next(&reader);
            if (sscanf(reader.text, "sm_%d%c", target, &end) < 1)
                return false;
            *specific = end == 'a';
        }
    }
    return *version != 0 && *target != 0;
}

struct module *ptx_module(const char *text, char *log, size_t log_bytes)
{
    struct reader *reader = calloc(1, sizeof(*reader));
    struct module *module = calloc(1, sizeof(*module));
    bool specific;
    if (reader == NULL || module == NULL)
        abort();
    reader->at = text;
    reader->line = 1;
    reader->log = log;
    reader->log_bytes = log_bytes;
    reader->module = module;
    log[0] = '\0';
    if (!ptx_head(text, &module->version, &module->target, &specific))
        refuse_text(reader, "Missing .version directive at start of file");
    for (next(reader); !reader->failed && reader->token != END;) {
        if (is_word(reader, ".version") || is_word(reader, ".target") || is_word(reader, ".address_size")) {
            reader->at += strcspn(reader->at, "\n");
            next(reader);
        } else if (is_word(reader, ".visible")) {
            next(reader);
        } else if (is_word(reader, ".entry")) {
            read_kernel(reader);
        } else if (is_word(reader, ".shared")) {
            refuse_text(reader, "the simulator knows .shared in a kernel alone");
        } else {
            refuse_text(reader, "Parsing error near '%s': syntax error", reader->text);
        }
    }
    bool failed = reader->failed;
    free(reader->constant);
    free(reader);
    if (failed) {
        ptx_free(module);
        return NULL;
    }
    return module;
}

void ptx_free(struct module *module)
{
    for (size_t i = 0; i < module->kernels; i++) {
        struct kernel *kernel = module->kernel[i];
        for (uint32_t at = 0; at < kernel->length; at++)
            free(kernel->code[at].more);
        free(kernel->code);
        free(kernel->constants);
        free(kernel);
    }
    free(module->kernel);
    free(module);
}
