/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* nvml-simulator: set up, show and break the simulated machine. */
#define _POSIX_C_SOURCE 200809L
#include "control.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void refuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("nvml-simulator: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(2);
}

void open_state(bool change)
{
    int why = state_lock(change);
    if (why != 0)
        refuse("%s cannot be written (%s): run as root, or set NVML_SIMULATOR_STATE to a folder of your own",
               layer_path(DRIVER), strerror(why));
}

void close_state(void)
{
    int why = state_commit();
    state_unlock();
    if (why != 0)
        refuse("the state cannot be written (%s): run as root, or set NVML_SIMULATOR_STATE to a folder of your own",
               strerror(why));
}

long long parse_count(const char *text, const char *what)
{
    long long number;
    if (!parse_number(text, &number) || number < 0)
        refuse("%s is not %s: give a number from 0", text, what);
    return number;
}

int parse_gpu(const char *text)
{
    long long gpu = parse_count(text, "the number of a GPU"), count = state_number(NO_GPU, "gpu.count", 0);
    if (gpu >= count || gpu >= MAX_GPUS)
        refuse("there is no GPU %lld: this machine has %lld", gpu, count);
    return (int)gpu;
}

static const struct command *const groups[] = {machine_commands, counter_commands, fault_commands};

static void usage(FILE *to)
{
    fputs("usage:\n", to);
    for (size_t group = 0; group < sizeof(groups) / sizeof(groups[0]); group++)
        for (const struct command *command = groups[group]; command->name != NULL; command++)
            fprintf(to, "  nvml-simulator %s %s\n", command->name, command->usage);
}

int main(int count, char **arguments)
{
    if (count < 2) {
        usage(stderr);
        return 2;
    }
    if (strcmp(arguments[1], "help") == 0 || strcmp(arguments[1], "--help") == 0) {
        usage(stdout);
        return 0;
    }
    for (size_t group = 0; group < sizeof(groups) / sizeof(groups[0]); group++)
        for (const struct command *command = groups[group]; command->name != NULL; command++) {
            if (strcmp(command->name, arguments[1]) != 0)
                continue;
            if (count - 2 < command->least || (command->most >= 0 && count - 2 > command->most))
                refuse("usage: nvml-simulator %s %s", command->name, command->usage);
            command->run(count - 2, arguments + 2);
            return fflush(stdout) == 0 ? 0 : 1;
        }
    refuse("there is no command %s: see nvml-simulator help", arguments[1]);
}
