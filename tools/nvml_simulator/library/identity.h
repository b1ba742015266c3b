/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Who a GPU is: the identity that a description need not spell out is derived from the machine's seed. */
#ifndef IDENTITY_H
#define IDENTITY_H

#include <stdbool.h>
#include <stddef.h>

struct pci_address {
    unsigned int domain, bus, device, function;
};

bool parse_pci_address(const char *text, struct pci_address *address);
void gpu_pci_address(int gpu, struct pci_address *address);
void gpu_uuid(int gpu, char *uuid, size_t size);
void gpu_serial(int gpu, char *serial, size_t size);
/* Sixteen bytes that depend on the machine's seed and a purpose. */
void seed_bytes(const char *purpose, int number, unsigned char bytes[16]);

#endif
