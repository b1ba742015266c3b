/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* Symbols that this driver does not have: dlsym must fail for them, as it does with an older or a newer library.
 *
 * When the library is loaded, after relocation and before anybody asks for a symbol, the entries of absent calls in the
 * dynamic symbol table of this process are made undefined. The loader then finds no definition. So what a process sees
 * is decided when it loads the library, as with a real library that is exchanged on disk. */
#define _DEFAULT_SOURCE
#include "call.h"
#include "entry_points.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern const char __ehdr_start[] __attribute__((visibility("hidden")));

int library_branch;

static bool absent(const char *name)
{
    char key[160];
    snprintf(key, sizeof(key), "symbol.%s", name);
    if (layer_get(FAULTS, NO_GPU, key) != NULL)
        return true;
    for (const struct entry_point *point = entry_points; point->name != NULL; point++)
        if (strcmp(point->name, name) == 0)
            return point->since > library_branch;
    return false;
}

/* An entry of the dynamic section that holds an address. */
static const void *dynamic_pointer(ElfW(Sxword) tag)
{
    for (const ElfW(Dyn) *entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == tag) {
            uintptr_t base = (uintptr_t)__ehdr_start, value = (uintptr_t)entry->d_un.d_ptr;
            return (const void *)(value < base ? base + value : value);
        }
    return NULL;
}

static void hide(ElfW(Sym) *symbol)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)symbol & ~(page - 1);
    size_t length = (uintptr_t)(symbol + 1) - start;
    if (mprotect((void *)start, length, PROT_READ | PROT_WRITE) != 0)
        return;
    symbol->st_shndx = SHN_UNDEF;
    symbol->st_value = 0;
    (void)mprotect((void *)start, length, PROT_READ);
}

static void __attribute__((constructor)) hide_absent_symbols(void)
{
    ElfW(Sym) *symbols = (ElfW(Sym) *)(uintptr_t)dynamic_pointer(DT_SYMTAB);
    const char *names = dynamic_pointer(DT_STRTAB);
    const uint32_t *hash = dynamic_pointer(DT_HASH); /* its second word is the number of symbols */
    state_locate();
    (void)state_lock(false);
    library_branch = driver_branch();
    bool readable = symbols != NULL && names != NULL && hash != NULL;
    for (uint32_t i = 1; readable && i < hash[1]; i++) {
        const char *name = names + symbols[i].st_name;
        if (symbols[i].st_shndx != SHN_UNDEF && strncmp(name, "nvml", 4) == 0 && absent(name))
            hide(&symbols[i]);
    }
    state_unlock();
}
