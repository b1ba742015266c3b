/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* What every entry point does first: lock, read the state, apply faults, check the handle and the permission. */
#ifndef CALL_H
#define CALL_H

#include "nvml_abi.h"
#include "state.h"

enum access { READ, CHANGE };

struct call {
    int gpu;             /* slot of the GPU, or NO_GPU */
    enum access access;
    bool open;
};

struct nvmlDevice_st {
    unsigned int magic;
    int slot;
};

nvmlReturn_t call_begin(struct call *call, const char *name, const void *device, bool with_device, enum access access);
void call_end(struct call *call);
/* End of a change: write the state. */
nvmlReturn_t call_commit(struct call *call);

/* The body of an entry point follows; the lock ends with it, on every way out. */
#define BEGIN(device, with_device, access)                                                                   \
    struct call call __attribute__((cleanup(call_end)));                                                     \
    do {                                                                                                     \
        nvmlReturn_t refusal = call_begin(&call, __func__, device, with_device, access);                     \
        if (refusal != NVML_SUCCESS)                                                                         \
            return refusal;                                                                                  \
    } while (0)
#define SYSTEM_CALL() BEGIN(NULL, false, READ)
#define DEVICE_CALL(device) BEGIN(device, true, READ); const int gpu = call.gpu
#define DEVICE_CHANGE(device) BEGIN(device, true, CHANGE); const int gpu = call.gpu
#define REQUIRE(condition, code)                                                                             \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            return code;                                                                                     \
    } while (0)
#define ARGUMENT(condition) REQUIRE(condition, NVML_ERROR_INVALID_ARGUMENT)
#define SUPPORTED(condition) REQUIRE(condition, NVML_ERROR_NOT_SUPPORTED)

int gpu_slots(void);                     /* GPUs in the description, absent ones included */
int gpu_visible(void);                   /* GPUs that are enumerated */
int slot_of_index(unsigned int index);   /* -1 when there is none */
int index_of_slot(int slot);
bool gpu_absent(int slot);
bool gpu_lost(int slot);
nvmlDevice_t handle_of_slot(int slot);
int slot_of_handle(const void *handle);  /* -1 when it is not a handle */

/* Copy a text for the caller: INSUFFICIENT_SIZE when it does not fit, NOT_SUPPORTED when there is none. */
nvmlReturn_t answer_text(const char *text, char *buffer, unsigned int size);
/* Answer a number of the description: NOT_SUPPORTED when there is none. */
nvmlReturn_t answer_key(int gpu, const char *key, unsigned int *answer);
bool architecture_at_least(int gpu, int architecture);
/* mig.c: is the GPU in MIG mode now? Then some calls are refused on it, and these belong to root (nvml.h). */
bool mig_enabled(int gpu);
bool mig_instances(int gpu); /* and are there any */

/* A compute instance, as programs see it. Few calls take its handle in place of a GPU's. */
struct mig_device {
    int gpu;
    unsigned int gi, ci;
};
bool mig_device(const void *handle, struct mig_device *found);
bool mig_device_of_uuid(const char *uuid, struct mig_device *found);
nvmlDevice_t handle_of_mig_device(const struct mig_device *mig);
void mig_uuid(const struct mig_device *mig, char *uuid, size_t size);
#define MIG_OR_GPU_CALL(device)                                                                              \
    struct mig_device mig = {NO_GPU, 0, 0};                                                                  \
    const bool is_mig_device = mig_device(device, &mig);                                                     \
    DEVICE_CALL(is_mig_device ? handle_of_slot(mig.gpu) : device);                                           \
    (void)gpu
#define WHOLE_GPU(gpu) REQUIRE(!mig_enabled(gpu) || effective_uid() == 0, NVML_ERROR_NO_PERMISSION)
/* The branch of the simulated driver, 580 of 580.95.05; without a description, newer than any. */
int driver_branch(void);
bool driver_at_least(int branch, int release); /* 580.159.04 is branch 580, release 159 */
unsigned int effective_uid(void);

/* symbols.c: the branch that this process loaded the library as. */
extern int library_branch;

/* init.c: how often this process has initialised the library. */
extern unsigned int initialised;
nvmlReturn_t driver_answers(void);

#endif
