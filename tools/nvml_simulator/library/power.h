/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef POWER_H
#define POWER_H

/* -1 when the GPU has no power management. */
long long power_limit_mw(int gpu);
long long power_usage_mw(int gpu);
unsigned long long energy_mj(int gpu);

#endif
