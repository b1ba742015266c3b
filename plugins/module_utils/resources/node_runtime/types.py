# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wanted of the node command, what is found, and the steps between."""

from __future__ import annotations

from typing import Optional, Tuple

from ...core.frozen import frozen
from ...core.resource import Action
from ...facts.nvml.binding import RUNTIME

FOLDER = "/opt/gpu_node"
COMMAND = "/usr/local/bin/gpunode"
# What lies in the zipapp for people's shells, and where they look for it.
PAGES = (
    ("gpu_node/command/data/gpunode.1", "/usr/local/share/man/man1/gpunode.1"),
    ("gpu_node/command/data/gpunode.bash", "/usr/local/share/bash-completion/completions/gpunode"),
    # In the fpath that zsh is built with, whatever its prefix is.
    ("gpu_node/command/data/gpunode.zsh", "/usr/local/share/zsh/site-functions/_gpunode"),
    # The administrator's folder: fish of Debian does not look into /usr/local.
    ("gpu_node/command/data/gpunode.fish", "/etc/fish/completions/gpunode.fish"),
)
# What a machine without fish has not got: it goes with our file, unless there is more in it by then.
FISH = "/etc/fish"
# A page without these words is somebody else's.
PAGE_MARKER = "Generated from the argument parser of gpunode"


@frozen
class Desired:
    """``sha256`` of the zipapp as the controller built it; None takes the node command away."""

    sha256: Optional[str]


@frozen
class State:
    """``sha256`` is the checksum of the controller's file that the installed one was built from; None with a ``mode``
    is a file that is damaged, was built for another Python, or names an ``interpreter`` that is missing. ``command`` is
    the kind of /usr/local/bin/gpunode: None (missing), the target of a link, or "file". ``fault``: why the installed
    file does not start; empty: it starts, or it will be replaced anyway."""

    folder_exists: bool
    folder_empty_otherwise: bool
    sha256: Optional[str]
    mode: Optional[int]
    command: Optional[str]
    # The man page and the completions that are missing or differ from those in the installed file, and those of ours.
    stale_pages: Tuple[str, ...] = ()
    our_pages: Tuple[str, ...] = ()
    interpreter: str = ""
    fault: str = ""


@frozen
class InstallZipapp(Action):
    sha256: str

    def describe(self) -> str:
        return "install the node command as {0}".format(RUNTIME)


@frozen
class LinkCommand(Action):
    def describe(self) -> str:
        return "link {0} to {1}".format(COMMAND, RUNTIME)


@frozen
class WritePages(Action):
    def describe(self) -> str:
        return "install the man page and the shell completions of gpunode"


@frozen
class RemovePages(Action):
    paths: Tuple[str, ...]

    def describe(self) -> str:
        return "remove {0}".format(" and ".join(self.paths))


@frozen
class RemoveCommand(Action):
    def describe(self) -> str:
        return "remove the link {0}".format(COMMAND)


@frozen
class RemoveZipapp(Action):
    """Takes the folder away as well when nothing else lies in it."""

    def describe(self) -> str:
        return "remove {0}".format(RUNTIME)
