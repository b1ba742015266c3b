/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Entry points for ECC mode and counters, row remapping and page retirement. */
#include "call.h"
#include "ecc.h"

#include <string.h>

#define FEATURE_ROW_REMAP(gpu) state_flag(gpu, "feature.row_remap", false)
/* nvml.h: with MIG, volatile errors are those of MIG devices, and rows are not told while there are instances. */
#define COUNTED(gpu, counter) ((counter) == NVML_AGGREGATE_ECC || !mig_enabled(gpu))
#define ROWS_TOLD(gpu) (FEATURE_ROW_REMAP(gpu) && !mig_instances(gpu))
#define FEATURE_PAGE_RETIREMENT(gpu) state_flag(gpu, "feature.page_retirement", false)
enum { SRAM = 7 };

NVML_EXPORT nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending)
{
    DEVICE_CALL(device);
    ARGUMENT(current != NULL && pending != NULL);
    SUPPORTED(ecc_supported(gpu));
    *current = ecc_current(gpu);
    *pending = ecc_pending(gpu);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetDefaultEccMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
    DEVICE_CALL(device);
    ARGUMENT(mode != NULL);
    SUPPORTED(ecc_supported(gpu));
    *mode = state_flag(gpu, "ecc.default_mode", true);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceSetEccMode(nvmlDevice_t device, nvmlEnableState_t mode)
{
    DEVICE_CHANGE(device);
    ARGUMENT(mode <= 1);
    SUPPORTED(ecc_supported(gpu) && state_flag(gpu, "feature.ecc_switch", true));
    state_set_number(DRIVER, gpu, "latched.ecc_mode", ecc_current(gpu));
    state_set_number(INFOROM, gpu, "ecc_mode", mode);
    return call_commit(&call);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceClearEccErrorCounts(nvmlDevice_t device, unsigned int counter)
{
    DEVICE_CHANGE(device);
    ARGUMENT(counter <= NVML_AGGREGATE_ECC);
    SUPPORTED(ecc_supported(gpu) && ecc_current(gpu));
    if (counter == NVML_VOLATILE_ECC)
        state_drop(DRIVER, gpu, "ecc.volatile.");
    else
        state_drop(INFOROM, gpu, "ecc.aggregate.");
    return call_commit(&call);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned int type, unsigned int counter,
                                                     unsigned long long *count)
{
    DEVICE_CALL(device);
    ARGUMENT(count != NULL && type <= NVML_UNCORRECTED && counter <= NVML_AGGREGATE_ECC);
    SUPPORTED(ecc_supported(gpu) && ecc_current(gpu) && COUNTED(gpu, counter));
    *count = ecc_total(gpu, type, counter);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned int type, unsigned int counter,
                                                         unsigned int location, unsigned long long *count)
{
    DEVICE_CALL(device);
    ARGUMENT(count != NULL && type <= NVML_UNCORRECTED && counter <= NVML_AGGREGATE_ECC && location < MEMORY_LOCATIONS);
    SUPPORTED(ecc_supported(gpu) && ecc_current(gpu) && location_counted(gpu, (int)location) && COUNTED(gpu, counter));
    *count = ecc_errors(gpu, type, counter, (int)location);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_v1_t *status)
{
    DEVICE_CALL(device);
    ARGUMENT(status != NULL);
    REQUIRE(status->version == NVML_STRUCT_VERSION(nvmlEccSramErrorStatus_v1_t, 1), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    SUPPORTED(ecc_supported(gpu) && ecc_current(gpu) && location_counted(gpu, SRAM));
    unsigned int version = status->version;
    memset(status, 0, sizeof(*status));
    status->version = version;
    status->aggregateUncParity = ecc_errors(gpu, NVML_UNCORRECTED, NVML_AGGREGATE_ECC, SRAM);
    status->aggregateCor = ecc_errors(gpu, NVML_CORRECTED, NVML_AGGREGATE_ECC, SRAM);
    status->volatileUncParity = ecc_errors(gpu, NVML_UNCORRECTED, NVML_VOLATILE_ECC, SRAM);
    status->volatileCor = ecc_errors(gpu, NVML_CORRECTED, NVML_VOLATILE_ECC, SRAM);
    status->aggregateUncBucketL2 = status->aggregateUncParity;
    status->bThresholdExceeded =
        status->aggregateUncParity >= (unsigned long long)state_number(gpu, "ecc.sram_threshold", 10);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable, unsigned int *uncorrectable,
                                                   unsigned int *pending, unsigned int *failure)
{
    DEVICE_CALL(device);
    ARGUMENT(correctable != NULL && uncorrectable != NULL && pending != NULL && failure != NULL);
    SUPPORTED(ROWS_TOLD(gpu));
    *correctable = (unsigned int)state_number(gpu, "remap.correctable", 0);
    *uncorrectable = (unsigned int)state_number(gpu, "remap.uncorrectable", 0);
    *pending = state_flag(gpu, "latched.remap_pending", false);
    *failure = state_flag(gpu, "remap.failure", false);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows_v2(nvmlDevice_t device, nvmlRemappedRowsInfo_v2_t *info)
{
    DEVICE_CALL(device);
    ARGUMENT(info != NULL);
    SUPPORTED(ROWS_TOLD(gpu));
    memset(info, 0, sizeof(*info));
    info->corrActiveRemaps = (unsigned int)state_number(gpu, "remap.correctable", 0);
    info->uncActiveRemaps = (unsigned int)state_number(gpu, "remap.uncorrectable", 0);
    info->bPending = state_flag(gpu, "latched.remap_pending", false);
    info->bFailureOccurred = state_flag(gpu, "remap.failure", false);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, nvmlRowRemapperHistogramValues_t *values)
{
    DEVICE_CALL(device);
    ARGUMENT(values != NULL);
    SUPPORTED(FEATURE_ROW_REMAP(gpu) && state_has(gpu, "remap.banks"));
    unsigned int banks = (unsigned int)state_number(gpu, "remap.banks", 0);
    unsigned int used = (unsigned int)(state_number(gpu, "remap.correctable", 0) + state_number(gpu, "remap.uncorrectable", 0));
    used = used > banks ? banks : used;
    memset(values, 0, sizeof(*values));
    /* Each remapped row takes one of the spare rows of its own bank; a failure means a bank with none left. */
    values->none = used > 0 && state_flag(gpu, "remap.failure", false);
    values->high = used - values->none;
    values->max = banks - used;
    return NVML_SUCCESS;
}

static nvmlReturn_t answer_pages(int gpu, unsigned int cause, unsigned int *count, unsigned long long *addresses,
                                 unsigned long long *times)
{
    ARGUMENT(count != NULL && cause <= 1);
    SUPPORTED(FEATURE_PAGE_RETIREMENT(gpu));
    unsigned int room = *count;
    *count = retired_pages(gpu, cause, addresses, times, addresses == NULL ? 0 : room);
    REQUIRE(*count <= room, NVML_ERROR_INSUFFICIENT_SIZE);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned int cause, unsigned int *count,
                                                   unsigned long long *addresses)
{
    DEVICE_CALL(device);
    return answer_pages(gpu, cause, count, addresses, NULL);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRetiredPages_v2(nvmlDevice_t device, unsigned int cause, unsigned int *count,
                                                      unsigned long long *addresses, unsigned long long *times)
{
    DEVICE_CALL(device);
    return answer_pages(gpu, cause, count, addresses, times);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, nvmlEnableState_t *pending)
{
    DEVICE_CALL(device);
    ARGUMENT(pending != NULL);
    SUPPORTED(FEATURE_PAGE_RETIREMENT(gpu));
    *pending = state_flag(gpu, "latched.retired_pending", false);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRepairStatus(nvmlDevice_t device, nvmlRepairStatus_v1_t *status)
{
    DEVICE_CALL(device);
    ARGUMENT(status != NULL);
    REQUIRE(status->version == NVML_STRUCT_VERSION(nvmlRepairStatus_v1_t, 1), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    SUPPORTED(FEATURE_ROW_REMAP(gpu) && ecc_supported(gpu));
    status->bChannelRepairPending = state_flag(gpu, "latched.channel_repair_pending", false);
    status->bTpcRepairPending = state_flag(gpu, "latched.tpc_repair_pending", false);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUnrepairableMemoryFlag_v1(nvmlDevice_t device, nvmlUnrepairableMemory_v1_t *status)
{
    DEVICE_CALL(device);
    ARGUMENT(status != NULL);
    REQUIRE(status->version == NVML_STRUCT_VERSION(nvmlUnrepairableMemory_v1_t, 1), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    SUPPORTED(architecture_at_least(gpu, NVML_ARCH_HOPPER) && ecc_supported(gpu));
    status->unrepairableMemory = state_flag(gpu, "remap.failure", false);
    return NVML_SUCCESS;
}
