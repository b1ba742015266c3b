/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
#define _POSIX_C_SOURCE 200809L
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct {
    const char *name, *system_folder, *file, *heading;
    char path[PATH_MAX];
    struct store store;
    bool changed;
} layers[LAYERS] = {
    [MACHINE] = {"machine", "/etc/nvml_simulator", "machine.conf", "the simulated machine", "", {0}, false},
    [OVERRIDE] = {"override", "/etc/nvml_simulator", "override.conf", "changes to the simulated machine", "", {0}, false},
    [INFOROM] = {"inforom", "/var/lib/nvml_simulator", "inforom.state", "InfoROM of the simulated GPUs", "", {0}, false},
    [DRIVER] = {"driver", "/run/nvml_simulator", "driver.state", "driver and GPU state until reload or reboot", "", {0}, false},
    [FAULTS] = {"faults", "/run/nvml_simulator", "faults.state", "injected faults", "", {0}, false},
};
static char lock_path[PATH_MAX], log_path[PATH_MAX];
static bool located;
static int lock_handle = -1;
static unsigned long long known_generation;

/* The lock file as readers keep it open: it holds a number that every change raises. */
static struct {
    int handle;
    dev_t device;
    ino_t inode;
    struct timespec checked; /* when all files were last looked at */
} view = {-1, 0, 0, {0, 0}};

void state_locate(void)
{
    const char *folder = getenv("NVML_SIMULATOR_STATE");
    const char *machine = getenv("NVML_SIMULATOR_MACHINE");
    bool own = folder != NULL && *folder != '\0';
    for (int i = 0; i < LAYERS; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof(path), "%s/%s", own ? folder : layers[i].system_folder, layers[i].file);
        if (i == MACHINE && machine != NULL && *machine != '\0')
            snprintf(path, sizeof(path), "%s", machine);
        if (strcmp(path, layers[i].path) != 0) {
            store_clear(&layers[i].store);
            layers[i].store.present = false;
            memcpy(layers[i].path, path, sizeof(path));
        }
    }
    snprintf(lock_path, sizeof(lock_path), "%s/lock", own ? folder : "/run/nvml_simulator");
    if (own)
        snprintf(log_path, sizeof(log_path), "%s/kernel.log", folder);
    else
        snprintf(log_path, sizeof(log_path), "/dev/kmsg");
    view.checked = (struct timespec){0, 0};
    located = true;
}

/* Make the folder of a file, and what is above it. */
static int make_folder_of(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, 0755) == 0)
            (void)chmod(folder, 0755); /* a tight umask of root must not hide the state from other users */
        else if (errno != EEXIST)
            return errno;
        *slash = '/';
    }
    return 0;
}

static bool read_generation(int handle, unsigned long long *generation)
{
    char text[32] = "";
    if (pread(handle, text, sizeof(text) - 1, 0) < 0)
        return false;
    *generation = strtoull(text, NULL, 10);
    return true;
}

/* Nothing was changed through the simulator since the last look, and that was a moment ago. The limit is for changes by
 * other means: a file written by hand, a folder replaced. */
static bool fresh(void)
{
    enum { MOMENT_NS = 100 * 1000 * 1000 };
    struct timespec now;
    unsigned long long generation;
    if (view.handle < 0)
        return false;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long age = (now.tv_sec - view.checked.tv_sec) * 1000000000ll + now.tv_nsec - view.checked.tv_nsec;
    return age >= 0 && age < MOMENT_NS && read_generation(view.handle, &generation) && generation == known_generation;
}

/* Keep the lock file open for fresh(). The number may meanwhile belong to another file, if somebody closed ours. */
static void keep_view(void)
{
    struct stat now, kept;
    if (fstat(lock_handle, &now) != 0)
        return;
    bool ours = view.handle >= 0 && fstat(view.handle, &kept) == 0 && kept.st_dev == view.device && kept.st_ino == view.inode;
    if (!ours || now.st_dev != view.device || now.st_ino != view.inode) {
        if (ours)
            close(view.handle);
        view.handle = open(lock_path, O_RDONLY | O_CLOEXEC);
        view.device = now.st_dev;
        view.inode = now.st_ino;
    }
    clock_gettime(CLOCK_MONOTONIC, &view.checked);
}

int state_lock(bool exclusive)
{
    if (!located)
        state_locate();
    if (!exclusive && fresh())
        return 0;
    lock_handle = open(lock_path, (exclusive ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC, 0644);
    if (lock_handle < 0 && exclusive && errno == ENOENT) {
        int why = make_folder_of(lock_path);
        if (why != 0)
            return why;
        lock_handle = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    }
    if (lock_handle < 0 && exclusive)
        return errno;
    if (lock_handle >= 0) {
        if (exclusive)
            (void)fchmod(lock_handle, 0644);
        while (flock(lock_handle, exclusive ? LOCK_EX : LOCK_SH) != 0 && errno == EINTR)
            ;
        unsigned long long generation = 0;
        (void)read_generation(lock_handle, &generation);
        /* An inode number and a time stamp may come back after two quick changes; the generation does not. */
        if (generation != known_generation)
            for (int i = 0; i < LAYERS; i++)
                layers[i].store.present = false;
        known_generation = generation;
        keep_view();
    }
    for (int i = 0; i < LAYERS; i++) {
        store_refresh(&layers[i].store, layers[i].path);
        layers[i].changed = false;
    }
    return 0;
}

int state_commit(void)
{
    int why = 0;
    bool any = false;
    for (int i = 0; i < LAYERS && why == 0; i++) {
        if (!layers[i].changed)
            continue;
        any = true;
        why = make_folder_of(layers[i].path);
        if (why == 0)
            why = store_write(&layers[i].store, layers[i].path, layers[i].heading);
        layers[i].changed = false;
    }
    if (any) {
        char text[32];
        int length = snprintf(text, sizeof(text), "%llu\n", ++known_generation);
        if (pwrite(lock_handle, text, (size_t)length, 0) != length && why == 0)
            why = errno ? errno : EIO;
    }
    if (why != 0)
        for (int i = 0; i < LAYERS; i++)
            layers[i].store.present = false;
    return why;
}

void state_unlock(void)
{
    if (lock_handle >= 0)
        close(lock_handle); /* ends the lock: each taking has its own open file */
    lock_handle = -1;
}

const char *layer_path(enum layer layer)
{
    if (!located)
        state_locate();
    return layers[layer].path;
}

const char *layer_name(enum layer layer)
{
    return layers[layer].name;
}

struct store *layer_store(enum layer layer)
{
    return &layers[layer].store;
}

const char *kernel_log_path(void)
{
    if (!located)
        state_locate();
    return log_path;
}

const char *state_problem(void)
{
    for (int i = 0; i < LAYERS; i++)
        if (layers[i].store.problem[0] != '\0')
            return layers[i].store.problem;
    return NULL;
}

static void full_key(char *full, size_t size, int gpu, const char *key)
{
    if (gpu == NO_GPU)
        snprintf(full, size, "%s", key);
    else
        snprintf(full, size, "gpu.%d.%s", gpu, key);
}

const char *layer_get(enum layer layer, int gpu, const char *key)
{
    char full[256];
    full_key(full, sizeof(full), gpu, key);
    return store_get(&layers[layer].store, full);
}

const char *state_get_from(int gpu, const char *key, enum layer *from)
{
    static const enum layer order[] = {DRIVER, INFOROM, OVERRIDE, MACHINE};
    char own[256], common[256];
    full_key(own, sizeof(own), gpu, key);
    snprintf(common, sizeof(common), "gpu.%s", key);
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        const char *value = store_get(&layers[order[i]].store, own);
        if (value == NULL && gpu != NO_GPU && (order[i] == OVERRIDE || order[i] == MACHINE))
            value = store_get(&layers[order[i]].store, common);
        if (value != NULL) {
            *from = order[i];
            return value;
        }
    }
    return NULL;
}

const char *state_get(int gpu, const char *key)
{
    enum layer from;
    return state_get_from(gpu, key, &from);
}

bool parse_number(const char *text, long long *number)
{
    char *end;
    errno = 0;
    *number = strtoll(text, &end, 0);
    return errno == 0 && end != text && *end == '\0';
}

long long state_number(int gpu, const char *key, long long otherwise)
{
    const char *text = state_get(gpu, key);
    long long number;
    return text != NULL && parse_number(text, &number) ? number : otherwise;
}

bool state_flag(int gpu, const char *key, bool otherwise)
{
    const char *text = state_get(gpu, key);
    if (text == NULL)
        return otherwise;
    return strcmp(text, "1") == 0 || strcmp(text, "yes") == 0 || strcmp(text, "true") == 0 || strcmp(text, "on") == 0;
}

bool state_has(int gpu, const char *key)
{
    return state_get(gpu, key) != NULL;
}

void state_set(enum layer layer, int gpu, const char *key, const char *value)
{
    char full[256];
    full_key(full, sizeof(full), gpu, key);
    store_set(&layers[layer].store, full, value);
    layers[layer].changed = true;
}

void state_set_number(enum layer layer, int gpu, const char *key, long long value)
{
    char text[32];
    snprintf(text, sizeof(text), "%lld", value);
    state_set(layer, gpu, key, text);
}

void state_unset(enum layer layer, int gpu, const char *key)
{
    char full[256];
    full_key(full, sizeof(full), gpu, key);
    if (store_unset(&layers[layer].store, full))
        layers[layer].changed = true;
}

static bool begins(const char *key, const void *prefix)
{
    return strncmp(key, prefix, strlen(prefix)) == 0;
}

bool state_drop(enum layer layer, int gpu, const char *prefix)
{
    char full[256];
    full_key(full, sizeof(full), gpu, prefix);
    bool any = store_drop(&layers[layer].store, begins, full);
    layers[layer].changed |= any;
    return any;
}

/* The part of a key after "gpu.N.", or NULL. */
static const char *after_gpu(const char *key)
{
    if (strncmp(key, "gpu.", 4) != 0)
        return NULL;
    const char *rest = key + 4;
    size_t digits = strspn(rest, "0123456789");
    return digits > 0 && rest[digits] == '.' ? rest + digits + 1 : NULL;
}

enum layer layer_of_key(const char *key)
{
    static const char *const inforom[] = {"ecc_mode", "ecc.aggregate.", "remap.", "retired.", "mig_mode", NULL};
    static const char *const driver[] = {"persistence_mode", "compute_mode", "application.", "locked.", "power.limit_mw",
                                         "ecc.volatile.", "latched.", "slowed.", "process.", "gi.", "ci.", NULL};
    static const char *const faults[] = {"lost", "absent", "throttle", "call.", "nvlink_state.", "nvlink_errors.",
                                         "recovery_action", NULL};
    const char *part = after_gpu(key);
    if (part != NULL) {
        for (int i = 0; inforom[i] != NULL; i++)
            if (begins(part, inforom[i]))
                return INFOROM;
        for (int i = 0; driver[i] != NULL; i++)
            if (begins(part, driver[i]))
                return DRIVER;
        for (int i = 0; faults[i] != NULL; i++)
            if (begins(part, faults[i]))
                return FAULTS;
    }
    return OVERRIDE;
}

/* What stays when the driver of one GPU goes: the state of the GPU itself. */
static bool belongs_to_driver(const char *key, const void *context)
{
    int gpu = *(const int *)context;
    const char *part = after_gpu(key);
    if (part == NULL || (gpu != NO_GPU && atoi(key + 4) != gpu))
        return false;
    return !begins(part, "latched.");
}

void state_driver_forget(int gpu)
{
    layers[DRIVER].changed |= store_drop(&layers[DRIVER].store, belongs_to_driver, &gpu);
}

void state_driver_reload(void)
{
    state_driver_forget(NO_GPU);
    layers[DRIVER].changed |= store_drop(&layers[DRIVER].store, begins, "client.");
}

void state_gpu_reset(int gpu)
{
    /* Since Hopper the driver keeps the MIG mode, which is what the GPU comes back in. */
    static const char *const keys[] = {"persistence_mode", "mig_mode"};
    char kept[2][32] = {"", ""};
    for (size_t i = 0; i < 2; i++) {
        const char *value = layer_get(DRIVER, gpu, keys[i]);
        snprintf(kept[i], sizeof(kept[i]), "%s", value != NULL ? value : "");
    }
    state_drop(DRIVER, gpu, "");
    for (size_t i = 0; i < 2; i++)
        if (kept[i][0] != '\0')
            state_set(DRIVER, gpu, keys[i], kept[i]);
    state_unset(FAULTS, gpu, "recovery_action");
}

void state_reboot(void)
{
    store_clear(&layers[DRIVER].store);
    store_clear(&layers[FAULTS].store);
    layers[DRIVER].changed = layers[FAULTS].changed = true;
}
