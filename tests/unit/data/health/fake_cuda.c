/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * A stand-in for libcuda.so.1: the calls that the active checks make, with memory of the host as device memory and
 * real copies, so that what is read back is what was written. Only its clock is made up: a copy takes as long as the
 * rate says. Settings are variables of the environment, read at cuInit:
 *   FAKE_CUDA_GPUS      UUID@PCI address, separated by commas; CUDA_VISIBLE_DEVICES chooses among them
 *   FAKE_CUDA_MEMORY    bytes of each GPU (default 64 MiB)
 *   FAKE_CUDA_RATES     GB/s of each GPU, separated by commas (default 25)
 *   FAKE_CUDA_PEER      GB/s between GPUs (default 250); 0: no peer access
 *   FAKE_CUDA_SLOW_PEER a UUID: copies with it have a tenth of that rate
 *   FAKE_CUDA_STUCK     UUID@BYTE: the lowest bit of that byte of its memory is always 1
 *   FAKE_CUDA_FAIL      CALL@UUID=NUMBER: that call returns the number on that GPU ("*": on all)
 *   FAKE_CUDA_HANG      CALL@UUID: that call never returns on that GPU
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GPUS 16
#define API __attribute__((visibility("default"))) int

struct gpu { char uuid[64], pci[32]; double rate; unsigned char *memory; size_t used; };
static struct gpu gpus[GPUS];
static int visible, current;
static size_t memory_size;
static double now; /* seconds, of copies that were asked for */
static double events[1024];
static int event_count;

static const char *setting(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value ? value : otherwise;
}

static int fault(const char *call)
{
    char wanted[160];
    const char *uuid = gpus[current].uuid;
    snprintf(wanted, sizeof wanted, "%s@%s", call, uuid);
    if (!strcmp(setting("FAKE_CUDA_HANG", ""), wanted))
        for (;;) pause();
    const char *fail = setting("FAKE_CUDA_FAIL", ""), *equals = strchr(fail, '=');
    size_t length = strlen(wanted);
    if (equals && (size_t)(equals - fail) == length && !strncmp(fail, wanted, length)) return atoi(equals + 1);
    snprintf(wanted, sizeof wanted, "%s@*=", call);
    if (!strncmp(fail, wanted, strlen(wanted))) return atoi(fail + strlen(wanted));
    return 0;
}
#define CHECK do { int number = fault(__func__); if (number) return number; } while (0)

static int owner(uint64_t pointer)
{
    for (int i = 0; i < visible; i++)
        if (pointer >= (uint64_t)gpus[i].memory && pointer < (uint64_t)gpus[i].memory + memory_size) return i;
    return -1;
}

/* The stuck bit, as a cell that cannot hold a 0. */
static void stick(int gpu)
{
    const char *text = setting("FAKE_CUDA_STUCK", ""), *at = strchr(text, '@');
    if (gpu >= 0 && at && (size_t)(at - text) == strlen(gpus[gpu].uuid) && !strncmp(text, gpus[gpu].uuid, at - text))
        gpus[gpu].memory[strtoull(at + 1, NULL, 10)] |= 1;
}

API cuInit(unsigned flags)
{
    (void)flags;
    char all[1024], *save = NULL;
    snprintf(all, sizeof all, "%s", setting("FAKE_CUDA_GPUS", ""));
    const char *rates = setting("FAKE_CUDA_RATES", "");
    const char *chosen = getenv("CUDA_VISIBLE_DEVICES");
    memory_size = strtoull(setting("FAKE_CUDA_MEMORY", "67108864"), NULL, 10);
    visible = 0;
    for (char *word = strtok_r(all, ",", &save); word && visible < GPUS; word = strtok_r(NULL, ",", &save)) {
        struct gpu *one = &gpus[visible];
        char *at = strchr(word, '@');
        double rate = *rates ? strtod(rates, (char **)&rates) : 25.0;
        if (*rates == ',') rates++;
        if (!at) return 1;
        *at = 0;
        if (chosen && !strstr(chosen, word)) continue;
        snprintf(one->uuid, sizeof one->uuid, "%s", word);
        snprintf(one->pci, sizeof one->pci, "%s", at + 1);
        one->rate = rate;
        one->memory = calloc(1, memory_size);
        visible++;
    }
    CHECK;
    return visible ? 0 : 100;
}
API cuDeviceGetCount(int *count) { CHECK; *count = visible; return 0; }
API cuDeviceGet(int *device, int index) { CHECK; *device = index; return index < visible ? 0 : 101; }
API cuDeviceGetPCIBusId(char *text, int size, int device) { CHECK; snprintf(text, size, "%s", gpus[device].pci); return 0; }
API cuDevicePrimaryCtxRetain(void **context, int device) { current = device; CHECK; *context = &gpus[device]; return 0; }
API cuCtxSetCurrent(void *context) { current = (int)((struct gpu *)context - gpus); CHECK; return 0; }
API cuCtxSynchronize(void) { CHECK; return 0; }
API cuDeviceCanAccessPeer(int *possible, int one, int other)
{
    (void)one; (void)other;
    CHECK;
    *possible = atof(setting("FAKE_CUDA_PEER", "250")) > 0;
    return 0;
}
API cuCtxEnablePeerAccess(void *context, unsigned flags) { (void)context; (void)flags; CHECK; return 0; }
API cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    CHECK;
    *value = attribute == 16 ? 4 : attribute == 75 ? 9 : 0;
    return 0;
}
API cuDriverGetVersion(int *version) { *version = 12040; return 0; }
/* It runs no kernels: CUDA_ERROR_UNSUPPORTED_PTX_VERSION, as an old driver. */
API cuModuleLoadDataEx(void **module, const void *text, unsigned count, int *options, void **values)
{
    (void)module; (void)text; (void)count; (void)options; (void)values;
    CHECK;
    return 222;
}
API cuModuleGetFunction(void **function, void *module, const char *name) { (void)function; (void)module; (void)name; return 500; }
API cuLaunchKernel(void) { return 1; }
API cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    CHECK;
    *free_bytes = memory_size - gpus[current].used;
    *total = memory_size;
    return 0;
}
API cuMemAlloc_v2(uint64_t *pointer, size_t size)
{
    CHECK;
    if (size > memory_size - gpus[current].used) return 2;
    *pointer = (uint64_t)(gpus[current].memory + gpus[current].used);
    gpus[current].used += size;
    return 0;
}
API cuMemFree_v2(uint64_t pointer) { (void)pointer; CHECK; return 0; }
API cuMemHostAlloc(void **pointer, size_t size, unsigned flags)
{
    (void)flags;
    CHECK;
    *pointer = calloc(1, size);
    return *pointer ? 0 : 2;
}
API cuMemFreeHost(void *pointer) { CHECK; free(pointer); return 0; }
API cuMemsetD32Async(uint64_t pointer, unsigned word, size_t count, void *stream)
{
    CHECK;
    (void)stream;
    for (size_t i = 0; i < count; i++) ((unsigned *)pointer)[i] = word;
    stick(owner(pointer));
    return 0;
}
static int copy(void *to, const void *from, size_t size, double rate)
{
    memcpy(to, from, size);
    stick(owner((uint64_t)to));
    now += size / (rate * 1e9);
    return 0;
}
API cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream)
{
    (void)stream;
    CHECK;
    return copy((void *)to, from, size, gpus[current].rate);
}
API cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *stream)
{
    (void)stream;
    CHECK;
    return copy(to, (void *)from, size, gpus[current].rate + 1);
}
API cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t size, void *stream)
{
    (void)stream;
    CHECK;
    return copy((void *)to, (void *)from, size, 1000);
}
API cuMemcpyPeerAsync(uint64_t to, void *to_context, uint64_t from, void *from_context, size_t size, void *stream)
{
    (void)stream;
    CHECK;
    double rate = atof(setting("FAKE_CUDA_PEER", "250"));
    const char *slow = setting("FAKE_CUDA_SLOW_PEER", "");
    if (!strcmp(((struct gpu *)to_context)->uuid, slow) || !strcmp(((struct gpu *)from_context)->uuid, slow)) rate /= 10;
    return copy((void *)to, (void *)from, size, rate > 0 ? rate : 10);
}
API cuStreamCreate(void **stream, unsigned flags) { (void)flags; CHECK; *stream = &now; return 0; }
API cuStreamSynchronize(void *stream) { (void)stream; CHECK; return 0; }
API cuEventCreate(void **event, unsigned flags) { (void)flags; CHECK; *event = &events[event_count++ % 1024]; return 0; }
API cuEventRecord(double *event, void *stream) { (void)stream; CHECK; *event = now; return 0; }
API cuEventSynchronize(void *event) { (void)event; CHECK; return 0; }
API cuEventElapsedTime(float *milliseconds, double *begin, double *end)
{
    CHECK;
    *milliseconds = (float)((*end - *begin) * 1e3);
    return 0;
}
