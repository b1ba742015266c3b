/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Handles, identity, memory, utilisation, persistence and compute mode. */
#include "call.h"
#include "course.h"
#include "load.h"
#include "identity.h"
#include "mig.h"

#include <stdio.h>
#include <string.h>

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    SYSTEM_CALL();
    ARGUMENT(count != NULL);
    *count = (unsigned int)gpu_visible();
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
    return nvmlDeviceGetCount_v2(count);
}

/* A fault of one GPU ("gpu N lost", or of this very call) applies when the handle is asked for. */
static nvmlReturn_t answer_handle(struct call *call, const char *name, int slot, nvmlDevice_t *device)
{
    call_end(call);
    struct call own;
    nvmlReturn_t code = call_begin(&own, name, handle_of_slot(slot), true, READ);
    call_end(&own);
    if (code == NVML_SUCCESS)
        *device = handle_of_slot(slot);
    return code;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    SYSTEM_CALL();
    ARGUMENT(device != NULL);
    int slot = slot_of_index(index);
    ARGUMENT(slot >= 0);
    return answer_handle(&call, __func__, slot, device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByIndex_v2(index, device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    SYSTEM_CALL();
    ARGUMENT(uuid != NULL && device != NULL);
    for (int slot = 0; slot < gpu_slots(); slot++) {
        char own[96];
        gpu_uuid(slot, own, sizeof(own));
        if (!gpu_absent(slot) && strcmp(own, uuid) == 0)
            return answer_handle(&call, __func__, slot, device);
    }
    struct mig_device mig;
    if (mig_device_of_uuid(uuid, &mig)) {
        *device = handle_of_mig_device(&mig);
        return NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    SYSTEM_CALL();
    ARGUMENT(serial != NULL && device != NULL);
    for (int slot = 0; slot < gpu_slots(); slot++) {
        char own[32];
        gpu_serial(slot, own, sizeof(own));
        if (!gpu_absent(slot) && strcmp(own, serial) == 0)
            return answer_handle(&call, __func__, slot, device);
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
    SYSTEM_CALL();
    struct pci_address wanted, own;
    ARGUMENT(bus_id != NULL && device != NULL && parse_pci_address(bus_id, &wanted));
    for (int slot = 0; slot < gpu_slots(); slot++) {
        gpu_pci_address(slot, &own);
        if (!gpu_absent(slot) && own.domain == wanted.domain && own.bus == wanted.bus && own.device == wanted.device)
            return answer_handle(&call, __func__, slot, device);
    }
    return NVML_ERROR_NOT_FOUND;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
    return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    MIG_OR_GPU_CALL(device);
    char own[160];
    struct instance gi;
    struct gi_profile profile;
    if (!is_mig_device)
        return answer_text(state_get(gpu, "name"), name, length);
    REQUIRE(find_gi(gpu, mig.gi, &gi, &profile), NVML_ERROR_NOT_FOUND);
    int end = snprintf(own, sizeof(own), "%s MIG ", state_get(gpu, "name"));
    gi_profile_name(gpu, &profile, own + end, sizeof(own) - (size_t)end);
    return answer_text(own, name, length);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    MIG_OR_GPU_CALL(device);
    char own[96];
    if (is_mig_device)
        mig_uuid(&mig, own, sizeof(own));
    else
        gpu_uuid(gpu, own, sizeof(own));
    return answer_text(own, uuid, length);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
    DEVICE_CALL(device);
    char own[32];
    gpu_serial(gpu, own, sizeof(own));
    SUPPORTED(strcmp(own, "none") != 0);
    return answer_text(own, serial, length);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    DEVICE_CALL(device);
    ARGUMENT(index != NULL);
    *index = (unsigned int)index_of_slot(gpu);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
    DEVICE_CALL(device);
    ARGUMENT(minor != NULL);
    *minor = (unsigned int)state_number(gpu, "minor", index_of_slot(gpu));
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetModuleId(nvmlDevice_t device, unsigned int *module)
{
    DEVICE_CALL(device);
    return answer_key(gpu, "module_id", module);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetBoardId(nvmlDevice_t device, unsigned int *board)
{
    DEVICE_CALL(device);
    ARGUMENT(board != NULL);
    struct pci_address own;
    gpu_pci_address(gpu, &own);
    *board = own.domain << 16 | own.bus << 8 | own.device; /* nvidia-smi shows 0x6 for 0000:00:06.0 */
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMultiGpuBoard(nvmlDevice_t device, unsigned int *multi)
{
    DEVICE_CALL(device);
    (void)gpu;
    ARGUMENT(multi != NULL);
    *multi = 0;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char *part, unsigned int length)
{
    DEVICE_CALL(device);
    return answer_text(state_get(gpu, "part_number"), part, length);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned int length)
{
    DEVICE_CALL(device);
    return answer_text(state_get(gpu, "vbios"), version, length);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetInforomImageVersion(nvmlDevice_t device, char *version, unsigned int length)
{
    DEVICE_CALL(device);
    return answer_text(state_get(gpu, "inforom.image"), version, length);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t device, unsigned int object, char *version, unsigned int length)
{
    static const char *const keys[] = {"inforom.oem", "inforom.ecc", "inforom.power"};
    DEVICE_CALL(device);
    ARGUMENT(object < (driver_branch() >= 570 ? 4u : 3u)); /* nvml.h has the fourth, DRAM encryption, since then */
    SUPPORTED(object < sizeof(keys) / sizeof(keys[0]));
    return answer_text(state_get(gpu, keys[object]), version, length);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceValidateInforom(nvmlDevice_t device)
{
    DEVICE_CALL(device);
    SUPPORTED(state_has(gpu, "inforom.image"));
    return state_flag(gpu, "inforom.corrupted", false) ? NVML_ERROR_CORRUPTED_INFOROM : NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned int *architecture)
{
    DEVICE_CALL(device);
    return answer_key(gpu, "architecture", architecture);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, unsigned int *brand)
{
    DEVICE_CALL(device);
    return answer_key(gpu, "brand", brand);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    DEVICE_CALL(device);
    ARGUMENT(major != NULL && minor != NULL);
    const char *text = state_get(gpu, "compute_capability");
    SUPPORTED(text != NULL && sscanf(text, "%d.%d", major, minor) == 2);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned int *cores)
{
    DEVICE_CALL(device);
    SUPPORTED(!mig_enabled(gpu));
    return answer_key(gpu, "cuda_cores", cores);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned int *width)
{
    DEVICE_CALL(device);
    return answer_key(gpu, "memory.bus_width_bits", width);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version)
{
    DEVICE_CALL(device);
    SUPPORTED(state_flag(gpu, "gsp_firmware", false));
    return answer_text(state_get(NO_GPU, "driver.version"), version, 64);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGspFirmwareMode(nvmlDevice_t device, unsigned int *enabled, unsigned int *default_mode)
{
    DEVICE_CALL(device);
    ARGUMENT(enabled != NULL && default_mode != NULL);
    SUPPORTED(state_has(gpu, "gsp_firmware"));
    *enabled = *default_mode = state_flag(gpu, "gsp_firmware", false);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
    DEVICE_CALL(device);
    ARGUMENT(mode != NULL);
    *mode = state_flag(gpu, "display", false);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, nvmlEnableState_t *active)
{
    DEVICE_CALL(device);
    ARGUMENT(active != NULL);
    *active = state_flag(gpu, "display", false);
    return NVML_SUCCESS;
}

/* Memory that the driver keeps for itself, and what the processes use, in bytes. */
static void memory(int gpu, nvmlMemory_v2_t *info)
{
    const unsigned long long mib = 1ull << 20, used = used_memory(gpu, WHOLE);
    info->total = (unsigned long long)state_number(gpu, "memory.total_mib", 0) * mib;
    info->reserved = (unsigned long long)state_number(gpu, "memory.reserved_mib", 0) * mib;
    info->used = used;
    info->free = info->total > info->reserved + used ? info->total - info->reserved - used : 0;
}

/* That of a GPU instance, which its compute instances share. */
static bool instance_memory(const struct mig_device *mig, nvmlMemory_v2_t *info)
{
    struct instance gi;
    struct gi_profile profile;
    if (!find_gi(mig->gpu, mig->gi, &gi, &profile))
        return false;
    info->total = profile.memory_mib << 20;
    info->reserved = 0;
    info->used = used_memory(mig->gpu, (int)mig->gi);
    info->free = info->total > info->used ? info->total - info->used : 0;
    return true;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *info)
{
    MIG_OR_GPU_CALL(device);
    ARGUMENT(info != NULL);
    nvmlMemory_v2_t own = {0};
    REQUIRE(!is_mig_device || instance_memory(&mig, &own), NVML_ERROR_NOT_FOUND);
    if (!is_mig_device) {
        WHOLE_GPU(gpu);
        memory(gpu, &own);
    }
    *info = (nvmlMemory_t){own.total, own.free, own.used + own.reserved}; /* the old call counts both as used */
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *info)
{
    MIG_OR_GPU_CALL(device);
    ARGUMENT(info != NULL);
    REQUIRE(info->version == NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    if (is_mig_device) {
        REQUIRE(instance_memory(&mig, info), NVML_ERROR_NOT_FOUND);
        return NVML_SUCCESS;
    }
    WHOLE_GPU(gpu);
    memory(gpu, info);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetConfComputeMemSizeInfo(nvmlDevice_t device, nvmlConfComputeMemSizeInfo_t *info)
{
    DEVICE_CALL(device);
    ARGUMENT(info != NULL);
    SUPPORTED(architecture_at_least(gpu, NVML_ARCH_AMPERE));
    nvmlMemory_v2_t own = {0};
    memory(gpu, &own);
    const unsigned long long all = (own.total - own.reserved) >> 10;
    const bool confidential = state_flag(gpu, "confidential_computing", false);
    info->protectedMemSizeKib = confidential ? all : 0;
    info->unprotectedMemSizeKib = confidential ? 0 : all;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *info)
{
    DEVICE_CALL(device);
    ARGUMENT(info != NULL);
    SUPPORTED(state_has(gpu, "bar1.total_mib"));
    WHOLE_GPU(gpu);
    info->bar1Total = (unsigned long long)state_number(gpu, "bar1.total_mib", 0) << 20;
    info->bar1Used = 1ull << 20;
    info->bar1Free = info->bar1Total - info->bar1Used;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    DEVICE_CALL(device);
    ARGUMENT(utilization != NULL);
    SUPPORTED(!mig_enabled(gpu));
    const double now = course_clock();
    utilization->gpu = load_recent(gpu) ? 100 : (unsigned int)course_at(gpu, "utilization.gpu_percent", now);
    utilization->memory = (unsigned int)course_at(gpu, "utilization.memory_percent", now);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, unsigned int *state)
{
    DEVICE_CALL(device);
    ARGUMENT(state != NULL);
    *state = (unsigned int)state_number(gpu, "performance_state", 0);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, unsigned int *mode)
{
    DEVICE_CALL(device);
    ARGUMENT(mode != NULL);
    *mode = (unsigned int)state_number(gpu, "virtualization_mode", 0); /* 1: passed through into a virtual machine */
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t *mode)
{
    DEVICE_CALL(device);
    ARGUMENT(mode != NULL);
    *mode = state_flag(gpu, "persistence_mode", false);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t mode)
{
    DEVICE_CHANGE(device);
    ARGUMENT(mode <= 1);
    state_set_number(DRIVER, gpu, "persistence_mode", mode);
    return call_commit(&call);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int *mode)
{
    DEVICE_CALL(device);
    ARGUMENT(mode != NULL);
    *mode = (unsigned int)state_number(gpu, "compute_mode", 0);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, unsigned int mode)
{
    DEVICE_CHANGE(device);
    ARGUMENT(mode <= 3);
    SUPPORTED(mode != 1); /* exclusive thread: removed from the driver */
    SUPPORTED(!mig_enabled(gpu)); /* each MIG device has its own */
    state_set_number(DRIVER, gpu, "compute_mode", mode);
    return call_commit(&call);
}
