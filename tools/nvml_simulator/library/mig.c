/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* MIG as far as it can be read. The mode is kept in the InfoROM (mig_mode) and latched like the ECC mode on Ampere. Of
 * instances there is only a number (mig.instances): they can be neither made nor looked at. */
#include "call.h"

static bool mig_pending(int gpu)
{
    return state_flag(gpu, "feature.mig", false) && state_flag(gpu, "mig_mode", false);
}

bool mig_enabled(int gpu)
{
    return state_flag(gpu, "latched.mig_mode", mig_pending(gpu));
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    DEVICE_CALL(device);
    ARGUMENT(current != NULL && pending != NULL);
    SUPPORTED(state_flag(gpu, "feature.mig", false));
    *pending = mig_pending(gpu);
    *current = mig_enabled(gpu);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    DEVICE_CALL(device);
    ARGUMENT(count != NULL);
    *count = mig_enabled(gpu) ? (unsigned int)state_number(gpu, "mig.max_devices", 7) : 0;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig)
{
    DEVICE_CALL(device);
    ARGUMENT(mig != NULL);
    SUPPORTED(state_flag(gpu, "feature.mig", false));
    ARGUMENT(index < (unsigned int)state_number(gpu, "mig.max_devices", 7));
    return NVML_ERROR_NOT_FOUND;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig)
{
    DEVICE_CALL(device);
    (void)gpu;
    ARGUMENT(is_mig != NULL);
    *is_mig = 0;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    DEVICE_CALL(device);
    (void)gpu;
    ARGUMENT(attributes != NULL);
    return NVML_ERROR_NOT_SUPPORTED; /* only of a MIG device */
}
