/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* What clocks a GPU runs at: idle or boost clock, then application clocks, then locks. */
#include "clocks.h"
#include "call.h"
#include "course.h"
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
