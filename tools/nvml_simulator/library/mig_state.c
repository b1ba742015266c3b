/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* What GPU instances and compute instances there are, and could be. */
#include "call.h"
#include "mig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NVML_GPU_INSTANCE_PROFILE_COUNT in the nvml.h that came with each branch (as in entry_points.h). */
unsigned int gi_profiles(void)
{
    static const struct {
        int branch;
        unsigned int count;
    } headers[] = {{0, 6}, {465, 7}, {470, 8}, {525, 10}, {570, 13}, {575, 17}, {595, GI_PROFILES}};
    unsigned int count = 0;
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
        if (driver_branch() >= headers[i].branch)
            count = headers[i].count;
    return count;
}

/* Measured on Hopper with 580.159.04, against nvml.h, which promises "not supported". Assumed for every GPU with MIG, from
 * the branch on whose nvml.h has field 199, "MIG mode independent, MIG query capable device". */
bool mig_queries_in_any_mode(int gpu)
{
    return state_flag(gpu, "feature.mig", false) && driver_branch() >= 550;
}

bool gi_profile(int gpu, unsigned int number, struct gi_profile *profile)
{
    char key[32], starts[64] = "";
    snprintf(key, sizeof(key), "mig.profile.%u", number);
    const char *text = number < GI_PROFILES ? state_get(gpu, key) : NULL;
    struct gi_profile own = {.number = number};
    if (text == NULL || sscanf(text, "%u %u %u %u %u %llu %u %u %u %u %u %63s", &own.id, &own.slices, &own.memory_slices,
                               &own.most, &own.multiprocessors, &own.memory_mib, &own.copy, &own.decoder, &own.encoder,
                               &own.jpeg, &own.ofa, starts) != 12)
        return false;
    for (char *at = starts; *at != '\0' && own.start_count < MAX_STARTS; at += *at == ',')
        own.starts[own.start_count++] = (unsigned int)strtoul(at, &at, 10);
    *profile = own;
    return true;
}

bool gi_profile_of_id(int gpu, unsigned int id, struct gi_profile *profile)
{
    for (unsigned int number = 0; number < GI_PROFILES; number++)
        if (gi_profile(gpu, number, profile) && profile->id == id)
            return true;
    return false;
}

void gi_profile_name(int gpu, const struct gi_profile *profile, char *name, size_t size)
{
    static const char *const attributes[GI_PROFILES] = {[7] = "+me", [8] = "+me", [10] = "+gfx", [11] = "+gfx",
                                                        [12] = "+gfx", [13] = "-me", [14] = "-me", [15] = "+me.all",
                                                        [16] = "+me.all", [17] = "+gfx"};
    /* Eighths of the board's memory, each of them rounded up, as gigabytes of the board's rounded size. */
    unsigned long long total = (unsigned long long)state_number(gpu, "memory.total_mib", 1);
    unsigned long long eighths = (profile->memory_mib * 8 + total - 1) / total, board = (total + 1023) / 1024;
    snprintf(name, size, "%ug.%llugb%s", profile->slices, (eighths * board * 2 + 8) / 16,
             attributes[profile->number] ? attributes[profile->number] : "");
}

bool ci_profile(const struct gi_profile *gi, unsigned int number, struct ci_profile *profile)
{
    /* 1c 2c 3c 4c 7c 8c 6c; NVML's numbers 7 and 8 (special forms of 1c and 7c) are on no GPU that is described here. */
    static const unsigned int sizes[CI_PROFILES] = {1, 2, 3, 4, 7, 8, 6, 0, 0};
    unsigned int slices = number < CI_PROFILES ? sizes[number] : 0, whole = gi->slices;
    if (slices == 0 || !(slices == whole || (slices < whole && (slices <= 2 || (whole == 7 && slices <= 4)))))
        return false;
    struct ci_profile own = {number, slices, whole / slices, gi->multiprocessors * slices / whole, {0}, 0};
    unsigned int step = slices <= 2 ? slices : 4;
    for (unsigned int start = 0; start + slices <= whole && own.start_count < MAX_STARTS; start += step)
        own.starts[own.start_count++] = start;
    *profile = own;
    return true;
}

static int by_id(const void *one, const void *other)
{
    unsigned int a = ((const struct instance *)one)->id, b = ((const struct instance *)other)->id;
    return a < b ? -1 : a > b;
}

static unsigned int instances(int gpu, const char *kind, struct instance *found, unsigned int most)
{
    const struct store *driver = layer_store(DRIVER);
    char prefix[48];
    unsigned int count = 0;
    snprintf(prefix, sizeof(prefix), "gpu.%d.%s.", gpu, kind);
    size_t length = strlen(prefix);
    for (size_t i = 0; i < driver->count && count < most; i++) {
        struct instance own;
        if (strncmp(driver->entries[i].key, prefix, length) == 0 &&
            sscanf(driver->entries[i].key + length, "%u", &own.id) == 1 &&
            sscanf(driver->entries[i].value, "%u %u", &own.profile, &own.start) == 2)
            found[count++] = own;
    }
    qsort(found, count, sizeof(*found), by_id);
    return count;
}

unsigned int gis(int gpu, struct instance found[MAX_GIS])
{
    return instances(gpu, "gi", found, MAX_GIS);
}

unsigned int cis(int gpu, unsigned int gi, struct instance found[MAX_CIS])
{
    char kind[24];
    snprintf(kind, sizeof(kind), "ci.%u", gi);
    return instances(gpu, kind, found, MAX_CIS);
}

bool find_gi(int gpu, unsigned int id, struct instance *gi, struct gi_profile *profile)
{
    struct instance found[MAX_GIS];
    for (unsigned int i = 0, count = gis(gpu, found); i < count; i++)
        if (found[i].id == id && gi_profile(gpu, found[i].profile, profile)) {
            *gi = found[i];
            return true;
        }
    return false;
}

bool find_ci(int gpu, unsigned int gi, unsigned int id, struct instance *ci)
{
    struct instance found[MAX_CIS];
    for (unsigned int i = 0, count = cis(gpu, gi, found); i < count; i++)
        if (found[i].id == id) {
            *ci = found[i];
            return true;
        }
    return false;
}

/* One with all media engines (+me.all) leaves none to those beside it. */
static bool media_clash(const struct gi_profile *one, const struct gi_profile *other)
{
    const bool all = one->number == 15 || one->number == 16;
    return all && other->decoder + other->encoder + other->jpeg + other->ofa > 0;
}

static unsigned int span(unsigned int start, unsigned int width)
{
    return ((1u << width) - 1) << start;
}

unsigned int gi_free(int gpu, const struct gi_profile *profile, unsigned int starts[MAX_STARTS])
{
    /* Where the driver puts an instance of which only the profile is given: seen on A100 (19: 6 4 5 0 1 2 3, 14: 4, 9: 4). */
    static const unsigned int preferred[] = {6, 4, 5, 0, 1, 2, 3};
    struct instance found[MAX_GIS];
    unsigned int taken = 0, slices = 0, alike = 0, media = 0, whole = 0, count = gis(gpu, found), free_count = 0;
    bool clash = false;
    for (unsigned int number = 0; number < GI_PROFILES; number++) {
        struct gi_profile other;
        if (gi_profile(gpu, number, &other) && other.slices > whole)
            whole = other.slices;
    }
    for (unsigned int i = 0; i < count; i++) {
        struct gi_profile other;
        if (!gi_profile(gpu, found[i].profile, &other))
            continue;
        taken |= span(found[i].start, other.memory_slices);
        slices += other.slices;
        alike += other.id == profile->id;
        media += other.ofa > 0 && other.slices < whole;
        clash = clash || media_clash(profile, &other) || media_clash(&other, profile);
    }
    if (clash || slices + profile->slices > whole || alike >= profile->most || (media > 0 && profile->ofa > 0))
        return 0;
    for (size_t i = 0; i < sizeof(preferred) / sizeof(preferred[0]); i++)
        for (unsigned int j = 0; j < profile->start_count; j++)
            if (profile->starts[j] == preferred[i] && !(taken & span(preferred[i], profile->memory_slices)))
                starts[free_count++] = preferred[i];
    for (unsigned int j = 0; j < profile->start_count; j++) /* of a part with more places: nobody has told the order */
        if (profile->starts[j] > 6 && !(taken & span(profile->starts[j], profile->memory_slices)))
            starts[free_count++] = profile->starts[j];
    return free_count;
}

unsigned int gi_width(int gpu)
{
    unsigned int width = 0;
    for (unsigned int number = 0; number < GI_PROFILES; number++) {
        struct gi_profile own;
        for (unsigned int j = 0; gi_profile(gpu, number, &own) && j < own.start_count; j++)
            if (own.starts[j] + own.memory_slices > width)
                width = own.starts[j] + own.memory_slices;
    }
    return width;
}

unsigned int ci_free(int gpu, unsigned int gi, const struct ci_profile *profile, unsigned int starts[MAX_STARTS])
{
    struct instance found[MAX_CIS], owner;
    struct gi_profile whole;
    unsigned int taken = 0, free_count = 0;
    if (!find_gi(gpu, gi, &owner, &whole))
        return 0;
    for (unsigned int i = 0, count = cis(gpu, gi, found); i < count; i++) {
        struct ci_profile other;
        if (ci_profile(&whole, found[i].profile, &other))
            taken |= span(found[i].start, other.slices);
    }
    for (unsigned int i = 0; i < profile->start_count; i++)
        if (!(taken & span(profile->starts[i], profile->slices)))
            starts[free_count++] = profile->starts[i];
    return free_count;
}
