/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Processes on a GPU. */
#include "call.h"
#include "mig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_INSTANCE 0xffffffffu

/* The next process of a GPU from entry *at on: "gpu.N.process.PID = MIB [GI CI]". */
static bool next_process(int gpu, size_t *at, nvmlProcessInfo_t *info)
{
    const struct store *driver = layer_store(DRIVER);
    char prefix[64];
    snprintf(prefix, sizeof(prefix), "gpu.%d.process.", gpu);
    while (*at < driver->count) {
        const struct store_entry *entry = &driver->entries[(*at)++];
        unsigned long long mib = 0;
        if (strncmp(entry->key, prefix, strlen(prefix)) != 0)
            continue;
        *info = (nvmlProcessInfo_t){(unsigned int)strtoul(entry->key + strlen(prefix), NULL, 10), 0, NO_INSTANCE, NO_INSTANCE};
        (void)sscanf(entry->value, "%llu %u %u", &mib, &info->gpuInstanceId, &info->computeInstanceId);
        info->usedGpuMemory = mib << 20;
        return true;
    }
    return false;
}

static bool has(const nvmlProcessInfo_t *info, int gi, int ci)
{
    return (gi == WHOLE || info->gpuInstanceId == (unsigned int)gi) && (ci == WHOLE || info->computeInstanceId == (unsigned int)ci);
}

bool in_use(int gpu, int gi, int ci)
{
    nvmlProcessInfo_t info;
    for (size_t at = 0; next_process(gpu, &at, &info);)
        if (has(&info, gi, ci))
            return true;
    return false;
}

unsigned long long used_memory(int gpu, int gi)
{
    nvmlProcessInfo_t info;
    unsigned long long used = 0;
    for (size_t at = 0; next_process(gpu, &at, &info);)
        used += has(&info, gi, WHOLE) ? info.usedGpuMemory : 0;
    return used;
}

static nvmlReturn_t answer_processes(int gpu, int gi, int ci, unsigned int *count, nvmlProcessInfo_t *infos)
{
    nvmlProcessInfo_t info;
    ARGUMENT(count != NULL && (*count == 0 || infos != NULL));
    if (gi == WHOLE)
        WHOLE_GPU(gpu);
    unsigned int room = *count, found = 0;
    for (size_t at = 0; next_process(gpu, &at, &info);)
        if (has(&info, gi, ci) && found++ < room)
            infos[found - 1] = info;
    *count = found;
    return found <= room ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

static nvmlReturn_t answer_none(unsigned int *count)
{
    ARGUMENT(count != NULL);
    *count = 0;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
    MIG_OR_GPU_CALL(device);
    return answer_processes(gpu, is_mig_device ? (int)mig.gi : WHOLE, is_mig_device ? (int)mig.ci : WHOLE, count, infos);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
    MIG_OR_GPU_CALL(device);
    return answer_processes(gpu, is_mig_device ? (int)mig.gi : WHOLE, is_mig_device ? (int)mig.ci : WHOLE, count, infos);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
    DEVICE_CALL(device);
    (void)gpu;
    (void)infos;
    return answer_none(count);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
    DEVICE_CALL(device);
    (void)gpu;
    (void)infos;
    return answer_none(count);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
    DEVICE_CALL(device);
    (void)gpu;
    (void)infos;
    return answer_none(count);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
    DEVICE_CALL(device);
    (void)gpu;
    (void)infos;
    return answer_none(count);
}
