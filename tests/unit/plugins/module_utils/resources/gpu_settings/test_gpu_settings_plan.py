# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings with what they need around them: the persistence daemon, the boot unit, hooks that raise clocks."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import systemd
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd.boot_unit import BootUnitState
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings.types import Entry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_settings import (
    RESOURCE,
    Desired,
    Found,
    persistenced,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_settings.persistenced import (
    Daemon,
    StartPersistenced,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_settings.plan import plan, unit_of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.hooks_conf import Raising
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.settings.pure import (
    LOAD,
    a100,
    state_of,
)

UNIT = ["WriteUnit", "EnableUnit", "ReloadSystemd"]
STOPPED = Daemon(installed=True)
RUNS = Daemon(True, True, True)
GONE = {"absent": "The PCI bus has no NVIDIA GPU."}


def found(daemon=RUNS, unit=None, raising=None, **state):
    gpus = () if "absent" in state else (a100(),)
    return Found(state_of(*gpus, **state), daemon, unit or BootUnitState(), raising or Raising())


def kinds(planned):
    return [type(action).__name__ for action in planned.actions]


def enabled(desired):
    return BootUnitState(unit_of(desired).text(), None, True, False)


# The boot unit ----------------------------------------------------------------------------------------


def test_the_unit_comes_after_the_settings_and_goes_before_they_are_undone():
    desired = of(Desired, {})
    assert kinds(plan(found(), desired))[0] == "Declare" and kinds(plan(found(), desired))[-3:] == UNIT
    undo = of(Desired, {"state": "default"})
    state = {"declared": {"clocks": "max"}, "entries": (("GPU-00000000", Entry(LOAD)),)}
    assert kinds(plan(found(unit=enabled(desired), **state), undo)) == [
        "RemoveUnit",
        "ReloadSystemd",
        "Declare",
        "Forget",
    ]
    assert kinds(plan(found(unit=enabled(desired), **state), of(Desired, {"boot_unit": False})))[-2:] == [
        "RemoveUnit",
        "ReloadSystemd",
    ]


def test_the_unit_runs_what_is_named_as_the_resource():
    unit = unit_of(of(Desired, {"before_units": ["slurmd.service"], "boot_timeout_seconds": 60}))
    assert unit.name == "gpu-node-gpu_settings.service"
    text = unit.text()
    assert "\nExecStart=/usr/local/bin/gpunode apply gpu_settings\nTimeoutStartSec=60\n" in text
    assert "\nAfter=nvidia-persistenced.service nvidia-fabricmanager.service\nBefore=slurmd.service\n" in text


def test_a_machine_without_gpus_gets_no_unit_and_loses_one_that_is_not_wanted():
    assert plan(found(**GONE), of(Desired, {})).skipped == GONE["absent"]
    unit = enabled(of(Desired, {}))
    for options in ({"boot_unit": False}, {"state": "default"}):
        taken = plan(found(unit=unit, **GONE), of(Desired, options))
        assert kinds(taken) == ["RemoveUnit", "ReloadSystemd"] and taken.notes == (GONE["absent"],)


def test_the_unit_of_others_refuses_everything():
    foreign = BootUnitState("[Service]\nExecStart=/usr/local/sbin/our-own\n")
    refused = plan(found(unit=foreign), of(Desired, {}))
    assert [one.thing for one in refused.refusals] == [systemd.DIRECTORY + "/gpu-node-gpu_settings.service"]
    left = plan(found(unit=foreign), of(Desired, {"boot_unit": False}))
    assert "is not ours and is left as it is" in left.notes[0] and kinds(left)[0] == "Declare"


# The persistence daemon -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "daemon, words",
    [
        (STOPPED, "enable and start nvidia-persistenced.service"),
        (Daemon(True, True, False), "start nvidia-persistenced.service"),
        (Daemon(True, False, True), "enable nvidia-persistenced.service"),
    ],
)
def test_the_daemon_is_run_before_the_settings(daemon, words):
    first = plan(found(daemon), of(Desired, {})).actions[0]
    assert isinstance(first, StartPersistenced) and first.describe() == words and first.then_look()


@pytest.mark.parametrize(
    "options, changes",
    [
        ({}, {"daemon": RUNS}),
        ({}, {"daemon": Daemon()}),
        ({}, dict(GONE, daemon=STOPPED)),
        ({"boot_unit": False}, dict(GONE, daemon=STOPPED)),
        ({"persistenced": False}, {"daemon": STOPPED}),
        ({"persistence": False}, {"daemon": STOPPED}),
        ({"state": "default"}, {"daemon": STOPPED}),
    ],
)
def test_the_daemon_is_left_alone(options, changes):
    assert "StartPersistenced" not in kinds(plan(found(**changes), of(Desired, options)))


SYSTEMCTL = """#!/bin/sh
echo "$@" >> {log}
[ "$1" = show ] && cat {answer}
[ "$1" != {fails} ]
"""


@pytest.fixture
def systemctl(tmp_path, monkeypatch):
    """The log of a systemctl that answers as it is told."""
    monkeypatch.setenv("PATH", str(tmp_path) + ":/usr/bin:/bin")
    host = Host(str(tmp_path / "node"))
    host.write("/run/systemd/system/.keep", "")

    def say(fails="nothing", **properties):
        tool, log, answer = tmp_path / "systemctl", tmp_path / "log", tmp_path / "answer"
        answer.write_text("".join("{0}={1}\n".format(*pair) for pair in properties.items()))
        log.write_text("")
        tool.write_text(SYSTEMCTL.format(log=log, answer=answer, fails=fails))
        tool.chmod(0o755)
        return lambda: log.read_text().splitlines()

    say.host = host
    return say


@pytest.mark.parametrize(
    "load, file, active, seen",
    [
        ("loaded", "disabled", "inactive", Daemon(True, False, False)),
        ("loaded", "enabled", "active", Daemon(True, True, True)),
        # Ubuntu's unit has no [Install] section; 'systemctl enable' has nothing to do there.
        ("loaded", "static", "failed", Daemon(True, True, False)),
        ("not-found", "", "inactive", Daemon(False, True, False)),
        ("masked", "masked", "inactive", Daemon(False, True, False)),
    ],
)
def test_what_systemd_tells_of_the_daemon(systemctl, load, file, active, seen):
    log = systemctl(LoadState=load, UnitFileState=file, ActiveState=active)
    assert persistenced.look(systemctl.host) == seen
    assert log() == ["show --property=LoadState,UnitFileState,ActiveState -- nvidia-persistenced.service"]


def test_without_systemd_nobody_is_asked(systemctl, tmp_path):
    log = systemctl(LoadState="loaded")
    assert persistenced.look(Host(str(tmp_path / "captured"))) == Daemon() and log() == []


def test_it_is_enabled_before_it_is_started_and_a_failure_says_where_to_look(systemctl):
    log = systemctl()
    persistenced.start(systemctl.host, StartPersistenced(True, True), None)
    assert log() == ["enable -- nvidia-persistenced.service", "start -- nvidia-persistenced.service"]
    log = systemctl()
    persistenced.start(systemctl.host, StartPersistenced(False, True), None)
    assert log() == ["start -- nvidia-persistenced.service"]
    systemctl(fails="start")
    with pytest.raises(NodeError, match="look at 'journalctl -u nvidia-persistenced.service', or set persistenced to"):
        persistenced.start(systemctl.host, StartPersistenced(False, True), None)


# Clocks that hooks raise for jobs ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "raising, clocks",
    [
        (Raising(True, True), "between_jobs"),
        # No hooks, hooks that slurm.conf does not name, hooks that leave the clocks alone.
        (Raising(None, False), "max"),
        (Raising(None, True), "max"),
        (Raising(True, False), "max"),
        (Raising(False, True), "max"),
    ],
)
def test_clocks_are_the_drivers_where_hooks_raise_them(raising, clocks):
    planned = plan(found(raising=raising), of(Desired, {}))
    assert planned.actions[0].content["clocks"] == clocks
    told = [note for note in planned.notes if note.startswith("clocks auto: slurm.conf names /etc/slurm/prolog.d")]
    assert bool(told) == (raising == Raising(None, True))
    asked = plan(found(raising=raising), of(Desired, {"clocks": "max"}))
    assert asked.actions[0].content["clocks"] == "max" and not asked.notes
    left = plan(found(raising=raising), of(Desired, {"clocks": "leave"}))
    assert "clocks" not in left.actions[0].content and "SetClocks" not in kinds(left)


def test_what_is_foreseen_is_the_state_after_the_steps():
    desired = of(Desired, {})
    before = found()
    after = RESOURCE.predict(before, plan(before, desired).actions, desired)
    assert after.gpus.gpus[0].persistence and after == replaced(before, gpus=after.gpus)
