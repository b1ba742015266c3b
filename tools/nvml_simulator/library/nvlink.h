/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef NVLINK_H
#define NVLINK_H

#include <stdbool.h>
#include <stddef.h>

/* Errors of a link: those of nvmlNvLinkErrorCounter_t, then those that are field values only, by the id of the field. */
enum nvlink_error {
    NVLINK_REPLAY = 0,
    NVLINK_RECOVERY = 1,
    NVLINK_CRC_FLIT = 2,
    NVLINK_CRC_DATA = 3,
    NVLINK_ECC = 4,
    NVLINK_OLD_COUNTERS = 5,
    NVLINK_MALFORMED_PACKETS = 206,
    NVLINK_RECOVERIES_SUCCEEDED = 213,
    NVLINK_RECOVERIES_FAILED = 214,
    NVLINK_RECOVERY_EVENTS = 215,
    NVLINK_EFFECTIVE_ERRORS = 219,
    NVLINK_EFFECTIVE_BER = 220,
    NVLINK_SYMBOL_ERRORS = 221,
    NVLINK_SYMBOL_BER = 222,
};

/* What the control program calls them. */
static const struct nvlink_error_name {
    const char *name;
    unsigned int error;
} nvlink_error_names[] = {
    {"replay", NVLINK_REPLAY},
    {"recovery", NVLINK_RECOVERY},
    {"crc_flit", NVLINK_CRC_FLIT},
    {"crc_data", NVLINK_CRC_DATA},
    {"ecc", NVLINK_ECC},
    {"malformed_packets", NVLINK_MALFORMED_PACKETS},
    {"buffer_overruns", 207},
    {"receive_errors", 208},
    {"remote_errors", 209},
    {"general_errors", 210},
    {"integrity_errors", 211},
    {"transmit_discards", 212},
    {"failed_recovery", NVLINK_RECOVERIES_FAILED},
    {"effective_errors", NVLINK_EFFECTIVE_ERRORS},
    {"effective_ber", NVLINK_EFFECTIVE_BER},
    {"symbol_errors", NVLINK_SYMBOL_ERRORS},
    {"symbol_ber", NVLINK_SYMBOL_BER},
    {NULL, 0},
};

unsigned int nvlink_count(int gpu);
bool nvlink_active(int gpu, unsigned int link);
/* The slot of the GPU at the other end, -1 for a switch, -2 for nothing. */
int nvlink_peer(int gpu, unsigned int link);
/* Do the two GPUs reach each other over NVLink, directly or through switches? */
bool nvlink_between(int one, int other);
long long nvlink_speed_mbps(int gpu);
unsigned long long nvlink_errors(int gpu, unsigned int link, unsigned int error);

#endif
