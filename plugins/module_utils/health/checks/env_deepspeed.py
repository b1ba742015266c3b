# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node has to have itself for the DeepSpeed environments that were declared for it, whoever built them.

The ops were judged by ds_report when an environment was built, perhaps on another node of a shared folder. Here it is
not run, since it loads PyTorch, and no file of an environment is read: its file system may be gone.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from ...core import mounts
from ...core.frozen import frozen
from ...core.resource import NodeError
from ..evidence import Evidence
from ..types import Check, Cost, Expected, Finding, Judgement, Measured, Outcome, Remedy

PER_GPU = "shared_memory_bytes_per_gpu"
_MEMORY = "/dev/shm"  # noqa: S108 nothing is made there
# What the loader of programs knows, in its cache: the op async_io is linked with -laio (deepspeed/op_builder).
_LOADER, _LIBRARY = "/etc/ld.so.cache", "libaio.so.1"
_GIB = 1024.0**3


@frozen
class Seen:
    """``library``: whether programs find libaio; None where the loader has no cache."""

    names: Tuple[str, ...]
    gpus: int
    memory_bytes: int
    library: Optional[bool]


def look(evidence: Evidence) -> Optional[Seen]:
    names = _declared(evidence.declared.get("python_env") or {})
    if not names:
        return None
    try:
        memory = mounts.space(evidence.host, _MEMORY).total_bytes
    except OSError as error:
        raise NodeError(_MEMORY, "it does not answer ({0})".format(error.strerror), "mount a tmpfs there") from error
    known = evidence.host.read(_LOADER)
    return Seen(names, len(evidence.topology.gpus), memory, None if known is None else _LIBRARY in known)


def _declared(section: Mapping[str, Any]) -> Tuple[str, ...]:
    """A person may have edited the declaration: what is no environment is passed over."""
    given = section.get("environments")
    found = [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
    return tuple(str(one.get("name")) for one in found if one.get("preset") == "deepspeed")


def judge(seen: Optional[Seen], expected: Expected) -> Judgement:
    if seen is None:
        return Judgement(not_applicable="no DeepSpeed environment was declared")
    findings = []
    measured: Tuple[Measured, ...] = ()
    if seen.library is False:
        reason = "{0} is not on this node, so the op async_io of {1} cannot be loaded".format(
            _LIBRARY, ", ".join(seen.names)
        )
        remedy = "install the package libaio1, libaio1t64 (Debian, Ubuntu) or libaio (EL)"
        findings.append(Finding(Outcome.WARN, "DeepSpeed", reason, remedy, Remedy.CONFIGURE, code="library"))
    if seen.gpus:
        share = seen.memory_bytes / seen.gpus
        measured = (Measured(PER_GPU, share, better="higher"),)
        limit = expected.thresholds.get(PER_GPU)
        if limit is not None and limit.outcome(share) is not Outcome.PASS:
            reason = "it has {0:.1f} GiB for {1} GPUs (limit {2:g} GiB a GPU)".format(
                seen.memory_bytes / _GIB, seen.gpus, (limit.limit(share) or 0) / _GIB
            )
            remedy = "raise its size in /etc/fstab and run 'mount -o remount {0}'".format(_MEMORY)
            outcome = limit.outcome(share)
            findings.append(Finding(outcome, _MEMORY, reason, remedy, Remedy.CONFIGURE, code="shared_memory"))
    return Judgement(
        "{0}; {1:.0f} GiB in {2}".format(", ".join(seen.names), seen.memory_bytes / _GIB, _MEMORY),
        tuple(findings),
        measured,
    )


CHECKS = (Check("env_deepspeed", "What DeepSpeed environments need is there", Cost.PASSIVE, judge, look),)
