# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Configs of NVIDIA's device plugin that share GPUs: read from what a user gave, and written in the plugin's format.

What the plugin would refuse on each node, where nobody looks, is refused here (its api/config/v1 and
cmd/mps-control-daemon say what that is).
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Tuple

from ..core.frozen import frozen
from ..core.nearest import nearest
from ..core.resource import NodeError, together
from .kubectl import LABEL_VALUE

#: The config that shares nothing; always there.
WHOLE = "whole"
GPU = "nvidia.com/gpu"
#: An instance of MIG under the strategy "mixed".
MIG = "nvidia.com/mig-"
#: What a resource is called where it is renamed.
SHARED = ".shared"
TIME_SLICING, MPS, NONE = "time-slicing", "mps", "none"
#: Clients of one MPS server, from compute capability 7.5 on and before.
MPS_CLIENTS, MPS_CLIENTS_OLD = 48, 16

_KEYS = {"time_slicing": TIME_SLICING, "mps": MPS}
_SWITCHES = ("rename", "fail_requests_greater_than_one")
_FIELD = {TIME_SLICING: "timeSlicing", MPS: "mps"}
# Of 1g.24gb+me and 1g.24gb-me the plugin replaces the plus alone (internal/rm/rm.go).
_PROFILE = re.compile(r"([0-9]+c\.)?[0-9]+g\.[0-9]+gb([.-][a-z.]+)?")
# Longer names of resources are refused by the plugin.
_MOST = 63


@frozen
class Config:
    """``replicas``: how many pods share each device of a resource; empty where nothing is shared."""

    name: str
    strategy: str = NONE
    replicas: Tuple[Tuple[str, int], ...] = ()
    rename: bool = False
    fail_requests_greater_than_one: bool = True

    def of(self, resource: str) -> int:
        return dict(self.replicas).get(resource, 1)

    def offered_as(self, resource: str) -> str:
        """What pods ask for."""
        return resource + SHARED if self.rename and self.of(resource) > 1 else resource


def read(given: Mapping[str, Any]) -> Mapping[str, Config]:
    """By their names, with :data:`WHOLE`.

    :raises NodeError: about everything that is wrong.
    """
    found = {WHOLE: Config(WHOLE)}
    wrong: List[NodeError] = []
    for name, content in given.items():
        try:
            found[str(name)] = _config(str(name), {} if content is None else content)
        except NodeError as error:
            wrong.append(error)
    if wrong:
        raise together(wrong)
    return dict(sorted(found.items()))


def _config(name: str, content: Any) -> Config:
    if not re.fullmatch(LABEL_VALUE, name):
        remedy = "use at most 63 letters, digits and -_. with a letter or digit at both ends"
        raise _wrong("{0!r} cannot be the value of a label".format(name), remedy)
    if not isinstance(content, Mapping):
        raise _wrong("{0} is no mapping".format(name), "write it as {time_slicing: {nvidia.com/gpu: 4}}")
    for key in content:
        if key not in (*_KEYS, *_SWITCHES):
            known = (*_KEYS, *_SWITCHES)
            remedy = "{0}use some of {1}".format(nearest(str(key), known), ", ".join(known))
            raise _wrong("{0} has {1!r}, which means nothing".format(name, key), remedy)
    ways = [key for key in _KEYS if content.get(key) is not None]
    if name == WHOLE and content:
        raise _wrong("{0} is the config that shares nothing".format(name), "give yours another name")
    if len(ways) == 2:
        raise _wrong("{0} has both time_slicing and mps".format(name), "choose one; a node has one way to share")
    if not ways:
        if content:
            raise _wrong("{0} shares nothing".format(name), "give it time_slicing or mps, or use the config whole")
        return Config(name)
    strategy = _KEYS[ways[0]]
    switches = {key: _switch(name, key, content[key]) for key in _SWITCHES if content.get(key) is not None}
    return Config(name, strategy, _replicas(name, ways[0], content[ways[0]]), **switches)


def _switch(name: str, key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong("{0}: {1} is {2!r}".format(name, key, value), "give true or false")
    return value


def _replicas(name: str, way: str, given: Any) -> Tuple[Tuple[str, int], ...]:
    if not isinstance(given, Mapping) or not given:
        remedy = "name each with its replicas, as in {{{0}: {{nvidia.com/gpu: 4}}}}".format(way)
        raise _wrong("{0}: {1} names no resources".format(name, way), remedy)
    wrong: List[NodeError] = []
    for resource, number in given.items():
        try:
            _check_resource(name, way, str(resource))
            _check_number(name, way, str(resource), number)
        except NodeError as error:
            wrong.append(error)
    if wrong:
        raise together(wrong)
    return tuple(sorted((str(resource), int(number)) for resource, number in given.items()))


def _check_resource(name: str, way: str, resource: str) -> None:
    told = "{0}: {1}".format(name, resource)
    if way == "mps" and MIG[len("nvidia.com/") :] in resource:
        raise _wrong(told + " is an instance of MIG, which MPS does not share", "use time_slicing for it")
    if resource == GPU or (resource.startswith(MIG) and _PROFILE.fullmatch(resource[len(MIG) :])):
        if len(resource) > _MOST:
            raise _wrong(told + " is longer than 63 characters", "name a resource that the plugin offers")
        return
    if resource.endswith(SHARED):
        remedy = "name it without {0}, and give rename: true".format(SHARED)
        raise _wrong(told + " is what the resource is called when it is renamed", remedy)
    if "+" in resource:
        raise _wrong(told + " is not what the plugin calls it", "write it as " + resource.replace("+", "."))
    remedy = "use nvidia.com/gpu, or nvidia.com/mig-PROFILE as in nvidia.com/mig-1g.10gb"
    raise _wrong(told + " cannot be shared", remedy)


def _check_number(name: str, way: str, resource: str, number: Any) -> None:
    told = "{0}: {1} has {2!r} replicas".format(name, resource, number)
    whole = isinstance(number, int) and not isinstance(number, bool)
    if not whole and not (isinstance(number, str) and re.fullmatch("[0-9]{1,9}", number)):
        raise _wrong(told + ", which is no whole number", "give how many pods share each, 2 or more")
    if int(number) < 2:
        raise _wrong(told + ", and one replica shares nothing", "give 2 or more, or use the config whole")
    if way == "mps" and int(number) > MPS_CLIENTS:
        remedy = "give at most {0}; of GPUs before Turing at most {1}".format(MPS_CLIENTS, MPS_CLIENTS_OLD)
        raise _wrong(told + ", more than an MPS server has clients", remedy)


def _wrong(reason: str, remedy: str) -> NodeError:
    return NodeError("option configs", reason, remedy)


def rendered(config: Config) -> str:
    """Pure. The config as the plugin reads it. No name in it means anything to YAML."""
    lines = ["version: v1"]
    if config.replicas:
        lines += ["sharing:", "  {0}:".format(_FIELD[config.strategy])]
        for key, value in (
            ("renameByDefault", config.rename),
            ("failRequestsGreaterThanOne", config.fail_requests_greater_than_one),
        ):
            lines.append("    {0}: {1}".format(key, "true" if value else "false"))
        lines.append("    resources:")
        for resource, number in config.replicas:
            lines += ["      - name: " + resource, "        replicas: {0}".format(number)]
    return "\n".join(lines) + "\n"


def data(configs: Mapping[str, Config]) -> Dict[str, str]:
    """Pure. The content of the config map: a file for each config."""
    return {name: rendered(config) for name, config in sorted(configs.items())}
