# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who has a GPU, and which units give way while it is divided anew."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import open_files, options
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Completed, Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig import apply, clients, record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.instances import Compute
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.plan import decide
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig.types import (
    Client,
    HoldUnits,
    MakeFiles,
    StartUnits,
    State,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig.test_mig_plan import (
    gpu,
    kinds,
    layout,
    three_g,
    wish,
)

DCGM = "nvidia-dcgm.service"
CONTAINER = "3f" * 32


@pytest.mark.parametrize(
    "cgroup, expected",
    [
        ("0::/system.slice/nvidia-dcgm.service\n", DCGM),
        ("0::/system.slice/slurmstepd.scope/job_17/step_0/user/task_0\n", "job 17"),
        ("4:devices:/slurm/uid_2000/job_9/step_batch\n0::/system.slice/slurmd.service\n", "job 9"),
        ("0::/system.slice/docker-{0}.scope\n".format(CONTAINER), "container " + CONTAINER[:12]),
        (
            "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod0a1b2c3d_0000_4000_8000_0123456789ab.slice"
            "/cri-containerd-{0}.scope\n".format(CONTAINER),
            "pod 0a1b2c3d-0000-4000-8000-0123456789ab",
        ),
        (
            "12:pids:/kubepods/burstable/pod0a1b2c3d-0000-4000-8000-0123456789ab/" + CONTAINER + "\n",
            "pod 0a1b2c3d-0000",
        ),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", "session-3.scope"),
        # A user names a cgroup of his own after a job.
        ("0::/user.slice/user-1000.slice/user@1000.service/slurmstepd.scope/job_17\n", "user@1000.service"),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/nvidia-dcgm.service\n", "user@1000.service"),
        ("", ""),
    ],
)
def test_a_process_belongs_to_a_job_a_pod_a_container_or_a_unit(tmp_path, cgroup, expected):
    (tmp_path / "proc/42").mkdir(parents=True)
    (tmp_path / "proc/42/cgroup").write_text(cgroup)
    (tmp_path / "proc/42/comm").write_text("python3\n")
    client = clients.named(Host(str(tmp_path)), Client(42, 1, 0))
    assert client.owner.startswith(expected) and bool(expected) == bool(client.owner)
    assert (client.pid, client.gi, client.ci, client.command) == (42, 1, 0, "python3")


def test_holders_are_those_that_have_the_device_file_open(tmp_path):
    for pid, files in (("7", ("/dev/null", "/dev/nvidia1")), ("8", ("/dev/nvidia10",)), ("9", ("/dev/nvidia1",))):
        (tmp_path / "proc" / pid / "fd").mkdir(parents=True)
        for number, file in enumerate(files):
            (tmp_path / "proc" / pid / "fd" / str(number)).symlink_to(file)
    (tmp_path / "proc/9/cgroup").write_text("0::/system.slice/nvidia-dcgm.service\n")
    found = clients.holders(Host(str(tmp_path)), 1)
    assert [(one.pid, one.unit) for one in found] == [(7, ""), (9, DCGM)]


def test_a_real_process_that_holds_a_file_is_found():
    code = "import os, sys; os.symlink; f = open(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "/dev/zero"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        found = open_files.of_process(Host(), process.pid)[0]
        process.stdin.close()
    assert "/dev/zero" in found


def test_the_service_of_mig_parted_is_seen_where_it_is_enabled_and_not_masked(tmp_path):
    host, folder = Host(str(tmp_path)), tmp_path / "etc/systemd/system"
    assert not clients.manager(host)
    for name in ("multi-user.target.wants", "nvidia-gpu-reset.target.wants"):
        (folder / name).mkdir(parents=True)
        (folder / name / clients.MANAGER).symlink_to("/usr/lib/systemd/system/" + clients.MANAGER)
        assert clients.manager(host)
        (folder / name / clients.MANAGER).unlink()
    (folder / "multi-user.target.wants" / clients.MANAGER).symlink_to("../" + clients.MANAGER)
    (folder / clients.MANAGER).symlink_to("/dev/null")
    assert not clients.manager(host)


def test_two_owners_of_a_layout_are_refused_before_anything_is_changed():
    plan = decide(State((gpu(),), manager=True), wish(layouts=[layout("3g")]))
    (refusal,) = plan.refusals
    assert str(refusal).startswith("nvidia-mig-manager.service: it is enabled, and gives the GPUs a layout of its own")
    assert not decide(State((gpu(),), manager=True), wish(layouts=[layout("3g", gpus=["0"])])).actions
    assert not decide(State((gpu(),), manager=True), wish()).refusals  # nothing is asked of the GPUs


def used_by(unit, standing=None):
    instance = replaced(three_g(4), used=True, compute=(Compute(0, 3, None, True),))
    return gpu(instances=(instance,), clients=(Client(42, 1, 0, "nv-hostengine", unit, unit),))


def test_an_instance_that_only_a_unit_to_be_stopped_uses_may_go():
    # It does not run any more, or was never to be stopped.
    refused = decide(State((used_by(DCGM),)), wish(layouts=[layout("7g")]))
    assert refused.refusals and not refused.actions
    state = State((used_by(DCGM),), holding=(DCGM,))
    plan = decide(state, wish(layouts=[layout("7g")], stop_units=[DCGM]))
    assert kinds(plan) == ["Remember", "HoldUnits", "EndInstance", "MakeInstance", "Remember"]
    assert plan.actions[1].describe() == "stop nvidia-dcgm.service meanwhile"
    # Of somebody else's process it is not enough.
    other = State((used_by("slurmstepd.scope"),), holding=(DCGM,))
    assert decide(other, wish(layouts=[layout("7g")], stop_units=[DCGM])).refusals


def test_nothing_is_stopped_where_nothing_ends():
    state = State((gpu(instances=(three_g(4),)),), holding=(DCGM,))
    assert kinds(decide(state, wish(layouts=[layout("3g", "1g")], stop_units=[DCGM]))) == [
        "Remember",
        "MakeInstance",
        "Remember",
    ]
    assert kinds(decide(state, wish(layouts=[layout("3g")], stop_units=[DCGM]))) == ["Remember"]


def test_a_mode_change_stops_them_and_stays_the_last_step():
    plan = decide(State((gpu(mode=False),), holding=(DCGM,)), wish(layouts=[layout("3g")], stop_units=[DCGM]))
    assert kinds(plan) == ["Remember", "HoldUnits", "SetMode"]
    assert plan.actions[-1].then_look()


def test_what_a_killed_run_stopped_is_started_when_the_change_is_done_and_not_before():
    """It would hold the GPUs, and their mode would not change."""
    off = State((gpu(mode=False),), stopped=(DCGM,))
    plan = decide(off, wish(layouts=[layout("3g")]))
    assert kinds(plan) == ["Remember", "HoldUnits", "SetMode"] and plan.actions[1] == HoldUnits((DCGM,))
    # Killed between the end of an instance and its successor: nothing ends any more.
    half = decide(State((gpu(),), stopped=(DCGM,)), wish(layouts=[layout("3g")]))
    assert kinds(half) == ["Remember", "HoldUnits", "MakeInstance", "Remember"]
    # Started by hand meanwhile, or running since a boot, it gives way once more.
    again = State((used_by(DCGM),), holding=(DCGM, "other.service"), stopped=(DCGM,))
    plan = decide(again, wish(layouts=[layout("7g")], stop_units=[DCGM]))
    assert plan.actions[1] == HoldUnits((DCGM, "other.service"))
    # Where nothing is to be changed, it is started all the same.
    state = State((gpu(instances=(three_g(4),)),), stopped=(DCGM,))
    plan = decide(state, wish(layouts=[layout("3g")]))
    assert kinds(plan) == ["StartUnits", "Remember"] and plan.actions[0] == StartUnits((DCGM,))
    refused = decide(state, wish(layouts=[layout("3g", "3g", "3g")]))
    assert refused.refusals and "a run that was killed has stopped nvidia-dcgm.service" in refused.notes[-1]


@pytest.mark.parametrize(
    "cgroup, unit",
    [
        ("0::/system.slice/nvidia-dcgm.service\n", DCGM),
        ("0::/system.slice/system-nvidia.slice/nvidia@0.service\n", "nvidia@0.service"),
        ("4:devices:/system.slice/other.service\n1:name=systemd:/system.slice/nvidia-dcgm.service\n", DCGM),
        # Whoever runs in these names cgroups as he likes.
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/nvidia-dcgm.service\n", ""),
        ("0::/system.slice/docker-{0}.scope/nvidia-dcgm.service\n".format(CONTAINER), ""),
        ("0::/system.slice/containerd.service/nvidia-dcgm.service\n", ""),
        ("4:devices:/system.slice/nvidia-dcgm.service\n", ""),
        ("0::/user.slice/x\r0::/system.slice/nvidia-dcgm.service\n", ""),
    ],
)
def test_only_a_service_of_the_system_is_one_that_may_be_stopped(tmp_path, cgroup, unit):
    (tmp_path / "proc/42").mkdir(parents=True)
    (tmp_path / "proc/42/cgroup").write_bytes(cgroup.encode())
    assert clients.named(Host(str(tmp_path)), Client(42, 1, 0)).unit == unit


def test_units_that_run_jobs_are_no_choice():
    with pytest.raises(NodeError, match="option stop_units: slurmd.service runs jobs or containers of users; drain"):
        options.of(Desired, {"stop_units": [DCGM, "slurmd.service"]})


class Systemd(Host):
    """A node that notes which of its units are stopped and started, and what the record says then."""

    def __init__(self, root):
        super().__init__(str(root))
        self.done = []

    def run(self, argv, timeout_seconds=60.0, accept=(0,)):
        self.done.append((*[word for word in argv[1:] if not word.startswith("--")], record.stopped(self)))
        return Completed(tuple(argv), 0, "", "")


class Units(Host):
    """A node whose systemd tells these properties of its units."""

    def __init__(self, root, **units):
        super().__init__(str(root))
        (root / "run/systemd/system").mkdir(parents=True)
        self.units = units

    def run(self, argv, timeout_seconds=60.0, accept=(0,)):
        asked = argv[argv.index("--") + 1 :]
        assert argv[1] == "show" and asked
        known = [self.units.get(unit.partition(".")[0], {"Id": unit, "ActiveState": "inactive"}) for unit in asked]
        blocks = ["".join("{0}={1}\n".format(*pair) for pair in words.items()) for words in known]
        return Completed(tuple(argv), 0, "\n".join(blocks), "")


def unit(name, state="active", **along):
    return dict({"Id": name + ".service", "ActiveState": state}, **along)


@pytest.mark.parametrize("how", ["RequiredBy", "RequisiteOf", "BoundBy", "ConsistsOf", "PropagatesStopTo"])
def test_what_systemd_stops_along_is_started_again_with_it(tmp_path, how):
    exporter = "dcgm-exporter.service"
    host = Units(
        tmp_path,
        dcgm=unit("dcgm", **{how: "dcgm-exporter.service idle.service"}),
        **{"dcgm-exporter": unit("dcgm-exporter", **{how: "dcgm.service last.service"})},
        idle=unit("idle", "inactive"),
        last=unit("last", "activating"),
    )
    assert clients.holding(host, ("dcgm.service",)) == (
        ("dcgm.service", exporter, "last.service"),
        (exporter, "last.service"),
    )


def test_a_unit_that_does_not_run_or_has_another_name(tmp_path):
    host = Units(tmp_path, dcgm=unit("dcgm", "inactive"), alias=unit("nvidia-dcgm", BoundBy="alias.service"))
    assert clients.holding(host, ("dcgm.service", "alias.service")) == ((DCGM,), ())
    assert clients.holding(host, ()) == ((), ())
    assert clients.holding(Host(str(tmp_path / "no-systemd")), (DCGM,)) == ((), ())


def test_what_runs_jobs_is_not_stopped_along_with_anything():
    state = State((used_by(DCGM),), holding=(DCGM, "slurmd.service"), along=("slurmd.service",))
    refused = decide(state, wish(layouts=[layout("7g")], stop_units=[DCGM]))
    assert [str(one) for one in refused.refusals] == [
        "option stop_units: with nvidia-dcgm.service systemd stops slurmd.service, which runs jobs or containers of"
        " users; take that dependency out of the units, or drain the node and stop them by hand."
    ]
    # Where nothing has to be stopped, it is in nobody's way.
    assert kinds(decide(state, wish(layouts=[layout("3g", "1g")], stop_units=[DCGM]))).count("MakeInstance") == 1


def test_units_start_again_when_the_change_fails_and_the_record_tells_of_them_meanwhile(tmp_path, monkeypatch):
    host = Systemd(tmp_path)

    def failing(*dummy):
        host.done.append("change")
        raise NodeError("GPU 0", "it fell off the bus", "look")

    monkeypatch.setattr(apply, "_carry_out", failing)
    with pytest.raises(NodeError, match="fell off the bus"):
        apply.carry_out(host, [HoldUnits((DCGM,))], 1.0)
    assert host.done == [("stop", DCGM, (DCGM,)), "change", ("start", DCGM, (DCGM,))]
    assert record.stopped(host) == () and not os.path.exists(tmp_path / "var/lib/gpu_node/mig_layout.json")


def test_after_a_run_that_was_killed_the_order_is_the_same(tmp_path, monkeypatch):
    host = Systemd(tmp_path)
    record.note_stopped(host, (DCGM,))
    monkeypatch.setattr(apply, "_carry_out", lambda *dummy: host.done.append("change"))
    plan = decide(State((gpu(mode=False),), stopped=record.stopped(host)), wish(layouts=[layout("3g")]))
    apply.carry_out(host, plan.actions, 1.0)
    assert host.done == [("stop", DCGM, (DCGM,)), "change", ("start", DCGM, (DCGM,))]
    assert record.stopped(host) == ()


def test_nobody_waits_for_a_unit_that_is_started(tmp_path):
    """At boot it may be ordered after the unit that runs this, which would wait for it in vain."""
    asked = []
    host = Host(str(tmp_path))
    host.run = lambda argv, *dummy: asked.append(argv)
    clients.start(host, (DCGM, "dcgm-exporter.service"))
    assert asked == [["systemctl", "start", "--no-block", "--", DCGM, "dcgm-exporter.service"]]


def test_a_run_that_is_killed_leaves_on_record_what_it_stopped(tmp_path, monkeypatch):
    host = Systemd(tmp_path)
    record.note_stopped(host, (DCGM,))
    record.write(host, [])
    assert record.stopped(host) == (DCGM,)
    apply.carry_out(host, [StartUnits((DCGM,))], 1.0)
    assert host.done == [("start", DCGM, (DCGM,))] and record.stopped(host) == ()


def test_device_files_alone_do_not_open_nvml(tmp_path, monkeypatch):
    monkeypatch.setattr(apply, "survey", None)
    assert apply.carry_out(Host(str(tmp_path)), [MakeFiles("GPU 0", "GPU-0", 0)], 1.0) is None
