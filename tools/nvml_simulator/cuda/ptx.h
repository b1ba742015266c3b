/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* PTX as the simulated driver holds it: decoded once, run for warps of 32 lanes.
 *
 * A warp has a frame: one row of 32 values for each register, constant and special register, and one word of 32 bits for
 * each predicate. An instruction names rows by their offset in the frame. */
#ifndef PTX_H
#define PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LANES = 32, MAX_OPERANDS = 40, MAX_PARAMETERS = 64, MAX_LOOPS = 32, ROUNDS = 16 };
#define ALL_LANES 0xffffffffu
#define NOWHERE 0xffffffffu

/* What the time of an instruction is counted in: the execution units of an SM, and bytes. */
enum unit { INT32, FP32, FP64, TENSOR_F16, TENSOR_BF16, TENSOR_TF32, TENSOR_FP8, TENSOR_INT8, TENSOR_FP64, MEMORY_BYTES, PEER_BYTES, HOST_BYTES, UNITS, FREE = UNITS };

enum kind { PLAIN, BRANCH, LOOP_END, EXIT, BARRIER, TRAP };

enum special {
    TID_X, TID_Y, TID_Z, NTID_X, NTID_Y, NTID_Z, CTAID_X, CTAID_Y, CTAID_Z, NCTAID_X, NCTAID_Y, NCTAID_Z, LANEID, WARPID, NWARPID,
    SMID, NSMID, LANEMASK_EQ, LANEMASK_LE, LANEMASK_LT, LANEMASK_GE, LANEMASK_GT, CLOCK, CLOCK_HI, CLOCK64, GLOBALTIMER, GLOBALTIMER_LO, GLOBALTIMER_HI, SPECIALS
};

struct warp;
struct instruction;
typedef void run_fn(struct warp *warp, const struct instruction *i, uint32_t mask);

/* The type of a register or an instruction: kind 'b', 'u', 's', 'f' (IEEE), 'h' (bf16), 't' (tf32), '4' (e4m3), '5' (e5m2), 'p'. */
struct type {
    char kind;
    uint16_t bits;
};

/* Further rows: the elements of a vector, or the fragments D, A, B and C of a product one after another. */
struct operands {
    unsigned int count;
    uint32_t row[MAX_OPERANDS];
    unsigned int fragment[5]; /* where D, A, B and C begin, and the end */
    unsigned int m, n, k;
    struct type type[4]; /* of D, A, B and C */
    bool column_major, saturate;
    uint32_t stride; /* row, or NOWHERE */
};

struct instruction {
    run_fn *run;
    uint32_t d, a, b, c;  /* rows: result and sources */
    uint32_t e;           /* a further row: of setp its second result, of ld and st the address */
    uint32_t predicate;   /* row, or NOWHERE */
    bool negated;
    uint8_t kind, unit;
    bool fragile;         /* in a loop of registers alone: a faulty unit of the SM errs here */
    uint8_t option;       /* of the operation: comparison, rounding, saturation */
    uint8_t bytes, vector;
    struct type to, from;
    int space;
    int64_t offset;       /* of an address */
    double work;          /* in its unit, for a whole warp */
    uint32_t target, loop;
    struct operands *more;
    unsigned int line;
};

struct parameter {
    char name[128];
    unsigned int bytes, offset;
};

struct kernel {
    char name[256];
    struct module *module;
    struct parameter parameter[MAX_PARAMETERS];
    unsigned int parameters, parameter_bytes;
    struct instruction *code;
    uint32_t length, capacity;
    uint32_t frame_bytes;
    unsigned char *constants; /* a frame with constants in their rows */
    uint32_t special[SPECIALS]; /* rows, or NOWHERE */
    uint32_t shared_bytes;
    unsigned int loops;
};

struct module {
    struct kernel **kernel;
    size_t kernels;
    int version, target; /* 64 for 6.4, 70 for sm_70 */
};

/* Decode a text. NULL when the driver would refuse it; `log` then has its lines. */
struct module *ptx_module(const char *text, char *log, size_t log_bytes);
void ptx_free(struct module *module);
/* The two figures of the head alone, before anything else is read: false when there are none. */
bool ptx_head(const char *text, int *version, int *target, bool *specific);

/* ptx_alu.c: the operation with this name, without modifiers that change nothing. `shape`: a letter for the result and
 * each source. 'w' 32 bits, 'l' 64, 'h' 16, 'f' f32, 'd' f64, 'p' predicate. */
struct operation {
    const char *name, *shape;
    run_fn *run;
    uint8_t unit;
    double work;
};
extern const struct operation operations[];
extern run_fn run_setp, run_selp, run_convert, run_move_words, run_pack, run_unpack, run_shuffle, run_vote, run_activemask;
/* ptx_memory.c */
enum space { GLOBAL, SHARED, PARAM };
extern run_fn run_load, run_store, run_atomic, run_load_parameter, run_clock;
/* ptx_tensor.c */
extern run_fn run_mma, run_wmma, run_wmma_load, run_wmma_store;

/* Read-only in a launch. */
struct launch {
    const struct kernel *kernel;
    struct gpu *gpu;
    const unsigned char *parameters;
    unsigned int grid[3], block[3];
    unsigned int shared_bytes; /* static and dynamic */
    double rate[UNITS];        /* units a second of one SM */
    double begin;              /* seconds on the clock of the GPU */
    double clock_hz;
    unsigned int sms;
    int fault;                 /* CUDA's number of what went wrong, else 0 */
    unsigned long long fault_address;
};

struct block {
    unsigned int id[3];
    unsigned char *shared;
};

struct sm_state {
    unsigned int number;
    double slowness; /* factor of its time: 1.0 */
    int wrong_unit;  /* one of enum wrong, or 0 */
    unsigned int wrong_lane, wrong_bit;
};
enum wrong { NOT_WRONG, WRONG_TENSOR, WRONG_FP32, WRONG_FP64, WRONG_INT };

struct group {
    uint32_t pc, mask;
    bool waiting; /* at a barrier */
};

struct warp {
    unsigned char *frame;
    struct launch *launch;
    struct block *block;
    const struct sm_state *sm;
    unsigned int number, groups;
    struct group group[LANES + 1];
    unsigned int share;  /* how many warps share the SM */
    double begin;
    double used[UNITS];
    bool erred;          /* its faulty unit has erred in this launch */
    struct {
        unsigned int rounds;
        double used[UNITS];
    } loop[MAX_LOOPS];
};

/* Run all blocks. The result is how long the GPU takes, in seconds; launch->fault says what went wrong. */
double ptx_run(struct launch *launch);
/* The time of a warp since the launch began, in seconds. */
double warp_time(const struct warp *warp);

/* Loops over lanes are worth being compiled for wider vectors too; the loader takes what the processor has. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_WIDE_VECTORS __attribute__((target_clones("arch=haswell", "default")))
#else
#define FOR_WIDE_VECTORS
#endif

#define ROW(type, warp, row) ((type *)(void *)((warp)->frame + (row)))

#endif
