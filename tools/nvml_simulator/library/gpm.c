/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* GPM: the activity of a GPU between two samples of its counters. */
#include "call.h"
#include "course.h"
#include "mig.h"

#include <stdio.h>
#include <stdlib.h>

struct nvmlGpmSample_st {
    int gpu, instance; /* WHOLE: of the GPU */
    double time;
};

/* nvml.h, nvmlGpmMetricId_t; the others are not supported here. */
static const char *const names[] = {
    [2] = "sm_percent",
    [3] = "occupancy_percent",
    [5] = "tensor_percent",
    [10] = "dram_percent",
    [11] = "fp64_percent",
    [12] = "fp32_percent",
    [13] = "fp16_percent",
    [20] = "pcie_sent_mib",
    [21] = "pcie_received_mib",
    [60] = "nvlink_received_mib",
    [61] = "nvlink_sent_mib",
};

/* The setting of a metric; false: there is none here. */
static bool key_of(unsigned int id, int instance, char *key, size_t size)
{
    if (id == 1 && instance == WHOLE)
        return snprintf(key, size, "utilization.gpu_percent") > 0;
    if (id >= sizeof(names) / sizeof(names[0]) || names[id] == NULL)
        return false;
    if (instance == WHOLE)
        return snprintf(key, size, "gpm.%s", names[id]) > 0;
    return snprintf(key, size, "gpm.instance.%d.%s", instance, names[id]) > 0;
}

static bool has_gpm(int gpu)
{
    return architecture_at_least(gpu, NVML_ARCH_HOPPER);
}

NVML_EXPORT nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support)
{
    DEVICE_CALL(device);
    ARGUMENT(support != NULL);
    REQUIRE(support->version == NVML_GPM_SUPPORT_VERSION, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    support->isSupportedDevice = has_gpm(gpu);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
    SYSTEM_CALL();
    ARGUMENT(sample != NULL);
    *sample = calloc(1, sizeof(**sample));
    REQUIRE(*sample != NULL, NVML_ERROR_MEMORY);
    (*sample)->gpu = NO_GPU;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
    SYSTEM_CALL();
    ARGUMENT(sample != NULL);
    free(sample);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample)
{
    DEVICE_CALL(device);
    ARGUMENT(sample != NULL);
    SUPPORTED(has_gpm(gpu));
    *sample = (struct nvmlGpmSample_st){gpu, WHOLE, course_clock()};
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int gpuInstanceId, nvmlGpmSample_t sample)
{
    DEVICE_CALL(device);
    ARGUMENT(sample != NULL);
    SUPPORTED(has_gpm(gpu));
    struct instance instance;
    struct gi_profile profile;
    REQUIRE(find_gi(gpu, gpuInstanceId, &instance, &profile), NVML_ERROR_NOT_FOUND);
    *sample = (struct nvmlGpmSample_st){gpu, (int)gpuInstanceId, course_clock()};
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get)
{
    SYSTEM_CALL();
    ARGUMENT(get != NULL && get->sample1 != NULL && get->sample2 != NULL && get->numMetrics <= NVML_GPM_METRIC_MAX);
    REQUIRE(get->version == NVML_GPM_METRICS_GET_VERSION, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    const int gpu = get->sample1->gpu;
    const int instance = get->sample1->instance;
    ARGUMENT(gpu != NO_GPU && gpu == get->sample2->gpu && instance == get->sample2->instance);
    for (unsigned int i = 0; i < get->numMetrics; i++) {
        nvmlGpmMetric_t *metric = &get->metrics[i];
        char key[64];
        bool known = key_of(metric->metricId, instance, key, sizeof(key));
        metric->nvmlReturn = known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
        if (known)
            metric->value = course_mean(gpu, key, get->sample1->time, get->sample2->time);
    }
    return NVML_SUCCESS;
}
