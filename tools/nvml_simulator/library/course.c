/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
#define _POSIX_C_SOURCE 200809L
#include "course.h"
#include "state.h"

#include <stdlib.h>
#include <time.h>

enum { MAX_VALUES = 256 };

struct course {
    double values[MAX_VALUES], sum, step;
    size_t count;
};

static struct course read_course(int gpu, const char *key)
{
    struct course course = {.step = (double)state_number(gpu, "course.step_ms", 1000) / 1000};
    const char *text = state_get(gpu, key);
    char *end;
    for (; text != NULL && course.count < MAX_VALUES; text = *end == ',' ? end + 1 : NULL) {
        double value = strtod(text, &end);
        if (end == text)
            break;
        course.values[course.count++] = value;
        course.sum += value;
    }
    if (course.count == 0)
        course.count = 1; /* its value is 0 */
    if (course.step <= 0)
        course.step = 1;
    return course;
}

double course_clock(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double course_at(int gpu, const char *key, double time)
{
    struct course course = read_course(gpu, key);
    return course.values[(unsigned long long)(time / course.step) % course.count];
}

/* What a counter would have counted since the start of the clock. */
static double counted(const struct course *course, double time)
{
    unsigned long long steps = (unsigned long long)(time / course->step);
    double total = (double)(steps / course->count) * course->sum;
    for (size_t i = 0; i < steps % course->count; i++)
        total += course->values[i];
    return total * course->step + course->values[steps % course->count] * (time - (double)steps * course->step);
}

double course_mean(int gpu, const char *key, double from, double to)
{
    struct course course = read_course(gpu, key);
    return to > from ? (counted(&course, to) - counted(&course, from)) / (to - from) : course_at(gpu, key, to);
}
