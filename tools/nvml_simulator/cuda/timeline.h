/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* The virtual clock: what streams have been asked for, and when it is done.
 *
 * Data are moved and kernels are run when they are asked for; their time is counted when somebody waits for it, because
 * copies may slow each other down. Streams run side by side, what is in one stream runs in a row. */
#ifndef TIMELINE_H
#define TIMELINE_H

#include "gpu.h"

struct stream {
    struct gpu *gpu;
    double time;     /* when what was counted is done, in seconds */
    double estimate; /* the same with what is not counted yet, had it the machine for itself */
    bool hung;       /* it holds something that never ends */
    struct stream *next;
};

struct event {
    struct gpu *gpu;
    struct stream *stream;
    double time;
    bool recorded;
};

/* Work of a stream. from and to: slots of the GPUs of a copy between GPUs, else NO_GPU. `together`: how long it takes while
 * three GPUs or more have such copies in their streams. */
void timeline_work(struct stream *stream, double seconds, double together, int from, int to);
void timeline_record(struct stream *stream, struct event *event);
void timeline_wait(struct stream *stream, struct event *event);
/* When the next work of a stream begins, at the earliest. */
double timeline_next(const struct stream *stream);
/* Count all that was asked for. */
void timeline_count(void);
/* The host has waited until then. */
void timeline_reached(double time);
double timeline_now(void);

#endif
