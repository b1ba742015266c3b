/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* The clocks a GPU can run at, and runs at. */
#ifndef CLOCKS_H
#define CLOCKS_H

#include <stdbool.h>
#include <stddef.h>

#define MAX_MEMORY_CLOCKS 8

/* One memory clock with the graphics clocks that go with it: "MEMORY:LOW-HIGH/STEP", in MHz. */
struct clock_range {
    unsigned int memory;
    double low, high, step;
};

/* The ranges of a GPU, highest memory clock first; 0 when the description names none. */
size_t clock_ranges(int gpu, struct clock_range ranges[MAX_MEMORY_CLOCKS]);
size_t clock_count(const struct clock_range *range);
/* The n-th graphics clock from the top. */
unsigned int clock_from_top(const struct clock_range *range, size_t n);

/* Does anything run on the GPU? */
bool gpu_busy(int gpu);
/* Event reasons as a mask. */
unsigned long long event_reasons(int gpu);
/* Inject reasons, 0 for none. The counters advance by wall time while a reason is there. */
void inject_event_reasons(int gpu, unsigned long long mask);
/* Nanoseconds for which the policy of this field has held the clocks down; false when the field counts no such time. */
bool slowed_ns(int gpu, unsigned int field, unsigned long long *ns);
unsigned long long monotonic_ns(void);
unsigned int current_clock(int gpu, unsigned int type);

#endif
