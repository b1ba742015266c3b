/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* A file that all processes have mapped, with the time of the last work on each GPU. Without it there is no load. */
#define _DEFAULT_SOURCE
#include "load.h"
#include "state.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { RECENT_NS = 500 * 1000 * 1000, BYTES = MAX_GPUS * sizeof(int64_t) };

struct view {
    volatile int64_t *times;
    char path[PATH_MAX];
};

static volatile int64_t *mapped(struct view *view, bool write)
{
    char path[PATH_MAX];
    const char *driver = layer_path(DRIVER), *slash = strrchr(driver, '/');
    if (snprintf(path, sizeof(path), "%.*s/load", (int)(slash - driver), driver) >= (int)sizeof(path))
        return NULL;
    if (view->times != NULL && strcmp(view->path, path) == 0)
        return view->times;
    int handle = open(path, (write ? O_RDWR | O_CREAT : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (handle < 0)
        return NULL;
    void *memory = MAP_FAILED;
    if (!write || ftruncate(handle, BYTES) == 0)
        memory = lseek(handle, 0, SEEK_END) >= BYTES ? mmap(NULL, BYTES, PROT_READ | (write ? PROT_WRITE : 0), MAP_SHARED, handle, 0) : MAP_FAILED;
    close(handle);
    if (memory == MAP_FAILED)
        return NULL;
    if (view->times != NULL)
        (void)munmap((void *)(uintptr_t)view->times, BYTES);
    view->times = memory;
    memcpy(view->path, path, sizeof(path));
    return view->times;
}

static int64_t now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

void load_note(int gpu)
{
    static struct view view;
    volatile int64_t *times = mapped(&view, true);
    if (times != NULL)
        times[gpu] = now();
}

bool load_recent(int gpu)
{
    static struct view view;
    const volatile int64_t *times = mapped(&view, false);
    int64_t age = times != NULL && times[gpu] != 0 ? now() - times[gpu] : RECENT_NS;
    return age >= 0 && age < RECENT_NS;
}
