/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* A figure that may change with time: "12", or "0,0,100", a value for each step of gpu.course.step_ms, over and over. All
 * processes are at the same place of it. */
#ifndef COURSE_H
#define COURSE_H

double course_clock(void); /* seconds */
double course_at(int gpu, const char *key, double time);
double course_mean(int gpu, const char *key, double from, double to);

#endif
