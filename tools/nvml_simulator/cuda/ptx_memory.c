/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Loads, stores and atomic operations of kernels, and the clocks that they read. */
#include "gpu.h"
#include "ptx_text.h"

#include <string.h>

#define EACH_ACTIVE for (int l = 0; l < LANES; l++) if (mask >> l & 1)

enum { ILLEGAL_ADDRESS = 700, MISALIGNED_ADDRESS = 716 };

static uint64_t address_of(const struct warp *warp, const struct instruction *i, int l)
{
    uint64_t base = 0;
    if (i->e != NOWHERE)
        base = i->bytes >> 7 ? ROW(uint64_t, warp, i->e)[l] : ROW(uint32_t, warp, i->e)[l];
    return base + (uint64_t)i->offset;
}

/* Where a lane reaches; NULL when it may not. */
static unsigned char *reach(struct warp *warp, const struct instruction *i, uint64_t address, unsigned int bytes, bool reads)
{
    struct launch *launch = warp->launch;
    if (i->space == SHARED) {
        if (address + bytes > launch->shared_bytes || address + bytes < address)
            launch->fault = ILLEGAL_ADDRESS;
        else if (address % bytes != 0)
            launch->fault = MISALIGNED_ADDRESS;
        else
            return warp->block->shared + address;
        launch->fault_address = address;
        return NULL;
    }
    enum unit unit = MEMORY_BYTES;
    unsigned char *place = gpu_reach(launch, address, bytes, reads, &unit);
    warp->used[unit] += bytes;
    return place;
}

static uint64_t extended(uint64_t value, struct type type)
{
    if (type.kind == 's' && type.bits < 64 && value >> (type.bits - 1) & 1)
        value |= ~UINT64_C(0) << type.bits;
    return value;
}

/* bytes: of an element, and bit 7 for an address of 64 bits; to: its type; from: that of the registers. */
void run_load(struct warp *warp, const struct instruction *i, uint32_t mask)
{
    const unsigned int bytes = i->bytes & 127, count = i->vector;
    EACH_ACTIVE
    {
        const unsigned char *place = reach(warp, i, address_of(warp, i, l), bytes * count, true);
        if (place == NULL)
            return;
        for (unsigned int n = 0; n < count; n++, place += bytes) {
            uint64_t value = 0;
            memcpy(&value, place, bytes); /* little-endian, as the GPU */
            value = extended(value, i->to);
            if (i->more->row[n] == NOWHERE)
                continue;
            if (i->from.bits == 64)
                ROW(uint64_t, warp, i->more->row[n])[l] = value;
            else
                ROW(uint32_t, warp, i->more->row[n])[l] = i->from.bits == 16 ? value & 0xffff : (uint32_t)value;
        }
    }
}

void run_store(struct warp *warp, const struct instruction *i, uint32_t mask)
{
    const unsigned int bytes = i->bytes & 127, count = i->vector;
    EACH_ACTIVE
    {
        unsigned char *place = reach(warp, i, address_of(warp, i, l), bytes * count, false);
        if (place == NULL)
            return;
        for (unsigned int n = 0; n < count; n++, place += bytes) {
            uint64_t value = i->from.bits == 64 ? ROW(uint64_t, warp, i->more->row[n])[l] : ROW(uint32_t, warp, i->more->row[n])[l];
            memcpy(place, &value, bytes);
        }
    }
}

void run_load_parameter(struct warp *warp, const struct instruction *i, uint32_t mask)
{
    const unsigned int bytes = i->bytes & 127;
    for (unsigned int n = 0; n < i->vector; n++) {
        uint64_t value = 0;
        memcpy(&value, warp->launch->parameters + i->offset + n * bytes, bytes);
        value = extended(value, i->to);
        EACH_ACTIVE
        {
            if (i->from.bits == 64)
                ROW(uint64_t, warp, i->more->row[n])[l] = value;
            else
                ROW(uint32_t, warp, i->more->row[n])[l] = i->from.bits == 16 ? value & 0xffff : (uint32_t)value;
        }
    }
}

static double f64_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static float f32_of(uint64_t bits)
{
    float value;
    uint32_t low = (uint32_t)bits;
    memcpy(&value, &low, sizeof(value));
    return value;
}

static uint64_t added(uint64_t old, uint64_t by, struct type type)
{
    uint64_t bits = 0;
    if (type.kind != 'f')
        return old + by;
    if (type.bits == 64) {
        double sum = f64_of(old) + f64_of(by);
        memcpy(&bits, &sum, sizeof(sum));
    } else {
        float sum = f32_of(old) + f32_of(by);
        memcpy(&bits, &sum, sizeof(sum));
    }
    return bits;
}

static uint64_t combined(const struct instruction *i, uint64_t old, uint64_t b, uint64_t c)
{
    bool is_signed = i->to.kind == 's';
    int64_t x = (int64_t)extended(old, i->to), y = (int64_t)extended(b, i->to);
    bool less = is_signed ? y < x : b < old;
    switch (i->option) {
    case ATOM_ADD:
        return added(old, b, i->to);
    case ATOM_MIN:
        return less ? b : old;
    case ATOM_MAX:
        return less ? old : b;
    case ATOM_AND:
        return old & b;
    case ATOM_OR:
        return old | b;
    case ATOM_XOR:
        return old ^ b;
    case ATOM_EXCH:
        return b;
    case ATOM_CAS:
        return old == b ? c : old;
    case ATOM_INC:
        return old >= b ? 0 : old + 1;
    default: /* ATOM_DEC */
        return old == 0 || old > b ? b : old - 1;
    }
}

/* One lane after the other, lowest first. d may be NOWHERE (red). */
void run_atomic(struct warp *warp, const struct instruction *i, uint32_t mask)
{
    const unsigned int bytes = i->bytes & 127;
    EACH_ACTIVE
    {
        unsigned char *place = reach(warp, i, address_of(warp, i, l), bytes, true);
        uint64_t old = 0, b, c = 0;
        if (place == NULL)
            return;
        memcpy(&old, place, bytes);
        b = bytes == 8 ? ROW(uint64_t, warp, i->b)[l] : ROW(uint32_t, warp, i->b)[l];
        if (i->option == ATOM_CAS)
            c = bytes == 8 ? ROW(uint64_t, warp, i->c)[l] : ROW(uint32_t, warp, i->c)[l];
        uint64_t fresh = combined(i, old, b, c);
        memcpy(place, &fresh, bytes);
        if (i->d == NOWHERE)
            continue;
        if (bytes == 8)
            ROW(uint64_t, warp, i->d)[l] = old;
        else
            ROW(uint32_t, warp, i->d)[l] = (uint32_t)old;
    }
}

/* A clock, into the row of its special register, just before it is read. */
void run_clock(struct warp *warp, const struct instruction *i, uint32_t mask)
{
    double now = warp->launch->begin + warp_time(warp);
    bool timer = i->option >= GLOBALTIMER;
    uint64_t value = (uint64_t)(timer ? now * 1e9 + 0.5 : now * warp->launch->clock_hz + 0.5);
    if (timer)
        value += UINT64_C(1700000000000000000); /* it counts nanoseconds since 1970 */
    if (i->option == CLOCK_HI || i->option == GLOBALTIMER_HI)
        value >>= 32;
    bool wide = i->option == CLOCK64 || i->option == GLOBALTIMER;
    (void)mask;
    for (int l = 0; l < LANES; l++) {
        if (wide)
            ROW(uint64_t, warp, i->d)[l] = value;
        else
            ROW(uint32_t, warp, i->d)[l] = (uint32_t)value;
    }
}
