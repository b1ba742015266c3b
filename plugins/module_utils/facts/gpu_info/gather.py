# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gather the wished groups of readings from the wished GPUs."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Sequence, Tuple

from ...core.frozen import frozen
from ...core.host import Host
from ...core.resource import NodeError
from ..nvml.call import Gpu, Kind
from ..nvml.selectors import ALL, parse
from ..nvml.session import CALL_TIMEOUT_SECONDS, Visit, survey
from . import read_errors, read_hardware, read_state
from .ask import Ask
from .types import GpuInformation, Information

# In the order of reading: what hangs most often on a sick GPU comes last, so that the rest is told.
GROUPS: Mapping[str, Callable[[Ask], Any]] = {
    "board": read_hardware.board,
    "numa": read_hardware.numa,
    "memory": read_hardware.memory,
    "settings": read_state.settings,
    "clocks": read_state.clocks,
    "power": read_state.power,
    "temperature": read_state.temperature,
    "load": read_state.load,
    "processes": read_state.processes,
    "ecc": read_errors.ecc,
    "repair": read_errors.repair,
    "pcie": read_hardware.pcie,
    "topology": read_hardware.topology,
    "nvlink": read_hardware.nvlink,
    "fabric": read_hardware.fabric,
}
MINIMUM = "minimum"
_IDENTITY = ""  # the part that tells why a name of the GPU is absent
Part = Tuple[str, Any, Dict[str, str], Dict[str, Kind]]


@frozen
class Options:
    """What to gather. ``groups`` are names of ``GROUPS``; the identity of a GPU always comes with it."""

    gpus: Tuple[str, ...] = (ALL,)
    groups: Tuple[str, ...] = tuple(GROUPS)
    every_clock: bool = False
    call_timeout_seconds: float = CALL_TIMEOUT_SECONDS

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> Options:
        """Check what a user wrote: ``gpus``, ``gather``, ``every_clock``, ``call_timeout``.

        :raises NodeError: for an unknown group, an empty list, or a time limit that is none.
        """
        gpus = parse(given.get("gpus"), "option gpus")
        timeout = float(_given(given, "call_timeout", CALL_TIMEOUT_SECONDS))
        if not 0.1 <= timeout <= 600:
            raise NodeError(
                "option call_timeout",
                "{0:g} s is outside 0.1 to 600 s".format(timeout),
                "choose some seconds; the default is {0:g}".format(CALL_TIMEOUT_SECONDS),
            )
        return cls(gpus, _groups(_given(given, "gather", [ALL])), bool(_given(given, "every_clock", False)), timeout)


def _given(options: Mapping[str, Any], name: str, default: Any) -> Any:
    value = options.get(name)
    return default if value is None else value


def _groups(wished: Sequence[str]) -> Tuple[str, ...]:
    """The groups that a list of names means; ``!name`` takes one out, and a list of those alone starts from all."""
    known = set(GROUPS)
    for name in wished:
        if name.lstrip("!") not in known | {ALL, MINIMUM}:
            raise NodeError(
                "option gather",
                "there is no group {0!r}".format(name),
                "choose among all, minimum, " + ", ".join(GROUPS),
            )
    chosen = {name for name in wished if name in known}
    if ALL in wished or not any(not name.startswith("!") for name in wished):
        chosen = known
    chosen -= {name[1:] for name in wished if name.startswith("!")}
    return tuple(name for name in GROUPS if name in chosen)


def gather(options: Options, host: Optional[Host] = None) -> Information:
    """Read everything that was asked for.

    :raises NodeError: when a selector means no GPU of this machine.
    """
    answer = survey(
        functools.partial(visit, options=options),
        selectors=options.gpus,
        call_timeout=options.call_timeout_seconds,
        host=host,
    )
    system = answer.system
    return Information(
        status=answer.status.value,
        message=answer.message,
        driver_version=system.driver_version.value,
        cuda_version=system.cuda_version.value,
        nvml_version=system.nvml_version.value,
        binding_version=system.binding_version.value,
        gpu_count=answer.gpu_count,
        gpus=tuple(assemble(visited, options) for visited in answer.visits),
        pci_gpus=tuple(gpu.pci_address for gpu in answer.pci_gpus),
    )


def visit(gpu: Gpu, options: Options) -> Iterator[Part]:
    """In the child of a survey: the groups of one GPU, one after the other."""
    unnamed = Ask(gpu, _IDENTITY)
    for field, reading in gpu.nameless.items():
        unnamed.take(field, reading)
    yield _IDENTITY, None, unnamed.absent, unnamed.failed
    for name in options.groups:
        ask = Ask(gpu, name)
        if name == "clocks":
            group: Any = read_state.clocks(ask, options.every_clock)
        else:
            group = GROUPS[name](ask)
        yield name, group, ask.absent, ask.failed


def assemble(visited: Visit[Part], options: Options) -> GpuInformation:
    groups: Dict[str, Any] = dict.fromkeys(options.groups)
    absent: Dict[str, str] = {}
    failed: Dict[str, Kind] = {}
    for name, group, reasons, kinds in visited.parts:
        if name != _IDENTITY:
            groups[name] = group
        absent.update(reasons)
        failed.update(kinds)
    if visited.fault is not None:
        told = {part[0] for part in visited.parts}
        absent.update({name: visited.fault.reason for name in options.groups if name not in told})
        for field in ("uuid", "pci_address", "serial", "minor_number", "name"):
            if getattr(visited.identity, field) is None:
                absent.setdefault(field, visited.fault.reason)
    return GpuInformation(visited.identity, groups, absent, visited.fault, failed)
