# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the steps; no I/O."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from ...core import declaration, managed_files
from ...core.frozen import frozen, replaced
from ...core.managed_files import MARKER, MakeFolder, Wanted
from ...core.resource import Action, Plan, Refusal
from .compare import counted, differences
from .naming import nameable, names, remembered, rules
from .options import Desired
from .types import IPOIB, PATHS, RULES, SECTION, State

NO_DEVICE = "this node has no RDMA device"
_AZURE = (
    "the service azure_persistent_rdma_naming of this image names the devices (mlx5_ibN, mlx5_anN), so that is left to "
    "it; disable it to have that done here"
)
# Scripts of OFED load it by name, which a blacklist does not stop; false would make them fail.
_IPOIB_TEXT = (
    MARKER
    + """ Changes will be lost.
# No IP over InfiniBand on this node.
blacklist ib_ipoib
install ib_ipoib /bin/true
"""
)


def plan(state: State, desired: Desired) -> Plan:
    if not desired.present:
        return _absent(state)
    differs = differences(state.devices, desired)
    if desired.strict and differs:
        return Plan(refusals=differs)
    notes = [str(one) for one in differs]
    if not state.devices:
        return Plan(notes=tuple(notes), skipped=NO_DEVICE)
    naming = _naming(state, desired)
    if naming.refusal is not None:
        return Plan(refusals=(naming.refusal,))
    wanted = [Wanted(RULES, rules(state, desired))] if naming.written else []
    if desired.ipoib == "off":
        wanted.append(Wanted(IPOIB, _IPOIB_TEXT))
    refusals = managed_files.refusals(state.files, wanted, "move it away, or leave the option that wants it as it was")
    if refusals:
        return Plan(refusals=refusals)
    kept = [RULES] if naming.kept and RULES in state.files.former else []
    files = managed_files.write(state.files, wanted, keep=kept)
    content = _section(state, desired, [one.path for one in wanted] + kept, files)
    if kept:
        content["names"] = remembered(state.declared)
    actions: List[Action] = []
    declared = {SECTION: dict(state.declared)} if state.declared else {}
    # A node that is only looked at gets no section.
    declare = declaration.plan(declared, SECTION, content if any(content.values()) else None)
    if declare is not None:
        actions.append(declare)
    return Plan(tuple(actions + files), notes=tuple(notes + list(naming.notes) + _pending(state, desired)))


@frozen
class _Naming:
    """``kept``: the rules of an earlier run stay as they are."""

    written: bool = False
    kept: bool = False
    notes: Tuple[str, ...] = ()
    refusal: Optional[Refusal] = None


def _naming(state: State, desired: Desired) -> _Naming:
    if desired.names == "leave":
        return _Naming()
    if state.azure_naming:
        return _Naming(notes=(_AZURE,))
    if state.rename_program is None:
        remedy = "install rdma-core, or set names to leave"
        return _Naming(refusal=Refusal("rdma_rename", "rdma-core is not installed", remedy))
    if desired.names != "ordered":
        return _Naming(written=True)
    if not state.fixed_names:
        reason = "this version of rdma-core knows no NAME_FIXED"
        remedy = "install rdma-core 34 or newer, or set names to kernel"
        return _Naming(refusal=Refusal(state.rename_program, reason, remedy))
    seen = {address for address, dummy in nameable(state)}
    if not seen:
        return _Naming(kept=True, notes=("no RDMA device here has a PCI address, so none gets a name by it",))
    count = len(counted(state.devices, desired.link_layer))
    if desired.expected_ports is not None and count < desired.expected_ports:
        if not seen <= set(remembered(state.declared)):
            # A name given now would be another one tomorrow.
            note = "devices get names in PCI order once all {0} ports are there".format(desired.expected_ports)
            return _Naming(kept=True, notes=(note,))
    return _Naming(written=True)


def _section(state: State, desired: Desired, paths: List[str], actions: List[Action]) -> Dict[str, Any]:
    """What ``absent`` has to take away again, and which card has which name."""
    made = tuple(one.path for one in actions if isinstance(one, MakeFolder))
    content = managed_files.remembered(replaced(state.files, missing_folders=made), paths)
    return dict(content, names=dict(names(state, desired)) if RULES in paths else {})


def given(state: State, desired: Desired) -> Dict[str, str]:
    """The name of each PCI address, where the rules are written."""
    return dict(names(state, desired)) if _naming(state, desired).written else {}


def waiting(state: State, desired: Desired) -> Tuple[Tuple[str, str], ...]:
    """(name now, name after the next boot) of each device whose name will change."""
    wanted = given(state, desired)
    return tuple(
        (one.name, wanted[address])
        for address, one in nameable(state)
        if address in wanted and one.name != wanted[address]
    )


def reboot_pending(state: State, desired: Desired) -> bool:
    if not desired.present or not state.devices:
        return False
    return bool(waiting(state, desired)) or (desired.ipoib == "off" and state.ipoib_loaded)


def _pending(state: State, desired: Desired) -> List[str]:
    """Nothing is renamed under running jobs, and no module is taken from them."""
    notes = []
    changes = waiting(state, desired)
    if changes:
        listed = ", ".join("{0} becomes {1}".format(old, new) for old, new in changes)
        notes.append("names of RDMA devices change at the next boot: {0}".format(listed))
    if desired.ipoib == "off" and state.ipoib_loaded:
        notes.append("the module ib_ipoib is loaded, and stays so until the next boot")
    return notes


def _absent(state: State) -> Plan:
    actions = managed_files.remove(state.files, PATHS)
    notes = list(managed_files.foreign_notes(state.files))
    if any(getattr(one, "path", None) == RULES for one in actions):
        notes.append("RDMA devices keep their names until the next boot")
    if state.declared:
        actions.append(declaration.Declare(SECTION, None))
    return Plan(tuple(actions), notes=tuple(notes))
