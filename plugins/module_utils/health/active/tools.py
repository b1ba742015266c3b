# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the tools of active checks on a node."""

from __future__ import annotations

import glob
import os
from typing import Any, List, Mapping, Optional

from ...core.host import Host
from ..data.tools import MPI_LIBRARIES, TOOLS
from ..types import NoTool

SETTING = "tools"


def find(host: Host, settings: Mapping[str, Any], name: str) -> Optional[str]:
    """The program of a tool: from the settings, from PATH, or from the directories that images use. None: not found.

    :raises NoTool: the settings name a file that cannot be run.
    """
    given = configured(settings, name)
    if given is not None:
        return given
    tool = TOOLS[name]
    found = [host.which(program) for program in tool.programs]
    for pattern in tool.places:
        found += [path for path in reversed(matches(host, pattern)) if _runs(path)]
    return next((path for path in found if path), None)


def need(host: Host, settings: Mapping[str, Any], name: str) -> str:
    """:raises NoTool: when it is not there, with the remedy."""
    found = find(host, settings, name)
    if found is None:
        remedy = "{0}, name its path in setting {1}.{2} of section health, or leave its check out (setting without)"
        remedy = remedy.format(TOOLS[name].remedy, SETTING, name)
        raise NoTool(name, "this tool is not on the node", remedy)
    return found


def configured(settings: Mapping[str, Any], name: str) -> Optional[str]:
    """What the settings name, or None."""
    given = settings.get(SETTING)
    path = given.get(name) if isinstance(given, Mapping) else None
    if path is None:
        return None
    if not isinstance(path, str) or not path.startswith("/") or not _runs(path):
        raise NoTool(
            "setting {0}.{1}".format(SETTING, name),
            "{0!r} is no program".format(path),
            "give the whole path of one that can be run, or take the setting out",
        )
    return path


def mpi_libraries(host: Host) -> List[str]:
    """Folders with an MPI library that the loader does not know by itself."""
    return [path for pattern in MPI_LIBRARIES for path in reversed(matches(host, pattern)) if os.path.isdir(path)]


def matches(host: Host, pattern: str) -> List[str]:
    return sorted(glob.glob(host.path(pattern)))


def _runs(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
