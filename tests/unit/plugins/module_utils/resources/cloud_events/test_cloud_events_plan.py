# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the resource does on a node: its service, the declaration, and what it leaves."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.declaration import Declare
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.folder_given import Folder
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import RemoveFile
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import as_section, of_section
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, Outcome
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd import boot_unit
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd.boot_unit import WriteUnit
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd.units import (
    EnableUnit,
    ReloadSystemd,
    StartUnit,
    StopUnit,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.events import memory
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.events.settings import Settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.cloud_events import RESOURCE
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.cloud_events.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.cloud_events.plan import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.cloud_events.types import (
    UNIT,
    State,
)

AZURE = State(azure=True, running=True)
DONE = State(
    unit=boot_unit.BootUnitState(text=UNIT.text(), enabled=True),
    declared=dict(as_section(Settings, Desired()), provider="azure"),
    azure=True,
    running=True,
    active=True,
)


def kinds(state, desired):
    return [type(one) for one in plan(state, desired).actions]


def test_a_machine_of_azure_gets_the_service():
    assert kinds(AZURE, Desired()) == [Declare, WriteUnit, EnableUnit, ReloadSystemd, StartUnit]
    assert kinds(DONE, Desired()) == []
    # In an image nothing runs.
    assert StartUnit not in kinds(replaced(AZURE, running=False), Desired())


def test_what_is_declared_is_what_the_service_reads():
    assert of_section(
        Settings, dict(as_section(Settings, Desired(lead_minutes=7, reboot="tell", approve=True)), provider="azure")
    ) == Settings(provider="azure", lead_minutes=7, reboot="tell", approve=True)


def test_diff_mode_shows_the_section_as_it_is_and_as_it_will_be():
    desired = Desired(lead_minutes=7)
    outcome = Outcome(DONE, DONE, plan(DONE, desired), changed=True)
    assert '"lead_minutes": 7' not in RESOURCE.shown(outcome, desired, False)
    assert '"lead_minutes": 7' in RESOURCE.shown(outcome, desired, True)
    outcome = Outcome(AZURE, AZURE, plan(AZURE, desired), changed=True)
    assert RESOURCE.shown(outcome, desired, False) == ""
    assert '"lead_minutes": 7' in RESOURCE.shown(outcome, desired, True)


def test_a_folder_for_the_metrics_that_is_missing_is_noted():
    state, desired = replaced(AZURE, folder=Folder("/m", False)), Desired(textfile="/m/x.prom")
    noted = plan(state, desired)
    assert noted.actions and noted.notes[0].startswith("cloud_events_textfile: there is no folder /m")
    assert plan(replaced(state, folder=Folder("/m")), desired).notes == ()


def test_any_other_machine_has_nothing_of_it_unless_asked():
    elsewhere = State(running=True)
    assert "no virtual machine of Azure" in plan(elsewhere, Desired()).skipped
    assert plan(elsewhere, Desired(provider="none")).skipped
    for desired in (Desired(provider="azure"), Desired(provider="command", command=("/bin/events",))):
        assert StartUnit in kinds(elsewhere, desired)


def test_an_image_of_azure_that_runs_elsewhere_loses_it():
    moved = replaced(DONE, azure=False, left=(memory.PATH, memory.DAMAGED))
    found = plan(moved, Desired())
    assert [type(one) for one in found.actions][0] is StopUnit and found.notes


def test_a_changed_option_needs_no_restart_and_a_changed_unit_does():
    assert kinds(DONE, Desired(lead_minutes=5)) == [Declare]
    old = replaced(DONE, unit=boot_unit.BootUnitState(text=UNIT.text() + "# older\n", enabled=True))
    assert kinds(old, Desired()) == [WriteUnit, ReloadSystemd, StartUnit]
    assert kinds(replaced(DONE, active=False), Desired()) == [StartUnit]


def test_what_is_not_ours_is_refused():
    foreign = replaced(DONE, unit=boot_unit.BootUnitState(text="[Unit]\n", enabled=True))
    assert "is not ours" in str(plan(foreign, Desired()).refusals[0])
    assert kinds(foreign, Desired(present=False)) == [Declare]
    metrics = Desired(textfile="/var/lib/node/x.prom")
    assert plan(replaced(DONE, foreign=True), metrics).refusals[0].thing == "/var/lib/node/x.prom"


def test_absent_takes_all_of_it_and_tells_of_a_drain():
    state = replaced(DONE, left=(memory.PATH, memory.DAMAGED), metrics=("/m/x.prom",), drained=("e1",))
    found = plan(state, Desired(present=False))
    kept = [type(one) for one in found.actions]
    assert kept[0] is StopUnit and kept[-1] is Declare and kept.count(RemoveFile) == 3
    assert "drained for events (e1)" in found.notes[0]
    assert plan(State(), Desired(present=False)).actions == ()


def test_metrics_that_go_elsewhere_leave_nothing():
    state = replaced(DONE, metrics=("/m/old.prom",))
    assert RemoveFile("/m/old.prom") in plan(state, Desired(textfile="/m/new.prom")).actions


def test_the_unit_waits_for_nothing_that_waits_for_it():
    """A converge at boot starts it, and slurmd waits for that converge."""
    text = UNIT.text()
    after = next(line for line in text.splitlines() if line.startswith("After="))
    assert "converge" not in after and "slurmd" not in after and "Restart=always" in text
    assert "gpu-node-nvme_scratch.service" in after


@pytest.mark.parametrize(
    "given, told",
    [
        ({"provider": "command"}, "option command: it is empty"),
        ({"command": ("/bin/x",)}, "option command: provider is auto"),
        ({"provider": "command", "command": ("x",)}, "is no whole path"),
        ({"provider": "command", "command": ("/x",), "approve": True}, "only Azure can be told"),
        ({"provider": "aws"}, "is not known here"),
        ({"reboot": "kill"}, "is not known here"),
        ({"lead_minutes": -1}, "out of range"),
        ({"interval_seconds": 0}, "out of range"),
        ({"textfile": "/x.txt"}, "no absolute path"),
        ({"machine_name": "a b"}, "no name"),
    ],
)
def test_what_cannot_be_is_told(given, told):
    with pytest.raises(NodeError, match=told):
        Desired(**given)
