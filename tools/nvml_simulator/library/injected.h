/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Faults of calls, as the control program sets them: of NVML and of CUDA alike. */
#ifndef INJECTED_H
#define INJECTED_H

#include <stdbool.h>

/* What a call on a GPU (or NO_GPU) shall do now, or NULL. Counts the call. Under the lock of the state. */
const char *injected_fault(int gpu, const char *name, bool change);
/* Carry it out, without any lock, so that others go on. False: it was a delay, and the call is made. */
bool carry_out_fault(const char *fault, int unknown, int *code);

#endif
