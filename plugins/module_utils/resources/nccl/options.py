# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of NCCL's configuration on a node."""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Optional, Tuple

from ...core.options import option, options, state
from ...core.resource import NodeError
from ...facts.profile.schema import LINK_SPEEDS, SWITCHES

# A value in /etc/nccl.conf is cut there by NCCL (setEnvFile in src/misc/param.cc).
_LONGEST_VALUE = 1023
_NCCL_NAME = re.compile(r"NCCL_[A-Z0-9_]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SYSCTL = re.compile(r"[a-z][A-Za-z0-9_]*(\.[A-Za-z0-9_-]+)+")
_SYSCTL_VALUE = re.compile(r"[A-Za-z0-9_.,:/ -]+")
# The items that limits.conf(5) and systemd know by names of their own: LimitMEMLOCK= and so on.
LIMITS = ("memlock", "nofile", "stack", "nproc", "core")
# /proc/sys/fs/nr_open of every kernel. pam_limits cannot set more, and then nobody can log in.
MOST_FILES = 1048576
TOPOLOGIES = ("auto", "generate", "none")
_TOPOLOGY = (
    r"auto|generate|none|(?!.*/\.\.(/|$))/[A-Za-z0-9._/+@-]+",
    "choice and no absolute path",
    "use auto, generate, none, or the path of a topology file on the node",
)
_SPEED = (
    "|".join(re.escape(one) for one in ("", *LINK_SPEEDS)),
    "PCIe link speed that NCCL knows",
    "use one of {0} (GT/s), or leave it empty".format(", ".join(LINK_SPEEDS)),
)
_RELAXED = "NCCL_IB_PCI_RELAXED_ORDERING"


def _of_profile(settings: Any) -> Any:
    """The topology file that a profile names is the one of its maker's image. What is used here is measured."""
    if not isinstance(settings, Mapping):
        return settings
    return {name: value for name, value in settings.items() if name != "NCCL_TOPO_FILE"}


@options
class Desired:
    """The values in ``settings``, ``environment``, ``limits`` and ``sysctl`` are texts once it is made."""

    _for_absent = ()

    present: bool = state(
        "V(present) writes the files. V(absent) removes those that were written here, puts back the C(/etc/nccl.conf) "
        "that was kept aside, and restores the kernel settings."
    )
    settings: Mapping[str, str] = option(
        {},
        [
            "Lines of C(/etc/nccl.conf), names and values. The names begin with C(NCCL_). A boolean becomes 1 or 0.",
            "C(NCCL_TOPO_FILE) is not given here but by O(topology), and that of a profile is left out. The file of "
            "C(NCCL_GRAPH_FILE) must fit the number of GPUs.",
        ],
        profile="nccl.settings",
        of_profile=_of_profile,
    )
    extra: Tuple[str, ...] = option(
        (), "Further lines of C(/etc/nccl.conf), as they are in the file, C(NAME=VALUE) or a comment."
    )
    replace_foreign: bool = option(
        False,
        "Rename a C(/etc/nccl.conf) that is not ours to C(/etc/nccl.conf.before_gpu_node), and write ours in its "
        "place. O(state=absent) puts it back. Otherwise such a file stops the node.",
    )
    topology: str = option(
        "auto",
        [
            "V(auto) makes a topology file where it tells NCCL something that sysfs does not.",
            "V(generate) makes one on every machine with a GPU, V(none) on none.",
            "The path of a file on the node makes NCCL read that one, if it fits this machine.",
        ],
        form=_TOPOLOGY,
    )
    switches: str = option(
        "none",
        [
            "Which PCIe switches the machine has but does not show. Virtual machines show each device on a bus of its "
            "own, and NCCL then takes no GPU to be near to any NIC and does not use GPUDirect RDMA between them.",
            "V(pair) is one switch for each GPU and its NIC, in the order of PCI addresses. A NUMA node that has not "
            "as many GPUs as NICs gets none.",
            "V(numa_node) is one switch for all GPUs and NICs of a NUMA node.",
            "V(none) claims nothing. Switches that the machine does show are in the file as they are.",
        ],
        choices=SWITCHES,
        profile="nccl.switches",
    )
    link_speed: str = option(
        "",
        [
            "Speed of a PCIe lane in GT/s, for devices of which sysfs does not tell it, such as V(16.0) for "
            "generation 4. Their width is then 16 lanes.",
            "Empty leaves it to NCCL, which takes generation 3 where nothing tells it better.",
        ],
        form=_SPEED,
        profile="nccl.link_speed",
        example="16.0",
    )
    environment: Optional[Mapping[str, str]] = option(
        None,
        [
            "Variables for logins, in C(/etc/profile.d). For what must be set before a program opens CUDA or UCX, and "
            "for what other programs read. A variable that is set already stays as it is. Empty for no file.",
            "By default C(CUDA_DEVICE_ORDER=PCI_BUS_ID), which numbers GPUs as NVML does, and "
            "C(UCX_IB_PCI_RELAXED_ORDERING=on) where the settings that are used have "
            "C(NCCL_IB_PCI_RELAXED_ORDERING) 1.",
        ],
        example={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
    )
    limits: Mapping[str, str] = option(
        {"memlock": "unlimited", "nofile": str(MOST_FILES), "stack": "unlimited"},
        [
            "Limits for logins, in C(/etc/security/limits.d), as limits.conf(5) has them. Known are C(memlock), "
            "C(nofile), C(stack), C(nproc) and C(core). Empty for no files.",
            "C(nofile) may be 1048576 at most. Beyond that nobody could log in.",
        ],
    )
    slurmd_limits: bool = option(
        True,
        "Give slurmd O(limits) too, as a drop-in of its unit; steps of jobs inherit them from it. Only where slurmd is "
        "installed.",
    )
    restart: bool = option(
        True,
        "Restart slurmd when it has yet to get O(limits) and no job runs on the node. Otherwise that is only reported.",
    )
    sysctl: Mapping[str, str] = option(
        {
            "vm.zone_reclaim_mode": "1",
            "net.ipv4.neigh.default.gc_thresh1": "4096",
            "net.ipv4.neigh.default.gc_thresh2": "8192",
            "net.ipv4.neigh.default.gc_thresh3": "16384",
            "sunrpc.tcp_max_slot_table_entries": "128",
        },
        [
            "Kernel settings, in C(/etc/sysctl.d), and set at once. Values that they had before are remembered. Empty "
            "for none.",
            "A setting that this kernel does not have (its module is not loaded) is written and not applied.",
            "Limits, such as table sizes, are minima. An existing larger value stays, and a note names the file that "
            "sets it.",
        ],
    )
    peermem: bool = option(
        True,
        "Load C(nvidia_peermem) at boot, where the machine has GPUs and NICs and the kernel has the module. Without it "
        "NCCL uses DMA-BUF.",
    )

    def __post_init__(self) -> None:
        if not self.present:  # what is wrong with the options does not matter to what goes away
            return
        for name in ("settings", "environment", "limits", "sysctl"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _words(name, getattr(self, name)))
        for name, value in self.settings.items():
            _setting("option settings", name, value)
        for line in self.extra:
            _line(line, self.settings)
        for name, value in self.variables.items():
            _environment(name, value)
        for name, value in self.limits.items():
            _limit(name, value)
        for name, value in self.sysctl.items():
            _sysctl(name, value)

    @property
    def variables(self) -> Mapping[str, str]:
        """Those for logins."""
        if self.environment is not None:
            return self.environment
        # GPU numbers in the order of the bus, as NVML has them. Relaxed ordering for MPI wherever NCCL is to use it.
        relaxed = {"UCX_IB_PCI_RELAXED_ORDERING": "on"} if self.settings.get(_RELAXED) == "1" else {}
        return dict({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, **relaxed)


def _words(name: str, given: Mapping[str, Any]) -> Dict[str, str]:
    """A dictionary of the user's as texts, in its order. A boolean is what YAML made of on and off.

    :raises NodeError: when a value is neither a text nor a number nor yes or no.
    """
    found: Dict[str, str] = {}
    for key, value in given.items():
        if isinstance(value, bool):
            value = int(value)
        if not isinstance(value, (str, int, float)):
            raise NodeError(
                "option {0}, {1}".format(name, key), "its value is {0!r}".format(value), "give a text or a number"
            )
        found[str(key)] = str(value)
    return found


def _setting(where: str, name: str, value: str) -> None:
    if not _NCCL_NAME.fullmatch(name):
        raise NodeError(
            "{0}, {1!r}".format(where, name),
            "NCCL reads only names of its own here",
            "write it as in NCCL_DEBUG, and put variables of other programs into option environment",
        )
    if name == "NCCL_TOPO_FILE":
        raise NodeError(
            "{0}, {1}".format(where, name),
            "a file is only used when it fits this machine",
            "give its path in option topology",
        )
    if name == "NCCL_CONF_FILE":
        raise NodeError(
            "{0}, {1}".format(where, name),
            "NCCL reads it from the environment, before any file",
            "put it into option environment",
        )
    _value(where, name, value)


def _value(where: str, name: str, value: str) -> None:
    if not value.isprintable() or value != value.strip() or not value:
        raise NodeError(
            "{0}, {1}".format(where, name),
            "{0!r} is no value on one line".format(value),
            "give one without line breaks, and without blanks at its ends",
        )
    if len(value) > _LONGEST_VALUE:
        raise NodeError(
            "{0}, {1}".format(where, name),
            "NCCL cuts values at {0} characters".format(_LONGEST_VALUE),
            "give a shorter one",
        )


def _line(line: str, taken: Mapping[str, str]) -> None:
    if line.startswith("#") and line.isprintable():
        return
    name, equals, value = line.partition("=")
    if not equals:
        raise NodeError(
            "option extra, {0!r}".format(line),
            "this is no line of an nccl.conf",
            "write NAME=VALUE, or # and a comment",
        )
    _setting("option extra", name, value)
    if name in taken:
        raise NodeError("option extra, {0}".format(name), "option settings has it too", "give it in one of the two")


def _environment(name: str, value: str) -> None:
    if not _VARIABLE.fullmatch(name):
        raise NodeError(
            "option environment, {0!r}".format(name), "this is no name of a variable", "use letters, digits and _"
        )
    if name in ("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD"):
        raise NodeError(
            "option environment, {0}".format(name),
            "every login would have it, also root's",
            "set it in a modulefile, or in the job",
        )
    if not value.isprintable():
        raise NodeError(
            "option environment, {0}".format(name),
            "{0!r} is more than one line".format(value),
            "give a value without line breaks",
        )


def _limit(name: str, value: str) -> None:
    thing = "option limits, {0}".format(name)
    if name not in LIMITS:
        raise NodeError(thing, "this limit is not known here", "use {0}".format(", ".join(LIMITS)))
    if value != "unlimited" and not value.isdigit():
        raise NodeError(thing, "{0!r} is no limit".format(value), "give unlimited or a number")
    if name == "nofile" and (value == "unlimited" or not 0 < int(value) <= MOST_FILES):
        raise NodeError(
            thing,
            "a kernel takes no more than {0} here, and a login with more fails".format(MOST_FILES),
            "give 1 to {0}".format(MOST_FILES),
        )


def _sysctl(name: str, value: str) -> None:
    if not _SYSCTL.fullmatch(name):
        raise NodeError("option sysctl, {0!r}".format(name), "this is no name", "write it as in vm.zone_reclaim_mode")
    if not _SYSCTL_VALUE.fullmatch(value) or value != value.strip():
        raise NodeError("option sysctl, {0}".format(name), "{0!r} is no value".format(value), "give one line of words")
