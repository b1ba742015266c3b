/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef ECC_H
#define ECC_H

#include <stdbool.h>

#define MEMORY_LOCATIONS 8
/* Names of the memory locations in the order of NVML's numbers: l1 l2 dram register texture shared cbu sram. */
extern const char *const memory_locations[MEMORY_LOCATIONS];
/* Does this GPU count errors there? */
bool location_counted(int gpu, int location);
unsigned long long ecc_errors(int gpu, unsigned int type, unsigned int counter, int location);
unsigned long long ecc_total(int gpu, unsigned int type, unsigned int counter);

bool ecc_supported(int gpu);
bool ecc_current(int gpu);
bool ecc_pending(int gpu);
/* The key of a counter, without the GPU: ecc.volatile.corrected.dram */
void ecc_key(char *key, unsigned int size, unsigned int type, unsigned int counter, int location);

/* Entries of a list of retired pages ("ADDRESS:TIME ..."). */
unsigned int retired_pages(int gpu, unsigned int cause, unsigned long long *addresses, unsigned long long *times, unsigned int room);

#endif
