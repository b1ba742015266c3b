# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far an engineer has to read to follow a request to the scratch.

A stop is a function of the package that the plan calls, in the order of the first calls. It counts as a return when a
stop is in a file that was left before. Not counted are descriptions, which are read at their name: the options, the
records of what is seen (``types``), the steps (``actions``), the lines of fstab, and special methods.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd.boot_unit import BootUnitState
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import nvme_scratch
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import disks
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch.types import Found

sys.path.insert(0, str(Path(__file__).parent))
from scratch_model import Drive, Machine
from scratch_wishes import IDENTITIES, blank, built, wanted

PACKAGE = Path(nvme_scratch.__file__).parent
DESCRIPTIONS = {"types.py", "options.py", "actions.py", "fstab.py"}


def stops(call):
    """What ``call`` returns, and the stops on its way: (file, function)."""
    found = {}

    def called(frame, event, dummy):
        code = frame.f_code
        path = Path(code.co_filename)
        if event == "call" and path.parent == PACKAGE and path.name not in DESCRIPTIONS:
            if not code.co_name.startswith(("<", "__")):
                found.setdefault((path.name, code.co_name))

    sys.setprofile(called)
    try:
        result = call()
    finally:
        sys.setprofile(None)
    return result, list(found)


def returns(found):
    files = [file for file, dummy in found]
    path = [file for number, file in enumerate(files) if number == 0 or files[number - 1] != file]
    return [file for number, file in enumerate(path) if file in path[:number]]


def not_assembled():
    machine = built()
    machine.mounts.clear()
    machine.arrays.clear()
    return machine


def without_a_disk(replaced=False):
    machine = built()
    machine.drives.pop()
    machine.reboot()
    machine.drives += [Drive("NEW", name="nvme9n1")] * replaced
    return machine


def without_record():
    machine = built()
    machine.record, machine.declared, machine.fstab = None, {}, ""
    machine.reboot()
    return machine


CASES = {
    "build": (blank(3), wanted(count=3), 18, "CreateArray"),
    "one disk": (blank(1), wanted(), 18, "MakeFilesystem"),
    "in order": (built(), wanted(), 20, "WriteUnit"),
    "assemble and mount": (not_assembled(), wanted(), 20, "AssembleArray"),
    "record lost": (without_record(), wanted(), 20, "WriteRecord"),
    "overwrite on request": (Machine([Drive("S0", residue=True)]), wanted(overwrite_serials=["S0"]), 18, "ClearDisk"),
    "absent": (built(), wanted(state="absent"), 18, "EraseMark"),
    "nothing to manage": (Machine([Drive("A", model="another")]), wanted(), 20, ""),
    "another owner's disk": (Machine([Drive("A", foreign=("gpt",))]), wanted(), 20, ""),
    # A request after a loss passes what explains the loss, too.
    "replaced, rebuild": (without_a_disk(replaced=True), wanted(rebuild=True), 22, "EraseMark"),
    "a disk is missing": (without_a_disk(), wanted(), 24, ""),
}


@pytest.mark.parametrize("machine, desired, most, step", CASES.values(), ids=CASES)
def test_a_request_has_few_stops_and_never_returns_to_a_file(machine, desired, most, step):
    seen = Found(machine.observe(), BootUnitState(), IDENTITIES[0])
    planned, found = stops(lambda: nvme_scratch.RESOURCE.plan(seen, desired))
    assert not step or step in {type(action).__name__ for action in planned.actions}
    assert returns(found) == [] and len(found) <= most, found
    # The trace sees the package, or it would find nothing to count.
    assert {"plan.py", "disks.py"} <= {file for file, dummy in found}


@pytest.mark.parametrize("machine, desired, most, step", CASES.values(), ids=CASES)
def test_a_plan_judges_each_disk_once(machine, desired, most, step, monkeypatch):
    judged = []
    judge_disk = disks._judge_disk
    monkeypatch.setattr(disks, "_judge_disk", lambda disk, *rest: judged.append(disk) or judge_disk(disk, *rest))
    state = machine.observe()
    nvme_scratch.RESOURCE.plan(Found(state, BootUnitState(), IDENTITIES[0]), desired)
    assert judged == list(state.disks)


def test_a_return_is_counted():
    assert returns([("a.py", "f"), ("b.py", "g"), ("b.py", "h"), ("a.py", "i"), ("c.py", "k")]) == ["a.py"]
