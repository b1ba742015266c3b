/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Power limits, power, energy and temperatures. */
#define _POSIX_C_SOURCE 200809L
#include "power.h"
#include "call.h"
#include "clocks.h"

#include <time.h>

long long power_limit_mw(int gpu)
{
    return state_number(gpu, "power.limit_mw", state_number(gpu, "power.default_limit_mw", -1));
}

long long power_usage_mw(int gpu)
{
    long long idle = state_number(gpu, "power.idle_mw", 50000);
    long long usage = gpu_busy(gpu) ? state_number(gpu, "power.busy_mw", 8 * power_limit_mw(gpu) / 10) : idle;
    long long limit = power_limit_mw(gpu);
    return limit > 0 && usage > limit ? limit : usage;
}

unsigned long long energy_mj(int gpu)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (unsigned long long)now.tv_sec * (unsigned long long)state_number(gpu, "power.idle_mw", 50000);
}

static nvmlReturn_t answer_limit(int gpu, unsigned int *limit)
{
    ARGUMENT(limit != NULL);
    SUPPORTED(power_limit_mw(gpu) >= 0);
    *limit = (unsigned int)power_limit_mw(gpu);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
    DEVICE_CALL(device);
    ARGUMENT(mode != NULL);
    *mode = power_limit_mw(gpu) >= 0;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int *limit)
{
    DEVICE_CALL(device);
    return answer_limit(gpu, limit);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *limit)
{
    DEVICE_CALL(device);
    return answer_limit(gpu, limit);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned int *limit)
{
    DEVICE_CALL(device);
    return answer_key(gpu, "power.default_limit_mw", limit);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *low, unsigned int *high)
{
    DEVICE_CALL(device);
    nvmlReturn_t code = answer_key(gpu, "power.min_limit_mw", low);
    return code == NVML_SUCCESS ? answer_key(gpu, "power.max_limit_mw", high) : code;
}

static nvmlReturn_t set_limit(struct call *call, unsigned int limit)
{
    int gpu = call->gpu;
    SUPPORTED(power_limit_mw(gpu) >= 0 && state_has(gpu, "power.min_limit_mw"));
    ARGUMENT(limit >= state_number(gpu, "power.min_limit_mw", 0) && limit <= state_number(gpu, "power.max_limit_mw", 0));
    state_set_number(DRIVER, gpu, "power.limit_mw", limit);
    return call_commit(call);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceSetPowerManagementLimit(nvmlDevice_t device, unsigned int limit)
{
    DEVICE_CHANGE(device);
    (void)gpu;
    return set_limit(&call, limit);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceSetPowerManagementLimit_v2(nvmlDevice_t device, nvmlPowerValue_v2_t *value)
{
    DEVICE_CHANGE(device);
    (void)gpu;
    ARGUMENT(value != NULL);
    REQUIRE(value->version == NVML_STRUCT_VERSION(nvmlPowerValue_v2_t, 2), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    ARGUMENT(value->powerScope <= 1);
    SUPPORTED(value->powerScope == 0); /* scope 1 is the module of a Grace superchip */
    return set_limit(&call, value->powerValueMw);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *power)
{
    DEVICE_CALL(device);
    ARGUMENT(power != NULL);
    *power = (unsigned int)power_usage_mw(gpu);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *energy)
{
    DEVICE_CALL(device);
    ARGUMENT(energy != NULL);
    SUPPORTED(architecture_at_least(gpu, NVML_ARCH_VOLTA));
    *energy = energy_mj(gpu);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned int sensor, unsigned int *temperature)
{
    DEVICE_CALL(device);
    ARGUMENT(temperature != NULL && sensor == 0);
    return answer_key(gpu, "temperature.gpu", temperature);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_v1_t *temperature)
{
    DEVICE_CALL(device);
    ARGUMENT(temperature != NULL);
    REQUIRE(temperature->version == NVML_STRUCT_VERSION(nvmlTemperature_v1_t, 1), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    ARGUMENT(temperature->sensorType == 0);
    SUPPORTED(state_has(gpu, "temperature.gpu"));
    temperature->temperature = (int)state_number(gpu, "temperature.gpu", 0);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned int type, unsigned int *temperature)
{
    static const char *const keys[] = {"temperature.shutdown", "temperature.slowdown", "temperature.memory_max",
                                       "temperature.gpu_max"};
    DEVICE_CALL(device);
    ARGUMENT(temperature != NULL && type < 8); /* NVML_TEMPERATURE_THRESHOLD_COUNT */
    SUPPORTED(type < sizeof(keys) / sizeof(keys[0]));
    return answer_key(gpu, keys[type], temperature);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_v1_t *margin)
{
    DEVICE_CALL(device);
    ARGUMENT(margin != NULL);
    REQUIRE(margin->version == NVML_STRUCT_VERSION(nvmlMarginTemperature_v1_t, 1), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    SUPPORTED(architecture_at_least(gpu, NVML_ARCH_ADA) && state_has(gpu, "temperature.gpu_max"));
    margin->marginTemperature = (int)(state_number(gpu, "temperature.gpu_max", 0) - state_number(gpu, "temperature.gpu", 0));
    return NVML_SUCCESS;
}
