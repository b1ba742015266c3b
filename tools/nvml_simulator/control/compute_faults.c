/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Faults of what computes: memory, SMs, rates, kernels, copies. They are for the simulated CUDA library alone. */
#include "control.h"

#include <stdio.h>
#include <string.h>

static const char *const usage =
    "usage: nvml-simulator fault gpu N memory OFFSET stuck BIT 0|1 | memory OFFSET flip BIT | memory OFFSET alias OTHER | address-line BIT 0|1 | "
    "sm K wrong tensor|fp32|fp64|int [every COUNT] | sm K slow PERCENT | slow WHAT PERCENT | kernel hang|illegal-address | "
    "to M slow PERCENT [together] | to M wrong | to M hang | to M no-peer";

static long long percent(const char *text)
{
    long long number = parse_count(text, "a share in percent");
    if (number < 1 || number > 99)
        refuse("%s %%: give 1 to 99", text);
    return number;
}

static long long bit(const char *text)
{
    long long number = parse_count(text, "a bit");
    if (number > 31)
        refuse("there is no bit %s in a word: give 0 to 31", text);
    return number;
}

static int one_of(const char *word, const char *const *words)
{
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -1;
}

static void memory(int gpu, int count, char **arguments)
{
    char key[64], value[64];
    snprintf(key, sizeof(key), "broken.memory.%lld", parse_count(arguments[0], "an offset in memory"));
    if (count == 4 && strcmp(arguments[1], "stuck") == 0 && strspn(arguments[3], "01") == 1)
        snprintf(value, sizeof(value), "stuck %lld %.1s", bit(arguments[2]), arguments[3]);
    else if (count == 3 && strcmp(arguments[1], "flip") == 0)
        snprintf(value, sizeof(value), "flip %lld", bit(arguments[2]));
    else if (count == 3 && strcmp(arguments[1], "alias") == 0)
        snprintf(value, sizeof(value), "alias %lld", parse_count(arguments[2], "an offset in memory"));
    else
        refuse("%s", usage);
    state_set(FAULTS, gpu, key, value);
}

static void sm(int gpu, int count, char **arguments)
{
    static const char *const units[] = {"tensor", "fp32", "fp64", "int", NULL};
    char key[64], value[64];
    long long number = parse_count(arguments[0], "the number of an SM"), all = state_number(gpu, "cuda.multiprocessors", 8);
    if (number >= all)
        refuse("there is no SM %lld: GPU %d has %lld (gpu.cuda.multiprocessors)", number, gpu, all);
    if (count == 3 && strcmp(arguments[1], "slow") == 0) {
        snprintf(key, sizeof(key), "broken.sm.%lld.slow", number);
        snprintf(value, sizeof(value), "%lld", parse_count(arguments[2], "a share in percent"));
    } else if ((count == 3 || (count == 5 && strcmp(arguments[3], "every") == 0)) && strcmp(arguments[1], "wrong") == 0 && one_of(arguments[2], units) >= 0) {
        snprintf(key, sizeof(key), "broken.sm.%lld.wrong", number);
        snprintf(value, sizeof(value), "%s %lld", arguments[2], count == 5 ? parse_count(arguments[4], "a number of launches") : 1);
    } else {
        refuse("%s", usage);
    }
    state_set(FAULTS, gpu, key, value);
}

static void pair(int gpu, int count, char **arguments)
{
    const int other = parse_gpu(arguments[0]);
    const bool together = count == 4 && strcmp(arguments[3], "together") == 0;
    char key[64];
    if ((count == 3 || together) && strcmp(arguments[1], "slow") == 0) {
        snprintf(key, sizeof(key), "broken.slow_peer%s.%d", together ? "_together" : "", other);
        state_set_number(FAULTS, gpu, key, percent(arguments[2]));
        return;
    }
    if (count == 2 && strcmp(arguments[1], "no-peer") == 0)
        snprintf(key, sizeof(key), "broken.no_peer.%d", other);
    else if (count == 2 && (strcmp(arguments[1], "wrong") == 0 || strcmp(arguments[1], "hang") == 0))
        snprintf(key, sizeof(key), "broken.%s_peer.%d", arguments[1], other);
    else
        refuse("%s", usage);
    state_set_number(FAULTS, gpu, key, 1);
}

/* fault gpu N ...: what is not of the whole GPU. */
void fault_compute(int gpu, int count, char **arguments)
{
    static const char *const rates[] = {"hbm", "host_to_device", "device_to_host", "peer", "tensor", "fp32", "fp64", "int32", NULL};
    const char *what = count > 0 ? arguments[0] : "";
    char key[64];
    if (strcmp(what, "not-in-cuda") == 0 && count == 1) {
        state_set_number(FAULTS, gpu, "broken.hidden", 1);
    } else if (strcmp(what, "memory") == 0 && count > 2) {
        memory(gpu, count - 1, arguments + 1);
    } else if (strcmp(what, "address-line") == 0 && count == 3 && strspn(arguments[2], "01") == 1) {
        snprintf(key, sizeof(key), "broken.memory.%lld", parse_count(arguments[1], "an address line"));
        state_set(FAULTS, gpu, key, arguments[2][0] == '1' ? "line 1" : "line 0");
    } else if (strcmp(what, "sm") == 0 && count > 2) {
        sm(gpu, count - 1, arguments + 1);
    } else if (strcmp(what, "slow") == 0 && count == 3) {
        if (one_of(arguments[1], rates) < 0)
            refuse("%s: hbm, host_to_device, device_to_host, peer, tensor, fp32, fp64 and int32 can be slow", arguments[1]);
        snprintf(key, sizeof(key), "broken.slow.%s", arguments[1]);
        state_set_number(FAULTS, gpu, key, percent(arguments[2]));
    } else if (strcmp(what, "kernel") == 0 && count == 2 && (strcmp(arguments[1], "hang") == 0 || strcmp(arguments[1], "illegal-address") == 0)) {
        state_set(FAULTS, gpu, "broken.kernel", arguments[1]);
    } else if (strcmp(what, "to") == 0 && count > 2) {
        pair(gpu, count - 1, arguments + 1);
    } else {
        refuse("%s: a GPU can be lost, absent, recovery-action CODE or xid CODE [TEXT], not-in-cuda, or have a fault of memory, address-line, sm, slow, kernel, to", what);
    }
}

void fault_peers(int count, char **arguments)
{
    if (count != 3 || strcmp(arguments[0], "slow") != 0 || strcmp(arguments[2], "together") != 0)
        refuse("usage: nvml-simulator fault peers slow PERCENT together");
    state_set_number(FAULTS, NO_GPU, "broken.slow_peers_together", percent(arguments[1]));
}
