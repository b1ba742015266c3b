/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* A text file of "key = value" lines, held sorted in memory. */
#ifndef STORE_H
#define STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct store_entry {
    char *key;
    char *value;
};

struct store {
    struct store_entry *entries;
    size_t count, capacity;
    bool present;         /* the file exists */
    char problem[256];    /* what is wrong with the file, or empty */
    struct stat identity; /* of the file that was read */
};

/* Read the file anew if it is another one than last time. */
void store_refresh(struct store *store, const char *path);
/* Write to a new file in the same folder and rename it over path. 0, or an errno. */
int store_write(struct store *store, const char *path, const char *heading);

const char *store_get(const struct store *store, const char *key);
void store_set(struct store *store, const char *key, const char *value);
bool store_unset(struct store *store, const char *key);
/* Drop each entry for which drop(key, context) holds; true if there was one. */
bool store_drop(struct store *store, bool (*drop)(const char *key, const void *context), const void *context);
void store_clear(struct store *store);

/* Parse one "key = value" line in place: 1 an entry, 0 blank or comment, -1 neither. */
int store_parse_line(char *line, char **key, char **value);

#endif
