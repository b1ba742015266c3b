/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* What the machine is and what state it is in: five text files, shared by all processes under one lock.
 *
 *   machine    the description: what the machine is when it leaves the factory
 *   override   site changes to it
 *   inforom    what the GPU keeps without power: ECC mode, aggregate counters, remapped rows, MIG mode
 *   driver     what driver and GPU keep until a reload, a reset or a reboot: clocks, limits, volatile counters
 *   faults     what was injected
 */
#ifndef STATE_H
#define STATE_H

#include <stdbool.h>
#include "store.h"

#define MAX_GPUS 64
#define NO_GPU (-1)

enum layer { MACHINE, OVERRIDE, INFOROM, DRIVER, FAULTS, LAYERS };

/* Take the lock and read what changed. Exclusive: 0, or an errno when the state cannot be written.
 * Shared: always 0; a reader that may not even open the lock reads without it (files are replaced whole). */
int state_lock(bool exclusive);
/* Write the changed files. 0, or an errno. Only under the exclusive lock. */
int state_commit(void);
void state_unlock(void);
/* Find the folders anew from the environment. */
void state_locate(void);

const char *layer_path(enum layer layer);
const char *layer_name(enum layer layer);
struct store *layer_store(enum layer layer);
/* Where the kernel log goes: a path. */
const char *kernel_log_path(void);
/* What is wrong with the files, or NULL. */
const char *state_problem(void);

/* The value of key, of one GPU (gpu.N.KEY, else gpu.KEY) or of the machine (NO_GPU); NULL when there is none. */
const char *state_get(int gpu, const char *key);
const char *state_get_from(int gpu, const char *key, enum layer *from);
long long state_number(int gpu, const char *key, long long otherwise);
bool state_flag(int gpu, const char *key, bool otherwise);
bool state_has(int gpu, const char *key);
/* The value in one layer only, and for this GPU only. */
const char *layer_get(enum layer layer, int gpu, const char *key);

void state_set(enum layer layer, int gpu, const char *key, const char *value);
void state_set_number(enum layer layer, int gpu, const char *key, long long value);
void state_unset(enum layer layer, int gpu, const char *key);
/* Drop all keys of one GPU (or, with NO_GPU, of all) in a layer that begin with a prefix. */
bool state_drop(enum layer layer, int gpu, const char *prefix);
/* The layer that holds this kind of key (a whole key, such as gpu.0.persistence_mode). */
enum layer layer_of_key(const char *key);

bool parse_number(const char *text, long long *number);

/* What a driver reload, a GPU reset and a reboot do; under the exclusive lock. */
void state_driver_reload(void);
void state_driver_forget(int gpu);
void state_gpu_reset(int gpu);
void state_reboot(void);

#endif
