/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Entry points that read and set clocks. */
#include "call.h"
#include "clocks.h"

#include <string.h>

/* Does the driver answer application clock calls on this GPU? Deprecated since the headers of CUDA 13.0 and to be gone
 * with 14.0; branch 595 was reported to answer DEPRECATED. */
static nvmlReturn_t application_clocks(int gpu)
{
    const char *feature = state_get(gpu, "feature.application_clocks");
    if (driver_branch() >= 595 || (feature != NULL && strcmp(feature, "deprecated") == 0))
        return NVML_ERROR_DEPRECATED;
    return state_flag(gpu, "feature.application_clocks", false) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

static nvmlReturn_t default_clock(int gpu, unsigned int type, unsigned int *clock)
{
    SUPPORTED(type != NVML_CLOCK_VIDEO);
    return answer_key(gpu, type == NVML_CLOCK_MEM ? "clocks.default_memory_mhz" : "clocks.default_graphics_mhz", clock);
}

static nvmlReturn_t target_clock(int gpu, unsigned int type, unsigned int *clock)
{
    SUPPORTED(type != NVML_CLOCK_VIDEO);
    const char *key = type == NVML_CLOCK_MEM ? "application.memory_mhz" : "application.graphics_mhz";
    return state_has(gpu, key) ? answer_key(gpu, key, clock) : default_clock(gpu, type, clock);
}

static nvmlReturn_t highest_clock(int gpu, unsigned int type, unsigned int *clock)
{
    struct clock_range ranges[MAX_MEMORY_CLOCKS];
    if (type == NVML_CLOCK_VIDEO)
        return answer_key(gpu, "clocks.max_video_mhz", clock);
    SUPPORTED(clock_ranges(gpu, ranges) > 0);
    *clock = type == NVML_CLOCK_MEM ? ranges[0].memory : clock_from_top(&ranges[0], 0);
    return NVML_SUCCESS;
}

/* Memory and video have none: measured on Hopper, assumed for all. */
static nvmlReturn_t answer_boost(int gpu, unsigned int type, unsigned int *clock)
{
    SUPPORTED(state_flag(gpu, "feature.customer_boost", false) && type <= NVML_CLOCK_SM);
    return highest_clock(gpu, type, clock);
}

static nvmlReturn_t answer_current(int gpu, unsigned int type, unsigned int *clock)
{
    struct clock_range ranges[MAX_MEMORY_CLOCKS];
    SUPPORTED(clock_ranges(gpu, ranges) > 0);
    *clock = current_clock(gpu, type);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, unsigned int type, unsigned int *clock)
{
    DEVICE_CALL(device);
    ARGUMENT(clock != NULL && type <= NVML_CLOCK_VIDEO);
    nvmlReturn_t code = application_clocks(gpu);
    return code == NVML_SUCCESS ? target_clock(gpu, type, clock) : code;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, unsigned int type, unsigned int *clock)
{
    DEVICE_CALL(device);
    ARGUMENT(clock != NULL && type <= NVML_CLOCK_VIDEO);
    nvmlReturn_t code = application_clocks(gpu);
    return code == NVML_SUCCESS ? default_clock(gpu, type, clock) : code;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceSetApplicationsClocks(nvmlDevice_t device, unsigned int memory, unsigned int graphics)
{
    DEVICE_CHANGE(device);
    nvmlReturn_t code = application_clocks(gpu);
    REQUIRE(code == NVML_SUCCESS, code);
    struct clock_range ranges[MAX_MEMORY_CLOCKS];
    size_t count = clock_ranges(gpu, ranges);
    for (size_t i = 0; i < count; i++)
        for (size_t n = 0; ranges[i].memory == memory && n < clock_count(&ranges[i]); n++)
            if (clock_from_top(&ranges[i], n) == graphics) {
                state_set_number(DRIVER, gpu, "application.memory_mhz", memory);
                state_set_number(DRIVER, gpu, "application.graphics_mhz", graphics);
                return call_commit(&call);
            }
    return NVML_ERROR_INVALID_ARGUMENT;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceResetApplicationsClocks(nvmlDevice_t device)
{
    DEVICE_CHANGE(device);
    nvmlReturn_t code = application_clocks(gpu);
    REQUIRE(code == NVML_SUCCESS, code);
    state_drop(DRIVER, gpu, "application.");
    return call_commit(&call);
}

static bool symbolic(unsigned int clock)
{
    return clock == NVML_CLOCK_LIMIT_TDP || clock == NVML_CLOCK_LIMIT_UNLIMITED;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceSetGpuLockedClocks(nvmlDevice_t device, unsigned int minimum, unsigned int maximum)
{
    DEVICE_CHANGE(device);
    struct clock_range ranges[MAX_MEMORY_CLOCKS];
    SUPPORTED(state_flag(gpu, "feature.locked_clocks", false) && clock_ranges(gpu, ranges) > 0);
    ARGUMENT(symbolic(minimum) == symbolic(maximum));
    unsigned int top = clock_from_top(&ranges[0], 0), bottom = clock_from_top(&ranges[0], clock_count(&ranges[0]) - 1);
    if (minimum == NVML_CLOCK_LIMIT_UNLIMITED && maximum == NVML_CLOCK_LIMIT_UNLIMITED) {
        state_drop(DRIVER, gpu, "locked.graphics_"); /* nvml.h: as nvmlDeviceResetGpuLockedClocks */
        return call_commit(&call);
    }
    if (symbolic(minimum)) {
        unsigned int base = (unsigned int)state_number(gpu, "clocks.default_graphics_mhz", top);
        /* The base clock as upper bound alone: in the table of nvml.h, and refused by an A100. */
        ARGUMENT(minimum == NVML_CLOCK_LIMIT_TDP || state_number(gpu, "architecture", 0) != NVML_ARCH_AMPERE);
        minimum = minimum == NVML_CLOCK_LIMIT_TDP ? base : bottom;
        maximum = maximum == NVML_CLOCK_LIMIT_TDP ? base : top;
    }
    ARGUMENT(minimum <= maximum && minimum >= bottom && maximum <= top);
    state_set_number(DRIVER, gpu, "locked.graphics_min_mhz", minimum);
    state_set_number(DRIVER, gpu, "locked.graphics_max_mhz", maximum);
    return call_commit(&call);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceResetGpuLockedClocks(nvmlDevice_t device)
{
    DEVICE_CHANGE(device);
    SUPPORTED(state_flag(gpu, "feature.locked_clocks", false));
    state_drop(DRIVER, gpu, "locked.graphics_");
    return call_commit(&call);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceSetMemoryLockedClocks(nvmlDevice_t device, unsigned int minimum, unsigned int maximum)
{
    DEVICE_CHANGE(device);
    struct clock_range ranges[MAX_MEMORY_CLOCKS];
    size_t count = clock_ranges(gpu, ranges);
    SUPPORTED(state_flag(gpu, "feature.locked_memory_clocks", false) && count > 0);
    ARGUMENT(minimum <= maximum && minimum >= ranges[count - 1].memory && maximum <= ranges[0].memory);
    state_set_number(DRIVER, gpu, "locked.memory_min_mhz", minimum);
    state_set_number(DRIVER, gpu, "locked.memory_max_mhz", maximum);
    return call_commit(&call);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceResetMemoryLockedClocks(nvmlDevice_t device)
{
    DEVICE_CHANGE(device);
    SUPPORTED(state_flag(gpu, "feature.locked_memory_clocks", false));
    state_drop(DRIVER, gpu, "locked.memory_");
    return call_commit(&call);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, unsigned int type, unsigned int id, unsigned int *clock)
{
    DEVICE_CALL(device);
    ARGUMENT(clock != NULL && type <= NVML_CLOCK_VIDEO && id <= NVML_CLOCK_ID_BOOST_MAX);
    if (id == NVML_CLOCK_ID_CURRENT)
        return answer_current(gpu, type, clock);
    if (id == NVML_CLOCK_ID_BOOST_MAX)
        return answer_boost(gpu, type, clock);
    nvmlReturn_t code = application_clocks(gpu);
    REQUIRE(code == NVML_SUCCESS, code);
    return id == NVML_CLOCK_ID_APP_TARGET ? target_clock(gpu, type, clock) : default_clock(gpu, type, clock);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, unsigned int type, unsigned int *clock)
{
    DEVICE_CALL(device);
    ARGUMENT(clock != NULL && type <= NVML_CLOCK_VIDEO);
    return answer_current(gpu, type, clock);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, unsigned int type, unsigned int *clock)
{
    DEVICE_CALL(device);
    ARGUMENT(clock != NULL && type <= NVML_CLOCK_VIDEO);
    return highest_clock(gpu, type, clock);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMaxCustomerBoostClock(nvmlDevice_t device, unsigned int type, unsigned int *clock)
{
    DEVICE_CALL(device);
    ARGUMENT(clock != NULL && type <= NVML_CLOCK_VIDEO);
    return answer_boost(gpu, type, clock);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned int *count, unsigned int *clocks)
{
    DEVICE_CALL(device);
    ARGUMENT(count != NULL);
    struct clock_range ranges[MAX_MEMORY_CLOCKS];
    unsigned int have = (unsigned int)clock_ranges(gpu, ranges), room = *count;
    SUPPORTED(have > 0 && state_flag(gpu, "feature.supported_clocks", true));
    *count = have;
    REQUIRE(room >= have, NVML_ERROR_INSUFFICIENT_SIZE);
    ARGUMENT(clocks != NULL);
    for (unsigned int i = 0; i < have; i++)
        clocks[i] = ranges[i].memory;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, unsigned int memory, unsigned int *count,
                                                              unsigned int *clocks)
{
    DEVICE_CALL(device);
    ARGUMENT(count != NULL);
    struct clock_range ranges[MAX_MEMORY_CLOCKS];
    size_t have = clock_ranges(gpu, ranges);
    SUPPORTED(have > 0 && state_flag(gpu, "feature.supported_clocks", true));
    for (size_t i = 0; i < have; i++) {
        if (ranges[i].memory != memory)
            continue;
        unsigned int number = (unsigned int)clock_count(&ranges[i]), room = *count;
        *count = number;
        REQUIRE(room >= number, NVML_ERROR_INSUFFICIENT_SIZE);
        ARGUMENT(clocks != NULL);
        for (unsigned int n = 0; n < number; n++)
            clocks[n] = clock_from_top(&ranges[i], n);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

static nvmlReturn_t answer_reasons(int gpu, unsigned long long *reasons)
{
    ARGUMENT(reasons != NULL);
    *reasons = event_reasons(gpu);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    DEVICE_CALL(device);
    return answer_reasons(gpu, reasons);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    DEVICE_CALL(device);
    return answer_reasons(gpu, reasons);
}

static nvmlReturn_t answer_supported_reasons(int gpu, unsigned long long *reasons)
{
    ARGUMENT(reasons != NULL);
    *reasons = (unsigned long long)state_number(gpu, "clocks.supported_event_reasons", 0x1ff);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    DEVICE_CALL(device);
    return answer_supported_reasons(gpu, reasons);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons)
{
    DEVICE_CALL(device);
    return answer_supported_reasons(gpu, reasons);
}
