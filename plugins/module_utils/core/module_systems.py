# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module systems of a node, Lmod and Environment Modules: which are there, where a site's modulefiles go, and how
a text is written in one."""

from __future__ import annotations

from typing import List, Sequence, Tuple

from .host import Host

AUTO, NONE = "auto", "none"
LMOD, ENVIRONMENT_MODULES = "lmod", "environment_modules"
CHOICES = (AUTO, LMOD, ENVIRONMENT_MODULES, NONE)
#: What a modulefile of each system is called after its name.
SUFFIXES = {LMOD: ".lua", ENVIRONMENT_MODULES: ""}
# What tells that a module system is there, and the folders that it searches for a site's own modulefiles, best first:
# those of Debian and Ubuntu, then those of EL, then Lmod as its own installer puts it.
_SYSTEMS: Tuple[Tuple[str, Tuple[str, ...], Tuple[str, ...]], ...] = (
    (
        LMOD,
        ("/usr/share/lmod/lmod", "/opt/apps/lmod/lmod", "/usr/local/lmod/lmod"),
        ("/etc/lmod/modules", "/etc/modulefiles", "/usr/share/modulefiles"),
    ),
    (
        ENVIRONMENT_MODULES,
        ("/usr/share/modules/init", "/usr/share/Modules/init"),
        (
            "/etc/environment-modules/modules",
            "/etc/modulefiles",
            "/usr/share/modules/modulefiles",
            "/usr/share/Modules/modulefiles",
        ),
    ),
)


def look(host: Host, which: str, folder: str = "") -> List[Tuple[str, str]]:
    """(kind, folder of modulefiles) of each system that ``which``, one of :data:`CHOICES`, asks for. ``folder`` is what
    a user gave."""
    result = []
    for kind, signs, folders in _SYSTEMS:
        there = any(host.exists(sign) for sign in signs)
        if which == kind or (which == AUTO and there):
            best = next((one for one in folders if host.exists(one)), folders[0])
            result.append((kind, folder or best))
    return result


def tcl_word(value: str) -> str:
    escaped = "".join("\\" + one if one in '\\"$[]{}' else one for one in value)
    return '"{0}"'.format(escaped)


def lua_word(value: str) -> str:
    return '"{0}"'.format(value.replace("\\", "\\\\").replace('"', '\\"'))


def lua_words(values: Sequence[str]) -> str:
    return ", ".join(map(lua_word, values))
