# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The systemd unit that applies one resource at each boot; a part of other resources.

A resource describes its unit (:class:`BootUnit`), looks at what is there (:func:`look`), and takes what :func:`plan`
decides into its own plan. Units and drop-ins that are not ours, by their first line, are never written or removed.
"""

from __future__ import annotations

from typing import Any, Iterable, List, Mapping, Optional, Tuple

from .. import systemd
from ..frozen import frozen
from ..host import Host
from ..managed_files import MARKER
from ..options import option
from ..resource import Action, Plan, Refusal, Step
from . import UNIT, units
from .units import EnableUnit, ReloadSystemd, unit_text

_COMMAND = "/usr/local/bin/gpunode"
_DECLARED = (
    "# Nothing was declared, or the node command is gone: no failed unit.",
    "ConditionPathExists=/etc/gpu_node/node.json",
    "ConditionPathExists=" + _COMMAND,
)


def at_boot(resource: str, effect: str) -> Any:
    """An option. ``effect`` completes the sentence "It ..."."""
    name = "C(gpu-node-{0}.service)".format(resource)
    return option(True, ["Install and enable {0}. It {1}.".format(name, effect), "V(false) removes it."])


BEFORE_UNITS: Any = option(
    ("slurmd.service", "docker.service", "containerd.service", "kubelet.service"),
    "Units that start only after the boot unit has ended, successfully or not. One that is not installed does no harm.",
    form=UNIT,
)


def boot_timeout(default: int) -> Any:
    return option(
        default, "The boot continues without the resource after this time.", bounds=(1, 86400), unit="seconds"
    )


@frozen
class BootUnit:
    """The unit that a resource wants. All texts are checked where options are made.

    ``after``: units that this one waits for. ``before``: units that wait for this one. ``timeout_seconds``: the boot
    goes on without it after this time. ``after_mounts``: places where fstab may mount something; this unit waits for
    that to have ended, successfully or not. ``conditions``: lines of its section Unit. ``service``: the lines of that
    section, where it does not apply the resource once. ``drop_ins``: what other units are told, each with its path
    under the directory of units and its text.
    """

    resource: str
    description: str
    after: Tuple[str, ...] = ()
    before: Tuple[str, ...] = ()
    timeout_seconds: int = 300
    after_mounts: Tuple[str, ...] = ()
    conditions: Tuple[str, ...] = _DECLARED
    service: Tuple[str, ...] = ()
    drop_ins: Tuple[Tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return "gpu-node-{0}.service".format(self.resource)

    @property
    def path(self) -> str:
        return systemd.path(self.name)

    def text(self) -> str:
        # local-fs.target does not wait for mounts with nofail. After alone: they are neither started nor needed by us.
        mounts = [systemd.mount_unit(path, kind) for path in self.after_mounts for kind in ("mount", "automount")]
        unit = ["Description=" + self.description, *self.conditions]
        unit.append("After=" + " ".join(dict.fromkeys((*self.after, *mounts))))
        unit += ["Before=" + " ".join(self.before)] if self.before else []
        service = self.service or (
            "Type=oneshot",
            "RemainAfterExit=yes",
            "ExecStart={0} apply {1}".format(_COMMAND, self.resource),
            "TimeoutStartSec={0}".format(self.timeout_seconds),
        )
        return unit_text(self.name, Unit=unit, Service=service, Install=["WantedBy=" + systemd.MULTI_USER])


@frozen
class BootUnitState:
    """``link`` is what the unit file points to when it is a symbolic link (``/dev/null`` when it is masked).

    ``stale``: systemd runs and has read another text than the one that lies there.
    """

    text: Optional[str] = None
    link: Optional[str] = None
    enabled: bool = False
    stale: bool = False
    drop_ins: Tuple[Tuple[str, Optional[str]], ...] = ()


def look(host: Host, unit: BootUnit) -> BootUnitState:
    """:raises NodeError: systemd runs, and gives no answer."""
    link = systemd.link(host, unit.name) or None
    runs = systemd.running(host)
    stale = runs and systemd.show(host, (unit.name,), ("NeedDaemonReload",))[0].get("NeedDaemonReload") == "yes"
    return BootUnitState(
        text=None if link else host.read(unit.path),
        link=link,
        enabled=systemd.is_enabled(host, unit.name),
        stale=stale,
        drop_ins=tuple((name, host.read(systemd.path(name))) for name, dummy in unit.drop_ins),
    )


@frozen
class WriteUnit(Action):
    """``name`` is a path under the directory of units."""

    name: str
    text: str

    def describe(self) -> str:
        return "write the boot unit {0}".format(self.name)


@frozen
class RemoveUnit(Action):
    name: str

    def describe(self) -> str:
        return "remove the boot unit {0}".format(self.name)


def plan(seen: BootUnitState, unit: BootUnit, wanted: bool) -> Plan:
    """The part of a resource's plan: steps, or refusals, or a note on a unit of others that stays. Pure."""
    foreign = seen.link is not None or not _ours(seen.text)
    if not wanted:
        actions: List[Action] = [RemoveUnit(name) for name, text in seen.drop_ins if text is not None and _ours(text)]
        if not foreign and (seen.text is not None or seen.enabled):
            actions.append(RemoveUnit(unit.name))
        notes = ("{0} is not ours and is left as it is".format(unit.path),) if foreign else ()
        return Plan((*actions, *_reload(actions, seen.stale and not foreign)), notes=notes)
    refusals = [
        Refusal(systemd.path(name), "it is there and is not ours", "move it away")
        for name, text in seen.drop_ins
        if not _ours(text)
    ]
    if foreign:
        masked = "it is masked" if seen.link == "/dev/null" else "it is there and is not ours"
        undo = "run 'systemctl unmask {0}'".format(unit.name) if seen.link == "/dev/null" else "move it away"
        refusals.append(Refusal(unit.path, masked, "{0}, or ask for no boot unit".format(undo)))
    if refusals:
        return Plan(refusals=tuple(refusals))
    found = dict(seen.drop_ins)
    actions = [WriteUnit(name, text) for name, text in unit.drop_ins if found.get(name) != text]
    if seen.text != unit.text():
        actions.append(WriteUnit(unit.name, unit.text()))
    if not seen.enabled:
        actions.append(EnableUnit(unit.name))
    return Plan((*actions, *_reload(actions, seen.stale)))


def _ours(text: Optional[str]) -> bool:
    return text is None or text.startswith(MARKER)


def _reload(actions: List[Action], stale: bool) -> List[Action]:
    return [ReloadSystemd()] if actions or stale else []


def text(seen: BootUnitState, unit: BootUnit, actions: Iterable[Action] = ()) -> str:
    """Our unit as diff mode shows it, when these steps were taken; other kinds of steps are passed over. Pure."""
    content = seen.text if seen.link is None and _ours(seen.text) else None
    for action in actions:
        if isinstance(action, WriteUnit) and action.name == unit.name:
            content = action.text
        elif isinstance(action, RemoveUnit) and action.name == unit.name:
            content = None
    return "" if content is None else "==> {0} <==\n{1}".format(unit.path, content)


def _write(host: Host, action: WriteUnit, dummy: object) -> None:
    host.write(systemd.path(action.name), action.text)


def _remove(host: Host, action: RemoveUnit, dummy: object) -> None:
    systemd.disable(host, action.name)
    host.remove(systemd.path(action.name), folder_too="/" in action.name)


#: For the table of a resource that has a boot unit.
STEPS: Mapping[type, Step] = {**units.STEPS, WriteUnit: _write, RemoveUnit: _remove}
