# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of the labels: what is kept of it, who else has one, and writing it."""

from __future__ import annotations

import os
import re
from typing import Dict, Mapping, Tuple

from ...core import managed_files
from ...core.host import Host
from ...core.managed_files import WriteFile
from ...core.resource import Misuse, NodeError, sentence
from . import rules
from .settings import GFD_FILE, GFD_PREFIX, TIMESTAMP


def checked(labels: Mapping[str, str]) -> Tuple[Dict[str, str], Tuple[str, ...]]:
    """Pure. Those that Kubernetes takes, and a sentence for each other one, of which only the log of NFD would tell."""
    good = {name: text for name, text in labels.items() if rules.legal(name, text)}
    reason = "{0!r} can be no label of Kubernetes"
    wrong = [
        sentence("label " + name, reason.format(labels[name]), "it is left out")
        for name in sorted(labels)
        if name not in good
    ]
    return good, tuple(wrong)


def steady(labels: Mapping[str, str], before: str) -> Dict[str, str]:
    """Pure. Where the labels of the GPUs are those of the file as it was, they keep its timestamp: that of GPU feature
    discovery is of its start, and one that changes at each run would have the node patched each time."""
    found = dict(labels)
    old = dict(re.findall(r"^([^#=\n]+)=(.*)$", before, re.MULTILINE))
    stamp = old.get(TIMESTAMP, "")
    if TIMESTAMP in found and re.fullmatch("[0-9]{1,12}", stamp, re.ASCII) and _of_gpus(old) == _of_gpus(found):
        found[TIMESTAMP] = stamp
    return found


def _of_gpus(labels: Mapping[str, str]) -> Dict[str, str]:
    return {name: text for name, text in labels.items() if name.startswith(GFD_PREFIX) and name != TIMESTAMP}


def of_others(host: Host, file: str) -> str:
    """The file of GPU feature discovery beside this one, where it is there and is not ours; "" elsewhere."""
    path = os.path.join(os.path.dirname(file), GFD_FILE)
    return path if managed_files.look(host, path).foreign else ""


def before(host: Host, path: str) -> str:
    """What it says now; "" where it is not there.

    :raises NodeError: it may not be written.
    """
    folder, name = os.path.split(path)
    if not name or name.startswith("."):
        raise Misuse(path, "Node Feature Discovery reads no such file", "give one whose name begins with no dot")
    if not os.path.isdir(host.path(folder)):
        remedy = "install Node Feature Discovery, whose worker makes it, or give another file"
        raise NodeError(path, "there is no folder {0}".format(folder), remedy)
    seen = managed_files.look(host, path)
    if seen.foreign:
        raise NodeError(path, "it is there and is not ours", "move it away, or give another file")
    return seen.text


def write(host: Host, path: str, text: str) -> None:
    """In one step, by way of a file whose name begins with a dot, which Node Feature Discovery passes over."""
    managed_files.apply(host, WriteFile(path, text, 0o644))
