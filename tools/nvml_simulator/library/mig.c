/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* MIG: the mode of a GPU, and MIG devices, which are the compute instances as programs see them.
 *
 * On Ampere the mode is kept in the InfoROM and changes at the next reset; since Hopper the driver keeps it and it
 * changes at once (NVIDIA's MIG user guide, "Enable MIG Mode"). mig.reset_required tells otherwise, as some machines do
 * whose GPU is passed through. Either way the change waits while a process has the GPU. */
#include "call.h"
#include "identity.h"
#include "mig.h"

#include <stdio.h>
#include <string.h>

#define MAGIC 0x6d696764u

/* One handle for each MIG device that there could be. */
static struct nvmlDevice_st devices[MAX_GPUS][MAX_GIS][MAX_CIS];

static bool mig_pending(int gpu)
{
    return state_flag(gpu, "feature.mig", false) && state_flag(gpu, "mig_mode", false);
}

bool mig_enabled(int gpu)
{
    return state_flag(gpu, "latched.mig_mode", mig_pending(gpu));
}

bool mig_instances(int gpu)
{
    struct instance found[MAX_GIS];
    return mig_enabled(gpu) && gis(gpu, found) > 0;
}

static bool reset_required(int gpu)
{
    return state_flag(gpu, "mig.reset_required", !architecture_at_least(gpu, NVML_ARCH_HOPPER));
}

/* mig.held_open: something has its device file open and is in no list of processes, as DCGM. */
static bool held(int gpu)
{
    return in_use(gpu, WHOLE, WHOLE) || state_flag(gpu, "mig.held_open", false);
}

/* What a GPU forgets with its mode: it is initialised anew. */
static void forget(int gpu)
{
    static const char *const lost[] = {"gi.", "ci.", "compute_mode", "locked.", "application.", "power.limit_mw", "latched.mig_mode"};
    for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++)
        state_drop(DRIVER, gpu, lost[i]);
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

NVML_EXPORT nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activation)
{
    DEVICE_CHANGE(device);
    ARGUMENT(activation != NULL && mode <= 1);
    SUPPORTED(state_flag(gpu, "feature.mig", false));
    const bool now = mig_enabled(gpu);
    *activation = NVML_SUCCESS;
    if (mode == (unsigned int)now && mode == (unsigned int)mig_pending(gpu))
        return call_commit(&call);
    state_set_number(architecture_at_least(gpu, NVML_ARCH_HOPPER) ? DRIVER : INFOROM, gpu, "mig_mode", mode);
    if (mode == (unsigned int)now) {
        state_unset(DRIVER, gpu, "latched.mig_mode"); /* taken back before it came to be */
    } else if (held(gpu) || reset_required(gpu)) {
        *activation = held(gpu) ? NVML_ERROR_IN_USE : NVML_ERROR_RESET_REQUIRED;
        state_set_number(DRIVER, gpu, "latched.mig_mode", now);
    } else {
        forget(gpu);
    }
    return call_commit(&call);
}

bool mig_device(const void *handle, struct mig_device *found)
{
    const struct nvmlDevice_st *first = &devices[0][0][0], *device = handle;
    if (device < first || device >= first + sizeof(devices) / sizeof(*first) || device->magic != MAGIC)
        return false;
    size_t at = (size_t)(device - first);
    *found = (struct mig_device){(int)(at / (MAX_GIS * MAX_CIS)), (unsigned int)(at / MAX_CIS % MAX_GIS),
                                 (unsigned int)(at % MAX_CIS)};
    return true;
}

static nvmlDevice_t handle_of(int gpu, unsigned int gi, unsigned int ci)
{
    struct nvmlDevice_st *device = &devices[gpu][gi][ci];
    *device = (struct nvmlDevice_st){MAGIC, gpu};
    return device;
}

/* "MIG-" and a UUID that belongs to the place: it is the same one when the instance is made again. */
void mig_uuid(const struct mig_device *mig, char *uuid, size_t size)
{
    unsigned char b[16];
    char purpose[48];
    snprintf(purpose, sizeof(purpose), "mig/%d/%u", mig->gpu, mig->gi);
    seed_bytes(purpose, (int)mig->ci, b);
    snprintf(uuid, size, "MIG-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
             b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

/* The MIG devices of a GPU in their order; the call fills `device` with the index-th and tells whether there is one. */
static bool mig_device_of_index(int gpu, unsigned int index, struct mig_device *device)
{
    struct instance in_gpu[MAX_GIS], in_gi[MAX_CIS];
    unsigned int count = mig_enabled(gpu) ? gis(gpu, in_gpu) : 0;
    for (unsigned int i = 0; i < count; i++)
        for (unsigned int j = 0, inner = cis(gpu, in_gpu[i].id, in_gi); j < inner; j++)
            if (index-- == 0) {
                *device = (struct mig_device){gpu, in_gpu[i].id, in_gi[j].id};
                return true;
            }
    return false;
}

bool mig_device_of_uuid(const char *uuid, struct mig_device *found)
{
    char own[64];
    for (int gpu = 0; gpu < gpu_slots(); gpu++)
        for (unsigned int index = 0; !gpu_absent(gpu) && mig_device_of_index(gpu, index, found); index++) {
            mig_uuid(found, own, sizeof(own));
            if (strcmp(own, uuid) == 0)
                return true;
        }
    return false;
}

nvmlDevice_t handle_of_mig_device(const struct mig_device *mig)
{
    return handle_of(mig->gpu, mig->gi, mig->ci);
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
    struct mig_device found;
    ARGUMENT(mig != NULL);
    SUPPORTED(state_flag(gpu, "feature.mig", false));
    ARGUMENT(index < (unsigned int)state_number(gpu, "mig.max_devices", 7));
    REQUIRE(mig_device_of_index(gpu, index, &found), NVML_ERROR_NOT_FOUND);
    *mig = handle_of_mig_device(&found);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig)
{
    MIG_OR_GPU_CALL(device);
    ARGUMENT(is_mig != NULL);
    *is_mig = is_mig_device;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t *whole)
{
    MIG_OR_GPU_CALL(device);
    ARGUMENT(whole != NULL && is_mig_device);
    *whole = handle_of_slot(mig.gpu);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
    MIG_OR_GPU_CALL(device);
    ARGUMENT(id != NULL && is_mig_device);
    *id = mig.gi;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
    MIG_OR_GPU_CALL(device);
    ARGUMENT(id != NULL && is_mig_device);
    *id = mig.ci;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    MIG_OR_GPU_CALL(device);
    struct instance gi, ci;
    struct gi_profile whole;
    struct ci_profile part;
    ARGUMENT(attributes != NULL);
    SUPPORTED(is_mig_device); /* of a MIG device only */
    REQUIRE(find_gi(mig.gpu, mig.gi, &gi, &whole) && find_ci(mig.gpu, mig.gi, mig.ci, &ci) && ci_profile(&whole, ci.profile, &part),
            NVML_ERROR_NOT_FOUND);
    *attributes = (nvmlDeviceAttributes_t){part.multiprocessors, whole.copy, whole.decoder, whole.encoder, whole.jpeg,
                                           whole.ofa, whole.slices, part.slices, whole.memory_mib};
    return NVML_SUCCESS;
}
