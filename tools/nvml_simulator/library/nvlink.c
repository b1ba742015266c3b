/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* NVLink and, on machines with NVSwitch, the fabric. */
#include "nvlink.h"
#include "call.h"
#include "identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REMOTE_GPU = 0, REMOTE_SWITCH = 2, MAX_LINKS = 18 };

unsigned int nvlink_count(int gpu)
{
    return (unsigned int)state_number(gpu, "nvlink.count", 0);
}

bool nvlink_active(int gpu, unsigned int link)
{
    char key[48];
    snprintf(key, sizeof(key), "nvlink_state.%u", link);
    /* DCGM 4.6.0 calls it a bug (200682374) that a GPU in MIG mode tells its links as down. */
    return link < nvlink_count(gpu) && !mig_enabled(gpu) && layer_get(FAULTS, gpu, key) == NULL;
}

int nvlink_peer(int gpu, unsigned int link)
{
    if (link >= nvlink_count(gpu))
        return -2;
    const char *list = state_get(gpu, "nvlink.peers"); /* one entry a link: the number of a GPU */
    for (unsigned int i = 0; list != NULL && *list != '\0'; i++) {
        char *end;
        long peer = strtol(list, &end, 10);
        if (end == list)
            break;
        if (i == link)
            return (int)peer;
        list = end + strspn(end, " ");
    }
    return state_flag(gpu, "feature.nvswitch", false) ? -1 : -2;
}

bool nvlink_between(int one, int other)
{
    bool switch_one = false, switch_other = false;
    for (unsigned int link = 0; link < MAX_LINKS; link++) {
        if (nvlink_active(one, link) && nvlink_peer(one, link) == other)
            return true;
        switch_one |= nvlink_active(one, link) && nvlink_peer(one, link) == -1;
        switch_other |= nvlink_active(other, link) && nvlink_peer(other, link) == -1;
    }
    return switch_one && switch_other;
}

long long nvlink_speed_mbps(int gpu)
{
    return state_number(gpu, "nvlink.speed_mbps", -1);
}

unsigned long long nvlink_errors(int gpu, unsigned int link, unsigned int error)
{
    enum { NO_BIT_ERRORS = 0xfff }; /* mantissa 15, exponent -255 */
    char key[48];
    snprintf(key, sizeof(key), "nvlink_errors.%u.%u", link, error);
    const char *text = layer_get(FAULTS, gpu, key);
    if (text != NULL)
        return strtoull(text, NULL, 0);
    return error == NVLINK_EFFECTIVE_BER || error == NVLINK_SYMBOL_BER ? NO_BIT_ERRORS : 0;
}

#define LINK(gpu, link)                                                                                      \
    SUPPORTED(nvlink_count(gpu) > 0);                                                                        \
    ARGUMENT((link) < nvlink_count(gpu))

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, nvmlEnableState_t *active)
{
    DEVICE_CALL(device);
    ARGUMENT(active != NULL);
    LINK(gpu, link);
    *active = nvlink_active(gpu, link);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link, unsigned int *version)
{
    DEVICE_CALL(device);
    LINK(gpu, link);
    return answer_key(gpu, "nvlink.version", version);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned int link, unsigned int capability,
                                                       unsigned int *result)
{
    DEVICE_CALL(device);
    ARGUMENT(result != NULL);
    LINK(gpu, link);
    ARGUMENT(capability <= 5); /* P2P, system memory, P2P and system memory atomics, SLI, valid */
    *result = capability != 4;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link, unsigned int counter,
                                                         unsigned long long *value)
{
    DEVICE_CALL(device);
    ARGUMENT(value != NULL && counter < NVLINK_OLD_COUNTERS);
    LINK(gpu, link);
    SUPPORTED(state_flag(gpu, "feature.nvlink_error_counters", true));
    *value = nvlink_errors(gpu, link, counter);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceResetNvLinkErrorCounters(nvmlDevice_t device, unsigned int link)
{
    DEVICE_CHANGE(device);
    LINK(gpu, link);
    char prefix[48];
    snprintf(prefix, sizeof(prefix), "nvlink_errors.%u.", link);
    state_drop(FAULTS, gpu, prefix);
    return call_commit(&call);
}

static nvmlReturn_t answer_remote(int gpu, unsigned int link, nvmlPciInfo_t *pci)
{
    ARGUMENT(pci != NULL);
    LINK(gpu, link);
    SUPPORTED(nvlink_active(gpu, link));
    struct pci_address remote = {0, 0, 0, 0};
    unsigned int device_id = 0;
    int peer = nvlink_peer(gpu, link);
    if (peer >= 0) {
        gpu_pci_address(peer, &remote);
        device_id = (unsigned int)state_number(peer, "pci_device_id", 0);
    }
    /* A switch that is not passed into the virtual machine has no address there: zero, as a guest sees it. */
    memset(pci, 0, sizeof(*pci));
    pci->domain = remote.domain;
    pci->bus = remote.bus;
    pci->device = remote.device;
    pci->pciDeviceId = device_id;
    snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0", remote.domain & 0xffff, remote.bus, remote.device);
    snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", remote.domain, remote.bus, remote.device);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci)
{
    DEVICE_CALL(device);
    return answer_remote(gpu, link, pci);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link, unsigned int *type)
{
    DEVICE_CALL(device);
    ARGUMENT(type != NULL);
    LINK(gpu, link);
    SUPPORTED(nvlink_active(gpu, link));
    int peer = nvlink_peer(gpu, link);
    *type = peer >= 0 ? REMOTE_GPU : peer == -1 ? REMOTE_SWITCH : 0xff;
    return NVML_SUCCESS;
}

/* The fabric of a machine with NVSwitch: registered once the fabric manager has run (key fabric.state). */
static void fabric(int gpu, nvmlGpuFabricInfo_v3_t *info)
{
    bool present = state_flag(gpu, "feature.fabric", false);
    info->state = present ? (unsigned int)state_number(gpu, "fabric.state", 3) : 0;
    /* Zero on a machine that is a fabric of its own; on NVL72 the nodes of a domain have one UUID. */
    memset(info->clusterUuid, (int)state_number(gpu, "fabric.cluster", 0), sizeof(info->clusterUuid));
    info->cliqueId = (unsigned int)state_number(gpu, "fabric.clique", 0);
    info->status = present ? (nvmlReturn_t)state_number(gpu, "fabric.status", 0) : 0;
    info->healthMask = (unsigned int)state_number(gpu, "fabric.health_mask", 0);
    info->healthSummary = (unsigned char)state_number(gpu, "fabric.health_summary", 0);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
    DEVICE_CALL(device);
    ARGUMENT(info != NULL);
    SUPPORTED(architecture_at_least(gpu, NVML_ARCH_HOPPER));
    nvmlGpuFabricInfo_v3_t all = {0};
    fabric(gpu, &all);
    memcpy(info->clusterUuid, all.clusterUuid, sizeof(info->clusterUuid));
    info->status = all.status;
    info->cliqueId = all.cliqueId;
    info->state = all.state;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, void *info)
{
    DEVICE_CALL(device);
    ARGUMENT(info != NULL);
    unsigned int version;
    memcpy(&version, info, sizeof(version));
    bool v2 = version == NVML_STRUCT_VERSION(nvmlGpuFabricInfo_v2_t, 2);
    REQUIRE(v2 || version == NVML_STRUCT_VERSION(nvmlGpuFabricInfo_v3_t, 3), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    SUPPORTED(architecture_at_least(gpu, NVML_ARCH_HOPPER));
    nvmlGpuFabricInfo_v3_t all = {0};
    all.version = version;
    fabric(gpu, &all);
    /* The third version is the second with one more field at its end. */
    memcpy(info, &all, v2 ? sizeof(nvmlGpuFabricInfo_v2_t) : sizeof(nvmlGpuFabricInfo_v3_t));
    return NVML_SUCCESS;
}
