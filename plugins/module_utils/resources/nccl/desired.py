# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wanted of NCCL's configuration on a node. A wrong option is one sentence, before anything is looked at."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Dict, Mapping, Tuple

from ...core.resource import NodeError

Words = Tuple[Tuple[str, str], ...]

# A value in /etc/nccl.conf is cut there by NCCL (setEnvFile in src/misc/param.cc).
_LONGEST_VALUE = 1023
_NCCL_NAME = re.compile(r"NCCL_[A-Z0-9_]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SYSCTL = re.compile(r"[a-z][A-Za-z0-9_]*(\.[A-Za-z0-9_-]+)+")
_SYSCTL_VALUE = re.compile(r"[A-Za-z0-9_.,:/ -]+")
_PATH = re.compile(r"/[A-Za-z0-9._/+@-]+")
# The items that limits.conf(5) and systemd know by names of their own: LimitMEMLOCK= and so on.
LIMITS = ("memlock", "nofile", "stack", "nproc", "core")
# /proc/sys/fs/nr_open of every kernel. pam_limits cannot set more, and then nobody can log in.
MOST_FILES = 1048576
# link_speed as NCCL has it (kvDictPciGen in src/graph/topo.cc); any other text counts as 8 GT/s there.
SPEEDS = ("2.5", "5.0", "8.0", "16.0", "32.0", "64.0")
TOPOLOGIES = ("auto", "generate", "none")
SWITCHES = ("none", "pair", "numa_node")


@dataclasses.dataclass(frozen=True)
class Desired:
    """``topology`` is auto, generate, none, or the path of a file of the site's.

    ``switches`` tells which PCIe switches a virtual machine hides, where somebody knows: ``pair`` (one for each GPU and
    its InfiniBand device), ``numa_node`` (one for each NUMA node) or ``none``. ``link_speed``: GT/s per lane, for
    devices of which sysfs tells none.
    """

    present: bool = True
    settings: Words = ()
    extra: Tuple[str, ...] = ()
    topology: str = "auto"
    switches: str = "none"
    link_speed: str = ""
    environment: Words = ()
    limits: Words = ()
    slurmd_limits: bool = True
    sysctl: Words = ()
    peermem: bool = True
    replace_foreign: bool = False

    def __post_init__(self) -> None:
        if not self.present:  # what is wrong with the options does not matter to what goes away
            return
        for name, value in self.settings:
            _setting("option settings", name, value)
        for line in self.extra:
            _line(line, {name for name, dummy in self.settings})
        for name, value in self.environment:
            _environment(name, value)
        for name, value in self.limits:
            _limit(name, value)
        for name, value in self.sysctl:
            _sysctl(name, value)
        if self.topology not in TOPOLOGIES and not _is_path(self.topology):
            raise NodeError(
                "option topology",
                "{0!r} is neither a choice nor an absolute path".format(self.topology),
                "use auto, generate, none, or the path of a topology file on the node",
            )
        if self.switches not in SWITCHES:
            raise NodeError("option switches", "{0!r} is unknown".format(self.switches), "use " + ", ".join(SWITCHES))
        if self.link_speed and self.link_speed not in SPEEDS:
            raise NodeError(
                "option link_speed",
                "NCCL knows no PCIe link of {0!r} GT/s".format(self.link_speed),
                "use one of {0}, or leave it empty".format(", ".join(SPEEDS)),
            )


def words(name: str, given: Mapping[str, Any]) -> Words:
    """A dictionary of the user's as pairs of texts, in its order.

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
    return tuple(found.items())


def _is_path(value: str) -> bool:
    return _PATH.fullmatch(value) is not None and ".." not in value.split("/")


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


def _line(line: str, taken: "set[str]") -> None:
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
