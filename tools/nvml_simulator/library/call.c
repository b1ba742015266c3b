/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
#define _POSIX_C_SOURCE 200809L
#include "call.h"
#include "injected.h"
#include "mig.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC 0x6e766d6cu

static struct nvmlDevice_st devices[MAX_GPUS];
static pthread_mutex_t threads = PTHREAD_MUTEX_INITIALIZER;
static void before_fork(void) { pthread_mutex_lock(&threads); }
static void after_fork(void) { pthread_mutex_unlock(&threads); }

/* A child made while another thread is in a call must not inherit a mutex that nobody will release. */
static void __attribute__((constructor)) guard_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

static void leave(struct call *call)
{
    state_unlock();
    pthread_mutex_unlock(&threads);
    call->open = false;
}

/* Calls that need no nvmlInit, as seen on libraries of five branches. */
static bool answers_before_init(const char *name)
{
    return strncmp(name, "nvmlInit", 8) == 0 || strcmp(name, "nvmlShutdown") == 0 ||
           (strcmp(name, "nvmlSystemGetNVMLVersion") == 0 && driver_branch() >= 535);
}

nvmlReturn_t call_begin(struct call *call, const char *name, const void *device, bool with_device, enum access access)
{
    call->gpu = NO_GPU;
    call->access = access;
    pthread_mutex_lock(&threads);
    call->open = true;
    int why = state_lock(false);
    nvmlReturn_t code = NVML_SUCCESS;
    if (initialised == 0 && !answers_before_init(name))
        code = NVML_ERROR_UNINITIALIZED;
    if (code == NVML_SUCCESS && with_device) {
        struct mig_device mig;
        call->gpu = slot_of_handle(device);
        if (call->gpu < 0)
            code = mig_device(device, &mig) ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
    }
    const char *injected = code == NVML_SUCCESS ? injected_fault(call->gpu, name, access == CHANGE) : NULL;
    if (injected != NULL) {
        char order[64];
        int wanted;
        snprintf(order, sizeof(order), "%s", injected);
        state_unlock();
        if (strncmp(order, "delay:", 6) != 0)
            leave(call); /* others go on */
        if (carry_out_fault(order, NVML_ERROR_UNKNOWN, &wanted))
            return (nvmlReturn_t)wanted;
        why = state_lock(false);
    }
    if (code == NVML_SUCCESS && initialised > 0)
        code = driver_answers();
    if (code == NVML_SUCCESS && with_device && (gpu_lost(call->gpu) || gpu_absent(call->gpu)))
        code = NVML_ERROR_GPU_IS_LOST;
    if (code == NVML_SUCCESS && access == CHANGE) {
        if (effective_uid() != 0) {
            code = NVML_ERROR_NO_PERMISSION;
        } else {
            state_unlock();
            why = state_lock(true);
            if (why == EACCES || why == EPERM)
                code = NVML_ERROR_NO_PERMISSION;
            else if (why != 0)
                code = NVML_ERROR_OPERATING_SYSTEM;
        }
    }
    if (code != NVML_SUCCESS)
        leave(call);
    else if (access == READ)
        state_unlock(); /* what was read stays with this process until the call ends */
    return code;
}

void call_end(struct call *call)
{
    if (call->open)
        leave(call);
}

nvmlReturn_t call_commit(struct call *call)
{
    int why = state_commit();
    mig_capabilities();
    leave(call);
    if (why == EACCES || why == EPERM)
        return NVML_ERROR_NO_PERMISSION;
    return why == 0 ? NVML_SUCCESS : NVML_ERROR_OPERATING_SYSTEM;
}

unsigned int effective_uid(void)
{
    const char *text = getenv("NVML_SIMULATOR_UID");
    long long uid;
    return text != NULL && parse_number(text, &uid) ? (unsigned int)uid : (unsigned int)geteuid();
}

int gpu_slots(void)
{
    long long count = state_number(NO_GPU, "gpu.count", 0);
    return count < 0 ? 0 : count > MAX_GPUS ? MAX_GPUS : (int)count;
}

bool gpu_absent(int slot)
{
    return layer_get(FAULTS, slot, "absent") != NULL;
}

bool gpu_lost(int slot)
{
    return layer_get(FAULTS, slot, "lost") != NULL;
}

int gpu_visible(void)
{
    int visible = 0;
    for (int slot = 0; slot < gpu_slots(); slot++)
        visible += !gpu_absent(slot);
    return visible;
}

int slot_of_index(unsigned int index)
{
    for (int slot = 0; slot < gpu_slots(); slot++)
        if (!gpu_absent(slot) && index-- == 0)
            return slot;
    return -1;
}

int index_of_slot(int slot)
{
    int index = 0;
    for (int other = 0; other < slot; other++)
        index += !gpu_absent(other);
    return index;
}

nvmlDevice_t handle_of_slot(int slot)
{
    devices[slot].magic = MAGIC;
    devices[slot].slot = slot;
    return &devices[slot];
}

int slot_of_handle(const void *handle)
{
    for (int slot = 0; slot < gpu_slots(); slot++)
        if (handle == (const void *)&devices[slot] && devices[slot].magic == MAGIC)
            return slot;
    return -1;
}

nvmlReturn_t answer_text(const char *text, char *buffer, unsigned int size)
{
    ARGUMENT(buffer != NULL);
    SUPPORTED(text != NULL);
    size_t length = strlen(text);
    REQUIRE(length < size, NVML_ERROR_INSUFFICIENT_SIZE);
    memcpy(buffer, text, length + 1);
    return NVML_SUCCESS;
}

nvmlReturn_t answer_key(int gpu, const char *key, unsigned int *answer)
{
    ARGUMENT(answer != NULL);
    long long number = state_number(gpu, key, -1);
    SUPPORTED(number >= 0);
    *answer = (unsigned int)number;
    return NVML_SUCCESS;
}

int driver_branch(void)
{
    const char *version = state_get(NO_GPU, "driver.version");
    return version != NULL && atoi(version) > 0 ? atoi(version) : INT_MAX;
}

bool driver_at_least(int branch, int release)
{
    const char *version = state_get(NO_GPU, "driver.version"), *dot = version == NULL ? NULL : strchr(version, '.');
    if (driver_branch() != branch)
        return driver_branch() > branch;
    return dot != NULL && atoi(dot + 1) >= release;
}

bool architecture_at_least(int gpu, int architecture)
{
    return state_number(gpu, "architecture", 0) >= architecture;
}
