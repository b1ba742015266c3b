/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Processes on a GPU. */
#include "call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_INSTANCE 0xffffffffu

static nvmlReturn_t answer_processes(int gpu, unsigned int *count, nvmlProcessInfo_t *infos)
{
    ARGUMENT(count != NULL && (*count == 0 || infos != NULL));
    WHOLE_GPU(gpu);
    const struct store *driver = layer_store(DRIVER);
    unsigned int room = *count, found = 0;
    char prefix[64];
    snprintf(prefix, sizeof(prefix), "gpu.%d.process.", gpu);
    for (size_t i = 0; i < driver->count; i++) {
        long long mib = 0;
        if (strncmp(driver->entries[i].key, prefix, strlen(prefix)) != 0)
            continue;
        (void)parse_number(driver->entries[i].value, &mib);
        if (found < room)
            infos[found] = (nvmlProcessInfo_t){(unsigned int)strtoul(driver->entries[i].key + strlen(prefix), NULL, 10),
                                               (unsigned long long)mib << 20, NO_INSTANCE, NO_INSTANCE};
        found++;
    }
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
    DEVICE_CALL(device);
    return answer_processes(gpu, count, infos);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
    DEVICE_CALL(device);
    return answer_processes(gpu, count, infos);
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
