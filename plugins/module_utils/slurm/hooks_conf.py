# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prolog= and Epilog= in slurm.conf, or as ``scontrol show config`` tells them; whether they reach our hooks."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from typing import Any, Mapping, Optional, Sequence, Tuple

from ..core.frozen import frozen
from ..core.host import Host
from ..core.options import of_section
from ..core.resource import NodeError
from . import places, syntax
from .commands import Commands
from .types import Settings

# The prolog has two names: whatever order a site's Slurm (Z to A) or its own wrapper (A to Z) has, ours comes first,
# and no other script works on a node whose scratch is not there. The second call finds the first one's work done.
PROLOG_NAMES = ("00-gpu_node", "zz-gpu_node")
EPILOG_NAME = "50-gpu_node"
PROLOG_FOLDER = "/etc/slurm/prolog.d"


@frozen
class Hooks:
    """The patterns of Prolog= and Epilog=; None: nobody tells."""

    prolog: Tuple[str, ...] = ()
    epilog: Tuple[str, ...] = ()


@frozen
class Raising:
    """Whether hooks are declared here that raise the clocks for jobs (None: no hooks are), and ``reached``: Slurm's
    configuration names the place of the prolog."""

    declared: Optional[bool] = None
    reached: bool = False

    @property
    def clocks(self) -> bool:
        return bool(self.declared) and self.reached


def raising(host: Host, section: Optional[Mapping[str, Any]]) -> Raising:
    """``section``: what is declared for slurm_hooks."""
    declared = None if section is None else of_section(Settings, section).clocks
    files = ["{0}/{1}".format(PROLOG_FOLDER, PROLOG_NAMES[0])] if section is None else section.get("files")
    named = [str(one) for one in files] if isinstance(files, list) else []
    prolog = next((one for one in named if posixpath.basename(one) == PROLOG_NAMES[0]), None)
    if prolog is None or declared is False or places.program(host, "slurmd") is None:
        return Raising(declared)
    path = places.find(host, str((section or {}).get("slurm_conf") or "")).path
    text = (syntax.read(path, host.read) if path else None) or running(host)
    return Raising(declared, text is not None and reaches(hooks(text).prolog, prolog))


def running(host: Host) -> Optional[syntax.Text]:
    """What slurmctld says; None when it cannot be asked (it is down, this is an image being built)."""
    if host.root != "/":
        return None
    try:
        return syntax.of(Commands(host).run("scontrol", "show", "config"))
    except NodeError:
        return None


def hooks(text: syntax.Text) -> Hooks:
    """Newer versions of Slurm take more than one line."""
    return Hooks(_patterns(text, "prolog"), _patterns(text, "epilog"))


def _patterns(text: syntax.Text, key: str) -> Tuple[str, ...]:
    words = [word for value in syntax.values(text, key) for word in re.split(r"[,\s]+", value)]
    return tuple(word for word in words if word.startswith("/"))


def reaches(patterns: Sequence[str], path: str) -> bool:
    """Whether one of these patterns, as glob(7) takes them, means this file."""
    folder, name = posixpath.split(path)
    return any(
        posixpath.dirname(pattern) == folder and fnmatch.fnmatchcase(name, posixpath.basename(pattern))
        for pattern in patterns
    )
