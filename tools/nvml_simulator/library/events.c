/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Events: a set remembers the number of the last event it has seen; new ones stand in the driver's state. */
#define _POSIX_C_SOURCE 200809L
#include "call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EVENT_SBE = 0x1, EVENT_DBE = 0x2, EVENT_PSTATE = 0x4, EVENT_XID = 0x8, EVENT_CLOCK = 0x10, EVENT_MIG = 0x100 };
/* Power source; storm of corrected errors, page retirement, its failure, poison errors; GPU unavailable, recovery action. */
enum { EVENT_SOURCE = 0x80, EVENTS_OF_MEMORY = 0x3e00, EVENTS_OF_RECOVERY = 0xc000 };
#define SET_MAGIC 0x65767473u
#define NO_INSTANCE 0xffffffffu

struct nvmlEventSet_st {
    unsigned int magic;
    long long seen;
    unsigned long long types[MAX_GPUS];
};

static bool is_set(nvmlEventSet_t set)
{
    return set != NULL && set->magic == SET_MAGIC;
}

static unsigned long long supported_types(int gpu)
{
    /* An H100 and an H200 with 580.159.04 report every type of nvml.h. Which types depend on ECC and MIG is assumed; the
     * last two groups are in nvml.h from branches 560 and 570 on. */
    unsigned long long types = EVENT_XID | EVENT_PSTATE | EVENT_CLOCK | EVENT_SOURCE;
    if (state_flag(gpu, "feature.ecc", false))
        types |= EVENT_SBE | EVENT_DBE | (driver_branch() >= 560 ? EVENTS_OF_MEMORY : 0);
    if (driver_branch() >= 570)
        types |= EVENTS_OF_RECOVERY;
    if (state_flag(gpu, "feature.mig", false))
        types |= EVENT_MIG;
    return types;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types)
{
    DEVICE_CALL(device);
    ARGUMENT(types != NULL);
    *types = supported_types(gpu);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    SYSTEM_CALL();
    ARGUMENT(set != NULL);
    *set = calloc(1, sizeof(**set));
    REQUIRE(*set != NULL, NVML_ERROR_MEMORY);
    (*set)->magic = SET_MAGIC;
    (*set)->seen = state_number(NO_GPU, "event.last", 0);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    DEVICE_CALL(device);
    ARGUMENT(is_set(set));
    SUPPORTED((types & ~supported_types(gpu)) == 0);
    set->types[gpu] |= types;
    return NVML_SUCCESS;
}

/* The next event that the set asked for: "GPU TYPE DATA". */
static bool next_event(nvmlEventSet_t set, nvmlEventData_t *data)
{
    long long last = state_number(NO_GPU, "event.last", 0);
    if (set->seen > last)
        set->seen = 0; /* the driver was loaded anew and counts from one again */
    while (set->seen < last) {
        char key[48];
        int gpu;
        unsigned long long type, detail;
        snprintf(key, sizeof(key), "event.%lld", ++set->seen);
        const char *text = state_get(NO_GPU, key);
        if (text == NULL || sscanf(text, "%d %llu %llu", &gpu, &type, &detail) != 3 || gpu < 0 || gpu >= MAX_GPUS)
            continue;
        if ((set->types[gpu] & type) == 0)
            continue;
        *data = (nvmlEventData_t){handle_of_slot(gpu), type, detail, NO_INSTANCE, NO_INSTANCE};
        return true;
    }
    return false;
}

static nvmlReturn_t look(const char *name, nvmlEventSet_t set, nvmlEventData_t *data)
{
    struct call call __attribute__((cleanup(call_end)));
    nvmlReturn_t code = call_begin(&call, name, NULL, false, READ);
    REQUIRE(code == NVML_SUCCESS, code);
    ARGUMENT(is_set(set) && data != NULL);
    return next_event(set, data) ? NVML_SUCCESS : NVML_ERROR_TIMEOUT;
}

NVML_EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
    enum { STEP_MS = 20 };
    for (unsigned int waited = 0;; waited += STEP_MS) {
        nvmlReturn_t code = look(__func__, set, data);
        if (code != NVML_ERROR_TIMEOUT || waited >= timeout_ms)
            return code;
        unsigned int left = timeout_ms - waited;
        struct timespec pause = {0, (left < STEP_MS ? left : STEP_MS) * 1000000L};
        nanosleep(&pause, NULL);
    }
}

NVML_EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    SYSTEM_CALL();
    ARGUMENT(is_set(set));
    set->magic = 0;
    free(set);
    return NVML_SUCCESS;
}
