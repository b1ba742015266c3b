# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How NVIDIA's device plugin shares the GPUs: as an option has it, and as words of a command line. Pure.

What the plugin would refuse is refused by the same rules as for its configs (``kubernetes/sharing_configs``).
"""

from __future__ import annotations

import argparse
import re
from typing import Any, Dict, List, Mapping

from ...core.resource import NodeError
from ...kubernetes import sharing_configs as configs
from ...kubernetes.sharing_configs import GPU, MPS, TIME_SLICING, Config

_NAME = "sharing"
_KEYS = {TIME_SLICING: "time_slicing", MPS: "mps"}


def read(given: Any, option: str = "option sharing") -> Config:
    """``{time_slicing: {nvidia.com/gpu: 4}}``, as a config of gpu_sharing.

    :raises NodeError: it cannot be.
    """
    try:
        return configs.read({_NAME: given} if given else {})[_NAME if given else configs.WHOLE]
    except NodeError as error:
        reason = re.sub("^{0}:? ".format(_NAME), "", error.reason)
        remedy = error.remedy.replace("use the config {0}".format(configs.WHOLE), "leave it out")
        raise NodeError(option, reason, remedy) from error


def words(sharing: Config) -> List[str]:
    """The arguments of ``gpunode labels`` for it."""
    found: List[str] = []
    for resource, number in sharing.replicas:
        found += ["--sharing", "{0}:{1}={2}".format(sharing.strategy, resource, number)]
    return found + (["--renamed"] if sharing.rename else [])


def of_words(arguments: argparse.Namespace) -> Config:
    """:raises NodeError: one of them cannot be read, or cannot be."""
    content: Dict[str, Any] = {}
    for word in arguments.sharing:
        found = re.fullmatch(r"(?P<way>[a-z-]+)(?::(?P<resource>[^=]+))?=(?P<number>.+)", word, re.DOTALL)
        way = _KEYS.get(found["way"]) if found is not None else None
        if found is None or way is None:
            remedy = "write time-slicing=4, mps=2 or time-slicing:nvidia.com/mig-1g.10gb=2"
            raise NodeError("option --sharing", "{0!r} tells no way to share".format(word), remedy)
        resources: Dict[str, Any] = content.setdefault(way, {})
        resources[found["resource"] or GPU] = found["number"]
    if arguments.renamed:
        content["rename"] = True
    return read(content, "option --sharing")


def plain(sharing: Config) -> Mapping[str, Any]:
    """As a user would give it."""
    if not sharing.replicas:
        return {}
    found: Dict[str, Any] = {_KEYS[sharing.strategy]: dict(sharing.replicas)}
    return dict(found, rename=True) if sharing.rename else found
