/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* The simulated GPUs as a process sees them: identity, memory with its faults, rates. */
#ifndef GPU_H
#define GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptx.h"
#include "state.h"

enum { GRAIN = 512, MAX_ALLOCATIONS = 4096, MAX_FAULTS = 32, SECTOR = 32 };

struct allocation {
    size_t begin, bytes;
    bool used;
};

/* A fault of the memory, at an offset in the memory of the GPU. */
struct memory_fault {
    enum { STUCK, FLIP, ALIAS, ADDRESS_LINE } kind;
    uint64_t offset, other;
    unsigned int bit, value;
    bool spent; /* FLIP: it happened */
};

struct gpu {
    int slot; /* of the description */
    char uuid[96], pci[32];
    unsigned int major, minor, sms;
    uint64_t base;         /* the address of its memory */
    unsigned char *memory;  /* made with the context */
    size_t bytes, used;
    uint16_t *owner; /* of each GRAIN: 1 + the number of an allocation, or 0 */
    struct allocation *allocation;
    struct memory_fault fault[MAX_FAULTS];
    unsigned int faults, remapped; /* remapped: how many of them change addresses */
    bool context, peer[MAX_GPUS];
    int error;             /* sticky: what every further call returns */
    bool hung;             /* a kernel never ends */
    unsigned int launches, copies;
};

extern struct gpu gpus[MAX_GPUS];
extern int gpu_count;

/* Which GPUs this process may see, in the order of CUDA. Under the lock of the state. 0, or CUDA's number. */
int gpus_find(void);
/* Read what was injected into the GPU's memory since. Under the lock of the state. */
void gpu_read_faults(struct gpu *gpu);
bool gpu_make_context(struct gpu *gpu);
void gpu_drop_context(struct gpu *gpu);
int gpu_allocate(struct gpu *gpu, size_t bytes, uint64_t *address);
int gpu_release(uint64_t address);
/* The GPU whose memory holds all these bytes in one allocation, or NULL. */
struct gpu *gpu_of(uint64_t address, size_t bytes);
void gpu_write(struct gpu *gpu, uint64_t address, const void *from, size_t bytes);
void gpu_read(struct gpu *gpu, uint64_t address, void *to, size_t bytes);

/* Pinned memory of the host, which kernels reach too. */
bool host_pinned(uint64_t address, size_t bytes);
void host_pin(void *memory, size_t bytes);
bool host_unpin(void *memory);

/* Where a kernel reaches `bytes` at an address: NULL, and the launch has its fault, when it may not. */
unsigned char *gpu_reach(struct launch *launch, uint64_t address, unsigned int bytes, bool reads, enum unit *unit);

/* A figure of the description: gpu.N.cuda.KEY, lowered by `fault gpu N slow WHAT PERCENT`. */
double gpu_rate(const struct gpu *gpu, const char *key, const char *what);
/* What is special about an SM: its share of the spread, and its faults. */
void gpu_sm(const struct gpu *gpu, unsigned int number, struct sm_state *sm);
double peer_rate(const struct gpu *from, const struct gpu *to);
/* A number from 0 to 1 that depends on the machine's seed. */
double spread(const char *purpose, int number);
/* The newest version of CUDA that the driver supports (13000), and of PTX (90). */
int driver_cuda(void);
int driver_ptx(void);

#endif
