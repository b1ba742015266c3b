/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* The load that the simulated CUDA library puts on a GPU, as NVML shows it. */
#ifndef LOAD_H
#define LOAD_H

#include <stdbool.h>

/* A process computes on the GPU now. */
void load_note(int gpu);
/* A process did so in the last half second. */
bool load_recent(int gpu);

#endif
