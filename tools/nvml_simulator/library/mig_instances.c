/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* The calls that make, find and end GPU instances and compute instances. They belong to root. */
#include "call.h"
#include "mig.h"

#include <stdio.h>
#include <string.h>

#define GI_MAGIC 0x67690000u
#define CI_MAGIC 0x63690000u

struct nvmlGpuInstance_st {
    unsigned int magic;
};
struct nvmlComputeInstance_st {
    unsigned int magic;
};

static struct nvmlGpuInstance_st gi_handles[MAX_GPUS][MAX_GIS];
static struct nvmlComputeInstance_st ci_handles[MAX_GPUS][MAX_GIS][MAX_CIS];

static nvmlGpuInstance_t gi_handle(int gpu, unsigned int gi)
{
    gi_handles[gpu][gi].magic = GI_MAGIC;
    return &gi_handles[gpu][gi];
}

static nvmlComputeInstance_t ci_handle(int gpu, unsigned int gi, unsigned int ci)
{
    ci_handles[gpu][gi][ci].magic = CI_MAGIC;
    return &ci_handles[gpu][gi][ci];
}

/* The whole GPU of a handle, NULL when it is none. */
static nvmlDevice_t gpu_of_gi(nvmlGpuInstance_t handle, unsigned int *gi)
{
    const struct nvmlGpuInstance_st *first = &gi_handles[0][0];
    if (handle < first || handle >= first + MAX_GPUS * MAX_GIS || handle->magic != GI_MAGIC)
        return NULL;
    *gi = (unsigned int)((handle - first) % MAX_GIS);
    return handle_of_slot((int)((handle - first) / MAX_GIS));
}

static nvmlDevice_t gpu_of_ci(nvmlComputeInstance_t handle, unsigned int *gi, unsigned int *ci)
{
    const struct nvmlComputeInstance_st *first = &ci_handles[0][0][0];
    if (handle < first || handle >= first + MAX_GPUS * MAX_GIS * MAX_CIS || handle->magic != CI_MAGIC)
        return NULL;
    size_t at = (size_t)(handle - first);
    *ci = (unsigned int)(at % MAX_CIS);
    *gi = (unsigned int)(at / MAX_CIS % MAX_GIS);
    return handle_of_slot((int)(at / (MAX_GIS * MAX_CIS)));
}

#define ROOT() REQUIRE(effective_uid() == 0, NVML_ERROR_NO_PERMISSION)
#define MIG_ON(gpu) SUPPORTED(mig_enabled(gpu))
#define MIG_QUERY(gpu) SUPPORTED(mig_enabled(gpu) || mig_queries_in_any_mode(gpu))
#define GI_BEGIN(handle, access)                                                                             \
    unsigned int gi_id = 0;                                                                                  \
    const nvmlDevice_t owner = gpu_of_gi(handle, &gi_id);                                                    \
    BEGIN(owner, true, access);                                                                              \
    const int gpu = call.gpu;                                                                                \
    struct instance gi;                                                                                      \
    struct gi_profile profile;                                                                               \
    ARGUMENT(mig_enabled(gpu) && find_gi(gpu, gi_id, &gi, &profile))
#define GI_CALL(handle) GI_BEGIN(handle, READ)
#define GI_CHANGE(handle) GI_BEGIN(handle, CHANGE)

static nvmlReturn_t answer_profile(int gpu, const struct gi_profile *profile, nvmlGpuInstanceProfileInfo_v2_t *info)
{
    const unsigned int version = info->version;
    REQUIRE(version == NVML_STRUCT_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2) ||
                version == NVML_STRUCT_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 3),
            NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    /* The driver clears the version: measured on Hopper with 580.159.04, and assumed for all. */
    *info = (nvmlGpuInstanceProfileInfo_v2_t){
        0, profile->id, 0, profile->slices, profile->most, profile->multiprocessors, profile->copy,
        profile->decoder, profile->encoder, profile->jpeg, profile->ofa, profile->memory_mib, "MIG "};
    gi_profile_name(gpu, profile, info->name + 4, sizeof(info->name) - 4);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int number, nvmlGpuInstanceProfileInfo_t *info)
{
    DEVICE_CALL(device);
    struct gi_profile own;
    ARGUMENT(info != NULL && number < gi_profiles());
    SUPPORTED(state_flag(gpu, "feature.mig", false) && gi_profile(gpu, number, &own));
    *info = (nvmlGpuInstanceProfileInfo_t){own.id, 0, own.slices, own.most, own.multiprocessors, own.copy, own.decoder,
                                           own.encoder, own.jpeg, own.ofa, own.memory_mib};
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int number, nvmlGpuInstanceProfileInfo_v2_t *info)
{
    DEVICE_CALL(device);
    struct gi_profile own;
    ARGUMENT(info != NULL && number < gi_profiles());
    SUPPORTED(state_flag(gpu, "feature.mig", false) && gi_profile(gpu, number, &own));
    return answer_profile(gpu, &own, info);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t device, unsigned int id, nvmlGpuInstanceProfileInfo_v2_t *info)
{
    DEVICE_CALL(device);
    struct gi_profile own;
    ARGUMENT(info != NULL);
    SUPPORTED(state_flag(gpu, "feature.mig", false) && gi_profile_of_id(gpu, id, &own));
    return answer_profile(gpu, &own, info);
}

/* Without room for an answer only the number is told. */
static nvmlReturn_t answer_starts(const unsigned int *starts, unsigned int count, unsigned int width, void *placements, unsigned int *room)
{
    nvmlGpuInstancePlacement_t *answer = placements; /* of a compute instance it is alike */
    const unsigned int size = *room;
    *room = count;
    for (unsigned int i = 0; answer != NULL && i < count && i < size; i++)
        answer[i] = (nvmlGpuInstancePlacement_t){starts[i], width};
    return answer != NULL && size < count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned int id,
                                                                       nvmlGpuInstancePlacement_t *placements, unsigned int *count)
{
    DEVICE_CALL(device);
    struct gi_profile own;
    ARGUMENT(count != NULL);
    ROOT();
    SUPPORTED(state_flag(gpu, "feature.mig", false) && gi_profile_of_id(gpu, id, &own)); /* in either mode, says nvml.h */
    return answer_starts(own.starts, own.start_count, own.memory_slices, placements, count);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int id, unsigned int *count)
{
    DEVICE_CALL(device);
    struct gi_profile own;
    unsigned int starts[MAX_STARTS];
    ARGUMENT(count != NULL);
    ROOT();
    MIG_QUERY(gpu);
    SUPPORTED(gi_profile_of_id(gpu, id, &own));
    struct instance found[MAX_GIS];
    unsigned int room = gi_free(gpu, &own, starts), left = own.most;
    for (unsigned int i = 0, all = gis(gpu, found); i < all; i++)
        left -= left > 0 && found[i].profile == own.number;
    *count = room < left ? room : left;
    return NVML_SUCCESS;
}

/* Make an instance at a start that is free. Ids count as the driver's do: by width and place, the widest lowest. */
static nvmlReturn_t make_gi(struct call *call, const struct gi_profile *profile, unsigned int start, nvmlGpuInstance_t *made)
{
    char key[32], value[32];
    unsigned int id = gi_width(call->gpu) / profile->memory_slices - 1 + start / profile->memory_slices;
    snprintf(key, sizeof(key), "gi.%u", id);
    snprintf(value, sizeof(value), "%u %u", profile->number, start);
    state_set(DRIVER, call->gpu, key, value);
    *made = gi_handle(call->gpu, id);
    return call_commit(call);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *made)
{
    DEVICE_CHANGE(device);
    struct gi_profile own;
    unsigned int starts[MAX_STARTS];
    ARGUMENT(made != NULL);
    MIG_ON(gpu);
    SUPPORTED(gi_profile_of_id(gpu, id, &own));
    REQUIRE(gi_free(gpu, &own, starts) > 0, NVML_ERROR_INSUFFICIENT_RESOURCES);
    return make_gi(&call, &own, starts[0], made);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int id,
                                                                  const nvmlGpuInstancePlacement_t *placement, nvmlGpuInstance_t *made)
{
    DEVICE_CHANGE(device);
    struct gi_profile own;
    unsigned int starts[MAX_STARTS], count;
    ARGUMENT(made != NULL && placement != NULL);
    MIG_ON(gpu);
    SUPPORTED(gi_profile_of_id(gpu, id, &own));
    ARGUMENT(placement->size == own.memory_slices);
    count = gi_free(gpu, &own, starts);
    for (unsigned int i = 0; i < count; i++)
        if (starts[i] == placement->start)
            return make_gi(&call, &own, placement->start, made);
    return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

NVML_EXPORT nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance)
{
    GI_CHANGE(instance);
    struct instance found[MAX_CIS];
    char key[32];
    REQUIRE(cis(gpu, gi_id, found) == 0 && !in_use(gpu, (int)gi_id, WHOLE), NVML_ERROR_IN_USE);
    snprintf(key, sizeof(key), "gi.%u", gi_id);
    state_unset(DRIVER, gpu, key);
    return call_commit(&call);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *instances, unsigned int *count)
{
    DEVICE_CALL(device);
    struct instance found[MAX_GIS];
    struct gi_profile own;
    ARGUMENT(instances != NULL && count != NULL);
    ROOT();
    MIG_QUERY(gpu);
    SUPPORTED(gi_profile_of_id(gpu, id, &own));
    *count = 0;
    for (unsigned int i = 0, all = mig_enabled(gpu) ? gis(gpu, found) : 0; i < all; i++)
        if (found[i].profile == own.number)
            instances[(*count)++] = gi_handle(gpu, found[i].id);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *instance)
{
    DEVICE_CALL(device);
    struct instance found;
    struct gi_profile own;
    ARGUMENT(instance != NULL);
    ROOT();
    MIG_QUERY(gpu);
    REQUIRE(mig_enabled(gpu) && find_gi(gpu, id, &found, &own), NVML_ERROR_NOT_FOUND);
    *instance = gi_handle(gpu, id);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *info)
{
    GI_CALL(instance);
    ARGUMENT(info != NULL);
    *info = (nvmlGpuInstanceInfo_t){owner, gi_id, profile.id, {gi.start, profile.memory_slices}};
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t instance, unsigned int number, unsigned int engines,
                                                                      nvmlComputeInstanceProfileInfo_t *info)
{
    GI_CALL(instance);
    struct ci_profile own;
    ARGUMENT(info != NULL && number < CI_PROFILES && engines == 0);
    SUPPORTED(ci_profile(&profile, number, &own));
    *info = (nvmlComputeInstanceProfileInfo_t){own.id, own.slices, own.most, own.multiprocessors, profile.copy,
                                               profile.decoder, profile.encoder, profile.jpeg, profile.ofa};
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t instance, unsigned int number, unsigned int engines,
                                                                       nvmlComputeInstanceProfileInfo_v2_t *info)
{
    GI_CALL(instance);
    struct ci_profile own;
    char name[64];
    ARGUMENT(info != NULL && number < CI_PROFILES && engines == 0);
    REQUIRE(info->version == NVML_STRUCT_VERSION(nvmlComputeInstanceProfileInfo_v2_t, 2), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    SUPPORTED(ci_profile(&profile, number, &own));
    *info = (nvmlComputeInstanceProfileInfo_v2_t){info->version, own.id, own.slices, own.most, own.multiprocessors,
                                                  profile.copy, profile.decoder, profile.encoder, profile.jpeg, profile.ofa, ""};
    gi_profile_name(gpu, &profile, name, sizeof(name));
    if (own.slices == profile.slices)
        snprintf(info->name, sizeof(info->name), "MIG %s", name);
    else
        snprintf(info->name, sizeof(info->name), "MIG %uc.%s", own.slices, name);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t instance, unsigned int id, unsigned int *count)
{
    GI_CALL(instance);
    struct ci_profile own;
    unsigned int starts[MAX_STARTS];
    ARGUMENT(count != NULL);
    ROOT();
    SUPPORTED(ci_profile(&profile, id, &own));
    *count = ci_free(gpu, gi_id, &own, starts);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t instance, unsigned int id,
                                                                             nvmlComputeInstancePlacement_t *placements, unsigned int *count)
{
    GI_CALL(instance);
    struct ci_profile own;
    ARGUMENT(count != NULL);
    ROOT();
    SUPPORTED(ci_profile(&profile, id, &own));
    return answer_starts(own.starts, own.start_count, own.slices, placements, count);
}

static nvmlReturn_t make_ci(struct call *call, unsigned int gi, const struct ci_profile *profile, unsigned int start, nvmlComputeInstance_t *made)
{
    char key[32], value[32];
    struct instance there;
    unsigned int id = 0;
    while (id < MAX_CIS && find_ci(call->gpu, gi, id, &there))
        id++;
    snprintf(key, sizeof(key), "ci.%u.%u", gi, id);
    snprintf(value, sizeof(value), "%u %u", profile->id, start);
    state_set(DRIVER, call->gpu, key, value);
    *made = ci_handle(call->gpu, gi, id);
    return call_commit(call);
}

NVML_EXPORT nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t instance, unsigned int id, nvmlComputeInstance_t *made)
{
    GI_CHANGE(instance);
    struct ci_profile own;
    unsigned int starts[MAX_STARTS];
    ARGUMENT(made != NULL);
    SUPPORTED(ci_profile(&profile, id, &own));
    REQUIRE(ci_free(gpu, gi_id, &own, starts) > 0, NVML_ERROR_INSUFFICIENT_RESOURCES);
    return make_ci(&call, gi_id, &own, starts[0], made);
}

NVML_EXPORT nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(nvmlGpuInstance_t instance, unsigned int id,
                                                                           const nvmlComputeInstancePlacement_t *placement,
                                                                           nvmlComputeInstance_t *made)
{
    GI_CHANGE(instance);
    struct ci_profile own;
    unsigned int starts[MAX_STARTS], count;
    ARGUMENT(made != NULL && placement != NULL);
    SUPPORTED(ci_profile(&profile, id, &own));
    ARGUMENT(placement->size == own.slices);
    count = ci_free(gpu, gi_id, &own, starts);
    for (unsigned int i = 0; i < count; i++)
        if (starts[i] == placement->start)
            return make_ci(&call, gi_id, &own, starts[i], made);
    return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

NVML_EXPORT nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t instance)
{
    unsigned int gi_id = 0, ci_id = 0;
    DEVICE_CHANGE(gpu_of_ci(instance, &gi_id, &ci_id));
    struct instance ci;
    char key[32];
    ARGUMENT(mig_enabled(gpu) && find_ci(gpu, gi_id, ci_id, &ci));
    REQUIRE(!in_use(gpu, (int)gi_id, (int)ci_id), NVML_ERROR_IN_USE);
    snprintf(key, sizeof(key), "ci.%u.%u", gi_id, ci_id);
    state_unset(DRIVER, gpu, key);
    return call_commit(&call);
}

NVML_EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t instance, unsigned int id, nvmlComputeInstance_t *instances,
                                                            unsigned int *count)
{
    GI_CALL(instance);
    struct instance found[MAX_CIS];
    struct ci_profile own;
    ARGUMENT(instances != NULL && count != NULL);
    ROOT();
    SUPPORTED(ci_profile(&profile, id, &own));
    *count = 0;
    for (unsigned int i = 0, all = cis(gpu, gi_id, found); i < all; i++)
        if (found[i].profile == own.id)
            instances[(*count)++] = ci_handle(gpu, gi_id, found[i].id);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t instance, unsigned int id, nvmlComputeInstance_t *found)
{
    GI_CALL(instance);
    struct instance ci;
    ARGUMENT(found != NULL);
    ROOT();
    REQUIRE(find_ci(gpu, gi_id, id, &ci), NVML_ERROR_NOT_FOUND);
    *found = ci_handle(gpu, gi_id, id);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t instance, nvmlComputeInstanceInfo_t *info)
{
    unsigned int gi_id = 0, ci_id = 0;
    const nvmlDevice_t owner = gpu_of_ci(instance, &gi_id, &ci_id);
    DEVICE_CALL(owner);
    struct instance gi, ci;
    struct gi_profile profile;
    struct ci_profile own;
    ARGUMENT(info != NULL && mig_enabled(gpu) && find_gi(gpu, gi_id, &gi, &profile) && find_ci(gpu, gi_id, ci_id, &ci) &&
             ci_profile(&profile, ci.profile, &own));
    *info = (nvmlComputeInstanceInfo_t){owner, gi_handle(gpu, gi_id), ci_id, own.id, {ci.start, own.slices}};
    return NVML_SUCCESS;
}
