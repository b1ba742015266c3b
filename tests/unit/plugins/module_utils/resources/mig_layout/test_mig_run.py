# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot unit of the layouts, the end of a run, and who counts as a user of a GPU: without NVML."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, List

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import Action, NodeError, Plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.systemd import boot_unit
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.observe import _clients
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.plan import decide
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.types import (
    Client,
    Entry,
    FailedGpu,
    State,
    standing,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import mig_layout
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.test_mig_plan import (
    NOTHING,
    gpu,
    kinds,
    layout,
    three_g,
    wish,
)

INSTALL = ["WriteUnit", "EnableUnit", "ReloadSystemd"]
REMOVE = ["RemoveUnit", "ReloadSystemd"]


ASK = {"layouts": [layout("3g")]}
NONE = boot_unit.BootUnitState()
THERE = boot_unit.BootUnitState(text=mig_layout.unit_of(wish(**ASK)).text(), enabled=True)


def steps(seen: State, unit: boot_unit.BootUnitState, **given: Any) -> List[str]:
    return kinds(mig_layout.plan(mig_layout.Found(seen, unit), wish(**given)))


def test_the_unit_comes_after_what_a_layout_needs_and_before_whatever_opens_a_gpu() -> None:
    lines = mig_layout.unit_of(wish(before_units=["slurmd.service"])).text().splitlines()
    assert "After=nvidia-persistenced.service nvidia-fabricmanager.service" in lines
    # A GPU forgets its settings with its mode, and DCGM would hold it open.
    assert "Before=gpu-node-gpu_settings.service nvidia-dcgm.service slurmd.service" in lines
    assert "ExecStart=/usr/local/bin/gpunode apply mig_layout" in lines


def test_the_unit_is_there_as_long_as_a_layout_is_asked_for() -> None:
    seen = State(gpus=(gpu(),))
    assert steps(seen, NONE, **ASK)[-3:] == INSTALL
    assert not set(steps(seen, THERE, **ASK)) & {*INSTALL, *REMOVE}
    # Asked to be away, with no layout left to make, and given back.
    for given in (dict(ASK, boot_unit=False), {}, {"state": "default"}):
        assert set(REMOVE) <= set(steps(seen, THERE, **given))
        assert not set(INSTALL) & set(steps(seen, NONE, **given))


def test_the_wish_is_on_record_before_the_gpus_change_and_the_unit_gone_before_they_go_back() -> None:
    assert steps(State(gpus=(gpu(),)), NONE, **ASK) == ["Declare", "Remember", "MakeInstance", "Remember", *INSTALL]
    # After a mode that has changed everything is looked at again: nothing may come behind it.
    assert steps(State(gpus=(gpu(mode=False),)), NONE, **ASK) == ["Declare", *INSTALL, "Remember", "SetMode"]
    empty = (("GPU-0", Entry(replaced(NOTHING, mode=True))),)
    made = State(gpus=(gpu(instances=(three_g(4),)),), entries=empty, declared=ASK)
    back = ["Declare", *REMOVE, "Remember", "EndInstance", "Remember"]
    assert steps(made, THERE, state="default") == back


def test_gpus_that_do_not_answer_are_told_beside_a_step_that_failed() -> None:
    lost = FailedGpu(1, "GPU-1", "0001:00:00.0", "GPU 1: it is lost; reboot the node.")
    found, ask = mig_layout.Found(State(gpus=(gpu(),), failed=(lost,))), wish(layouts=[layout("3g")])
    failed = NodeError("GPU 0", "it has no room", "look")

    def ending(rest: Plan, error: Any) -> str:
        assert mig_layout.RESOURCE.ending is not None
        return mig_layout.RESOURCE.ending(found, rest, ask, error)

    assert ending(Plan(), failed) == "GPU 0: it has no room; look. GPU 1: it is lost; reboot the node."
    assert ending(Plan(), None) == "GPU 1: it is lost; reboot the node."
    # Told once, where the step failed as that GPU is lost; and what is left to do is an error of the run.
    same = NodeError("GPU 1", "it is lost", "reboot the node")
    assert ending(Plan(), same) == "GPU 1: it is lost; reboot the node."
    assert ending(Plan((Action(),)), None) == ""
    assert ending(Plan((Action(),)), failed).startswith("GPU 0: it has no room; look. GPU 1")


class Told:
    """A GPU whose driver tells these processes."""

    def __init__(self, **processes: Any) -> None:
        self.processes = processes

    def first(self, call: Any, *dummy: Any) -> Any:
        kind = "compute" if call == ("nvmlDeviceGetComputeRunningProcesses_v3",) else "graphics"
        assert kind == "compute" or call == ("nvmlDeviceGetGraphicsRunningProcesses_v3",)
        value = self.processes.get(kind)
        return SimpleNamespace(value=value, ok=value is not None, absent=False, reason="it failed")


def process(pid: int, gi: Any = 0xFFFFFFFF, ci: Any = 0xFFFFFFFF) -> Any:
    return SimpleNamespace(pid=pid, gpuInstanceId=gi, computeInstanceId=ci)


def test_a_process_that_draws_uses_the_gpu_too() -> None:
    told: Any = Told(compute=[process(9, 1, 0)], graphics=[process(7)])
    assert _clients(told) == ((Client(7), Client(9, 1, 0)), None)
    only: Any = Told(compute=None, graphics=[process(7)])
    assert _clients(only) == ((Client(7),), "it failed")
    drawn = gpu(mode=False, clients=_clients(only)[0])
    assert "process 7 (gone) uses it" in str(decide(State(gpus=(drawn,)), wish(layouts=[layout("3g")])).refusals[0])


def test_device_files_that_lack_are_made_though_the_layout_is_as_it_should_be() -> None:
    entry = ("GPU-0", Entry(NOTHING, None, standing(gpu(instances=(three_g(4),)))))
    ask = wish(layouts=[layout("3g")])
    whole = State(gpus=(gpu(instances=(three_g(4),), minor=0),), entries=(entry,))
    assert not decide(whole, ask).actions
    lacks = replaced(whole, gpus=(replaced(whole.gpus[0], files_missing=("/dev/nvidia-caps/nvidia-cap21",)),))
    assert kinds(decide(lacks, ask)) == ["MakeFiles"]
