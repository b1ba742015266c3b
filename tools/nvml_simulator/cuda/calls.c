/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* The entry points of libcuda.so.1. Results are those of cuda.h (CUresult). */
#define _POSIX_C_SOURCE 200809L
#include "gpu.h"
#include "identity.h"
#include "injected.h"
#include "load.h"
#include "timeline.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default"))) int

enum {
    SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, DEVICE_UNAVAILABLE = 46, INVALID_DEVICE = 101, INVALID_IMAGE = 200, INVALID_CONTEXT = 201,
    PEER_ACCESS_UNSUPPORTED = 217, INVALID_PTX = 218, UNSUPPORTED_PTX_VERSION = 222, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, LAUNCH_FAILED = 719,
    PEER_ACCESS_ALREADY_ENABLED = 704, PEER_ACCESS_NOT_ENABLED = 705, ILLEGAL_ADDRESS = 700, UNKNOWN = 999,
};

struct loaded {
    struct module *module;
    struct gpu *gpu;
};

struct function {
    struct kernel *kernel;
    struct gpu *gpu;
    struct loaded *loaded;
    struct function *next;
};

static pthread_mutex_t threads = PTHREAD_MUTEX_INITIALIZER;
static pid_t initialised; /* by this process; a child of fork has to begin anew, which the driver does not allow */
static _Thread_local struct gpu *current;
static struct stream default_stream[MAX_GPUS];
static int failing[MAX_GPUS]; /* of work that was asked for: told when somebody waits for it */
static struct function *functions;
static struct stream *streams; /* those that were made */

struct call {
    bool open;
};

static void leave(struct call *call)
{
    if (call->open) {
        state_unlock();
        pthread_mutex_unlock(&threads);
    }
    call->open = false;
}

static bool needs_context(const char *name)
{
    return strncmp(name, "cuDevice", 8) != 0 && strncmp(name, "cuInit", 6) != 0 && strncmp(name, "cuDriver", 8) != 0 && strncmp(name, "cuCtx", 5) != 0 &&
           strcmp(name, "cuMemFreeHost") != 0 && strcmp(name, "cuMemcpyPeerAsync") != 0 && strcmp(name, "cuMemcpyPeer") != 0;
}

/* Lock, read the state, apply faults. `gpu`: whom the call concerns, NULL for the current one. */
static int begin(struct call *call, const char *name, struct gpu *gpu)
{
    pthread_mutex_lock(&threads);
    call->open = true;
    (void)state_lock(false);
    const bool inits = strcmp(name, "cuInit") == 0 || strcmp(name, "cuDriverGetVersion") == 0;
    if (initialised != getpid() && !inits)
        return NOT_INITIALIZED;
    if (gpu == NULL)
        gpu = current;
    const char *injected = injected_fault(gpu != NULL ? gpu->slot : NO_GPU, name, false);
    if (injected != NULL) {
        char order[64];
        int wanted;
        snprintf(order, sizeof(order), "%s", injected);
        leave(call);
        if (carry_out_fault(order, UNKNOWN, &wanted))
            return wanted;
        pthread_mutex_lock(&threads);
        call->open = true;
        (void)state_lock(false);
    }
    if (needs_context(name) && (gpu == NULL || !gpu->context))
        return INVALID_CONTEXT;
    if (gpu != NULL && gpu->context && gpu->error == 0 && (layer_get(FAULTS, gpu->slot, "lost") != NULL || layer_get(FAULTS, gpu->slot, "absent") != NULL))
        gpu->error = UNKNOWN;
    if (gpu != NULL && gpu->error != 0 && needs_context(name))
        return gpu->error;
    if (gpu != NULL && gpu->context)
        gpu_read_faults(gpu);
    return SUCCESS;
}

#define CALL(gpu)                                                                                                              \
    struct call call __attribute__((cleanup(leave))) = {false};                                                                \
    do {                                                                                                                       \
        int refusal = begin(&call, __func__, gpu);                                                                             \
        if (refusal != SUCCESS)                                                                                                \
            return refusal;                                                                                                    \
    } while (0)
#define REQUIRE(condition, code)                                                                                               \
    do {                                                                                                                       \
        if (!(condition))                                                                                                      \
            return code;                                                                                                       \
    } while (0)

static struct gpu *device(int number)
{
    return number >= 0 && number < gpu_count && initialised == getpid() ? &gpus[number] : NULL;
}

static bool is_context(const void *context)
{
    return context >= (const void *)gpus && context < (const void *)(gpus + gpu_count) && ((const struct gpu *)context)->context;
}

static struct stream *stream_of(void *handle)
{
    if ((uintptr_t)handle > 2)
        return handle;
    struct stream *stream = &default_stream[current - gpus];
    stream->gpu = current;
    return stream;
}

/* Until a stream is done. Whoever waits for what never ends holds no lock. */
static int await(struct call *call, const struct stream *stream, double until)
{
    struct gpu *gpu = stream->gpu;
    if (gpu->hung || stream->hung) {
        leave(call);
        for (;;)
            pause();
    }
    int *failed = &failing[gpu - gpus];
    if (*failed != 0)
        gpu->error = *failed;
    *failed = 0;
    timeline_reached(until);
    return gpu->error;
}

static int await_stream(struct call *call, struct stream *stream)
{
    timeline_count();
    return await(call, stream, stream->time);
}

/* Initialisation and devices ------------------------------------------------------------------------------------------------- */

API cuInit(unsigned int flags)
{
    if (initialised != getpid())
        state_locate();
    CALL(NULL);
    REQUIRE(flags == 0, INVALID_VALUE);
    REQUIRE(initialised != getpid(), SUCCESS);
    int code = gpus_find();
    if (code == SUCCESS)
        initialised = getpid();
    return code;
}

API cuDriverGetVersion(int *version)
{
    CALL(NULL);
    REQUIRE(version != NULL, INVALID_VALUE);
    *version = driver_cuda();
    return SUCCESS;
}

API cuDeviceGetCount(int *count)
{
    CALL(NULL);
    REQUIRE(count != NULL, INVALID_VALUE);
    *count = gpu_count;
    return SUCCESS;
}

API cuDeviceGet(int *number, int index)
{
    CALL(device(index));
    REQUIRE(number != NULL, INVALID_VALUE);
    REQUIRE(device(index) != NULL, INVALID_DEVICE);
    *number = index;
    return SUCCESS;
}

static int answer_text(const char *text, char *buffer, int size)
{
    REQUIRE(buffer != NULL && size > (int)strlen(text), INVALID_VALUE);
    memcpy(buffer, text, strlen(text) + 1);
    return SUCCESS;
}

API cuDeviceGetPCIBusId(char *text, int size, int number)
{
    CALL(device(number));
    REQUIRE(device(number) != NULL, INVALID_DEVICE);
    return answer_text(gpus[number].pci, text, size);
}

API cuDeviceGetName(char *text, int size, int number)
{
    CALL(device(number));
    REQUIRE(device(number) != NULL, INVALID_DEVICE);
    const char *name = state_get(gpus[number].slot, "name");
    REQUIRE(text != NULL && size > 0, INVALID_VALUE);
    snprintf(text, (size_t)size, "%s", name != NULL ? name : "");
    return SUCCESS;
}

API cuDeviceGetUuid(unsigned char *uuid, int number)
{
    CALL(device(number));
    REQUIRE(device(number) != NULL, INVALID_DEVICE);
    REQUIRE(uuid != NULL, INVALID_VALUE);
    const char *digit = gpus[number].uuid + 4;
    for (int i = 0; i < 16 && *digit != '\0'; i++) {
        unsigned int byte = 0;
        digit += *digit == '-';
        sscanf(digit, "%2x", &byte);
        uuid[i] = (unsigned char)byte;
        digit += 2;
    }
    return SUCCESS;
}

API cuDeviceTotalMem_v2(size_t *bytes, int number)
{
    CALL(device(number));
    REQUIRE(device(number) != NULL, INVALID_DEVICE);
    REQUIRE(bytes != NULL, INVALID_VALUE);
    *bytes = gpus[number].bytes;
    return SUCCESS;
}

/* The highest graphics clock, in MHz. */
static double top_clock(const struct gpu *gpu)
{
    const char *text = state_get(gpu->slot, "clocks.supported");
    double memory, low, high;
    return text != NULL && sscanf(text, " %lf:%lf-%lf", &memory, &low, &high) == 3 ? high : 1500;
}

API cuDeviceGetAttribute(int *value, int attribute, int number)
{
    CALL(device(number));
    REQUIRE(device(number) != NULL, INVALID_DEVICE);
    REQUIRE(value != NULL && attribute > 0 && attribute < 200, INVALID_VALUE);
    const struct gpu *gpu = &gpus[number];
    struct pci_address address;
    gpu_pci_address(gpu->slot, &address);
    const struct {
        int attribute;
        long long value;
    } known[] = {
        {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 49152}, {10, 32}, {12, 65536}, {13, (long long)(top_clock(gpu) * 1000)},
        {16, gpu->sms}, {19, 1}, {20, state_number(gpu->slot, "compute_mode", 0)}, {33, address.bus}, {34, address.device},
        {36, state_number(gpu->slot, "clocks.default_memory_mhz", 1000) * 1000}, {37, state_number(gpu->slot, "memory.bus_width_bits", 256)},
        {38, state_number(gpu->slot, "cuda.l2_kib", 64) << 10}, {39, 2048}, {40, 3}, {41, 1}, {50, address.domain}, {75, gpu->major}, {76, gpu->minor}, {81, 65536},
        {82, 65536}, {97, 49152}, {106, 32},
    };
    *value = 0;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].attribute == attribute)
            *value = (int)known[i].value;
    return SUCCESS;
}

API cuDeviceCanAccessPeer(int *possible, int number, int other)
{
    CALL(device(number));
    REQUIRE(device(number) != NULL && device(other) != NULL, INVALID_DEVICE);
    REQUIRE(possible != NULL, INVALID_VALUE);
    *possible = number != other && peer_rate(&gpus[number], &gpus[other]) > 0;
    return SUCCESS;
}

/* Contexts ------------------------------------------------------------------------------------------------------------------------ */

static int make_context(struct gpu *gpu, void **context)
{
    enum { PROHIBITED = 2 };
    REQUIRE(context != NULL, INVALID_VALUE);
    REQUIRE(state_number(gpu->slot, "compute_mode", 0) != PROHIBITED, DEVICE_UNAVAILABLE);
    REQUIRE(layer_get(FAULTS, gpu->slot, "lost") == NULL && layer_get(FAULTS, gpu->slot, "absent") == NULL, UNKNOWN);
    REQUIRE(gpu_make_context(gpu), OUT_OF_MEMORY);
    *context = gpu;
    return SUCCESS;
}

API cuDevicePrimaryCtxRetain(void **context, int number)
{
    CALL(device(number));
    REQUIRE(device(number) != NULL, INVALID_DEVICE);
    return make_context(&gpus[number], context);
}

API cuCtxCreate_v2(void **context, unsigned int flags, int number)
{
    CALL(device(number));
    (void)flags;
    REQUIRE(device(number) != NULL, INVALID_DEVICE);
    int code = make_context(&gpus[number], context);
    if (code == SUCCESS)
        current = &gpus[number];
    return code;
}

static int drop_context(struct gpu *gpu)
{
    timeline_count();
    failing[gpu - gpus] = 0;
    gpu_drop_context(gpu);
    if (current == gpu)
        current = NULL;
    return SUCCESS;
}

API cuDevicePrimaryCtxRelease_v2(int number)
{
    CALL(device(number));
    REQUIRE(device(number) != NULL, INVALID_DEVICE);
    REQUIRE(gpus[number].context, INVALID_CONTEXT);
    return drop_context(&gpus[number]);
}

API cuDevicePrimaryCtxReset_v2(int number)
{
    CALL(device(number));
    REQUIRE(device(number) != NULL, INVALID_DEVICE);
    return drop_context(&gpus[number]);
}

API cuCtxDestroy_v2(void *context)
{
    CALL(NULL);
    REQUIRE(is_context(context), INVALID_CONTEXT);
    return drop_context(context);
}

API cuCtxSetCurrent(void *context)
{
    CALL(is_context(context) ? context : NULL);
    REQUIRE(context == NULL || is_context(context), INVALID_CONTEXT);
    current = context;
    return SUCCESS;
}

API cuCtxGetCurrent(void **context)
{
    CALL(NULL);
    REQUIRE(context != NULL, INVALID_VALUE);
    *context = current;
    return SUCCESS;
}

API cuCtxGetDevice(int *number)
{
    CALL(NULL);
    REQUIRE(number != NULL, INVALID_VALUE);
    REQUIRE(current != NULL, INVALID_CONTEXT);
    *number = (int)(current - gpus);
    return SUCCESS;
}

API cuCtxEnablePeerAccess(void *context, unsigned int flags)
{
    CALL(NULL);
    REQUIRE(flags == 0, INVALID_VALUE);
    REQUIRE(current != NULL && is_context(context) && context != current, INVALID_CONTEXT);
    struct gpu *other = context;
    REQUIRE(peer_rate(current, other) > 0, PEER_ACCESS_UNSUPPORTED);
    REQUIRE(!current->peer[other - gpus], PEER_ACCESS_ALREADY_ENABLED);
    current->peer[other - gpus] = true;
    return SUCCESS;
}

API cuCtxDisablePeerAccess(void *context)
{
    CALL(NULL);
    REQUIRE(current != NULL && is_context(context) && context != current, INVALID_CONTEXT);
    bool *peer = &current->peer[(struct gpu *)context - gpus];
    REQUIRE(*peer, PEER_ACCESS_NOT_ENABLED);
    *peer = false;
    return SUCCESS;
}

/* Memory -------------------------------------------------------------------------------------------------------------------------- */

API cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    CALL(NULL);
    REQUIRE(free_bytes != NULL && total != NULL, INVALID_VALUE);
    *free_bytes = current->bytes - current->used;
    *total = current->bytes;
    return SUCCESS;
}

API cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
    CALL(NULL);
    REQUIRE(address != NULL, INVALID_VALUE);
    return gpu_allocate(current, bytes, address);
}

API cuMemFree_v2(uint64_t address)
{
    CALL(NULL);
    return address == 0 ? SUCCESS : gpu_release(address);
}

API cuMemHostAlloc(void **memory, size_t bytes, unsigned int flags)
{
    CALL(NULL);
    (void)flags;
    REQUIRE(memory != NULL && bytes > 0, INVALID_VALUE);
    *memory = NULL;
    REQUIRE(posix_memalign(memory, 4096, bytes) == 0, OUT_OF_MEMORY);
    memset(*memory, 0, bytes);
    host_pin(*memory, bytes);
    return SUCCESS;
}

API cuMemFreeHost(void *memory)
{
    CALL(NULL);
    REQUIRE(host_unpin(memory), INVALID_VALUE);
    free(memory);
    return SUCCESS;
}

/* Copies. Work that follows a kernel which failed is not done. */
enum direction { TO_DEVICE, TO_HOST };

static int host_copy(struct stream *stream, enum direction direction, uint64_t address, void *host, size_t bytes)
{
    REQUIRE(bytes > 0, SUCCESS);
    struct gpu *gpu = gpu_of(address, bytes);
    REQUIRE(gpu != NULL && host != NULL, INVALID_VALUE);
    gpu_read_faults(gpu);
    if (failing[stream->gpu - gpus] == 0 && !gpu->hung) {
        if (direction == TO_DEVICE)
            gpu_write(gpu, address, host, bytes);
        else
            gpu_read(gpu, address, host, bytes);
    }
    double rate = direction == TO_DEVICE ? gpu_rate(gpu, "host_to_device_gigabytes_per_second", "host_to_device")
                                         : gpu_rate(gpu, "device_to_host_gigabytes_per_second", "device_to_host");
    timeline_work(stream, (double)bytes / rate / 1e9, 0, NO_GPU, NO_GPU);
    return SUCCESS;
}

API cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream)
{
    CALL(NULL);
    return host_copy(stream_of(stream), TO_DEVICE, to, (void *)(uintptr_t)from, bytes);
}

API cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)
{
    CALL(NULL);
    return host_copy(stream_of(stream), TO_HOST, from, to, bytes);
}

API cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
    CALL(NULL);
    int code = host_copy(stream_of(NULL), TO_DEVICE, to, (void *)(uintptr_t)from, bytes);
    return code != SUCCESS ? code : await_stream(&call, stream_of(NULL));
}

API cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    CALL(NULL);
    int code = host_copy(stream_of(NULL), TO_HOST, from, to, bytes);
    return code != SUCCESS ? code : await_stream(&call, stream_of(NULL));
}

/* What a fault of the pair does: a rate, alone and while others copy too. */
static double pair_factor(int from, const char *format, int to)
{
    char key[64];
    double percent = 0;
    snprintf(key, sizeof(key), format, to);
    const char *text = layer_get(FAULTS, from, key);
    if (text != NULL)
        percent = strtod(text, NULL);
    return percent > 0 && percent < 100 ? 1 - percent / 100 : 1;
}

static bool pair_fault(const struct gpu *from, const struct gpu *to, const char *what)
{
    char key[64];
    snprintf(key, sizeof(key), "broken.%s_peer.%d", what, to->slot);
    return layer_get(FAULTS, from->slot, key) != NULL;
}

static int device_copy(struct stream *stream, uint64_t to, uint64_t from, size_t bytes)
{
    REQUIRE(bytes > 0, SUCCESS);
    struct gpu *target = gpu_of(to, bytes), *source = gpu_of(from, bytes);
    REQUIRE(target != NULL && source != NULL, INVALID_VALUE);
    gpu_read_faults(target);
    gpu_read_faults(source);
    if (failing[stream->gpu - gpus] == 0 && !source->hung && !target->hung) {
        unsigned char *between = malloc(bytes);
        REQUIRE(between != NULL, OUT_OF_MEMORY);
        gpu_read(source, from, between, bytes);
        if (source != target && pair_fault(source, target, "wrong"))
            between[bytes / 2] ^= 0x10;
        gpu_write(target, to, between, bytes);
        free(between);
    }
    if (source == target) {
        double rate = gpu_rate(source, "hbm_gigabytes_per_second", "hbm") / 2; /* it is read and written */
        timeline_work(stream, (double)bytes / rate / 1e9, 0, NO_GPU, NO_GPU);
        return SUCCESS;
    }
    double rate = peer_rate(source, target), together;
    if (rate <= 0 || (!source->peer[target - gpus] && !target->peer[source - gpus])) {
        double out = gpu_rate(source, "device_to_host_gigabytes_per_second", "device_to_host"), in = gpu_rate(target, "host_to_device_gigabytes_per_second", "host_to_device");
        rate = (out < in ? out : in) / 2; /* through memory of the host */
    }
    together = rate * pair_factor(source->slot, "broken.slow_peer_together.%d", target->slot) * pair_factor(NO_GPU, "broken.slow_peers_together", 0);
    stream->hung |= pair_fault(source, target, "hang");
    timeline_work(stream, (double)bytes / rate / 1e9, (double)bytes / together / 1e9, source->slot, target->slot);
    return SUCCESS;
}

API cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
    CALL(NULL);
    return device_copy(stream_of(stream), to, from, bytes);
}

API cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes)
{
    CALL(NULL);
    return device_copy(stream_of(NULL), to, from, bytes);
}

API cuMemcpyPeerAsync(uint64_t to, void *to_context, uint64_t from, void *from_context, size_t bytes, void *stream)
{
    CALL(NULL);
    REQUIRE(is_context(to_context) && is_context(from_context) && current != NULL, INVALID_CONTEXT);
    REQUIRE(current->error == 0, current->error);
    REQUIRE(gpu_of(to, bytes) == to_context && gpu_of(from, bytes) == from_context, INVALID_VALUE);
    return device_copy(stream_of(stream), to, from, bytes);
}

API cuMemcpyPeer(uint64_t to, void *to_context, uint64_t from, void *from_context, size_t bytes)
{
    CALL(NULL);
    REQUIRE(is_context(to_context) && is_context(from_context) && current != NULL, INVALID_CONTEXT);
    REQUIRE(current->error == 0, current->error);
    REQUIRE(gpu_of(to, bytes) == to_context && gpu_of(from, bytes) == from_context, INVALID_VALUE);
    return device_copy(stream_of(NULL), to, from, bytes);
}

static int fill(struct stream *stream, uint64_t address, const void *pattern, size_t width, size_t count)
{
    REQUIRE(count > 0, SUCCESS);
    struct gpu *gpu = gpu_of(address, count * width);
    REQUIRE(gpu != NULL && address % width == 0, INVALID_VALUE);
    gpu_read_faults(gpu);
    if (failing[stream->gpu - gpus] == 0 && !gpu->hung)
        for (size_t i = 0; i < count; i++)
            gpu_write(gpu, address + i * width, pattern, width);
    timeline_work(stream, (double)(count * width) / gpu_rate(gpu, "hbm_gigabytes_per_second", "hbm") / 1e9, 0, NO_GPU, NO_GPU);
    return SUCCESS;
}

API cuMemsetD32Async(uint64_t address, unsigned int word, size_t count, void *stream)
{
    CALL(NULL);
    return fill(stream_of(stream), address, &word, 4, count);
}

API cuMemsetD8Async(uint64_t address, unsigned char byte, size_t count, void *stream)
{
    CALL(NULL);
    return fill(stream_of(stream), address, &byte, 1, count);
}

API cuMemsetD32_v2(uint64_t address, unsigned int word, size_t count)
{
    CALL(NULL);
    return fill(stream_of(NULL), address, &word, 4, count);
}

API cuMemsetD8_v2(uint64_t address, unsigned char byte, size_t count)
{
    CALL(NULL);
    return fill(stream_of(NULL), address, &byte, 1, count);
}

/* Modules and kernels -------------------------------------------------------------------------------------------------------------- */

static int load(struct loaded **handle, const char *text, char *log, size_t log_bytes)
{
    int version, target;
    bool specific;
    log[0] = '\0';
    REQUIRE(handle != NULL && text != NULL, INVALID_VALUE);
    REQUIRE(strncmp(text, "\177ELF", 4) != 0, INVALID_IMAGE);
    bool head = ptx_head(text, &version, &target, &specific);
    const int own = (int)(10 * current->major + current->minor), newest = driver_ptx();
    if (head && version > newest) {
        snprintf(log, log_bytes, "ptxas fatal   : Unsupported .version %d.%d; current version is '%d.%d'\n", version / 10, version % 10, newest / 10, newest % 10);
        return UNSUPPORTED_PTX_VERSION;
    }
    if (head && (target > own || (specific && target != own))) {
        snprintf(log, log_bytes, "ptxas fatal   : SM version specified by .target is higher than default SM version assumed\n");
        return INVALID_PTX;
    }
    struct module *module = ptx_module(text, log, log_bytes);
    REQUIRE(module != NULL, INVALID_PTX);
    struct loaded *loaded = calloc(1, sizeof(*loaded));
    if (loaded == NULL) {
        ptx_free(module);
        return OUT_OF_MEMORY;
    }
    *loaded = (struct loaded){module, current};
    *handle = loaded;
    return SUCCESS;
}

API cuModuleLoadData(struct loaded **handle, const char *text)
{
    CALL(NULL);
    char log[1024];
    return load(handle, text, log, sizeof(log));
}

API cuModuleLoadDataEx(struct loaded **handle, const char *text, unsigned int count, const int *options, void **values)
{
    enum { ERROR_LOG = 5, ERROR_LOG_BYTES = 6 };
    CALL(NULL);
    char log[1024], *buffer = NULL;
    size_t bytes = 0;
    REQUIRE(count == 0 || (options != NULL && values != NULL), INVALID_VALUE);
    for (unsigned int i = 0; i < count; i++) {
        if (options[i] == ERROR_LOG)
            buffer = values[i];
        else if (options[i] == ERROR_LOG_BYTES)
            bytes = (size_t)(uintptr_t)values[i] & 0xffffffffu;
    }
    int code = load(handle, text, log, sizeof(log));
    if (buffer != NULL && bytes > 0)
        snprintf(buffer, bytes, "%s", log);
    return code;
}

API cuModuleGetFunction(struct function **handle, struct loaded *loaded, const char *name)
{
    CALL(NULL);
    REQUIRE(handle != NULL && name != NULL, INVALID_VALUE);
    REQUIRE(loaded != NULL, INVALID_HANDLE);
    for (size_t i = 0; i < loaded->module->kernels; i++) {
        if (strcmp(loaded->module->kernel[i]->name, name) != 0)
            continue;
        struct function *function = calloc(1, sizeof(*function));
        REQUIRE(function != NULL, OUT_OF_MEMORY);
        *function = (struct function){loaded->module->kernel[i], loaded->gpu, loaded, functions};
        *handle = functions = function;
        return SUCCESS;
    }
    return NOT_FOUND;
}

API cuModuleUnload(struct loaded *loaded)
{
    CALL(NULL);
    REQUIRE(loaded != NULL, INVALID_HANDLE);
    for (struct function **at = &functions; *at != NULL;) {
        struct function *one = *at;
        if (one->loaded == loaded) {
            *at = one->next;
            free(one);
        } else {
            at = &one->next;
        }
    }
    ptx_free(loaded->module);
    free(loaded);
    return SUCCESS;
}

static void set_rates(struct launch *launch, const struct gpu *gpu, unsigned long long blocks)
{
    static const struct {
        enum unit unit;
        const char *key, *what;
    } rates[] = {
        {INT32, "int32_teraops", "int32"}, {FP32, "fp32_teraflops", "fp32"}, {FP64, "fp64_teraflops", "fp64"}, {TENSOR_F16, "tensor_f16_teraflops", "tensor"},
        {TENSOR_BF16, "tensor_bf16_teraflops", "tensor"}, {TENSOR_TF32, "tensor_tf32_teraflops", "tensor"}, {TENSOR_FP8, "tensor_fp8_teraflops", "tensor"},
        {TENSOR_INT8, "tensor_int8_teraops", "tensor"}, {TENSOR_FP64, "tensor_fp64_teraflops", "tensor"},
    };
    enum { SMS_OF_ALL_BANDWIDTH = 4 }; /* a quarter of the SMs reaches all of it */
    const double busy = blocks < gpu->sms ? (double)blocks : gpu->sms;
    double sharing = busy * SMS_OF_ALL_BANDWIDTH < gpu->sms ? (double)gpu->sms / SMS_OF_ALL_BANDWIDTH : busy;
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
        launch->rate[rates[i].unit] = gpu_rate(gpu, rates[i].key, rates[i].what) * 1e12 / gpu->sms;
    launch->rate[MEMORY_BYTES] = gpu_rate(gpu, "hbm_gigabytes_per_second", "hbm") * 1e9 / sharing;
    launch->rate[HOST_BYTES] = gpu_rate(gpu, "host_to_device_gigabytes_per_second", "host_to_device") * 1e9 / sharing;
    launch->rate[PEER_BYTES] = launch->rate[HOST_BYTES];
    for (int i = 0; i < gpu_count; i++)
        if (gpu->peer[i])
            launch->rate[PEER_BYTES] = peer_rate(gpu, &gpus[i]) * 1e9 / sharing;
}

API cuLaunchKernel(struct function *function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                   unsigned int block_z, unsigned int shared_bytes, void *stream_handle, void **parameters, void **extra)
{
    enum { MOST_THREADS = 1024, MOST_SHARED = 48 * 1024 };
    CALL(NULL);
    REQUIRE(function != NULL && function->gpu == current, INVALID_HANDLE);
    const struct kernel *kernel = function->kernel;
    const unsigned long long threads = (unsigned long long)block_x * block_y * block_z;
    REQUIRE(grid_x > 0 && grid_y > 0 && grid_z > 0 && threads > 0 && threads <= MOST_THREADS && block_z <= 64 && grid_x <= 2147483647u && grid_y <= 65535 && grid_z <= 65535,
            INVALID_VALUE);
    REQUIRE(extra == NULL && (kernel->parameters == 0 || parameters != NULL) && kernel->shared_bytes + shared_bytes <= MOST_SHARED, INVALID_VALUE);
    struct stream *stream = stream_of(stream_handle);
    unsigned char values[4096 * 2];
    REQUIRE(kernel->parameter_bytes <= sizeof(values), INVALID_VALUE);
    for (unsigned int i = 0; i < kernel->parameters; i++)
        memcpy(values + kernel->parameter[i].offset, parameters[i], kernel->parameter[i].bytes);
    current->launches++;
    const char *fault = layer_get(FAULTS, current->slot, "broken.kernel");
    if (failing[current - gpus] != 0 || current->hung)
        return SUCCESS;
    if (fault != NULL && strcmp(fault, "hang") == 0) {
        current->hung = true;
        return SUCCESS;
    }
    if (fault != NULL) {
        failing[current - gpus] = ILLEGAL_ADDRESS;
        return SUCCESS;
    }
    struct launch launch = {
        .kernel = kernel, .gpu = current, .parameters = values, .grid = {grid_x, grid_y, grid_z}, .block = {block_x, block_y, block_z},
        .shared_bytes = kernel->shared_bytes + shared_bytes, .begin = timeline_next(stream), .clock_hz = top_clock(current) * 1e6, .sms = current->sms,
    };
    load_note(current->slot);
    set_rates(&launch, current, (unsigned long long)grid_x * grid_y * grid_z);
    double seconds = ptx_run(&launch) * (1 + 0.001 * spread("launch", (int)current->launches));
    load_note(current->slot);
    failing[current - gpus] = launch.fault;
    timeline_work(stream, seconds, 0, NO_GPU, NO_GPU);
    return SUCCESS;
}

/* Streams and events ------------------------------------------------------------------------------------------------------------------ */

API cuStreamCreate(struct stream **stream, unsigned int flags)
{
    CALL(NULL);
    REQUIRE(stream != NULL && flags <= 1, INVALID_VALUE);
    *stream = calloc(1, sizeof(**stream));
    REQUIRE(*stream != NULL, OUT_OF_MEMORY);
    (*stream)->gpu = current;
    (*stream)->next = streams;
    streams = *stream;
    return SUCCESS;
}

API cuStreamDestroy_v2(struct stream *stream)
{
    CALL(NULL);
    REQUIRE((uintptr_t)stream > 2, INVALID_HANDLE);
    timeline_count();
    for (struct stream **at = &streams; *at != NULL; at = &(*at)->next)
        if (*at == stream) {
            *at = stream->next;
            break;
        }
    free(stream);
    return SUCCESS;
}

API cuStreamSynchronize(void *handle)
{
    CALL(NULL);
    return await_stream(&call, stream_of(handle));
}

API cuStreamQuery(void *handle)
{
    CALL(NULL);
    struct stream *stream = stream_of(handle);
    timeline_count();
    REQUIRE(!stream->hung && !stream->gpu->hung, NOT_READY);
    return await(&call, stream, stream->time);
}

API cuStreamWaitEvent(void *handle, struct event *event, unsigned int flags)
{
    CALL(NULL);
    REQUIRE(event != NULL, INVALID_HANDLE);
    REQUIRE(flags == 0, INVALID_VALUE);
    if (event->recorded)
        timeline_wait(stream_of(handle), event);
    return SUCCESS;
}

API cuCtxSynchronize(void)
{
    CALL(NULL);
    REQUIRE(current != NULL, INVALID_CONTEXT);
    REQUIRE(current->error == 0, current->error);
    int code = await_stream(&call, stream_of(NULL));
    for (struct stream *stream = streams; stream != NULL; stream = stream->next)
        if (stream->gpu == current)
            code = await(&call, stream, stream->time);
    return code;
}

API cuEventCreate(struct event **event, unsigned int flags)
{
    CALL(NULL);
    (void)flags;
    REQUIRE(event != NULL, INVALID_VALUE);
    *event = calloc(1, sizeof(**event));
    REQUIRE(*event != NULL, OUT_OF_MEMORY);
    (*event)->gpu = current;
    return SUCCESS;
}

API cuEventDestroy_v2(struct event *event)
{
    CALL(NULL);
    REQUIRE(event != NULL, INVALID_HANDLE);
    timeline_count();
    free(event);
    return SUCCESS;
}

API cuEventRecord(struct event *event, void *handle)
{
    CALL(NULL);
    REQUIRE(event != NULL && event->gpu == stream_of(handle)->gpu, INVALID_HANDLE);
    timeline_record(stream_of(handle), event);
    return SUCCESS;
}

API cuEventSynchronize(struct event *event)
{
    CALL(event != NULL ? event->gpu : NULL);
    REQUIRE(event != NULL, INVALID_HANDLE);
    REQUIRE(event->recorded, SUCCESS);
    timeline_count();
    return await(&call, event->stream, event->time);
}

API cuEventQuery(struct event *event)
{
    CALL(event != NULL ? event->gpu : NULL);
    REQUIRE(event != NULL, INVALID_HANDLE);
    REQUIRE(event->recorded, SUCCESS);
    timeline_count();
    REQUIRE(!event->stream->hung && !event->gpu->hung, NOT_READY);
    return await(&call, event->stream, event->time);
}

API cuEventElapsedTime(float *milliseconds, struct event *begin_event, struct event *end_event)
{
    CALL(NULL);
    REQUIRE(milliseconds != NULL, INVALID_VALUE);
    REQUIRE(begin_event != NULL && end_event != NULL && begin_event->recorded && end_event->recorded && begin_event->gpu == end_event->gpu, INVALID_HANDLE);
    timeline_count();
    REQUIRE(begin_event->time <= timeline_now() && end_event->time <= timeline_now(), NOT_READY);
    *milliseconds = (float)((end_event->time - begin_event->time) * 1e3);
    return SUCCESS;
}

API cuGetErrorName(int code, const char **name)
{
    static const struct {
        int code;
        const char *name;
    } names[] = {
        {0, "CUDA_SUCCESS"}, {1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {3, "CUDA_ERROR_NOT_INITIALIZED"}, {46, "CUDA_ERROR_DEVICE_UNAVAILABLE"},
        {100, "CUDA_ERROR_NO_DEVICE"}, {101, "CUDA_ERROR_INVALID_DEVICE"}, {201, "CUDA_ERROR_INVALID_CONTEXT"}, {218, "CUDA_ERROR_INVALID_PTX"},
        {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"}, {400, "CUDA_ERROR_INVALID_HANDLE"}, {500, "CUDA_ERROR_NOT_FOUND"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {716, "CUDA_ERROR_MISALIGNED_ADDRESS"}, {802, "CUDA_ERROR_SYSTEM_NOT_READY"}, {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"}, {999, "CUDA_ERROR_UNKNOWN"},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && name != NULL; i++)
        if (names[i].code == code) {
            *name = names[i].name;
            return SUCCESS;
        }
    return INVALID_VALUE;
}
