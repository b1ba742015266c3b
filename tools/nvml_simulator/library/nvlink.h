/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef NVLINK_H
#define NVLINK_H

#include <stdbool.h>

unsigned int nvlink_count(int gpu);
bool nvlink_active(int gpu, unsigned int link);
/* The slot of the GPU at the other end, -1 for a switch, -2 for nothing. */
int nvlink_peer(int gpu, unsigned int link);
/* Do the two GPUs reach each other over NVLink, directly or through switches? */
bool nvlink_between(int one, int other);
long long nvlink_speed_mbps(int gpu);
unsigned long long nvlink_errors(int gpu, unsigned int link, unsigned int counter);

#endif
