/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
#define _POSIX_C_SOURCE 200809L
#include "call.h"
#include "mig.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

unsigned int initialised;

/* Does the kernel module answer at all? */
nvmlReturn_t driver_answers(void)
{
    const char *fault = layer_get(FAULTS, NO_GPU, "driver.fault");
    if (fault != NULL && strcmp(fault, "not-loaded") == 0)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    if (fault != NULL)
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    if (!layer_store(MACHINE)->present)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    return state_problem() == NULL ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

static bool only_dead_clients(void)
{
    const struct store *driver = layer_store(DRIVER);
    for (size_t i = 0; i < driver->count; i++) {
        if (strncmp(driver->entries[i].key, "client.", 7) != 0)
            continue;
        long pid = atol(driver->entries[i].key + 7);
        if (pid > 0 && (kill((pid_t)pid, 0) == 0 || errno != ESRCH))
            return false;
    }
    return true;
}

/* Without persistence mode the driver gives up a GPU when its last client leaves (switch: driver_unload_when_idle). */
static void client_changes(bool arrives)
{
    char key[32];
    snprintf(key, sizeof(key), "client.%ld", (long)getpid());
    if (!state_flag(NO_GPU, "driver_unload_when_idle", false) || state_lock(true) != 0)
        return;
    if (!arrives)
        state_unset(DRIVER, NO_GPU, key);
    if (only_dead_clients()) {
        state_drop(DRIVER, NO_GPU, "client.");
        for (int gpu = 0; gpu < gpu_slots(); gpu++)
            if (!state_flag(gpu, "persistence_mode", false))
                state_driver_forget(gpu);
    }
    if (arrives)
        state_set(DRIVER, NO_GPU, key, "1");
    (void)state_commit();
}

static nvmlReturn_t initialise(struct call *call)
{
    nvmlReturn_t code = driver_answers();
    if (code == NVML_SUCCESS && initialised++ == 0)
        client_changes(true);
    mig_capabilities();
    call_end(call);
    return code;
}

NVML_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    if (initialised == 0)
        state_locate();
    SYSTEM_CALL();
    (void)flags;
    return initialise(&call);
}

NVML_EXPORT nvmlReturn_t nvmlInit_v2(void)
{
    if (initialised == 0)
        state_locate();
    SYSTEM_CALL();
    return initialise(&call);
}

NVML_EXPORT nvmlReturn_t nvmlInit(void)
{
    return nvmlInit_v2();
}

NVML_EXPORT nvmlReturn_t nvmlShutdown(void)
{
    SYSTEM_CALL();
    if (initialised == 1)
        client_changes(false);
    if (initialised > 0) /* one too many is no error, whatever nvml.h says */
        initialised--;
    return NVML_SUCCESS;
}

NVML_EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
    /* As NVIDIA's libraries 470.256, 525.147, 535.261, 550.163 and 555.58 tell them, and the first of these that does. */
    static const struct {
        nvmlReturn_t code;
        const char *text;
        int since;
    } texts[] = {
        {NVML_SUCCESS, "Success", 0},
        {NVML_ERROR_UNINITIALIZED, "Uninitialized", 0},
        {NVML_ERROR_INVALID_ARGUMENT, "Invalid Argument", 0},
        {NVML_ERROR_NOT_SUPPORTED, "Not Supported", 0},
        {NVML_ERROR_NO_PERMISSION, "Insufficient Permissions", 0},
        {NVML_ERROR_ALREADY_INITIALIZED, "Already Initialized", 0},
        {NVML_ERROR_NOT_FOUND, "Not Found", 0},
        {NVML_ERROR_INSUFFICIENT_SIZE, "Insufficient Size", 0},
        {NVML_ERROR_INSUFFICIENT_POWER, "Insufficient External Power", 0},
        {NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded", 0},
        {NVML_ERROR_TIMEOUT, "Timeout", 0},
        {NVML_ERROR_IRQ_ISSUE, "Interrupt Request Issue", 0},
        {NVML_ERROR_LIBRARY_NOT_FOUND, "NVML Shared Library Not Found", 0},
        {NVML_ERROR_FUNCTION_NOT_FOUND, "Function Not Found", 0},
        {NVML_ERROR_CORRUPTED_INFOROM, "Corrupted infoROM", 0},
        {NVML_ERROR_GPU_IS_LOST, "GPU is lost", 0},
        {NVML_ERROR_RESET_REQUIRED, "GPU requires reset", 0},
        {NVML_ERROR_OPERATING_SYSTEM, "GPU access blocked by the operating system", 0},
        {NVML_ERROR_LIB_RM_VERSION_MISMATCH, "Driver/library version mismatch", 0},
        {NVML_ERROR_IN_USE, "In use by another client", 0},
        {NVML_ERROR_MEMORY, "Insufficient Memory", 0},
        {NVML_ERROR_NO_DATA, "No data", 525},
        {NVML_ERROR_VGPU_ECC_NOT_SUPPORTED, "vGPU ECC not supported", 525},
        {NVML_ERROR_INSUFFICIENT_RESOURCES, "Insufficient Resources", 0},
        {NVML_ERROR_FREQ_NOT_SUPPORTED, "Invalid Frequency", 0},
        {NVML_ERROR_ARGUMENT_VERSION_MISMATCH, "Argument version mismatch", 525},
        {NVML_ERROR_DEPRECATED, "Requested functionality has been deprecated", 525},
        {NVML_ERROR_NOT_READY, "System is not in ready state", 535},
        {NVML_ERROR_GPU_NOT_FOUND, "No supported GPUs were found", 550},
        {NVML_ERROR_INVALID_STATE, "Resource not in correct state to perform requested operation", 550},
        {NVML_ERROR_RESET_TYPE_NOT_SUPPORTED, "Reset type not supported", 580}, /* not seen: this text is ours */
        {NVML_ERROR_UNKNOWN, "Unknown Error", 0},
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (texts[i].code == result && texts[i].since <= library_branch)
            return texts[i].text;
    return "Unknown Error";
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    SYSTEM_CALL();
    return answer_text(state_get(NO_GPU, "driver.version"), version, length);
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_v1_t *info, unsigned int length)
{
    SYSTEM_CALL();
    ARGUMENT(info != NULL && length > 0);
    REQUIRE(info->version == NVML_STRUCT_VERSION(nvmlSystemDriverBranchInfo_v1_t, 1), NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    const char *version = state_get(NO_GPU, "driver.version");
    SUPPORTED(version != NULL);
    char branch[80];
    snprintf(branch, sizeof(branch), "r%.*s_00", (int)strcspn(version, "."), version);
    return answer_text(branch, info->branch, length < sizeof(info->branch) ? length : (unsigned int)sizeof(info->branch));
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    SYSTEM_CALL();
    const char *text = state_get(NO_GPU, "driver.nvml_version");
    char derived[80];
    const char *driver = state_get(NO_GPU, "driver.version");
    if (text == NULL && driver != NULL) {
        /* NVML's own version is that of the CUDA which came with the branch, before that of the driver: 13.580.95.05. */
        int branch = driver_branch();
        snprintf(derived, sizeof(derived), "%d.%s", branch < 525 ? 11 : branch < 580 ? 12 : 13, driver);
        text = derived;
    }
    return answer_text(text, version, length);
}

static nvmlReturn_t cuda_version(int *version)
{
    ARGUMENT(version != NULL);
    *version = (int)state_number(NO_GPU, "driver.cuda_version", 12000);
    return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    SYSTEM_CALL();
    return cuda_version(version);
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    SYSTEM_CALL();
    return cuda_version(version);
}

NVML_EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    SYSTEM_CALL();
    ARGUMENT(name != NULL && length > 0);
    char path[64];
    snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
    FILE *file = fopen(path, "re");
    REQUIRE(file != NULL, NVML_ERROR_NOT_FOUND);
    size_t read = fread(name, 1, length - 1, file); /* the first argument ends with a NUL byte */
    fclose(file);
    name[read] = '\0';
    return NVML_SUCCESS;
}
