# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pinning and sizing arithmetic for playbooks: the library's answers, from what topology_info returned.

The documentation of each filter is in the file of its name beside this one.
"""

from __future__ import annotations

from typing import Any, Callable, Optional, Union

from ansible.errors import AnsibleFilterError

from ansible_collections.trainyard.gpu_node.plugins.module_utils import placement as pinning
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement import masks, transfer
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement.plain import topology_from_dict
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement.render import adapt, render

Gpus = Union[str, list[int], None]


def pin_masks(
    topology: dict[str, Any],
    ranks: int,
    threads: Optional[int] = None,
    gpus: Gpus = None,
    bind: str = "core",
    smt: bool = False,
    cpus: Optional[str] = None,
) -> list[str]:
    request = _request("srun", ranks, threads, gpus, bind, smt, cpus)
    placement = pinning.place(topology_from_dict(topology), request)
    return [masks.mask(rank.cpus) for rank in placement.ranks]


def hpl_affinity(
    topology: dict[str, Any],
    ranks: Optional[int] = None,
    threads: Optional[int] = None,
    gpus: Gpus = None,
    cpus: Optional[str] = None,
) -> dict[str, Any]:
    found = topology_from_dict(topology)
    count = len(found.gpus) if ranks is None else ranks
    request = _request("hpl", count, threads, gpus, "core", False, cpus)
    rendered = render("hpl", pinning.place(found, request), found)
    flags = dict(zip(rendered.arguments[::2], rendered.arguments[1::2]))
    return {
        "arguments": " ".join(rendered.arguments),
        "cpu_affinity": flags["--cpu-affinity"],
        "cpu_cores_per_rank": int(dict(rendered.environment)["OMP_NUM_THREADS"]),
        "gpu_affinity": flags.get("--gpu-affinity"),
        "mem_affinity": flags.get("--mem-affinity"),
        "ucx_affinity": flags.get("--ucx-affinity"),
    }


def cuda_visible_devices(topology: dict[str, Any], ranks: Optional[int] = None, order: str = "numa") -> str:
    found = topology_from_dict(topology)
    count = len(found.gpus) if ranks is None else _whole("ranks", ranks)
    placement = pinning.place(found, pinning.Request(ranks=count, gpus="each", order=order, share_cores=True))
    return ",".join(str(rank.gpu.index) for rank in placement.ranks if rank.gpu is not None)


def transfer_limits(
    ingress_gigabits_per_second: float,
    files: int,
    cores: int,
    nodes: int = 1,
    headroom_percent: float = transfer.HEADROOM_PERCENT,
) -> dict[str, Any]:
    limits = transfer.limits(ingress_gigabits_per_second, files, cores, nodes, headroom_percent)
    return {
        "cap_megabits_per_second": limits.cap_megabits_per_second,
        "concurrency": limits.concurrency,
        "total_gigabits_per_second": limits.total_gigabits_per_second,
    }


def _request(
    launcher: str, ranks: Any, threads: Any, gpus: Gpus, bind: str, smt: bool, cpus: Optional[str]
) -> pinning.Request:
    return adapt(
        launcher,
        pinning.Request(
            ranks=_whole("ranks", ranks),
            threads=None if threads is None else _whole("threads", threads),
            gpus=tuple(_whole("gpus", gpu) for gpu in gpus) if isinstance(gpus, (list, tuple)) else gpus,
            bind=bind,
            smt=smt,
            allowed_cpus=None if cpus is None else masks.parse_cpulist(cpus),
        ),
    )


def _whole(name: str, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise NodeError("{0} {1!r}".format(name, value), "it is no whole number", "give one") from error


def _in_a_sentence(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Ansible shows the sentence of an error of its own kind, and a traceback's worth of any other."""

    def filtered(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except (NodeError, TypeError) as error:  # TypeError: an option that the filter does not have
            # Ansible appends the text of a cause, and the sentence would stand there twice.
            raise AnsibleFilterError("{0}: {1}".format(name, error)) from None

    return filtered


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        found = (pin_masks, hpl_affinity, cuda_visible_devices, transfer_limits)
        return {function.__name__: _in_a_sentence(function.__name__, function) for function in found}
