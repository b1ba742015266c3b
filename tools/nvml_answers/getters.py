# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The calls that read a GPU, with the arguments they are asked with. None of them changes anything."""

from __future__ import annotations

import inspect
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple


class Struct(NamedTuple):
    """An argument that the call fills: a structure of the binding, by name."""

    name: str


class Peer(NamedTuple):
    """An argument that is the handle of another GPU."""


class Room(NamedTuple):
    """Two arguments: structures of the binding that the call fills, by name, and how many at most."""

    name: str
    length: int = 16


class Question(NamedTuple):
    label: str
    function: str
    arguments: Tuple[Any, ...]


# Getters of one handle that are left out: what they tell is about the machine or its users and not about the product,
# or is long and secret.
LEFT_OUT = (
    "nvmlDeviceGetAccountingPids",
    "nvmlDeviceGetConfComputeGpuCertificate",
    "nvmlDeviceGetHostname_v1",
    "nvmlDeviceGetPgpuMetadataString",
    "nvmlDeviceGetProcessesUtilizationInfo",
    "nvmlDeviceGetVgpuMetadata",
)
_CLOCKS, _CLOCK_IDS = range(4), range(4)
_TWO = range(2)
_ERRORS = [(kind, counter) for kind in _TWO for counter in _TWO]
# nvml.h has 18 kinds of GPU instances; the ids of their profiles are in NVIDIA's MIG user guide.
_GI_KINDS, _GI_PROFILES = range(20), (0, 5, 9, 14, 15, 19, 20)
# Function → the arguments after the handle, one tuple a question.
_WITH_ARGUMENTS: Dict[str, List[Tuple[Any, ...]]] = {
    "nvmlDeviceGetApplicationsClock": [(clock,) for clock in _CLOCKS],
    "nvmlDeviceGetClock": [(clock, identity) for clock in _CLOCKS for identity in _CLOCK_IDS],
    "nvmlDeviceGetClockInfo": [(clock,) for clock in _CLOCKS],
    "nvmlDeviceGetCpuAffinity": [(64,)],
    "nvmlDeviceGetCpuAffinityWithinScope": [(64, scope) for scope in _TWO],
    "nvmlDeviceGetDefaultApplicationsClock": [(clock,) for clock in _CLOCKS],
    "nvmlDeviceGetGpuFabricInfo": [(Struct("c_nvmlGpuFabricInfo_t"),)],
    "nvmlDeviceGetGpuFabricInfoV": [(Struct("c_nvmlGpuFabricInfo_v2_t"),), (Struct("c_nvmlGpuFabricInfo_v3_t"),)],
    "nvmlDeviceGetGpuInstanceById": [(0,), (1,)],
    "nvmlDeviceGetGpuInstancePossiblePlacements": [
        (profile, Room("c_nvmlGpuInstancePlacement_t")) for profile in _GI_PROFILES
    ],
    "nvmlDeviceGetGpuInstanceProfileInfo": [(kind, version) for kind in _GI_KINDS for version in (1, 2)],
    "nvmlDeviceGetGpuInstanceRemainingCapacity": [(profile,) for profile in _GI_PROFILES],
    "nvmlDeviceGetGpuInstances": [(profile, Room("c_nvmlGpuInstance_t")) for profile in _GI_PROFILES],
    "nvmlDeviceGetInforomVersion": [(thing,) for thing in range(4)],
    "nvmlDeviceGetMaxClockInfo": [(clock,) for clock in _CLOCKS],
    "nvmlDeviceGetMaxCustomerBoostClock": [(clock,) for clock in _CLOCKS],
    "nvmlDeviceGetMemoryAffinity": [(16, scope) for scope in _TWO],
    "nvmlDeviceGetMemoryErrorCounter": [(*errors, place) for errors in _ERRORS for place in range(8)],
    "nvmlDeviceGetMemoryInfo": [(), (0x02000028,)],
    "nvmlDeviceGetMigDeviceHandleByIndex": [(0,)],
    "nvmlDeviceGetP2PStatus": [(Peer(), index) for index in range(5)],
    "nvmlDeviceGetPciInfoExt": [(Struct("nvmlPciInfoExt_v1_t"),)],
    "nvmlDeviceGetPcieThroughput": [(counter,) for counter in _TWO],
    "nvmlDeviceGetRemappedRows_v2": [(Struct("c_nvmlRemappedRowsInfo_v2_t"),)],
    "nvmlDeviceGetRetiredPages": [(cause,) for cause in _TWO],
    "nvmlDeviceGetRetiredPages_v2": [(cause,) for cause in _TWO],
    "nvmlDeviceGetSramEccErrorStatus": [(Struct("c_nvmlEccSramErrorStatus_v1_t"),)],
    "nvmlDeviceGetTemperature": [(0,), (1,)],
    "nvmlDeviceGetTemperatureThreshold": [(kind,) for kind in range(9)],
    "nvmlDeviceGetTemperatureV": [(0,)],
    "nvmlDeviceGetTopologyCommonAncestor": [(Peer(),)],
    "nvmlDeviceGetTotalEccErrors": list(_ERRORS),
}
_OF_A_LINK: Dict[str, List[Tuple[Any, ...]]] = {
    "nvmlDeviceGetNvLinkState": [()],
    "nvmlDeviceGetNvLinkVersion": [()],
    "nvmlDeviceGetNvLinkRemoteDeviceType": [()],
    "nvmlDeviceGetNvLinkRemotePciInfo": [()],
    "nvmlDeviceGetNvLinkCapability": [(capability,) for capability in range(6)],
    "nvmlDeviceGetNvLinkErrorCounter": [(counter,) for counter in range(5)],
}
# nvml.h, NVML_FI_*: every field up to the newest header we have (13.5); those whose scope is the number of a link.
FIELDS = tuple(range(1, 310))
LINK_FIELDS = (138, 139, 140, 141, 146, *range(161, 168), *range(201, 223), *range(235, 251))
SYSTEM = (
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetNVMLVersion",
    "nvmlSystemGetCudaDriverVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlSystemGetDriverBranch",
)


def questions(binding: Any, links: int, memory_clocks: Tuple[int, ...]) -> Iterator[Question]:
    """Every question to one GPU; ``links`` are its NVLinks, and one more is asked that is not there."""
    for function in plain_getters(binding):
        yield _question(function, ())
    for function, every in _WITH_ARGUMENTS.items():
        for arguments in every:
            yield _question(function, arguments)
    for clock in memory_clocks or (0,):
        yield _question("nvmlDeviceGetSupportedGraphicsClocks", (clock,))
    for link in range(links + 1):
        for function, every in _OF_A_LINK.items():
            for arguments in every:
                yield _question(function, (link, *arguments))


def plain_getters(binding: Any) -> List[str]:
    """The getters of this binding that want a handle and nothing else."""
    found = []
    for name, function in vars(binding).items():
        if not name.startswith("nvmlDeviceGet") or name in LEFT_OUT or name in _WITH_ARGUMENTS:
            continue
        parameters = list(inspect.signature(function).parameters.values())
        needed = [one for one in parameters if one.default is inspect.Parameter.empty]
        if len(needed) == 1 and needed[0].name in ("handle", "device"):
            found.append(name)
    return sorted(found)


def _question(function: str, arguments: Tuple[Any, ...]) -> Question:
    words = [type(one).__name__.lower() if isinstance(one, Peer) else _word(one) for one in arguments]
    return Question("{0}({1})".format(function, ", ".join(words)), function, arguments)


def _word(argument: Any) -> str:
    return argument.name if isinstance(argument, (Struct, Room)) else str(argument)
