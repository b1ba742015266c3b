/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Commands that break things, and mend them. */
#define _POSIX_C_SOURCE 200809L
#include "clocks.h"
#include "control.h"
#include "cuda_entry_points.h"
#include "entry_points.h"
#include "identity.h"
#include "nvml_abi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const codes[] = {
    "SUCCESS", "UNINITIALIZED", "INVALID_ARGUMENT", "NOT_SUPPORTED", "NO_PERMISSION", "ALREADY_INITIALIZED", "NOT_FOUND",
    "INSUFFICIENT_SIZE", "INSUFFICIENT_POWER", "DRIVER_NOT_LOADED", "TIMEOUT", "IRQ_ISSUE", "LIBRARY_NOT_FOUND",
    "FUNCTION_NOT_FOUND", "CORRUPTED_INFOROM", "GPU_IS_LOST", "RESET_REQUIRED", "OPERATING_SYSTEM",
    "LIB_RM_VERSION_MISMATCH", "IN_USE", "MEMORY", "NO_DATA", "VGPU_ECC_NOT_SUPPORTED", "INSUFFICIENT_RESOURCES",
    "FREQ_NOT_SUPPORTED", "ARGUMENT_VERSION_MISMATCH", "DEPRECATED", "NOT_READY", "GPU_NOT_FOUND", "INVALID_STATE",
    "RESET_TYPE_NOT_SUPPORTED",
};

static long long parse_code(const char *text)
{
    long long number;
    if (parse_number(text, &number) && number >= 0)
        return number;
    const char *name = strncmp(text, "NVML_ERROR_", 11) == 0 ? text + 11 : text;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (strcmp(codes[i], name) == 0)
            return (long long)i;
    if (strcmp(name, "UNKNOWN") == 0)
        return NVML_ERROR_UNKNOWN;
    refuse("%s is not a return code of NVML: give a number, or a name such as NOT_SUPPORTED", text);
}

static bool of_cuda(const char *name)
{
    for (size_t i = 0; cuda_entry_points[i] != NULL; i++)
        if (strcmp(cuda_entry_points[i], name) == 0)
            return true;
    return false;
}

static void check_call(const char *name)
{
    for (const struct entry_point *point = entry_points; point->name != NULL; point++)
        if (strcmp(point->name, name) == 0)
            return;
    if (of_cuda(name))
        return;
    refuse("%s is not a call of the simulator: see nvml-simulator calls", name);
}

/* Old names only pass on to newer ones, which are what programs and the Python binding call. */
static void check_not_forwarded(const char *name)
{
    static const char *const forwarded[][2] = {
        {"nvmlInit", "nvmlInitWithFlags (Python) or nvmlInit_v2 (C)"},
        {"nvmlDeviceGetCount", "nvmlDeviceGetCount_v2"},
        {"nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByIndex_v2"},
        {"nvmlDeviceGetHandleByPciBusId", "nvmlDeviceGetHandleByPciBusId_v2"},
    };
    for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++)
        if (strcmp(forwarded[i][0], name) == 0)
            refuse("%s is an old name that nobody calls: name %s", name, forwarded[i][1]);
}

/* What the driver writes for the XIDs that matter most. */
static const char *xid_text(long long code)
{
    switch (code) {
    case 13:
        return "Graphics Exception: ESR 0x404490=0x80000001";
    case 31:
        return "MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f00_00000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ";
    case 48:
        return "DBE (double bit error) ECC Error";
    case 63:
        return "Row Remapper: New row marked for remapping, reset gpu to activate.";
    case 64:
        return "Row Remapper: Failed to remap row";
    case 74:
        return "NVLink: fatal error detected on link 0";
    case 79:
        return "GPU has fallen off the bus.";
    case 94:
        return "Contained: SM (0x1). RST: No, D-RST: No";
    case 95:
        return "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No";
    case 119:
        return "Timeout after 6s of waiting for RPC response from GPU0 GSP!";
    default:
        return "simulated";
    }
}

static void raise_event(int gpu, unsigned long long type, unsigned long long data)
{
    enum { KEPT = 64 };
    long long number = state_number(NO_GPU, "event.last", 0) + 1;
    char key[48], text[96];
    snprintf(key, sizeof(key), "event.%lld", number);
    snprintf(text, sizeof(text), "%d %llu %llu", gpu, type, data);
    state_set(DRIVER, NO_GPU, key, text);
    state_set_number(DRIVER, NO_GPU, "event.last", number);
    snprintf(key, sizeof(key), "event.%lld", number - KEPT);
    state_unset(DRIVER, NO_GPU, key);
}

static void xid(int gpu, const char *code_text, int words, char **text)
{
    enum { EVENT_XID = 8 };
    long long code = parse_count(code_text, "an XID");
    struct pci_address address;
    gpu_pci_address(gpu, &address);
    char line[1024];
    int length = snprintf(line, sizeof(line), "NVRM: Xid (PCI:%04x:%02x:%02x): %lld, pid='<unknown>', name=<unknown>,",
                          address.domain, address.bus, address.device, code);
    if (words == 0)
        length += snprintf(line + length, sizeof(line) - (size_t)length, " %s", xid_text(code));
    for (int i = 0; i < words && length < (int)sizeof(line) - 2; i++)
        length += snprintf(line + length, sizeof(line) - (size_t)length, " %s", text[i]);
    if (length >= (int)sizeof(line) - 1)
        refuse("the text of the XID is too long");
    /* One write is one record of the kernel log; level 3 is what the driver uses for errors. */
    char record[1100];
    bool kernel = strcmp(kernel_log_path(), "/dev/kmsg") == 0;
    length = snprintf(record, sizeof(record), "%s%s\n", kernel ? "<3>" : "", line);
    int log = open(kernel_log_path(), O_WRONLY | O_CLOEXEC | (kernel ? 0 : O_CREAT | O_APPEND), 0644);
    if (log < 0 || write(log, record, (size_t)length) != length)
        refuse("%s cannot be written: %s", kernel_log_path(), strerror(errno));
    close(log);
    raise_event(gpu, EVENT_XID, (unsigned long long)code);
}

static void fault_gpu(int count, char **arguments)
{
    if (count < 2)
        refuse("usage: nvml-simulator fault gpu N lost | absent | xid CODE [TEXT]");
    int gpu = parse_gpu(arguments[0]);
    if (count == 2 && strcmp(arguments[1], "lost") == 0)
        state_set(FAULTS, gpu, "lost", "1");
    else if (count == 2 && strcmp(arguments[1], "absent") == 0)
        state_set(FAULTS, gpu, "absent", "1");
    else if (count == 3 && strcmp(arguments[1], "recovery-action") == 0)
        state_set_number(FAULTS, gpu, "recovery_action", parse_count(arguments[2], "a recovery action"));
    else if (count >= 3 && strcmp(arguments[1], "xid") == 0)
        xid(gpu, arguments[2], count - 3, arguments + 3);
    else
        fault_compute(gpu, count - 1, arguments + 1);
}

static void fault_call(int count, char **arguments)
{
    if (count < 2)
        refuse("usage: nvml-simulator fault call NAME|change [gpu N] [after|nth COUNT] return CODE | hang | kill | delay MS | missing");
    const char *name = arguments[0];
    if (strcmp(name, "change") != 0) /* any call that changes something */
        check_call(name);
    check_not_forwarded(name);
    int gpu = NO_GPU;
    char key[160], value[64];
    arguments++;
    count--;
    if (count >= 3 && strcmp(arguments[0], "gpu") == 0) {
        gpu = parse_gpu(arguments[1]);
        arguments += 2;
        count -= 2;
    }
    snprintf(key, sizeof(key), "call.%s", name);
    char after[32] = "";
    if (count >= 3 && (strcmp(arguments[0], "after") == 0 || strcmp(arguments[0], "nth") == 0)) {
        snprintf(after, sizeof(after), "%s:%lld:", arguments[0], parse_count(arguments[1], "a number of calls"));
        arguments += 2;
        count -= 2;
    }
    if (count == 1 && strcmp(arguments[0], "hang") == 0) {
        snprintf(value, sizeof(value), "%shang", after);
    } else if (count == 1 && strcmp(arguments[0], "kill") == 0) {
        snprintf(value, sizeof(value), "%skill", after);
    } else if (count == 2 && strcmp(arguments[0], "return") == 0) {
        snprintf(value, sizeof(value), "%sreturn:%lld", after, parse_code(arguments[1]));
    } else if (count == 2 && strcmp(arguments[0], "delay") == 0) {
        snprintf(value, sizeof(value), "%sdelay:%lld", after, parse_count(arguments[1], "a time in milliseconds"));
    } else if (count == 1 && strcmp(arguments[0], "missing") == 0) {
        if (of_cuda(name))
            refuse("%s: only a call of NVML can be missing", name);
        if (gpu != NO_GPU)
            refuse("a symbol is missing for all GPUs: leave out \"gpu N\"");
        snprintf(key, sizeof(key), "symbol.%s", name);
        snprintf(value, sizeof(value), "missing");
    } else {
        refuse("%s: a call can return CODE, hang, kill, delay MS or be missing", arguments[0]);
    }
    state_set(FAULTS, gpu, key, value);
}

static void fault_driver(int count, char **arguments)
{
    if (count != 1 || (strcmp(arguments[0], "not-loaded") != 0 && strcmp(arguments[0], "version-mismatch") != 0))
        refuse("usage: nvml-simulator fault driver not-loaded | version-mismatch");
    state_set(FAULTS, NO_GPU, "driver.fault", arguments[0]);
}

static void fault(int count, char **arguments)
{
    bool list = count == 1 && strcmp(arguments[0], "list") == 0;
    open_state(!list);
    if (list) {
        const struct store *faults = layer_store(FAULTS);
        for (size_t i = 0; i < faults->count; i++)
            printf("%s = %s\n", faults->entries[i].key, faults->entries[i].value);
        state_unlock();
        return;
    }
    if (strcmp(arguments[0], "gpu") == 0)
        fault_gpu(count - 1, arguments + 1);
    else if (strcmp(arguments[0], "call") == 0)
        fault_call(count - 1, arguments + 1);
    else if (strcmp(arguments[0], "driver") == 0)
        fault_driver(count - 1, arguments + 1);
    else if (strcmp(arguments[0], "peers") == 0)
        fault_peers(count - 1, arguments + 1);
    else
        refuse("%s: a fault concerns a gpu, peers, a call or the driver", arguments[0]);
    close_state();
}

/* Faults of one call: on all GPUs, on one, and its symbol. */
static void clear_call(const char *name)
{
    char key[160];
    if (strcmp(name, "change") != 0)
        check_call(name);
    snprintf(key, sizeof(key), "call.%s", name);
    state_unset(FAULTS, NO_GPU, key);
    for (int gpu = 0; gpu < MAX_GPUS; gpu++)
        state_unset(FAULTS, gpu, key);
    snprintf(key, sizeof(key), "symbol.%s", name);
    state_unset(FAULTS, NO_GPU, key);
}

static void clear(int count, char **arguments)
{
    open_state(true);
    const int only = count == 2 && strcmp(arguments[0], "gpu") == 0 ? parse_gpu(arguments[1]) : NO_GPU;
    for (int gpu = 0; gpu < MAX_GPUS; gpu++)
        if ((count == 0 || gpu == only) && layer_get(FAULTS, gpu, "throttle") != NULL)
            inject_event_reasons(gpu, 0); /* keeps what was counted */
    if (count == 0)
        state_drop(FAULTS, NO_GPU, "");
    else if (only != NO_GPU)
        state_drop(FAULTS, only, "");
    else if (count == 2 && strcmp(arguments[0], "call") == 0)
        clear_call(arguments[1]);
    else if (count == 1 && strcmp(arguments[0], "driver") == 0)
        state_unset(FAULTS, NO_GPU, "driver.fault");
    else
        refuse("usage: nvml-simulator clear [gpu N | call NAME | driver]");
    close_state();
}

const struct command fault_commands[] = {
    {"fault", "gpu N lost|absent|recovery-action CODE|xid CODE [TEXT]|not-in-cuda|memory ...|address-line ...|sm ...|slow ...|kernel ...|to M ... | "
              "peers slow PERCENT together | driver not-loaded|version-mismatch | "
              "call NAME [gpu N] return CODE|hang|delay MS|missing | list", 1, -1, fault},
    {"clear", "[gpu N | call NAME | driver]", 0, 2, clear},
    {NULL, NULL, 0, 0, NULL},
};
