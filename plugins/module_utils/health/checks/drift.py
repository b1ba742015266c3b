# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift: what an earlier run wrote for this node and is no longer as it was.

The declaration names the files of each resource and what it set in the kernel, and has the options that hooks, timers
and commands read. Whether the text of a file is still the
one that a converge would write ``gpunode converge --check --diff`` tells.
"""

from __future__ import annotations

import fnmatch
import re
from importlib import import_module
from typing import Any, List, Tuple

from ...core import sysctl, systemd
from ...core.frozen import frozen
from ...core.host import Host
from ...core.options import invalid
from ...core.registry import RESOURCES
from ...core.resource import NodeError
from ..data.kept_files import KEPT
from ..evidence import Evidence
from ..types import Certainty, Check, Cost, Expected, Finding, Judgement, Outcome, Remedy

_SITE = "run 'gpunode converge', or take this out of the declaration of the node"
_OURS = "# Managed by trainyard.gpu_node."


@frozen
class File:
    """``kind`` is that of ``managed_files``: missing, file, link or other; ``ours``: it bears our mark."""

    section: str
    path: str
    kind: str
    ours: bool


@frozen
class Setting:
    """A setting of the kernel. ``found`` None: this kernel does not have it now."""

    section: str
    name: str
    wanted: str
    found: str


@frozen
class Seen:
    files: Tuple[File, ...]
    settings: Tuple[Setting, ...]
    invalid: Tuple[Tuple[str, NodeError], ...] = ()
    """The options of a section that are not read, because their values are invalid."""


def look(evidence: Evidence) -> Seen:
    from ...core.managed_files import observe

    files: List[File] = []
    settings: List[Setting] = []
    wrong: List[Tuple[str, NodeError]] = []
    for section, content in sorted(evidence.declared.items()):
        found = observe(evidence.host, (), content)
        files += [File(section, path, seen.kind, seen.ours) for path, seen in found.found if _kept(section, path)]
        settings += _settings(evidence.host, section, content.get("sysctl"))
        if settings_of(section) is not None:
            wrong += [(section, error) for error in invalid(settings_of(section), content)]
    return Seen(tuple(files), tuple(settings), tuple(wrong))


def settings_of(section: str) -> Any:
    """The class of the options that programs on the node read; None: none reads them."""
    one = RESOURCES.get(section)
    root = __name__.rpartition(".health.")[0]
    return import_module("{0}.{1}".format(root, one.settings)).Settings if one is not None and one.settings else None


def _kept(section: str, path: str) -> bool:
    return any(one.section == section and fnmatch.fnmatchcase(path, one.pattern) for one in KEPT)


def _settings(host: Host, section: str, content: object) -> List[Setting]:
    """Of ``nccl``: name -> {before, set}."""
    found = []
    for name, entry in sorted(content.items()) if isinstance(content, dict) else ():
        wanted = entry.get("set") if isinstance(entry, dict) else None
        if isinstance(wanted, str) and re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+", str(name)):
            text = host.read("/proc/sys/" + name.replace(".", "/"))
            if text is not None:
                found.append(Setting(section, name, " ".join(wanted.split()), " ".join(text.split())))
    return found


def judge(seen: Seen, expected: Expected) -> Judgement:
    if not (seen.files or seen.settings or seen.invalid):
        return Judgement(not_applicable="nothing was written for this node")
    findings: List[Finding] = []
    for one in seen.files:
        if one.ours:
            continue
        reason, code = "it is missing", "missing"
        if one.kind != "missing":
            reason, code = "it has been replaced by something that is not ours", "replaced"
        reason += " ({0} wrote it)".format(one.section)
        findings.append(_finding("file " + one.path, reason, one.path, code))
    for setting in seen.settings:
        if not sysctl.enough(setting.name, setting.found, setting.wanted):
            reason = "it is {0} instead of {1}".format(setting.found, setting.wanted)
            findings.append(_finding("kernel setting " + setting.name, reason, setting.name, "kernel_setting"))
    for section, error in seen.invalid:
        reason = "{0}, so its default is used ({1} of /etc/gpu_node/node.json)".format(error.reason, section)
        key = "{0}.{1}".format(section, error.thing.replace("option ", "", 1))
        findings.append(_finding(error.thing, reason, key, "invalid_option"))
    return Judgement("{0} files, {1} settings".format(len(seen.files), len(seen.settings)), tuple(findings))


def _finding(thing: str, reason: str, key: str, code: str) -> Finding:
    return Finding(Outcome.WARN, thing, reason, _SITE, Remedy.CONFIGURE, Certainty.CERTAIN, key, code)


@frozen
class Unit:
    """A unit file of ours; ``wanted_by`` are the targets of its section Install, ``missing`` those without its link."""

    name: str
    missing: Tuple[str, ...]


def look_at_units(evidence: Evidence) -> Tuple[Unit, ...]:
    host = evidence.host
    found = []
    for name in systemd.ours(host):
        text = host.read(systemd.path(name)) or ""
        if systemd.link(host, name) or _OURS not in text:
            continue
        targets = [one for line in re.findall(r"^WantedBy=(.*)$", text, re.MULTILINE) for one in line.split()]
        found.append(Unit(name, tuple(one for one in targets if not systemd.is_enabled(host, name, one))))
    return tuple(found)


def judge_units(seen: Tuple[Unit, ...], dummy: Expected) -> Judgement:
    if not seen:
        return Judgement(not_applicable="no unit of ours is here")
    findings = tuple(
        Finding(
            Outcome.WARN,
            "unit " + one.name,
            "it is not enabled for {0}, so it does nothing at the next boot".format(", ".join(one.missing)),
            "run 'systemctl enable {0}', or 'gpunode converge'".format(one.name),
            Remedy.CONFIGURE,
            key=one.name,
            code="not_enabled",
        )
        for one in seen
        if one.missing
    )
    return Judgement(", ".join(one.name for one in seen), findings)


CHECKS = (
    # Some of them may lie on a shared file system, whose server may be gone.
    Check("drift_files", "What was written for this node is still there", Cost.PASSIVE, judge, look, lane="storage"),
    Check("drift_units", "Units of ours are enabled", Cost.PASSIVE, judge_units, look_at_units),
)
