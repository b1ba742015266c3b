/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
#include "timeline.h"

#include <stdlib.h>

enum { AT_ONCE = 3 };

struct work {
    struct stream *stream;
    struct event *event;
    bool wait;
    double asked, seconds, together;
    int from, to;
};

static struct work *works;
static size_t count, room;
static double now; /* of the host */

static struct work *append(struct stream *stream)
{
    if (count == room) {
        room = 2 * room + 256;
        works = realloc(works, room * sizeof(*works));
        if (works == NULL)
            abort();
    }
    works[count] = (struct work){stream, NULL, false, now, 0, 0, NO_GPU, NO_GPU};
    return &works[count++];
}

void timeline_work(struct stream *stream, double seconds, double together, int from, int to)
{
    struct work *work = append(stream);
    work->seconds = seconds;
    work->together = together;
    work->from = from;
    work->to = to;
    stream->estimate = timeline_next(stream) + seconds;
}

void timeline_record(struct stream *stream, struct event *event)
{
    append(stream)->event = event;
    event->stream = stream;
    event->recorded = true;
}

void timeline_wait(struct stream *stream, struct event *event)
{
    struct work *work = append(stream);
    work->event = event;
    work->wait = true;
}

double timeline_next(const struct stream *stream)
{
    return stream->estimate > now ? stream->estimate : now;
}

void timeline_count(void)
{
    bool copies[MAX_GPUS] = {false};
    int busy = 0;
    for (size_t i = 0; i < count; i++)
        if (works[i].from != NO_GPU && !copies[works[i].from]) {
            copies[works[i].from] = true;
            busy++;
        }
    for (size_t i = 0; i < count; i++) {
        struct work *work = &works[i];
        double *time = &work->stream->time;
        if (work->asked > *time)
            *time = work->asked;
        if (work->event == NULL)
            *time += work->from != NO_GPU && busy >= AT_ONCE ? work->together : work->seconds;
        else if (!work->wait)
            work->event->time = *time;
        else if (work->event->time > *time)
            *time = work->event->time;
        work->stream->estimate = *time;
    }
    count = 0;
}

void timeline_reached(double time)
{
    now = time > now ? time : now;
}

double timeline_now(void)
{
    return now;
}
