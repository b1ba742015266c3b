# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Section ``health_gate`` of the declaration: what a verdict is to do on this node."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Mapping, Optional, Tuple

from ..attempts import RESET_GPU

SECTION = "health_gate"
RESTART_SERVICE, REBOOT, REDEPLOY = "restart_service", "reboot", "redeploy"
# From the weakest to the strongest.
REMEDIES = (RESTART_SERVICE, RESET_GPU, REBOOT, REDEPLOY)
# Held while a remedy of :mod:`..remedies` runs.
REMEDY_LOCK = "health_remedy"
# Held while the active checks run that this node owes. Neither begins while the other runs.
PROOF_LOCK = "health_proof"
REMEDY_UNIT = "gpu-node-remedy.service"


@dataclasses.dataclass(frozen=True)
class Settings:
    """``drain_after`` failing verdicts in a row drain, ``resume_after`` clean ones in a row resume. The gate drains at
    most ``drained_percent`` of a partition at a time. ``resumes_a_day``: after this number of resumes within a day, a
    node stays drained until an administrator inspects it. ``keep_powered``: Slurm does not power down a node that is
    drained for its health. ``proof``: a node that was drained for a fault must pass active checks, which are tried
    ``proof_attempts`` times, each within ``proof_seconds`` (0: without a budget); ``left_out``: patterns of checks that
    section ``health`` leaves out. ``remedies``: the allowed remedies, see :mod:`..remedies`. Empty paths and names:
    that part is off.
    """

    drain: bool = True
    resume: bool = True
    prolog: bool = True
    epilog: bool = False
    unknown_drains: bool = False
    drain_after: int = 1
    resume_after: int = 3
    resumes_a_day: int = 3
    proof: bool = True
    proof_attempts: int = 3
    proof_seconds: float = 0.0
    drained_percent: float = 20.0
    keep_powered: bool = False
    keepalive: Tuple[str, ...] = ()
    remedies: Tuple[str, ...] = ()
    remedy_attempts: int = 2
    remedies_a_day: int = 4
    remedied_percent: float = 10.0
    remedy_units: Tuple[str, ...] = ()
    redeploy_command: Tuple[str, ...] = ()
    redeploy_seconds: int = 900
    textfile: str = ""
    labels_file: str = ""
    kubernetes_node: str = ""
    journal_folder: str = ""
    interval_seconds: int = 300
    scontrol: str = "scontrol"
    left_out: Tuple[str, ...] = ()

    @classmethod
    def from_section(cls, section: Optional[Mapping[str, Any]]) -> Settings:
        """A value of a wrong kind, or out of range, counts as not given: a hook must not fail for it."""
        given: Dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            value, kind = (section or {}).get(field.name), type(field.default)
            if kind is float and isinstance(value, int) and not isinstance(value, bool):
                value = float(value)
            if kind is tuple and isinstance(value, list):
                value = tuple(str(one) for one in value)
            # A bool is an int for Python, and is none here.
            fits = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
            if fits and _in_range(field.name, value):
                given[field.name] = value
        return cls(**given)


# (least, most) of each number. Slurm's own HealthCheckInterval is at most 65,535 s (slurm.conf(5)).
RANGES: Mapping[str, Tuple[float, float]] = {
    "drain_after": (1, 20),
    "resume_after": (1, 20),
    "resumes_a_day": (1, 100),
    "proof_attempts": (1, 24),
    "proof_seconds": (0, 86400),
    "drained_percent": (0, 100),
    "remedy_attempts": (1, 10),
    "remedies_a_day": (1, 50),
    "remedied_percent": (1, 100),
    "redeploy_seconds": (10, 7200),
    "interval_seconds": (30, 65535),
}


def _in_range(name: str, value: Any) -> bool:
    least, most = RANGES.get(name, (None, None))
    return least is None or most is None or least <= value <= most


def left_out(declared: Mapping[str, Mapping[str, Any]]) -> Tuple[str, ...]:
    """The patterns of checks that section ``health`` leaves out."""
    given = declared.get("health", {}).get("without", [])
    return tuple(one for one in given if isinstance(one, str)) if isinstance(given, list) else ()


def applied(settings: Settings, declared: Mapping[str, Mapping[str, Any]], node: str, now: float) -> Settings:
    """The current settings of the gate on this node: with the checks that are left out, and without validation if an
    administrator waives it."""
    section = declared.get("health", {})
    settings = dataclasses.replace(settings, left_out=left_out(declared))
    if settings.proof and section.get("overrules"):
        from .. import overrules  # seldom wanted

        if overrules.held(section, node, now) is not None:
            return dataclasses.replace(settings, proof=False)
    return settings
