/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Commands that choose, show and restart the machine. */
#define _POSIX_C_SOURCE 200809L
#include "clocks.h"
#include "control.h"
#include "ecc.h"
#include "cuda_entry_points.h"
#include "entry_points.h"
#include "identity.h"
#include "nvml_abi.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INSTALLED "/usr/local/share/nvml_simulator/machines"

/* The machines folder beside the program, else the installed one. */
static void machines_folder(char *folder, size_t size)
{
    char program[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    if (length > 0) {
        program[length] = '\0';
        char *slash = strrchr(program, '/');
        if (slash != NULL)
            *slash = '\0';
        int needed = snprintf(folder, size, "%s/machines", program);
        if (needed > 0 && (size_t)needed < size && access(folder, R_OK | X_OK) == 0)
            return;
    }
    snprintf(folder, size, "%s", INSTALLED);
}

static void find_machine(const char *name, char *path, size_t size)
{
    char folder[PATH_MAX];
    if (strchr(name, '/') != NULL) {
        snprintf(path, size, "%s", name);
    } else {
        machines_folder(folder, sizeof(folder));
        if ((size_t)snprintf(path, size, "%s/%s.conf", folder, name) >= size)
            refuse("%s: the name is too long", name);
    }
    if (access(path, R_OK) != 0)
        refuse("%s: there is no such machine (%s): see nvml-simulator machines", name, strerror(errno));
}

static void list_machines(int count, char **arguments)
{
    (void)count;
    (void)arguments;
    char folder[PATH_MAX];
    machines_folder(folder, sizeof(folder));
    DIR *open = opendir(folder);
    if (open == NULL)
        refuse("%s: %s", folder, strerror(errno));
    for (struct dirent *entry; (entry = readdir(open)) != NULL;) {
        char *end = strstr(entry->d_name, ".conf");
        if (end != NULL && strcmp(end, ".conf") == 0)
            printf("%.*s\n", (int)(end - entry->d_name), entry->d_name);
    }
    closedir(open);
}

static void check_value(const char *key, const char *value)
{
    struct pci_address address;
    long long number;
    const char *last = strrchr(key, '.');
    if (last != NULL && strcmp(last, ".pci_bus_id") == 0 && !parse_pci_address(value, &address))
        refuse("%s is not a PCI address: write it as 0001:00:00.0", value);
    if (((last != NULL && strcmp(last, ".numa_node") == 0) || strcmp(key, "gpu.count") == 0) && !parse_number(value, &number))
        refuse("%s = %s: this key takes a number", key, value);
    if (strcmp(key, "gpu.count") == 0 && (number < 0 || number > MAX_GPUS))
        refuse("gpu.count = %s: 0 to %d GPUs can be simulated", value, MAX_GPUS);
}

static void assign(char *text, bool machine_only)
{
    char *key, *value;
    if (strchr(text, '\n') != NULL || store_parse_line(text, &key, &value) <= 0)
        refuse("%s: write KEY=VALUE", text);
    check_value(key, value);
    state_set(machine_only ? OVERRIDE : layer_of_key(key), NO_GPU, key, value);
}

static void init(int count, char **arguments)
{
    char path[PATH_MAX];
    struct store description = {0};
    find_machine(arguments[0], path, sizeof(path));
    store_refresh(&description, path);
    if (description.problem[0] != '\0')
        refuse("%s", description.problem);
    open_state(true);
    bool outside = getenv("NVML_SIMULATOR_MACHINE") != NULL && strcmp(path, layer_path(MACHINE)) != 0;
    if (outside && getenv("NVML_SIMULATOR_MACHINE")[0] != '\0')
        refuse("NVML_SIMULATOR_MACHINE is set to %s: unset it, or init with that very file", layer_path(MACHINE));
    for (int layer = OVERRIDE; layer < LAYERS; layer++)
        state_drop((enum layer)layer, NO_GPU, "");
    if (strcmp(path, layer_path(MACHINE)) != 0) {
        state_drop(MACHINE, NO_GPU, "");
        for (size_t i = 0; i < description.count; i++)
            state_set(MACHINE, NO_GPU, description.entries[i].key, description.entries[i].value);
    }
    for (int i = 1; i < count; i += 2) {
        if (strcmp(arguments[i], "--set") != 0 || i + 1 == count)
            refuse("%s: the only option is --set KEY=VALUE", arguments[i]);
        assign(arguments[i + 1], true);
    }
    close_state();
}

static void set(int count, char **arguments)
{
    char text[4096];
    int length = count == 1 ? snprintf(text, sizeof(text), "%s", arguments[0])
                            : snprintf(text, sizeof(text), "%s=%s", arguments[0], arguments[1]);
    if (length >= (int)sizeof(text))
        refuse("the value is too long");
    open_state(true);
    assign(text, false);
    close_state();
}

static void unset(int count, char **arguments)
{
    (void)count;
    open_state(true);
    state_unset(layer_of_key(arguments[0]), NO_GPU, arguments[0]);
    close_state();
}

/* Split gpu.N.KEY, so that gpu.KEY answers for a GPU that has none of its own. */
static int split_key(const char *full, const char **key)
{
    int gpu, used = 0;
    *key = full;
    if (sscanf(full, "gpu.%d.%n", &gpu, &used) != 1 || used == 0)
        return NO_GPU;
    *key = full + used;
    return gpu;
}

/* What is derived, not stored, but asked for by those who write tests. */
static bool derived(int gpu, const char *key, char *text, size_t size)
{
    if (gpu == NO_GPU || gpu >= MAX_GPUS)
        return false;
    if (strcmp(key, "uuid") == 0)
        gpu_uuid(gpu, text, size);
    else if (strcmp(key, "serial") == 0)
        gpu_serial(gpu, text, size);
    else if (strcmp(key, "clock.graphics_mhz") == 0)
        snprintf(text, size, "%u", current_clock(gpu, NVML_CLOCK_GRAPHICS));
    else if (strcmp(key, "clock.memory_mhz") == 0)
        snprintf(text, size, "%u", current_clock(gpu, NVML_CLOCK_MEM));
    else if (strcmp(key, "ecc_current") == 0)
        snprintf(text, size, "%d", ecc_current(gpu));
    else if (strcmp(key, "ecc_pending") == 0)
        snprintf(text, size, "%d", ecc_pending(gpu));
    else
        return false;
    return true;
}

static void get(int count, char **arguments)
{
    (void)count;
    const char *key;
    char text[128];
    open_state(false);
    int gpu = split_key(arguments[0], &key);
    const char *value = state_get(gpu, key);
    if (value == NULL)
        value = layer_get(FAULTS, gpu, key);
    if (value == NULL && derived(gpu, key, text, sizeof(text)))
        value = text;
    if (value == NULL) {
        state_unlock();
        exit(1);
    }
    puts(value);
    state_unlock();
}

static bool of_gpu(const char *key, int gpu)
{
    int own, used = 0;
    return sscanf(key, "gpu.%d.%n", &own, &used) == 1 && used > 0 && own == gpu;
}

static void show(int count, char **arguments)
{
    open_state(false);
    if (count != 0 && (count != 2 || strcmp(arguments[0], "gpu") != 0))
        refuse("usage: nvml-simulator show [gpu N]");
    int only = count == 2 ? parse_gpu(arguments[1]) : NO_GPU;
    if (state_problem() != NULL)
        printf("# PROBLEM: %s\n", state_problem());
    for (int layer = 0; layer < LAYERS; layer++) {
        const struct store *store = layer_store((enum layer)layer);
        printf("# %s: %s%s\n", layer_name((enum layer)layer), layer_path((enum layer)layer), store->present ? "" : " (none)");
        for (size_t i = 0; i < store->count; i++)
            if (only == NO_GPU || of_gpu(store->entries[i].key, only))
                printf("%s = %s\n", store->entries[i].key, store->entries[i].value);
    }
    puts("# readings");
    int slots = (int)state_number(NO_GPU, "gpu.count", 0);
    for (int gpu = 0; gpu < slots && gpu < MAX_GPUS; gpu++) {
        static const char *const keys[] = {"uuid", "serial", "clock.graphics_mhz", "clock.memory_mhz", "ecc_current", "ecc_pending"};
        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && (only == NO_GPU || only == gpu); i++) {
            char text[128];
            if (derived(gpu, keys[i], text, sizeof(text)))
                printf("gpu.%d.%s = %s\n", gpu, keys[i], text);
        }
    }
    state_unlock();
}

static void list_calls(int count, char **arguments)
{
    const bool cuda = count == 1;
    if (cuda && strcmp(arguments[0], "cuda") != 0)
        refuse("usage: nvml-simulator calls [cuda]");
    for (const struct entry_point *point = entry_points; point->name != NULL && !cuda; point++)
        printf("%s %d\n", point->name, point->since);
    for (size_t i = 0; cuda_entry_points[i] != NULL && cuda; i++)
        puts(cuda_entry_points[i]);
}

static void driver_reload(int count, char **arguments)
{
    (void)count;
    (void)arguments;
    open_state(true);
    state_driver_reload();
    close_state();
}

static void gpu_reset(int count, char **arguments)
{
    (void)count;
    open_state(true);
    int gpu = parse_gpu(arguments[0]);
    if (layer_get(FAULTS, gpu, "lost") != NULL || layer_get(FAULTS, gpu, "absent") != NULL)
        refuse("GPU %d is lost: a reset does not reach it, only a reboot does", gpu);
    const struct store *driver = layer_store(DRIVER);
    for (size_t i = 0; i < driver->count; i++)
        if (of_gpu(driver->entries[i].key, gpu) && strstr(driver->entries[i].key, ".process.") != NULL)
            refuse("GPU %d is in use by a process: end it first", gpu);
    state_gpu_reset(gpu);
    close_state();
}

static void reboot(int count, char **arguments)
{
    (void)count;
    (void)arguments;
    open_state(true);
    state_reboot();
    close_state();
}

const struct command machine_commands[] = {
    {"init", "MACHINE [--set KEY=VALUE]...", 1, -1, init},
    {"show", "[gpu N]", 0, 2, show},
    {"get", "KEY", 1, 1, get},
    {"set", "KEY VALUE", 1, 2, set},
    {"unset", "KEY", 1, 1, unset},
    {"machines", "", 0, 0, list_machines},
    {"calls", "[cuda]", 0, 1, list_calls},
    {"structs", "", 0, 0, print_structs},
    {"driver-reload", "", 0, 0, driver_reload},
    {"gpu-reset", "N", 1, 1, gpu_reset},
    {"reboot", "", 0, 0, reboot},
    {NULL, NULL, 0, 0, NULL},
};
