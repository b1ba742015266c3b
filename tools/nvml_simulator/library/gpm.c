/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* GPM: the activity of a GPU between two samples of its counters. */
#include "call.h"
#include "course.h"

#include <stdlib.h>

struct nvmlGpmSample_st {
    int gpu;
    double time;
};

/* nvml.h, nvmlGpmMetricId_t; the others are not supported here. */
static const char *const keys[] = {NULL, "utilization.gpu_percent", "gpm.sm_percent", "gpm.occupancy_percent"};

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
    *sample = (struct nvmlGpmSample_st){gpu, course_clock()};
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get)
{
    SYSTEM_CALL();
    ARGUMENT(get != NULL && get->sample1 != NULL && get->sample2 != NULL && get->numMetrics <= NVML_GPM_METRIC_MAX);
    REQUIRE(get->version == NVML_GPM_METRICS_GET_VERSION, NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    const int gpu = get->sample1->gpu;
    ARGUMENT(gpu != NO_GPU && gpu == get->sample2->gpu);
    for (unsigned int i = 0; i < get->numMetrics; i++) {
        nvmlGpmMetric_t *metric = &get->metrics[i];
        bool known = metric->metricId > 0 && metric->metricId < sizeof(keys) / sizeof(keys[0]);
        metric->nvmlReturn = known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
        if (known)
            metric->value = course_mean(gpu, keys[metric->metricId], get->sample1->time, get->sample2->time);
    }
    return NVML_SUCCESS;
}
