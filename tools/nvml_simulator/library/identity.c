/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
#include "identity.h"
#include "state.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

bool parse_pci_address(const char *text, struct pci_address *address)
{
    unsigned int domain, bus, device, function = 0;
    int end = 0;
    struct pci_address found;
    if (sscanf(text, "%8x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &end) == 4 && text[end] == '\0')
        found = (struct pci_address){domain, bus, device, function};
    else if (sscanf(text, "%8x:%2x:%2x%n", &domain, &bus, &device, &end) == 3 && text[end] == '\0')
        found = (struct pci_address){domain, bus, device, 0};
    else if (sscanf(text, "%2x:%2x.%1x%n", &bus, &device, &function, &end) == 3 && text[end] == '\0')
        found = (struct pci_address){0, bus, device, function};
    else
        return false;
    if (found.bus > 0xff || found.device > 0x1f || found.function > 7)
        return false;
    *address = found;
    return true;
}

void gpu_pci_address(int gpu, struct pci_address *address)
{
    const char *text = state_get(gpu, "pci_bus_id");
    if (text == NULL || !parse_pci_address(text, address))
        *address = (struct pci_address){(unsigned int)gpu + 1, 0, 0, 0};
}

/* FNV-1a, twice with different starts: enough to tell GPUs of different machines apart. */
void seed_bytes(const char *purpose, int number, unsigned char bytes[16])
{
    const char *seed = state_get(NO_GPU, "machine.seed");
    if (seed == NULL)
        seed = state_get(NO_GPU, "machine.name");
    char text[512];
    snprintf(text, sizeof(text), "%s/%s/%d", seed ? seed : "machine", purpose, number);
    for (int half = 0; half < 2; half++) {
        uint64_t hash = UINT64_C(14695981039346656037) + (uint64_t)half;
        for (const char *c = text; *c; c++)
            hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
        hash ^= hash >> 29;
        for (int i = 0; i < 8; i++)
            bytes[8 * half + i] = (unsigned char)(hash >> (8 * i));
    }
}

void gpu_uuid(int gpu, char *uuid, size_t size)
{
    const char *given = state_get(gpu, "uuid");
    if (given != NULL) {
        snprintf(uuid, size, "%s", given);
        return;
    }
    unsigned char b[16];
    seed_bytes("uuid", gpu, b);
    snprintf(uuid, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
             b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

void gpu_serial(int gpu, char *serial, size_t size)
{
    const char *given = state_get(gpu, "serial");
    if (given != NULL) {
        snprintf(serial, size, "%s", given);
        return;
    }
    unsigned char b[16];
    seed_bytes("serial", 0, b);
    unsigned int base = ((unsigned int)b[0] << 16 | (unsigned int)b[1] << 8 | b[2]) % 9000000u;
    snprintf(serial, size, "132%07u%03d", 1000000u + base, gpu); /* 13 digits, as on data centre boards */
}
