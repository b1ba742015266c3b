/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* GPU instances (GI) and compute instances (CI) as they lie in the state: what there is, what could be made. A caller
 * holds the lock. Description: mig.profile.ENUM = id slices memory_slices most multiprocessors memory_mib copy decoder
 * encoder jpeg ofa starts. Driver: gi.ID = ENUM START, ci.GI.ID = ENUM START. */
#ifndef MIG_H
#define MIG_H

#include <stdbool.h>
#include <stddef.h>

/* GI_PROFILES: of the newest header; a driver knows gi_profiles() of them. */
enum { GI_PROFILES = 18, CI_PROFILES = 9, MAX_GIS = 14, MAX_CIS = 8, MAX_STARTS = 8, WHOLE = -1 };

struct gi_profile {
    unsigned int number; /* NVML_GPU_INSTANCE_PROFILE_*, which is not the id */
    unsigned int id, slices, memory_slices, most, multiprocessors, copy, decoder, encoder, jpeg, ofa;
    unsigned long long memory_mib;
    unsigned int starts[MAX_STARTS], start_count;
};

struct ci_profile {
    unsigned int id, slices, most, multiprocessors;
    unsigned int starts[MAX_STARTS], start_count;
};

struct instance {
    unsigned int id, profile, start;
};

unsigned int gi_profiles(void);
/* Does the driver report instances, of which there are none, while the mode is off? */
bool mig_queries_in_any_mode(int gpu);
bool gi_profile(int gpu, unsigned int number, struct gi_profile *profile);
bool gi_profile_of_id(int gpu, unsigned int id, struct gi_profile *profile);
/* "1g.5gb+me", as the driver derives it from the memory of the board. */
void gi_profile_name(int gpu, const struct gi_profile *profile, char *name, size_t size);
bool ci_profile(const struct gi_profile *gi, unsigned int number, struct ci_profile *profile);

/* The instances of a GPU, or of a GPU instance, by id. */
unsigned int gis(int gpu, struct instance found[MAX_GIS]);
unsigned int cis(int gpu, unsigned int gi, struct instance found[MAX_CIS]);
bool find_gi(int gpu, unsigned int id, struct instance *gi, struct gi_profile *profile);
bool find_ci(int gpu, unsigned int gi, unsigned int id, struct instance *ci);

/* The memory slices of a GPU: 8, 4 or, of an RTX PRO 6000, 12. */
unsigned int gi_width(int gpu);
/* The starts at which one more could be made now, those that the driver prefers first. */
unsigned int gi_free(int gpu, const struct gi_profile *profile, unsigned int starts[MAX_STARTS]);
unsigned int ci_free(int gpu, unsigned int gi, const struct ci_profile *profile, unsigned int starts[MAX_STARTS]);

/* mig_capabilities.c: bring the driver's folder of capabilities in step; under the lock. */
void mig_capabilities(void);

/* processes.c: does a process have this instance? WHOLE: any. */
bool in_use(int gpu, int gi, int ci);
unsigned long long used_memory(int gpu, int gi); /* bytes */

#endif
