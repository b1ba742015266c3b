/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Warps, blocks and SMs: which instruction is next, for which lanes, and how long it all takes. */
#include "gpu.h"
#include "ptx_text.h"

#include <stdlib.h>
#include <string.h>

enum { WARPS_OF_SM = 64, BLOCKS_OF_SM = 32, SUBPARTITIONS = 4, OUT_OF_MEMORY = 2 };

/* The units of an SM work side by side; all tensor instructions share one. */
double warp_time(const struct warp *warp)
{
    double longest = 0, tensor = 0;
    for (int unit = 0; unit < UNITS; unit++) {
        double time = warp->used[unit] / warp->launch->rate[unit];
        if (unit >= TENSOR_F16 && unit <= TENSOR_FP64)
            time = tensor += time;
        if (time > longest)
            longest = time;
    }
    return warp->begin + longest * warp->share * warp->sm->slowness;
}

/* A result of the faulty unit, once for each warp. */
static void err(struct warp *warp, const struct instruction *i)
{
    const struct sm_state *sm = warp->sm;
    int unit = i->unit == INT32 ? WRONG_INT : i->unit == FP32 ? WRONG_FP32 : i->unit == FP64 ? WRONG_FP64 : WRONG_TENSOR;
    if (unit != sm->wrong_unit)
        return;
    warp->erred = true;
    uint32_t row = unit == WRONG_TENSOR ? i->more->row[0] : i->d;
    if (i->to.bits == 64)
        ROW(uint64_t, warp, row)[sm->wrong_lane] ^= UINT64_C(1) << sm->wrong_bit;
    else
        ROW(uint32_t, warp, row)[sm->wrong_lane] ^= 1u << sm->wrong_bit;
}

/* The end of a loop that touches registers alone. After some rounds the rest is charged and left out. True: once more. */
static bool once_more(struct warp *warp, const struct instruction *i, uint32_t taken, uint32_t active)
{
    unsigned int rounds = ++warp->loop[i->loop].rounds;
    double *before = warp->loop[i->loop].used;
    uint32_t *counter = ROW(uint32_t, warp, i->a), *bound = ROW(uint32_t, warp, i->b);
    if (rounds < ROUNDS || taken != active) {
        memcpy(before, warp->used, sizeof(warp->used));
        return true;
    }
    int first = __builtin_ctz(active);
    for (int l = 0; l < LANES; l++)
        if (active >> l & 1 && (counter[l] != counter[first] || bound[l] != bound[first]))
            return true;
    uint32_t rest = bound[first] - counter[first];
    for (int unit = 0; unit < UNITS; unit++)
        warp->used[unit] += (warp->used[unit] - before[unit]) * rest;
    for (int l = 0; l < LANES; l++)
        if (active >> l & 1)
            counter[l] = bound[l];
    *ROW(uint32_t, warp, i->predicate) &= ~active;
    return false;
}

static void add_group(struct warp *warp, uint32_t pc, uint32_t mask)
{
    warp->group[warp->groups++] = (struct group){pc, mask, false};
}

static void drop_group(struct warp *warp, unsigned int n)
{
    warp->group[n] = warp->group[--warp->groups];
}

/* Lanes that are at the same place go on together. The group with the lowest place, or -1; *next: that of the next one. */
static int choose(struct warp *warp, uint32_t *next)
{
    for (unsigned int one = 0; one < warp->groups; one++)
        for (unsigned int other = one + 1; other < warp->groups; other++)
            if (warp->group[one].pc == warp->group[other].pc && warp->group[one].waiting == warp->group[other].waiting) {
                warp->group[one].mask |= warp->group[other].mask;
                drop_group(warp, other--);
            }
    int chosen = -1;
    *next = NOWHERE;
    for (unsigned int n = 0; n < warp->groups; n++) {
        if (warp->group[n].waiting)
            continue;
        if (chosen < 0 || warp->group[n].pc < warp->group[chosen].pc) {
            if (chosen >= 0)
                *next = warp->group[chosen].pc;
            chosen = (int)n;
        } else if (warp->group[n].pc < *next) {
            *next = warp->group[n].pc;
        }
    }
    return chosen;
}

/* Run a warp until it has ended (false) or waits at a barrier (true). */
static bool run_warp(struct warp *warp)
{
    struct launch *launch = warp->launch;
    const struct instruction *const code = launch->kernel->code;
    uint32_t next;
    for (int chosen; (chosen = choose(warp, &next)) >= 0;) {
        struct group *group = &warp->group[chosen];
        uint32_t pc = group->pc, active = group->mask;
        bool same = true; /* the group is as it was */
        while (same && pc < next) {
            const struct instruction *i = &code[pc];
            uint32_t mask = active;
            if (i->predicate != NOWHERE) {
                uint32_t predicate = *ROW(uint32_t, warp, i->predicate);
                mask &= i->negated ? ~predicate : predicate;
            }
            if (i->unit != FREE)
                warp->used[i->unit] += i->work;
            if (i->kind == PLAIN) {
                if (mask != 0) {
                    i->run(warp, i, mask);
                    if (launch->fault != 0)
                        return false;
                    if (i->fragile && warp->sm->wrong_unit != NOT_WRONG && !warp->erred)
                        err(warp, i);
                }
                pc++;
            } else if (mask == 0) {
                if (i->kind == LOOP_END)
                    warp->loop[i->loop].rounds = 0;
                pc++;
            } else if (i->kind == BRANCH || i->kind == LOOP_END) {
                if (i->kind == LOOP_END && !once_more(warp, i, mask, active)) {
                    warp->loop[i->loop].rounds = 0;
                    pc++;
                } else if (mask == active) {
                    pc = i->target;
                } else {
                    group->mask = active & ~mask;
                    group->pc = pc + 1;
                    add_group(warp, i->target, mask);
                    same = false;
                }
            } else if (i->kind == EXIT) {
                group->mask = active = active & ~mask;
                group->pc = ++pc;
                if (active == 0) {
                    drop_group(warp, (unsigned int)chosen);
                    same = false;
                }
            } else if (i->kind == BARRIER) {
                group->pc = ++pc;
                group->waiting = true;
                same = false;
            } else {
                launch->fault = 715; /* trap: CUDA_ERROR_ILLEGAL_INSTRUCTION */
                return false;
            }
        }
        if (same)
            group->pc = pc;
    }
    return warp->groups > 0;
}

static void fill_special(struct warp *warp, unsigned int warps)
{
    const struct launch *launch = warp->launch;
    const struct kernel *kernel = launch->kernel;
    const unsigned int *size = launch->block;
    for (int special = 0; special < CLOCK; special++) {
        if (kernel->special[special] == NOWHERE)
            continue;
        uint32_t *row = ROW(uint32_t, warp, kernel->special[special]);
        for (unsigned int l = 0; l < LANES; l++) {
            unsigned int thread = warp->number * LANES + l;
            uint32_t bit = 1u << l;
            switch (special) {
            case TID_X: row[l] = thread % size[0]; break;
            case TID_Y: row[l] = thread / size[0] % size[1]; break;
            case TID_Z: row[l] = thread / size[0] / size[1]; break;
            case NTID_X: case NTID_Y: case NTID_Z: row[l] = size[special - NTID_X]; break;
            case CTAID_X: case CTAID_Y: case CTAID_Z: row[l] = warp->block->id[special - CTAID_X]; break;
            case NCTAID_X: case NCTAID_Y: case NCTAID_Z: row[l] = launch->grid[special - NCTAID_X]; break;
            case LANEID: row[l] = l; break;
            case WARPID: row[l] = warp->number; break;
            case NWARPID: row[l] = warps; break;
            case SMID: row[l] = warp->sm->number; break;
            case NSMID: row[l] = launch->sms; break;
            case LANEMASK_EQ: row[l] = bit; break;
            case LANEMASK_LT: row[l] = bit - 1; break;
            case LANEMASK_LE: row[l] = bit | (bit - 1); break;
            case LANEMASK_GE: row[l] = ~(bit - 1); break;
            default: row[l] = ~(bit | (bit - 1)); break;
            }
        }
    }
}

/* One block, all its warps. The result is when its last warp ends. */
static double run_block(struct launch *launch, struct warp *warp, unsigned char *frames, struct block *block, const struct sm_state *sm,
                        unsigned int share, double begin)
{
    const unsigned int threads = launch->block[0] * launch->block[1] * launch->block[2], warps = (threads + LANES - 1) / LANES;
    const struct kernel *kernel = launch->kernel;
    memset(block->shared, 0, launch->shared_bytes);
    for (unsigned int n = 0; n < warps; n++) {
        memset(&warp[n], 0, sizeof(warp[n]));
        warp[n].frame = frames + (size_t)n * kernel->frame_bytes;
        memcpy(warp[n].frame, kernel->constants, kernel->frame_bytes);
        warp[n].launch = launch;
        warp[n].block = block;
        warp[n].sm = sm;
        warp[n].number = n;
        warp[n].share = share;
        warp[n].begin = begin;
        unsigned int lanes = threads - n * LANES;
        add_group(&warp[n], 0, lanes >= LANES ? ALL_LANES : (1u << lanes) - 1);
        fill_special(&warp[n], warps);
    }
    for (bool waiting = true; waiting && launch->fault == 0;) {
        waiting = false;
        for (unsigned int n = 0; n < warps && launch->fault == 0; n++)
            if (warp[n].groups > 0)
                waiting |= run_warp(&warp[n]);
        for (unsigned int n = 0; n < warps; n++)
            for (unsigned int g = 0; g < warp[n].groups; g++)
                warp[n].group[g].waiting = false;
    }
    double end = begin;
    for (unsigned int n = 0; n < warps; n++) {
        double time = warp_time(&warp[n]);
        end = time > end ? time : end;
    }
    return end;
}

static unsigned int smaller(unsigned long long one, unsigned long long other)
{
    return (unsigned int)(one < other ? one : other);
}

double ptx_run(struct launch *launch)
{
    const unsigned int threads = launch->block[0] * launch->block[1] * launch->block[2], warps = (threads + LANES - 1) / LANES;
    const unsigned long long blocks = (unsigned long long)launch->grid[0] * launch->grid[1] * launch->grid[2];
    const struct kernel *kernel = launch->kernel;
    struct warp *warp = malloc(warps * sizeof(*warp));
    unsigned char *frames = aligned_alloc(64, (size_t)warps * kernel->frame_bytes);
    struct block block = {{0, 0, 0}, malloc(launch->shared_bytes + 1)};
    struct sm_state *sms = calloc(launch->sms, sizeof(*sms));
    double longest = 0;
    if (warp == NULL || frames == NULL || block.shared == NULL || sms == NULL)
        launch->fault = OUT_OF_MEMORY;
    for (unsigned int sm = 0; sm < launch->sms && sm < blocks && launch->fault == 0; sm++) {
        const unsigned long long own = (blocks - sm + launch->sms - 1) / launch->sms; /* round robin */
        const unsigned int resident = smaller(BLOCKS_OF_SM, WARPS_OF_SM / warps > 0 ? WARPS_OF_SM / warps : 1);
        double begin = 0;
        gpu_sm(launch->gpu, sm, &sms[sm]);
        for (unsigned long long done = 0; done < own && launch->fault == 0;) {
            unsigned int together = smaller(resident, own - done);
            unsigned int share = together * warps < SUBPARTITIONS ? SUBPARTITIONS : together * warps;
            double end = begin;
            for (unsigned int n = 0; n < together && launch->fault == 0; n++, done++) {
                unsigned long long number = sm + done * launch->sms;
                block.id[0] = (unsigned int)(number % launch->grid[0]);
                block.id[1] = (unsigned int)(number / launch->grid[0] % launch->grid[1]);
                block.id[2] = (unsigned int)(number / launch->grid[0] / launch->grid[1]);
                double time = run_block(launch, warp, frames, &block, &sms[sm], share, begin);
                end = time > end ? time : end;
            }
            begin = end;
        }
        longest = begin > longest ? begin : longest;
    }
    free(warp);
    free(frames);
    free(block.shared);
    free(sms);
    return longest;
}
