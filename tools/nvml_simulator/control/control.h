/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared by the commands of nvml-simulator. Arguments are the words after the command. */
#ifndef CONTROL_H
#define CONTROL_H

#include "state.h"

/* Say what is wrong and end with status 2. */
_Noreturn void refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The lock for a change; refuse when the state cannot be written. */
void open_state(bool change);
void close_state(void);
int parse_gpu(const char *text);
long long parse_count(const char *text, const char *what);

struct command {
    const char *name, *usage;
    int least, most; /* how many arguments */
    void (*run)(int count, char **arguments);
};

extern const struct command machine_commands[], fault_commands[], counter_commands[];
void print_structs(int count, char **arguments);
/* compute_faults.c: what follows `fault gpu N`, and `fault peers`. */
void fault_compute(int gpu, int count, char **arguments);
void fault_peers(int count, char **arguments);

#endif
