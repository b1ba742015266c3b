/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* What clocks a GPU runs at: idle or boost clock, then application clocks, then locks. */
#define _POSIX_C_SOURCE 200809L
#include "clocks.h"
#include "call.h"
#include "course.h"
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int higher_memory_first(const void *one, const void *other)
{
    const struct clock_range *a = one, *b = other;
    return a->memory < b->memory ? 1 : a->memory > b->memory ? -1 : 0;
}

size_t clock_ranges(int gpu, struct clock_range ranges[MAX_MEMORY_CLOCKS])
{
    const char *text = state_get(gpu, "clocks.supported");
    size_t count = 0;
    int used = 0;
    struct clock_range range;
    while (text != NULL && count < MAX_MEMORY_CLOCKS &&
           sscanf(text, " %u:%lf-%lf/%lf%n", &range.memory, &range.low, &range.high, &range.step, &used) == 4) {
        if (range.step >= 1 && range.low <= range.high)
            ranges[count++] = range;
        text += used;
    }
    qsort(ranges, count, sizeof(*ranges), higher_memory_first);
    return count;
}

size_t clock_count(const struct clock_range *range)
{
    return (size_t)((range->high - range->low) / range->step + 1e-6) + 1;
}

unsigned int clock_from_top(const struct clock_range *range, size_t n)
{
    return (unsigned int)(range->low + (double)(clock_count(range) - 1 - n) * range->step);
}

bool gpu_busy(int gpu)
{
    const struct store *driver = layer_store(DRIVER);
    char prefix[64];
    snprintf(prefix, sizeof(prefix), "gpu.%d.process.", gpu);
    for (size_t i = 0; i < driver->count; i++)
        if (strncmp(driver->entries[i].key, prefix, strlen(prefix)) == 0)
            return true;
    return course_at(gpu, "utilization.gpu_percent", course_clock()) > 0 || load_recent(gpu);
}

/* Hardware slowdown, and its two causes: thermal and power brake. No lock holds against it. */
enum { HARDWARE_SLOWDOWN = 0x8 | 0x40 | 0x80 };

unsigned long long event_reasons(int gpu)
{
    const char *injected = layer_get(FAULTS, gpu, "throttle");
    unsigned long long mask = injected != NULL ? strtoull(injected, NULL, 0) : 0;
    if (gpu_busy(gpu)) {
        if (state_has(gpu, "application.graphics_mhz"))
            mask |= 0x2; /* the application clock setting holds the clock */
    } else if (mask == 0) {
        mask = 0x1; /* idle */
    }
    return mask;
}

/* nvml.h, NVML_FI_DEV_PERF_POLICY_* and NVML_FI_DEV_CLOCKS_EVENT_REASON_*, with the event reasons that raise them: an
 * assumption, as the recorded GPUs had run free. The keys keep what was counted before the present reasons. */
static const struct slowdown {
    unsigned int field;
    unsigned long long reasons;
    const char *key;
} slowdowns[] = {
    {74, 0x4, "slowed.power_ns"},
    {75, 0x20 | 0x40, "slowed.thermal_ns"},
    {76, 0x10, "slowed.sync_boost_ns"},
    {77, 0x200, "slowed.board_limit_ns"},
    {79, 0x400, "slowed.reliability_ns"},
    {269, 0x20, "slowed.software_thermal_ns"},
    {270, 0x40, "slowed.hardware_thermal_ns"},
    {271, 0x80, "slowed.power_brake_ns"},
};

unsigned long long monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * 1000000000ull + (unsigned long long)now.tv_nsec;
}

static unsigned long long counted(int gpu, const struct slowdown *slowdown)
{
    const char *mask = layer_get(FAULTS, gpu, "throttle"), *since = layer_get(DRIVER, gpu, "slowed.since_ns");
    unsigned long long before = (unsigned long long)state_number(gpu, slowdown->key, 0);
    if (mask == NULL || since == NULL || (strtoull(mask, NULL, 0) & slowdown->reasons) == 0)
        return before;
    return before + monotonic_ns() - strtoull(since, NULL, 0);
}

bool slowed_ns(int gpu, unsigned int field, unsigned long long *ns)
{
    for (size_t i = 0; i < sizeof(slowdowns) / sizeof(slowdowns[0]); i++)
        if (slowdowns[i].field == field) {
            *ns = counted(gpu, &slowdowns[i]);
            return true;
        }
    return false;
}

void inject_event_reasons(int gpu, unsigned long long mask)
{
    char text[32];
    for (size_t i = 0; i < sizeof(slowdowns) / sizeof(slowdowns[0]); i++) {
        unsigned long long now = counted(gpu, &slowdowns[i]);
        if (now > 0)
            state_set_number(DRIVER, gpu, slowdowns[i].key, (long long)now);
    }
    state_unset(FAULTS, gpu, "throttle");
    state_unset(DRIVER, gpu, "slowed.since_ns");
    if (mask == 0)
        return;
    snprintf(text, sizeof(text), "0x%llx", mask);
    state_set(FAULTS, gpu, "throttle", text);
    state_set_number(DRIVER, gpu, "slowed.since_ns", (long long)monotonic_ns());
}

/* The highest supported clock that is not above the wish; the lowest one when all are. */
static unsigned int snap(const struct clock_range *range, unsigned int wish)
{
    size_t count = clock_count(range);
    for (size_t n = 0; n < count; n++)
        if (clock_from_top(range, n) <= wish)
            return clock_from_top(range, n);
    return clock_from_top(range, count - 1);
}

static unsigned int within_lock(int gpu, const char *domain, unsigned int clock)
{
    char low[64], high[64];
    snprintf(low, sizeof(low), "locked.%s_min_mhz", domain);
    snprintf(high, sizeof(high), "locked.%s_max_mhz", domain);
    long long minimum = state_number(gpu, low, -1), maximum = state_number(gpu, high, -1);
    if (minimum >= 0 && clock < minimum)
        clock = (unsigned int)minimum;
    if (maximum >= 0 && clock > maximum)
        clock = (unsigned int)maximum;
    return clock;
}

static unsigned int graphics_clock(int gpu, const struct clock_range *range)
{
    unsigned int top = clock_from_top(range, 0);
    unsigned int clock = (unsigned int)state_number(gpu, "clocks.idle_graphics_mhz", (long long)range->low);
    if (gpu_busy(gpu))
        clock = (unsigned int)state_number(gpu, "application.graphics_mhz", top);
    clock = within_lock(gpu, "graphics", clock);
    if (event_reasons(gpu) & HARDWARE_SLOWDOWN) /* nvml.h: "reducing the core clocks by a factor of 2 or more" */
        clock /= 2;
    return snap(range, clock);
}

static unsigned int memory_clock(int gpu, const struct clock_range *ranges, size_t count)
{
    unsigned int clock = (unsigned int)state_number(gpu, "clocks.idle_memory_mhz", ranges[0].memory);
    if (gpu_busy(gpu))
        clock = (unsigned int)state_number(gpu, "application.memory_mhz", ranges[0].memory);
    clock = within_lock(gpu, "memory", clock);
    size_t i = 0;
    while (i + 1 < count && ranges[i].memory > clock)
        i++;
    /* Some GPUs read a little off the clock that is supported. */
    return (unsigned int)((long long)ranges[i].memory + state_number(gpu, "clocks.memory_reading_offset_mhz", 0));
}

unsigned int current_clock(int gpu, unsigned int type)
{
    struct clock_range ranges[MAX_MEMORY_CLOCKS];
    size_t count = clock_ranges(gpu, ranges);
    if (count == 0)
        return 0;
    if (type == NVML_CLOCK_MEM)
        return memory_clock(gpu, ranges, count);
    if (type == NVML_CLOCK_VIDEO) { /* follows the graphics clock between its own idle and highest clock */
        long long idle = state_number(gpu, "clocks.idle_video_mhz", 0), top = state_number(gpu, "clocks.max_video_mhz", 0);
        unsigned int graphics = graphics_clock(gpu, &ranges[0]), highest = clock_from_top(&ranges[0], 0);
        long long video = top * graphics / highest;
        return (unsigned int)(video < idle ? idle : video);
    }
    return graphics_clock(gpu, &ranges[0]);
}
