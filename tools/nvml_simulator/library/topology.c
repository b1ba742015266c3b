/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Where a GPU sits: PCI address and link, NUMA node, neighbours. */
#include "call.h"
#include "identity.h"
#include "nvlink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    DEVICE_CALL(device);
    ARGUMENT(pci != NULL);
    struct pci_address own;
    gpu_pci_address(gpu, &own);
    memset(pci, 0, sizeof(*pci));
    pci->domain = own.domain;
    pci->bus = own.bus;
    pci->device = own.device;
    pci->pciDeviceId = (unsigned int)state_number(gpu, "pci_device_id", 0);
    pci->pciSubSystemId = (unsigned int)state_number(gpu, "pci_subsystem_id", 0);
    snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0", own.domain & 0xffff, own.bus, own.device);
    snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", own.domain, own.bus, own.device);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_v1_t *pci)
{
    DEVICE_CALL(device);
    ARGUMENT(pci != NULL);
    REQUIRE(pci->version == NVML_STRUCT_VERSION(nvmlPciInfoExt_v1_t, 1), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    struct pci_address own;
    gpu_pci_address(gpu, &own);
    pci->domain = own.domain;
    pci->bus = own.bus;
    pci->device = own.device;
    pci->pciDeviceId = (unsigned int)state_number(gpu, "pci_device_id", 0);
    pci->pciSubSystemId = (unsigned int)state_number(gpu, "pci_subsystem_id", 0);
    pci->baseClass = 0x03;
    pci->subClass = state_flag(gpu, "display", false) ? 0x00 : 0x02;
    snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", own.domain, own.bus, own.device);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *generation)
{
    DEVICE_CALL(device);
    return answer_key(gpu, "pcie.max_generation", generation);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetGpuMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *generation)
{
    DEVICE_CALL(device);
    return answer_key(gpu, state_has(gpu, "pcie.gpu_max_generation") ? "pcie.gpu_max_generation" : "pcie.max_generation",
                      generation);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int *generation)
{
    DEVICE_CALL(device);
    return answer_key(gpu, state_has(gpu, "pcie.generation") ? "pcie.generation" : "pcie.max_generation", generation);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int *width)
{
    DEVICE_CALL(device);
    return answer_key(gpu, "pcie.max_width", width);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *width)
{
    DEVICE_CALL(device);
    return answer_key(gpu, state_has(gpu, "pcie.width") ? "pcie.width" : "pcie.max_width", width);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned int *count)
{
    DEVICE_CALL(device);
    ARGUMENT(count != NULL);
    *count = (unsigned int)state_number(gpu, "pcie.replays", 0);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPcieSpeed(nvmlDevice_t device, unsigned int *speed)
{
    static const unsigned int mbps[] = {0, 2500, 5000, 8000, 16000, 32000, 64000}; /* per lane, by generation */
    DEVICE_CALL(device);
    ARGUMENT(speed != NULL);
    long long generation = state_number(gpu, "pcie.generation", state_number(gpu, "pcie.max_generation", 0));
    SUPPORTED(generation > 0 && generation < (long long)(sizeof(mbps) / sizeof(mbps[0])));
    *speed = mbps[generation];
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned int counter, unsigned int *value)
{
    DEVICE_CALL(device);
    ARGUMENT(value != NULL && counter <= 1);
    *value = (unsigned int)state_number(gpu, counter == 0 ? "pcie.tx_kib_s" : "pcie.rx_kib_s", 0);
    return NVML_SUCCESS;
}

static int numa_node(int gpu)
{
    return (int)state_number(gpu, "numa_node", -1);
}

/* Set the bits of a CPU list ("0-3,8") in an array of words. */
static void set_bits(const char *list, unsigned int words, unsigned long *bits)
{
    while (list != NULL && *list != '\0') {
        char *end;
        unsigned long first = strtoul(list, &end, 10), last = first;
        if (end == list)
            return;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long bit = first; bit <= last && bit / (8 * sizeof(long)) < words; bit++)
            bits[bit / (8 * sizeof(long))] |= 1ul << bit % (8 * sizeof(long));
        list = end + strspn(end, ", ");
    }
}

static const char *cpus_of_node(long long node)
{
    char key[48];
    snprintf(key, sizeof(key), "numa.%lld.cpus", node);
    return state_get(NO_GPU, key);
}

static long long socket_of_node(long long node)
{
    char key[48];
    snprintf(key, sizeof(key), "numa.%lld.socket", node);
    return state_number(NO_GPU, key, node);
}

static nvmlReturn_t answer_cpus(int gpu, unsigned int words, unsigned long *bits, unsigned int scope)
{
    enum { NODE = 0, SOCKET = 1, MAX_NODES = 64 };
    ARGUMENT(bits != NULL && words > 0 && scope <= SOCKET);
    memset(bits, 0, words * sizeof(*bits));
    const char *own = state_get(gpu, "cpu_affinity");
    long long node = numa_node(gpu);
    if (own != NULL && *own != '\0' && scope == NODE) {
        set_bits(own, words, bits);
        return NVML_SUCCESS;
    }
    for (long long other = 0; other < MAX_NODES; other++) /* without a node: all CPUs, as the kernel says it */
        if (node < 0 || other == node || (scope == SOCKET && socket_of_node(other) == socket_of_node(node)))
            set_bits(cpus_of_node(other), words, bits);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int words, unsigned long *bits)
{
    DEVICE_CALL(device);
    return answer_cpus(gpu, words, bits, 0);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned int words, unsigned long *bits,
                                                             unsigned int scope)
{
    DEVICE_CALL(device);
    return answer_cpus(gpu, words, bits, scope);
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int words, unsigned long *bits,
                                                     unsigned int scope)
{
    DEVICE_CALL(device);
    ARGUMENT(bits != NULL && words > 0 && scope <= 1);
    SUPPORTED(numa_node(gpu) >= 0);
    memset(bits, 0, words * sizeof(*bits));
    for (int other = 0; other < 64; other++) {
        if (other != numa_node(gpu) &&
            (scope == 0 || cpus_of_node(other) == NULL || socket_of_node(other) != socket_of_node(numa_node(gpu))))
            continue;
        char text[16];
        snprintf(text, sizeof(text), "%d", other);
        set_bits(text, words, bits);
    }
    return NVML_SUCCESS;
}

/* Only where the GPU's own memory is a NUMA node of the host (Grace superchips), as NVML's header says. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned int *node)
{
    DEVICE_CALL(device);
    return answer_key(gpu, "memory_numa_node", node);
}

static unsigned int common_ancestor(int one, int other)
{
    if (one == other)
        return NVML_TOPOLOGY_INTERNAL;
    const char *group = state_get(one, "pcie_group"), *group_other = state_get(other, "pcie_group");
    if (group != NULL && group_other != NULL && strcmp(group, group_other) == 0)
        return (unsigned int)state_number(one, "pcie_group_level", NVML_TOPOLOGY_SINGLE);
    return numa_node(one) >= 0 && numa_node(one) == numa_node(other) ? NVML_TOPOLOGY_NODE : NVML_TOPOLOGY_SYSTEM;
}

#define OTHER_DEVICE(device)                                                                                 \
    int other = slot_of_handle(device);                                                                      \
    ARGUMENT(other >= 0);                                                                                    \
    REQUIRE(!gpu_lost(other) && !gpu_absent(other), NVML_ERROR_GPU_IS_LOST)

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t second, unsigned int *level)
{
    DEVICE_CALL(device);
    ARGUMENT(level != NULL);
    OTHER_DEVICE(second);
    *level = common_ancestor(gpu, other);
    return NVML_SUCCESS;
}

/* The call that asks for the number ends with SUCCESS here, unlike everywhere else. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, unsigned int level, unsigned int *count,
                                                          nvmlDevice_t *nearest)
{
    DEVICE_CALL(device);
    ARGUMENT(count != NULL && level <= NVML_TOPOLOGY_SYSTEM);
    unsigned int room = nearest == NULL ? 0 : *count, found = 0;
    for (int other = 0; other < gpu_slots(); other++) {
        if (other == gpu || gpu_absent(other) || gpu_lost(other) || common_ancestor(gpu, other) != level)
            continue;
        if (found < room)
            nearest[found] = handle_of_slot(other);
        found++;
    }
    *count = nearest != NULL && found > room ? room : found;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device, nvmlDevice_t second, unsigned int index, unsigned int *status)
{
    enum { READ_CAPS = 0, WRITE_CAPS = 1, NVLINK_CAPS = 2, ATOMICS_CAPS = 3, PCI_CAPS = 4, UNKNOWN_CAPS = 5 };
    enum { OK = 0, NOT_SUPPORTED = 5 };
    DEVICE_CALL(device);
    ARGUMENT(status != NULL && index < UNKNOWN_CAPS);
    OTHER_DEVICE(second);
    ARGUMENT(other != gpu);
    bool linked = nvlink_between(gpu, other);
    bool pci = state_flag(gpu, "feature.pci_p2p", true) && !mig_enabled(gpu) && !mig_enabled(other);
    *status = linked || ((index == READ_CAPS || index == WRITE_CAPS || index == PCI_CAPS) && pci) ? OK : NOT_SUPPORTED;
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t device, nvmlDevice_t second, int *same)
{
    DEVICE_CALL(device);
    ARGUMENT(same != NULL);
    OTHER_DEVICE(second);
    *same = other == gpu;
    return NVML_SUCCESS;
}
