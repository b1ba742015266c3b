/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* The driver's folder of capabilities (/proc/driver/nvidia/capabilities), kept in step with the instances in the folder
 * that driver.capabilities names. Minor numbers as /proc/driver/nvidia-caps/mig-minors has them: 3 for instance 0 of
 * GPU 0, then its eight compute instances; fifteen instances a GPU. */
#define _POSIX_C_SOURCE 200809L
#include "call.h"
#include "mig.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_MINOR = 3, GIS_OF_A_GPU = 15 };

static void make_folders(char *path)
{
    for (char *at = path + 1; *at != '\0'; at++)
        if (*at == '/') {
            *at = '\0';
            (void)mkdir(path, 0755);
            *at = '/';
        }
}

/* The file access below a folder is there, or neither is. */
static void tell(const char *folder, bool there, unsigned int minor)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/access", folder);
    if (!there) {
        if (unlink(path) == 0)
            (void)rmdir(folder);
        return;
    }
    if (access(path, F_OK) == 0)
        return;
    make_folders(path);
    FILE *stream = fopen(path, "w");
    if (stream != NULL) {
        fprintf(stream, "DeviceFileMinor: %u\nDeviceFileMode: 292\nDeviceFileModify: 1\n", minor);
        (void)fclose(stream);
    }
}

void mig_capabilities(void)
{
    const char *top = state_get(NO_GPU, "driver.capabilities");
    if (top == NULL)
        return;
    for (int gpu = 0; gpu < gpu_slots(); gpu++) {
        unsigned int number = (unsigned int)state_number(gpu, "minor", index_of_slot(gpu));
        for (unsigned int gi = 0; gi < MAX_GIS; gi++) {
            struct instance own, inner;
            struct gi_profile profile;
            char folder[400], nested[420];
            bool there = mig_enabled(gpu) && find_gi(gpu, gi, &own, &profile);
            unsigned int minor = FIRST_MINOR + (number * GIS_OF_A_GPU + gi) * (MAX_CIS + 1);
            snprintf(folder, sizeof(folder), "%s/gpu%u/mig/gi%u", top, number, gi);
            if (there)
                tell(folder, true, minor);
            for (unsigned int ci = 0; ci < MAX_CIS; ci++) {
                snprintf(nested, sizeof(nested), "%s/ci%u", folder, ci);
                tell(nested, there && find_ci(gpu, gi, ci, &inner), minor + 1 + ci);
            }
            if (!there)
                tell(folder, false, minor);
        }
    }
}
