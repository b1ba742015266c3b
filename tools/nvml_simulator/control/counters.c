/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Commands that move counters and processes. */
#define _POSIX_C_SOURCE 200809L
#include "clocks.h"
#include "control.h"
#include "ecc.h"
#include "entry_points.h"
#include "nvlink.h"
#include "nvml_abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct {
    const char *name;
    unsigned long long bit;
} reasons[] = {
    {"idle", 0x1},       {"application_clocks", 0x2}, {"sw_power_cap", 0x4},     {"hw_slowdown", 0x8},
    {"sync_boost", 0x10}, {"sw_thermal", 0x20},        {"hw_thermal", 0x40},      {"hw_power_brake", 0x80},
    {"display", 0x100},  {"board_limit", 0x200},      {"reliability", 0x400},
};

static void throttle(int count, char **arguments)
{
    open_state(true);
    int gpu = parse_gpu(arguments[0]);
    unsigned long long mask = 0;
    for (int i = 1; i < count; i++) {
        bool known = strcmp(arguments[i], "none") == 0;
        long long number;
        for (size_t r = 0; r < sizeof(reasons) / sizeof(reasons[0]); r++)
            if (strcmp(arguments[i], reasons[r].name) == 0) {
                mask |= reasons[r].bit;
                known = true;
            }
        if (!known && parse_number(arguments[i], &number) && number >= 0)
            mask |= (unsigned long long)number;
        else if (!known)
            refuse("%s is not a reason: idle application_clocks sw_power_cap hw_slowdown sync_boost sw_thermal hw_thermal "
                   "hw_power_brake display board_limit reliability none, or a mask", arguments[i]);
    }
    inject_event_reasons(gpu, mask);
    close_state();
}

static void raise_counter(enum layer layer, int gpu, const char *key, long long by)
{
    state_set_number(layer, gpu, key, state_number(gpu, key, 0) + by);
}

static void ecc(int count, char **arguments)
{
    if (strcmp(arguments[0], "add") != 0)
        refuse("usage: nvml-simulator ecc add N corrected|uncorrected COUNT [LOCATION]");
    open_state(true);
    int gpu = parse_gpu(arguments[1]), location = -1;
    bool corrected = strcmp(arguments[2], "corrected") == 0;
    if (!corrected && strcmp(arguments[2], "uncorrected") != 0)
        refuse("%s: an error is corrected or uncorrected", arguments[2]);
    const char *name = count > 4 ? arguments[4] : "dram";
    for (int i = 0; i < MEMORY_LOCATIONS; i++)
        if (strcmp(memory_locations[i], name) == 0)
            location = i;
    if (location < 0 || !location_counted(gpu, location))
        refuse("%s: this GPU counts errors in: %s", name, state_get(gpu, "ecc.locations") ? state_get(gpu, "ecc.locations") : "none");
    char key[64];
    unsigned int type = corrected ? NVML_CORRECTED : NVML_UNCORRECTED;
    long long by = parse_count(arguments[3], "a number of errors");
    ecc_key(key, sizeof(key), type, NVML_VOLATILE_ECC, location);
    raise_counter(DRIVER, gpu, key, by);
    ecc_key(key, sizeof(key), type, NVML_AGGREGATE_ECC, location);
    raise_counter(INFOROM, gpu, key, by);
    close_state();
}

static void remap(int count, char **arguments)
{
    open_state(true);
    int gpu = parse_gpu(arguments[0]);
    if (!state_flag(gpu, "feature.row_remap", false))
        refuse("GPU %d does not remap rows: it retires pages (nvml-simulator retire)", gpu);
    if (strcmp(arguments[1], "correctable") != 0 && strcmp(arguments[1], "uncorrectable") != 0)
        refuse("%s: rows are remapped after correctable or uncorrectable errors", arguments[1]);
    char key[48];
    snprintf(key, sizeof(key), "remap.%s", arguments[1]);
    raise_counter(INFOROM, gpu, key, parse_count(arguments[2], "a number of rows"));
    for (int i = 3; i < count; i++) {
        if (strcmp(arguments[i], "pending") == 0)
            state_set(DRIVER, gpu, "latched.remap_pending", "1");
        else if (strcmp(arguments[i], "failure") == 0)
            state_set(INFOROM, gpu, "remap.failure", "1");
        else
            refuse("%s: say pending or failure", arguments[i]);
    }
    close_state();
}

static void retire(int count, char **arguments)
{
    (void)count;
    open_state(true);
    int gpu = parse_gpu(arguments[0]);
    if (!state_flag(gpu, "feature.page_retirement", false))
        refuse("GPU %d does not retire pages: it remaps rows (nvml-simulator remap)", gpu);
    if (strcmp(arguments[1], "sbe") != 0 && strcmp(arguments[1], "dbe") != 0)
        refuse("%s: pages are retired after sbe or dbe", arguments[1]);
    char key[32], list[4096];
    snprintf(key, sizeof(key), "retired.%s", arguments[1]);
    const char *before = state_get(gpu, key);
    if (snprintf(list, sizeof(list), "%s%s0x%llx:%lld", before ? before : "", before ? " " : "",
                 (unsigned long long)parse_count(arguments[2], "an address"), (long long)time(NULL)) >= (int)sizeof(list))
        refuse("GPU %d has no room for another retired page", gpu);
    state_set(INFOROM, gpu, key, list);
    state_set(DRIVER, gpu, "latched.retired_pending", "1");
    close_state();
}

static void process(int count, char **arguments)
{
    bool add = strcmp(arguments[0], "add") == 0;
    if ((!add && strcmp(arguments[0], "remove") != 0) || (add ? count != 4 && count != 6 : count != 3))
        refuse("usage: nvml-simulator process add N PID MEMORY_MIB [GI CI] | process remove N PID");
    open_state(true);
    int gpu = parse_gpu(arguments[1]);
    char key[48], value[96];
    snprintf(key, sizeof(key), "process.%lld", parse_count(arguments[2], "a process id"));
    if (add) {
        int end = snprintf(value, sizeof(value), "%lld", parse_count(arguments[3], "an amount of memory in MiB"));
        if (count == 6)
            snprintf(value + end, sizeof(value) - (size_t)end, " %lld %lld", parse_count(arguments[4], "a GPU instance"),
                     parse_count(arguments[5], "a compute instance"));
        state_set(DRIVER, gpu, key, value);
    } else {
        state_unset(DRIVER, gpu, key);
    }
    close_state();
}

/* All five counters of old, or the one that is named. */
static void nvlink_set_errors(int gpu, long long link, long long errors, const char *kind)
{
    bool known = false;
    for (const struct nvlink_error_name *one = nvlink_error_names; one->name != NULL; one++) {
        if (kind != NULL ? strcmp(one->name, kind) != 0 : one->error >= NVLINK_OLD_COUNTERS)
            continue;
        char key[64];
        snprintf(key, sizeof(key), "nvlink_errors.%lld.%u", link, one->error);
        state_set_number(FAULTS, gpu, key, errors);
        known = true;
    }
    if (!known)
        refuse("%s is not a kind of error: see nvlink_error_names in library/nvlink.h", kind);
}

static void nvlink(int count, char **arguments)
{
    open_state(true);
    int gpu = parse_gpu(arguments[0]);
    long long link = parse_count(arguments[1], "the number of a link"), links = state_number(gpu, "nvlink.count", 0);
    if (link >= links)
        refuse("GPU %d has no link %lld: it has %lld", gpu, link, links);
    char key[64];
    snprintf(key, sizeof(key), "nvlink_state.%lld", link);
    if (strcmp(arguments[2], "down") == 0 && count == 3) {
        state_set(FAULTS, gpu, key, "down");
    } else if (strcmp(arguments[2], "up") == 0 && count == 3) {
        state_unset(FAULTS, gpu, key);
    } else if (strcmp(arguments[2], "errors") == 0 && count >= 4) {
        nvlink_set_errors(gpu, link, parse_count(arguments[3], "a number of errors"), count == 5 ? arguments[4] : NULL);
    } else {
        refuse("usage: nvml-simulator nvlink N LINK up|down|errors COUNT [KIND]");
    }
    close_state();
}

const struct command counter_commands[] = {
    {"throttle", "N REASON...|none", 2, -1, throttle},
    {"ecc", "add N corrected|uncorrected COUNT [LOCATION]", 4, 5, ecc},
    {"remap", "N correctable|uncorrectable COUNT [pending] [failure]", 3, 5, remap},
    {"retire", "N sbe|dbe ADDRESS", 3, 3, retire},
    {"process", "add N PID MEMORY_MIB [GI CI] | remove N PID", 3, 6, process},
    {"nvlink", "N LINK up|down|errors COUNT [KIND]", 3, 5, nvlink},
    {NULL, NULL, 0, 0, NULL},
};
