# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found of the labels on a node."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from ...core.folder_given import Folder
from ...core.frozen import frozen
from ...core.managed_files import Files
from ...core.systemd.timer import Timer, TimerState

SECTION = "node_labels"
UNIT = Timer(SECTION)


@frozen
class State:
    """``declared``: section node_labels of the declaration. ``file``: where the labels go; empty: there is no place.
    ``foreign``: something lies there that is not ours. ``folder``: where it lies. ``left``: files of labels of ours.
    ``gate``: the file of the labels of the gate. ``gfd``: the file of GPU feature discovery beside ours, or empty."""

    files: Files = Files()
    declared: Mapping[str, Any] = {}
    timer: TimerState = TimerState()
    file: str = ""
    foreign: bool = False
    folder: Optional[Folder] = None
    left: Tuple[str, ...] = ()
    gate: str = ""
    gfd: str = ""
