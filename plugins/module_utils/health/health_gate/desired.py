# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wanted of the gate on a node, checked."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any, Dict, Mapping, Tuple

from ...core.managed_files import Wanted
from ...core.resource import NodeError
from .. import registry, thresholds
from ..gate.settings import RANGES, Settings
from ..settings import check
from ..silences import Entry, parse
from ..types import Cost
from . import texts
from .types import FOLDER, SERVICE, TIMER

PROGRAM = "/etc/slurm/gpu_node_health_check"
_PATH = re.compile(r"/[A-Za-z0-9._/+@-]+")
_KUBERNETES_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


@dataclasses.dataclass(frozen=True)
class Desired:
    """``settings``: further settings of checks, for section ``health``. ``program``: the script for Slurm, or empty.

    ``gate_by_timer``: the timer drains and resumes too, where Slurm's HealthCheckProgram is somebody else's.

    :raises NodeError: something of it cannot be.
    """

    present: bool = True
    silences: Tuple[Entry, ...] = ()
    thresholds: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    without: Tuple[str, ...] = ()
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    gate: Settings = Settings()
    timer: bool = True
    gate_by_timer: bool = False
    program: str = PROGRAM

    def __post_init__(self) -> None:
        for name, path in (("textfile", self.gate.textfile), ("labels_file", self.gate.labels_file)):
            _path(name, path)
        _path("program", self.program)
        if self.gate.textfile and not self.gate.textfile.endswith(".prom"):
            raise NodeError(
                "option textfile",
                "{0!r} does not end with .prom".format(self.gate.textfile),
                "node exporter reads only such",
            )
        for name, (least, most) in RANGES.items():
            value = getattr(self.gate, name)
            if not least <= value <= most:
                raise NodeError(
                    "option " + name,
                    "{0:g} is out of range".format(value),
                    "give {0:g} to {1:g}".format(least, most),
                )
        if self.gate.kubernetes_node and not _KUBERNETES_NAME.fullmatch(self.gate.kubernetes_node):
            raise NodeError(
                "option kubernetes_node",
                "{0!r} is no name of a node".format(self.gate.kubernetes_node),
                "use the name that 'kubectl get nodes' shows",
            )
        check(self.settings)
        thresholds.check(self.thresholds)
        # On the node a name that means nothing would leave the gate without any check.
        registry.chosen(Cost.ACTIVE, (), self.without)
        try:
            json.dumps([self.settings, self.thresholds], allow_nan=False)
        except (TypeError, ValueError) as error:
            raise NodeError(
                "option settings", "it is no JSON ({0})".format(error), "use texts, numbers, lists"
            ) from error

    def wanted(self, slurmd: bool) -> Tuple[Wanted, ...]:
        """The whole files. The script is there for Slurm only."""
        files = []
        if self.timer:
            files.append(Wanted("{0}/{1}".format(FOLDER, SERVICE), texts.service(self.gate_by_timer)))
            files.append(Wanted("{0}/{1}".format(FOLDER, TIMER), texts.timer(self.gate.interval_seconds)))
        if self.program and slurmd:
            files.append(Wanted(self.program, texts.PROGRAM, 0o755))
        return tuple(files)

    @property
    def outputs(self) -> Tuple[str, ...]:
        """What a run of checks writes for other programs, with our mark."""
        return tuple(path for path in (self.gate.textfile, self.gate.labels_file) if path)

    def health_section(self) -> Dict[str, Any]:
        content = dict(self.settings)
        if self.silences:
            content["silences"] = [one.to_dict() for one in self.silences]
        if self.thresholds:
            content["thresholds"] = dict(self.thresholds)
        if self.without:
            content["without"] = list(self.without)
        return content


def settings(given: Mapping[str, Any]) -> Dict[str, Any]:
    """Without what a module's arguments name and nobody gave."""
    return {name: _given(value) for name, value in given.items() if value is not None}


def _given(value: Any) -> Any:
    if isinstance(value, list):
        return [_given(one) for one in value]
    return settings(value) if isinstance(value, dict) else value


def silences(given: Any) -> Tuple[Entry, ...]:
    """:raises NodeError: one of them cannot be."""
    return tuple(parse({name: value for name, value in one.items() if value is not None}) for one in given)


def _path(name: str, value: str) -> None:
    if value and (not _PATH.fullmatch(value) or ".." in value.split("/") or value.endswith("/")):
        raise NodeError(
            "option " + name,
            "{0!r} is no absolute path of a file".format(value),
            "use letters, digits and ._/+@- after a slash",
        )
