/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
#define _DEFAULT_SOURCE
#include "gpu.h"
#include "identity.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>

struct gpu gpus[MAX_GPUS];
int gpu_count;

enum { NO_DEVICE = 100, SYSTEM_NOT_READY = 802, DRIVER_MISMATCH = 803, MEMORY_EXHAUSTED = 2, INVALID_VALUE = 1, ILLEGAL_ADDRESS = 700, MISALIGNED_ADDRESS = 716 };
enum { HOPPER = 9, FABRIC_COMPLETED = 3, MAX_PINNED = 256 };

/* Identity ------------------------------------------------------------------------------------------------------------------- */

/* The release of CUDA that came with each driver branch, and the PTX ISA of that release: "CUDA Toolkit and Corresponding
 * Driver Versions" of NVIDIA's release notes, and the table of releases in the PTX ISA manual. */
static const struct {
    int branch, cuda, ptx;
} releases[] = {
    {595, 13020, 92}, {590, 13010, 91}, {580, 13000, 90}, {575, 12090, 88}, {570, 12080, 87}, {565, 12070, 86}, {560, 12060, 85}, {555, 12050, 85},
    {550, 12040, 84}, {545, 12030, 83}, {535, 12020, 82}, {530, 12010, 81}, {525, 12000, 80}, {520, 11080, 78}, {515, 11070, 77}, {510, 11060, 76},
    {495, 11050, 75}, {470, 11040, 74}, {465, 11030, 73}, {460, 11020, 72}, {455, 11010, 71}, {450, 11000, 70}, {440, 10020, 65}, {418, 10010, 64},
    {410, 10000, 63}, {0, 9020, 62},
};

static size_t release(void)
{
    const char *version = state_get(NO_GPU, "driver.version");
    int branch = version != NULL ? atoi(version) : 0;
    size_t i = 0;
    while (releases[i].branch > branch)
        i++;
    return i;
}

int driver_cuda(void)
{
    return releases[release()].cuda;
}

int driver_ptx(void)
{
    return releases[release()].ptx;
}

double spread(const char *purpose, int number)
{
    unsigned char bytes[16];
    uint64_t hash = 0;
    seed_bytes(purpose, number, bytes);
    memcpy(&hash, bytes, sizeof(hash));
    for (int round = 0; round < 2; round++) /* neighbours shall differ in the upper bits, too */
        hash = (hash ^ hash >> 32) * UINT64_C(0x9E3779B97F4A7C15);
    return (double)(hash >> 40) / (double)0xffffff;
}

static bool shown(int slot)
{
    bool mig = state_flag(slot, "feature.mig", false) && state_flag(slot, "mig_mode", false); /* its instances are not simulated */
    return layer_get(FAULTS, slot, "absent") == NULL && layer_get(FAULTS, slot, "lost") == NULL && layer_get(FAULTS, slot, "broken.hidden") == NULL && !mig;
}

static int by_address(const void *one, const void *other)
{
    struct pci_address a, b;
    gpu_pci_address(((const struct gpu *)one)->slot, &a);
    gpu_pci_address(((const struct gpu *)other)->slot, &b);
    const long long first = (long long)a.domain << 16 | a.bus << 8 | a.device, second = (long long)b.domain << 16 | b.bus << 8 | b.device;
    return first < second ? -1 : first > second;
}

/* The first word that names no GPU ends the list, as the real one does it. */
static void choose_visible(const char *list)
{
    struct gpu chosen[MAX_GPUS];
    int count = 0;
    char words[4096], *rest = NULL;
    snprintf(words, sizeof(words), "%s", list);
    for (char *word = strtok_r(words, ",", &rest); word != NULL && count < MAX_GPUS; word = strtok_r(NULL, ",", &rest)) {
        int found = -1;
        long long number;
        while (isspace((unsigned char)*word))
            word++;
        for (int i = 0; i < gpu_count && strlen(word) > 4; i++)
            if (strncasecmp(gpus[i].uuid, word, strlen(word)) == 0)
                found = i;
        if (found < 0 && parse_number(word, &number) && number >= 0 && number < gpu_count)
            found = (int)number;
        for (int i = 0; i < count && found >= 0; i++)
            if (strcmp(chosen[i].uuid, gpus[found].uuid) == 0)
                found = -1;
        if (found < 0)
            break;
        chosen[count++] = gpus[found];
    }
    memcpy(gpus, chosen, sizeof(chosen[0]) * (size_t)count);
    gpu_count = count;
}

int gpus_find(void)
{
    const char *fault = layer_get(FAULTS, NO_GPU, "driver.fault");
    if (fault != NULL && strcmp(fault, "not-loaded") != 0)
        return DRIVER_MISMATCH;
    if (fault != NULL || !layer_store(MACHINE)->present || state_problem() != NULL)
        return NO_DEVICE;
    long long slots = state_number(NO_GPU, "gpu.count", 0);
    gpu_count = 0;
    for (int slot = 0; slot < slots && slot < MAX_GPUS; slot++) {
        if (!shown(slot))
            continue;
        struct gpu *gpu = &gpus[gpu_count++];
        struct pci_address address;
        memset(gpu, 0, sizeof(*gpu));
        gpu->slot = slot;
        gpu_uuid(slot, gpu->uuid, sizeof(gpu->uuid));
        gpu_pci_address(slot, &address);
        snprintf(gpu->pci, sizeof(gpu->pci), "%04X:%02X:%02X.%X", address.domain & 0xffff, address.bus, address.device, address.function);
        const char *capability = state_get(slot, "compute_capability");
        if (capability == NULL || sscanf(capability, "%u.%u", &gpu->major, &gpu->minor) != 2)
            gpu->major = 7;
        long long sms = state_number(slot, "cuda.multiprocessors", 8);
        gpu->sms = sms > 0 && sms <= 1024 ? (unsigned int)sms : 8;
        long long kib = state_number(slot, "cuda.memory_kib", 2048);
        gpu->bytes = (size_t)(kib > 0 && kib <= 1 << 22 ? kib : 2048) << 10;
    }
    qsort(gpus, (size_t)gpu_count, sizeof(gpus[0]), by_address);
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    if (list != NULL)
        choose_visible(list);
    for (int i = 0; i < gpu_count; i++) {
        gpus[i].base = UINT64_C(0x7f0000000000) + ((uint64_t)gpus[i].slot << 33);
        if (gpus[i].major >= HOPPER && state_flag(gpus[i].slot, "feature.nvswitch", false) &&
            state_number(gpus[i].slot, "fabric.state", FABRIC_COMPLETED) != FABRIC_COMPLETED)
            return SYSTEM_NOT_READY;
    }
    return gpu_count > 0 ? 0 : NO_DEVICE;
}

/* Memory ---------------------------------------------------------------------------------------------------------------------- */

bool gpu_make_context(struct gpu *gpu)
{
    if (gpu->context)
        return true;
    gpu->memory = mmap(NULL, gpu->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    gpu->owner = calloc(gpu->bytes / GRAIN + 1, sizeof(*gpu->owner));
    gpu->allocation = calloc(MAX_ALLOCATIONS, sizeof(*gpu->allocation));
    if (gpu->memory == MAP_FAILED || gpu->owner == NULL || gpu->allocation == NULL)
        return false;
    gpu->context = true;
    return true;
}

void gpu_drop_context(struct gpu *gpu)
{
    if (!gpu->context)
        return;
    munmap(gpu->memory, gpu->bytes);
    free(gpu->owner);
    free(gpu->allocation);
    gpu->memory = NULL;
    gpu->owner = NULL;
    gpu->allocation = NULL;
    gpu->used = 0;
    gpu->context = gpu->hung = false;
    gpu->error = 0;
    memset(gpu->peer, 0, sizeof(gpu->peer));
}

/* The first gap that is large enough. */
int gpu_allocate(struct gpu *gpu, size_t bytes, uint64_t *address)
{
    const size_t grains = bytes / GRAIN + (bytes % GRAIN != 0), all = gpu->bytes / GRAIN;
    if (bytes == 0)
        return INVALID_VALUE;
    size_t begin = 0, length = 0, number = 0;
    while (number < MAX_ALLOCATIONS && gpu->allocation[number].used)
        number++;
    for (size_t at = 0; at < all && length < grains; at++) {
        if (gpu->owner[at] != 0)
            length = 0;
        else if (length++ == 0)
            begin = at;
    }
    if (length < grains || number == MAX_ALLOCATIONS)
        return MEMORY_EXHAUSTED;
    for (size_t at = begin; at < begin + grains; at++)
        gpu->owner[at] = (uint16_t)(number + 1);
    gpu->allocation[number] = (struct allocation){begin * GRAIN, bytes, true};
    gpu->used += grains * GRAIN;
    *address = gpu->base + begin * GRAIN;
    return 0;
}

static struct gpu *holder(uint64_t address)
{
    for (int i = 0; i < gpu_count; i++)
        if (gpus[i].context && address >= gpus[i].base && address - gpus[i].base < gpus[i].bytes)
            return &gpus[i];
    return NULL;
}

int gpu_release(uint64_t address)
{
    struct gpu *gpu = holder(address);
    if (gpu == NULL)
        return INVALID_VALUE;
    for (size_t number = 0; number < MAX_ALLOCATIONS; number++) {
        struct allocation *one = &gpu->allocation[number];
        if (!one->used || gpu->base + one->begin != address)
            continue;
        const size_t grains = one->bytes / GRAIN + (one->bytes % GRAIN != 0);
        memset(&gpu->owner[one->begin / GRAIN], 0, grains * sizeof(*gpu->owner));
        gpu->used -= grains * GRAIN;
        one->used = false;
        return 0;
    }
    return INVALID_VALUE;
}

/* Within one allocation. */
static bool allocated(const struct gpu *gpu, uint64_t offset, size_t bytes)
{
    const unsigned int number = gpu->owner[offset / GRAIN];
    if (number == 0)
        return false;
    const struct allocation *one = &gpu->allocation[number - 1];
    return offset - one->begin + bytes <= one->bytes;
}

struct gpu *gpu_of(uint64_t address, size_t bytes)
{
    struct gpu *gpu = holder(address);
    return gpu != NULL && allocated(gpu, address - gpu->base, bytes) ? gpu : NULL;
}

/* Faults of the memory ----------------------------------------------------------------------------------------------------------- */

static bool add_fault(struct gpu *gpu, const char *place, const char *text)
{
    struct memory_fault fault = {0};
    unsigned long long other = 0;
    unsigned int value = 0;
    char *end;
    fault.offset = strtoull(place, &end, 0);
    if (sscanf(text, "stuck %u %u", &fault.bit, &value) == 2)
        fault.kind = STUCK;
    else if (sscanf(text, "flip %u", &fault.bit) == 1)
        fault.kind = FLIP;
    else if (sscanf(text, "alias %llu", &other) == 1)
        fault.kind = ALIAS;
    else if (sscanf(text, "line %u", &value) == 1)
        fault.kind = ADDRESS_LINE;
    else
        return false;
    fault.value = value & 1;
    fault.other = other;
    if (fault.kind == ADDRESS_LINE)
        fault.bit = (unsigned int)fault.offset;
    else if (fault.offset >= gpu->bytes || (fault.kind == ALIAS && other >= gpu->bytes))
        return false;
    fault.offset += fault.kind == STUCK || fault.kind == FLIP ? fault.bit / 8 : 0; /* the byte; its bit below */
    fault.bit %= fault.kind == ADDRESS_LINE ? 64 : 8;
    gpu->remapped += fault.kind == ALIAS || fault.kind == ADDRESS_LINE;
    gpu->fault[gpu->faults++] = fault;
    return true;
}

void gpu_read_faults(struct gpu *gpu)
{
    const struct store *faults = layer_store(FAULTS);
    char prefix[64];
    const int length = snprintf(prefix, sizeof(prefix), "gpu.%d.broken.memory.", gpu->slot);
    gpu->faults = gpu->remapped = 0;
    for (size_t i = 0; i < faults->count && gpu->faults < MAX_FAULTS; i++)
        if (strncmp(faults->entries[i].key, prefix, (size_t)length) == 0)
            (void)add_fault(gpu, faults->entries[i].key + length, faults->entries[i].value);
}

/* Where an offset leads: an address line that does not move, two sectors that are one. */
static uint64_t moved(const struct gpu *gpu, uint64_t offset)
{
    for (unsigned int i = 0; i < gpu->faults; i++) {
        const struct memory_fault *fault = &gpu->fault[i];
        if (fault->kind == ADDRESS_LINE)
            offset = (offset & ~(UINT64_C(1) << fault->bit)) | (uint64_t)fault->value << fault->bit;
        else if (fault->kind == ALIAS && offset / SECTOR == fault->offset / SECTOR)
            offset = fault->other / SECTOR * SECTOR + offset % SECTOR;
    }
    return offset < gpu->bytes ? offset : offset % gpu->bytes;
}

/* What bits that are stuck or that flip make of the memory, before it is read. */
static void before_reading(struct gpu *gpu, uint64_t offset, size_t bytes)
{
    for (unsigned int i = 0; i < gpu->faults; i++) {
        struct memory_fault *fault = &gpu->fault[i];
        if (fault->kind > FLIP || fault->spent || fault->offset < offset || fault->offset >= offset + bytes)
            continue;
        unsigned char *byte = &gpu->memory[fault->offset], bit = (unsigned char)(1u << fault->bit);
        if (fault->kind == STUCK) {
            *byte = (unsigned char)(fault->value ? *byte | bit : *byte & ~bit);
            continue;
        }
        *byte ^= bit;
        fault->spent = true;
        if (state_lock(true) == 0) { /* once for all processes, where they may write */
            char key[64];
            for (unsigned int back = 0; back < 8; back++) {
                snprintf(key, sizeof(key), "broken.memory.%llu", (unsigned long long)(fault->offset - back));
                const char *text = layer_get(FAULTS, gpu->slot, key);
                if (text != NULL && strncmp(text, "flip", 4) == 0)
                    state_unset(FAULTS, gpu->slot, key);
            }
            (void)state_commit();
        }
        state_unlock();
    }
}

/* A copy goes sector by sector where addresses lead elsewhere. */
static void copy(struct gpu *gpu, uint64_t offset, unsigned char *host, size_t bytes, bool write)
{
    while (bytes > 0) {
        size_t piece = gpu->remapped ? SECTOR - offset % SECTOR : bytes;
        if (piece > bytes)
            piece = bytes;
        uint64_t place = gpu->remapped ? moved(gpu, offset) : offset;
        if (write) {
            memcpy(gpu->memory + place, host, piece);
        } else {
            if (gpu->faults > 0)
                before_reading(gpu, place, piece);
            memcpy(host, gpu->memory + place, piece);
        }
        offset += piece;
        host += piece;
        bytes -= piece;
    }
}

void gpu_write(struct gpu *gpu, uint64_t address, const void *from, size_t bytes)
{
    copy(gpu, address - gpu->base, (unsigned char *)(uintptr_t)from, bytes, true);
}

void gpu_read(struct gpu *gpu, uint64_t address, void *to, size_t bytes)
{
    copy(gpu, address - gpu->base, to, bytes, false);
}

/* Pinned memory ------------------------------------------------------------------------------------------------------------------ */

static struct {
    uint64_t address;
    size_t bytes;
} pinned[MAX_PINNED];

bool host_pinned(uint64_t address, size_t bytes)
{
    for (int i = 0; i < MAX_PINNED; i++)
        if (pinned[i].bytes > 0 && address >= pinned[i].address && address - pinned[i].address + bytes <= pinned[i].bytes)
            return true;
    return false;
}

void host_pin(void *memory, size_t bytes)
{
    for (int i = 0; i < MAX_PINNED; i++)
        if (pinned[i].bytes == 0) {
            pinned[i].address = (uintptr_t)memory;
            pinned[i].bytes = bytes;
            return;
        }
}

bool host_unpin(void *memory)
{
    for (int i = 0; i < MAX_PINNED; i++)
        if (pinned[i].bytes > 0 && pinned[i].address == (uintptr_t)memory) {
            pinned[i].bytes = 0;
            return true;
        }
    return false;
}

unsigned char *gpu_reach(struct launch *launch, uint64_t address, unsigned int bytes, bool reads, enum unit *unit)
{
    struct gpu *gpu = launch->gpu;
    uint64_t offset = address - gpu->base;
    if (address & (bytes - 1)) {
        launch->fault = MISALIGNED_ADDRESS;
        launch->fault_address = address;
        return NULL;
    }
    if (offset >= gpu->bytes) {
        gpu = holder(address);
        *unit = PEER_BYTES;
        if (gpu == NULL && host_pinned(address, bytes)) {
            *unit = HOST_BYTES;
            return (unsigned char *)(uintptr_t)address;
        }
        offset = gpu != NULL ? address - gpu->base : 0;
    }
    if (gpu == NULL || (gpu != launch->gpu && !launch->gpu->peer[gpu - gpus]) || !allocated(gpu, offset, bytes)) {
        launch->fault = ILLEGAL_ADDRESS;
        launch->fault_address = address;
        return NULL;
    }
    if (gpu->faults > 0) {
        offset = moved(gpu, offset);
        if (reads)
            before_reading(gpu, offset, bytes);
    }
    return gpu->memory + offset;
}

/* Rates ----------------------------------------------------------------------------------------------------------------------------- */

/* What is left of a rate that `fault ... slow` lowered. */
static double slowed(int gpu, const char *format, const char *what)
{
    char key[96];
    long long percent = 0;
    snprintf(key, sizeof(key), format, what);
    const char *text = layer_get(FAULTS, gpu, key);
    if (text == NULL || sscanf(text, "%lld", &percent) != 1 || percent < 0 || percent >= 100)
        return 1.0;
    return 1.0 - (double)percent / 100;
}

static double figure(int gpu, const char *key, double otherwise)
{
    char full[96];
    snprintf(full, sizeof(full), "cuda.%s", key);
    const char *text = state_get(gpu, full);
    double value = text != NULL ? strtod(text, NULL) : 0;
    return value > 0 ? value : otherwise;
}

/* Copies of pinned memory reach about 87 % of what PCIe moves: 12.5 GB/s with generation 3 and 16 lanes, 25 with 4, 55 with 5. */
static double pcie_rate(int gpu)
{
    static const double of_16_lanes[] = {3.1, 3.1, 6.2, 12.5, 25.0, 55.0, 108.0};
    const long long highest = state_number(gpu, "pcie.max_generation", 4);
    long long generation = state_number(gpu, "pcie.generation", highest);
    long long width = state_number(gpu, "pcie.width", state_number(gpu, "pcie.max_width", 16));
    if (generation <= 1 || generation > 6) /* a link that sleeps wakes up for a copy */
        generation = highest < 1 || highest > 6 ? 4 : highest;
    return of_16_lanes[generation] * (double)(width > 0 ? width : 16) / 16;
}

static double default_figure(int gpu, const char *key)
{
    static const struct {
        const char *key;
        double value;
    } defaults[] = {{"hbm_gigabytes_per_second", 800}, {"tensor_f16_teraflops", 60}, {"fp32_teraflops", 12}, {"fp64_teraflops", 0.4}, {"int32_teraops", 12}};
    for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
        if (strcmp(defaults[i].key, key) == 0)
            return defaults[i].value;
    if (strcmp(key, "tensor_bf16_teraflops") == 0)
        return figure(gpu, "tensor_f16_teraflops", 60);
    if (strcmp(key, "tensor_tf32_teraflops") == 0)
        return figure(gpu, "tensor_f16_teraflops", 60) / 2;
    if (strcmp(key, "tensor_fp64_teraflops") == 0)
        return 2 * figure(gpu, "fp64_teraflops", 0.4);
    if (strncmp(key, "tensor", 6) == 0) /* fp8, int8 */
        return 2 * figure(gpu, "tensor_f16_teraflops", 60);
    return pcie_rate(gpu);
}

double gpu_rate(const struct gpu *gpu, const char *key, const char *what)
{
    return figure(gpu->slot, key, default_figure(gpu->slot, key)) * slowed(gpu->slot, "broken.slow.%s", what);
}

/* How many NVLinks connect two GPUs, directly or through switches. */
static int links_between(int one, int other)
{
    long long count = state_number(one, "nvlink.count", 0), count_other = state_number(other, "nvlink.count", 0);
    const char *peers = state_get(one, "nvlink.peers");
    bool switched = state_flag(one, "feature.nvswitch", false) && state_flag(other, "feature.nvswitch", false);
    int active = 0, active_other = 0;
    for (int link = 0; link < count || link < count_other; link++) {
        char key[48], *end;
        snprintf(key, sizeof(key), "nvlink_state.%d", link);
        bool leads = switched;
        if (peers != NULL) {
            long peer = strtol(peers, &end, 10);
            leads = end != peers && peer == other;
            peers = end;
        }
        active += link < count && leads && layer_get(FAULTS, one, key) == NULL;
        active_other += link < count_other && layer_get(FAULTS, other, key) == NULL;
    }
    return active < active_other ? active : active_other;
}

/* Without NVLink copies cross PCIe and the processor. 0: the two do not reach each other. */
double peer_rate(const struct gpu *from, const struct gpu *to)
{
    char number[16];
    snprintf(number, sizeof(number), "%d", to->slot);
    const int links = links_between(from->slot, to->slot);
    double rate;
    if (layer_get(FAULTS, from->slot, "broken.no_peer") != NULL)
        return 0;
    char key[64];
    snprintf(key, sizeof(key), "broken.no_peer.%d", to->slot);
    if (layer_get(FAULTS, from->slot, key) != NULL)
        return 0;
    if (links > 0) /* 25.781 GB/s each and direction; copies reach 88 % */
        rate = figure(from->slot, "peer_gigabytes_per_second", 0.88 * links * (double)state_number(from->slot, "nvlink.speed_mbps", 25781) / 1000);
    else if (state_flag(from->slot, "feature.pci_p2p", true))
        rate = figure(from->slot, "peer_gigabytes_per_second", 0.8 * (pcie_rate(from->slot) < pcie_rate(to->slot) ? pcie_rate(from->slot) : pcie_rate(to->slot)));
    else
        return 0;
    return rate * slowed(from->slot, "broken.slow.%s", "peer") * slowed(to->slot, "broken.slow.%s", "peer") * slowed(from->slot, "broken.slow_peer.%s", number);
}

/* SMs ---------------------------------------------------------------------------------------------------------------------------------- */

void gpu_sm(const struct gpu *gpu, unsigned int number, struct sm_state *sm)
{
    char key[64], word[32];
    unsigned int every = 1;
    sm->number = number;
    sm->slowness = 1 + figure(gpu->slot, "spread_percent", 0.5) / 100 * spread("sm", gpu->slot * 1024 + (int)number);
    snprintf(key, sizeof(key), "broken.sm.%u.slow", number);
    const char *text = layer_get(FAULTS, gpu->slot, key);
    if (text != NULL)
        sm->slowness *= 1 + strtod(text, NULL) / 100;
    snprintf(key, sizeof(key), "broken.sm.%u.wrong", number);
    text = layer_get(FAULTS, gpu->slot, key);
    sm->wrong_unit = NOT_WRONG;
    if (text != NULL && sscanf(text, "%31s %u", word, &every) >= 1 && every > 0 && gpu->launches % every == 0)
        sm->wrong_unit = strcmp(word, "tensor") == 0 ? WRONG_TENSOR : strcmp(word, "fp32") == 0 ? WRONG_FP32 : strcmp(word, "fp64") == 0 ? WRONG_FP64 : WRONG_INT;
    sm->wrong_lane = 17;
    sm->wrong_bit = 13;
}
