/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
#define _POSIX_C_SOURCE 200809L
#include "store.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *must(void *memory)
{
    if (memory == NULL) {
        fputs("nvml simulator: out of memory\n", stderr);
        abort();
    }
    return memory;
}

static char *copy(const char *text)
{
    return must(strdup(text));
}

/* The place of key, or where it would stand. */
static size_t place(const struct store *store, const char *key, bool *found)
{
    size_t low = 0, high = store->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(store->entries[middle].key, key);
        if (order == 0) {
            *found = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    *found = false;
    return low;
}

const char *store_get(const struct store *store, const char *key)
{
    bool found;
    size_t at = place(store, key, &found);
    return found ? store->entries[at].value : NULL;
}

void store_set(struct store *store, const char *key, const char *value)
{
    bool found;
    size_t at = place(store, key, &found);
    char *fresh = copy(value);
    if (found) {
        free(store->entries[at].value);
        store->entries[at].value = fresh;
        return;
    }
    if (store->count == store->capacity) {
        store->capacity = store->capacity ? 2 * store->capacity : 64;
        store->entries = must(realloc(store->entries, store->capacity * sizeof(*store->entries)));
    }
    memmove(&store->entries[at + 1], &store->entries[at], (store->count - at) * sizeof(*store->entries));
    store->entries[at].key = copy(key);
    store->entries[at].value = fresh;
    store->count++;
}

bool store_drop(struct store *store, bool (*drop)(const char *key, const void *context), const void *context)
{
    size_t kept = 0;
    for (size_t i = 0; i < store->count; i++) {
        if (drop(store->entries[i].key, context)) {
            free(store->entries[i].key);
            free(store->entries[i].value);
        } else {
            store->entries[kept++] = store->entries[i];
        }
    }
    bool any = kept != store->count;
    store->count = kept;
    return any;
}

static bool is_key(const char *key, const void *context)
{
    return strcmp(key, context) == 0;
}

bool store_unset(struct store *store, const char *key)
{
    return store_drop(store, is_key, key);
}

static bool any_key(const char *key, const void *context)
{
    (void)key;
    (void)context;
    return true;
}

void store_clear(struct store *store)
{
    store_drop(store, any_key, NULL);
}

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        end--;
    *end = '\0';
    return text;
}

int store_parse_line(char *line, char **key, char **value)
{
    /* A comment starts at the beginning of the line or after a blank, so that a value may hold '#'. */
    for (char *hash = strchr(line, '#'); hash != NULL; hash = strchr(hash + 1, '#')) {
        if (hash == line || isspace((unsigned char)hash[-1])) {
            *hash = '\0';
            break;
        }
    }
    char *text = trim(line);
    if (*text == '\0')
        return 0;
    char *equals = strchr(text, '=');
    if (equals == NULL || equals == text)
        return -1;
    *equals = '\0';
    *key = trim(text);
    *value = trim(equals + 1);
    for (const char *c = *key; *c; c++)
        if (!isalnum((unsigned char)*c) && strchr("._-", *c) == NULL)
            return -1;
    return **key ? 1 : -1;
}

static bool same_file(const struct stat *one, const struct stat *other)
{
    return one->st_ino == other->st_ino && one->st_dev == other->st_dev && one->st_size == other->st_size &&
           one->st_mtim.tv_sec == other->st_mtim.tv_sec && one->st_mtim.tv_nsec == other->st_mtim.tv_nsec;
}

void store_refresh(struct store *store, const char *path)
{
    struct stat now;
    if (stat(path, &now) != 0) {
        store_clear(store);
        store->present = false;
        store->problem[0] = '\0';
        if (errno != ENOENT && errno != ENOTDIR)
            snprintf(store->problem, sizeof(store->problem), "%s: %s", path, strerror(errno));
        return;
    }
    if (store->present && same_file(&now, &store->identity))
        return;
    store_clear(store);
    store->problem[0] = '\0';
    store->present = true;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        snprintf(store->problem, sizeof(store->problem), "%s: %s", path, strerror(errno));
        store->identity = now;
        return;
    }
    if (fstat(fileno(file), &store->identity) != 0)
        store->identity = now;
    char *line = NULL;
    size_t size = 0;
    for (unsigned number = 1; getline(&line, &size, file) != -1; number++) {
        char *key, *value;
        int kind = store_parse_line(line, &key, &value);
        if (kind > 0)
            store_set(store, key, value);
        else if (kind < 0 && store->problem[0] == '\0')
            snprintf(store->problem, sizeof(store->problem), "%s: line %u is not KEY = VALUE", path, number);
    }
    free(line);
    fclose(file);
}

int store_write(struct store *store, const char *path, const char *heading)
{
    char fresh[4096];
    if (snprintf(fresh, sizeof(fresh), "%s.%ld.new", path, (long)getpid()) >= (int)sizeof(fresh))
        return ENAMETOOLONG;
    int handle = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (handle < 0)
        return errno;
    (void)fchmod(handle, 0644); /* a tight umask of root must not hide the state from other users */
    FILE *file = fdopen(handle, "w");
    if (file == NULL) {
        int why = errno;
        close(handle);
        unlink(fresh);
        return why;
    }
    fprintf(file, "# %s\n", heading);
    for (size_t i = 0; i < store->count; i++)
        fprintf(file, "%s = %s\n", store->entries[i].key, store->entries[i].value);
    bool failed = fflush(file) != 0;
    if (fstat(handle, &store->identity) != 0)
        failed = true;
    int why = errno;
    if (fclose(file) != 0 && !failed) {
        why = errno;
        failed = true;
    }
    if (!failed && rename(fresh, path) != 0) {
        why = errno;
        failed = true;
    }
    if (failed) {
        unlink(fresh);
        store->present = false; /* read the file again next time: memory and file differ */
        return why ? why : EIO;
    }
    store->present = true;
    return 0;
}
