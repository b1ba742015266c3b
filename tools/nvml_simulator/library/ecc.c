/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Memory errors: what is counted, remapped and retired. */
#include "ecc.h"
#include "call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const memory_locations[MEMORY_LOCATIONS] = {"l1", "l2", "dram", "register", "texture", "shared", "cbu", "sram"};

bool location_counted(int gpu, int location)
{
    const char *list = state_get(gpu, "ecc.locations");
    size_t length = strlen(memory_locations[location]);
    for (const char *at = list; at != NULL && *at != '\0';) {
        size_t word = strcspn(at, " ");
        if (word == length && strncmp(at, memory_locations[location], length) == 0)
            return true;
        at += word + strspn(at + word, " ");
    }
    return false;
}

void ecc_key(char *key, unsigned int size, unsigned int type, unsigned int counter, int location)
{
    snprintf(key, size, "ecc.%s.%s.%s", counter == NVML_VOLATILE_ECC ? "volatile" : "aggregate",
             type == NVML_CORRECTED ? "corrected" : "uncorrected", memory_locations[location]);
}

unsigned long long ecc_errors(int gpu, unsigned int type, unsigned int counter, int location)
{
    char key[64];
    ecc_key(key, sizeof(key), type, counter, location);
    return (unsigned long long)state_number(gpu, key, 0);
}

unsigned long long ecc_total(int gpu, unsigned int type, unsigned int counter)
{
    unsigned long long total = 0;
    for (int location = 0; location < MEMORY_LOCATIONS; location++)
        total += ecc_errors(gpu, type, counter, location);
    return total;
}

bool ecc_supported(int gpu)
{
    return state_flag(gpu, "feature.ecc", false);
}

/* The InfoROM holds what shall be; the GPU latched what is when it was last reset. */
bool ecc_pending(int gpu)
{
    return state_flag(gpu, "ecc_mode", state_flag(gpu, "ecc.default_mode", true));
}

bool ecc_current(int gpu)
{
    return state_flag(gpu, "latched.ecc_mode", ecc_pending(gpu));
}

unsigned int retired_pages(int gpu, unsigned int cause, unsigned long long *addresses, unsigned long long *times, unsigned int room)
{
    const char *list = state_get(gpu, cause == 0 ? "retired.sbe" : "retired.dbe");
    unsigned int count = 0;
    for (const char *at = list; at != NULL && *at != '\0'; count++) {
        char *end;
        unsigned long long address = strtoull(at, &end, 0), time = 0;
        if (end == at)
            break;
        if (*end == ':')
            time = strtoull(end + 1, &end, 0);
        if (count < room && addresses != NULL)
            addresses[count] = address;
        if (count < room && times != NULL)
            times[count] = time;
        at = end + strspn(end, " ");
    }
    return count;
}
