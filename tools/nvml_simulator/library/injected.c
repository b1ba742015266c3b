/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
#define _POSIX_C_SOURCE 200809L
#include "injected.h"
#include "state.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CALLS = 256 };

bool carry_out_fault(const char *fault, int unknown, int *code)
{
    long long number = 0;
    if (strncmp(fault, "delay:", 6) == 0) {
        long milliseconds = strtol(fault + 6, NULL, 10);
        struct timespec time = {milliseconds / 1000, (milliseconds % 1000) * 1000000};
        while (nanosleep(&time, &time) != 0 && errno == EINTR)
            ;
        return false;
    }
    if (strcmp(fault, "kill") == 0)
        (void)kill(getpid(), SIGKILL);
    if (strcmp(fault, "hang") == 0)
        for (;;)
            pause();
    *code = strncmp(fault, "return:", 7) == 0 && parse_number(fault + 7, &number) ? (int)number : unknown;
    return true;
}

static const char *call_fault(int gpu, const char *name)
{
    char key[160];
    snprintf(key, sizeof(key), "call.%s", name);
    const char *text = gpu == NO_GPU ? NULL : layer_get(FAULTS, gpu, key);
    return text != NULL ? text : layer_get(FAULTS, NO_GPU, key);
}

/* "after:N:FAULT" lets the first N calls of this process pass, "nth:N:FAULT" is for the N-th alone. */
static const char *due(const char *text, unsigned int made)
{
    char *rest;
    bool nth = text != NULL && strncmp(text, "nth:", 4) == 0;
    if (text == NULL || (!nth && strncmp(text, "after:", 6) != 0))
        return text;
    unsigned long number = strtoul(text + (nth ? 4 : 6), &rest, 10);
    return (nth ? made == number : made > number) && *rest == ':' ? rest + 1 : NULL;
}

/* How often this process has made a call; those that change something are counted together, too. */
static unsigned int count_call(const char *name)
{
    static struct {
        char name[96];
        unsigned int made;
    } counts[CALLS];
    int i = 0;
    while (i < CALLS - 1 && counts[i].made > 0 && strcmp(counts[i].name, name) != 0)
        i++;
    snprintf(counts[i].name, sizeof(counts[i].name), "%s", name);
    return ++counts[i].made;
}

const char *injected_fault(int gpu, const char *name, bool change)
{
    const char *text = due(call_fault(gpu, name), count_call(name));
    if (text == NULL && change)
        text = due(layer_get(FAULTS, NO_GPU, "call.change"), count_call("change"));
    return text;
}
