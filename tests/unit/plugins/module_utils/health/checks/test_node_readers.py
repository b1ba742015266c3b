# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The readers of the checks: what tools and the kernel write, whole and damaged, and this machine itself."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import converge_record, mounts, processes, systemd
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import container, nvme_smart, types
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import (
    clock_synchronised,
    filesystem_space,
    limit_slurmd,
    memory_use,
    scratch_mounted,
    service_running,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import nvme_smart as smart_check
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.limits import LIMITS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Outcome
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.unit import GUARD


def expected(profile=None):
    return types.Expected("x", profile or {}, {}, LIMITS, {}, {}, 0.0)


# NVMe -------------------------------------------------------------------------------------------------------------

# NVM Express Base Specification 2.0, figure 207, by hand: bytes 0, 1-2, 3, 5 and 160-175.
PAGE = bytearray(512)
PAGE[0] = 0b101
PAGE[1:3] = (273 + 41).to_bytes(2, "little")
PAGE[3], PAGE[4], PAGE[5] = 97, 10, 12
PAGE[160:176] = (70000).to_bytes(16, "little")
SMART = nvme_smart.Smart(0b101, 41, 97, 12, 70000)


def test_the_health_log_of_a_disk():
    assert nvme_smart.parse_log(bytes(PAGE)) == SMART
    with pytest.raises(OSError, match="cut short"):
        nvme_smart.parse_log(bytes(PAGE[:300]))


def test_the_command_to_the_driver_has_the_shape_that_the_kernel_wants():
    # linux/nvme_ioctl.h, struct nvme_passthru_cmd; the size is part of the request's number (_IOWR).
    assert nvme_smart._COMMAND.size == 72 == nvme_smart._ADMIN_COMMAND >> 16 & 0x3FFF


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(
            {"critical_warning": 5, "temperature": 314, "avail_spare": 97, "percent_used": 12} | {"media_errors": 70000}
        ),
        json.dumps(
            {"critical_warning": {"value": 5, "available_spare": 1}, "temperature": 314, "avail_spare": 97}
            | {"percent_used": 12, "media_errors": "70000"}
        ),
        "Warning: something\n"
        + json.dumps(
            {"critical_warning": 5, "temperature": 314, "avail_spare": 97} | {"percent_used": 12, "media_errors": 70000}
        ),
    ],
)
def test_what_nvme_cli_prints(text):
    assert nvme_smart.parse_json(text) == SMART


@given(st.text() | st.integers(0, 200).map(lambda cut: json.dumps({"critical_warning": 5, "media_errors": 1})[:cut]))
def test_what_is_no_health_log_is_none(text):
    assert nvme_smart.parse_json(text) is None


def test_a_disk_that_is_not_there_is_an_error_with_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(Host, "which", lambda self, program: None)
    with pytest.raises(NodeError) as raised:
        nvme_smart.read(Host(str(tmp_path)), "nvme0")
    assert "No such file" in raised.value.reason and "nvme-cli" in raised.value.remedy


@pytest.mark.parametrize(("status", "expected_"), [(0x4109, None), (0x2002, None), (0x0006, "status 0x6")])
def test_a_disk_that_refuses(tmp_path, monkeypatch, status, expected_):
    """The driver returns the status of the disk: one without such a log is not ill, one that fails may be."""
    (tmp_path / "dev").mkdir()
    tmp_path.joinpath("dev", "nvme0").write_text("", encoding="utf-8")
    monkeypatch.setattr(nvme_smart.fcntl, "ioctl", lambda *dummy: status)
    monkeypatch.setattr(Host, "which", lambda self, program: None)
    if expected_ is None:
        assert nvme_smart.read(Host(str(tmp_path)), "nvme0") is None
        return
    with pytest.raises(NodeError, match=expected_):
        nvme_smart.read(Host(str(tmp_path)), "nvme0")


def test_disks_without_a_health_log_are_no_finding():
    found = smart_check.judge((smart_check.Disk("nvme0", "A", None), smart_check.Disk("nvme1", "B", SMART)), expected())
    assert {one.key for one in found.findings} == {"B"} and found.seen == "1 of 2 disks have a health log"


def test_a_file_that_is_no_disk_refuses_the_command(tmp_path):
    tmp_path.joinpath("nvme0").write_text("x", encoding="utf-8")
    with pytest.raises(OSError) as raised:
        nvme_smart._ask(str(tmp_path / "nvme0"))
    assert raised.value.errno == errno.ENOTTY


# systemd ----------------------------------------------------------------------------------------------------------


def parse(text):
    return service_running.parsed(systemd.parse(text))


def test_the_answer_of_systemctl():
    text = (
        "Type=notify\nRemainAfterExit=no\nNRestarts=4\nResult=success\nId=slurmd.service\nLoadState=loaded\n"
        "ActiveState=active\nSubState=running\nUnitFileState=enabled\nConditionResult=yes\n"
        "ConditionTimestampMonotonic=812\n\nResult=success\nId=munge.service\nLoadState=not-found\n"
        "ActiveState=inactive\nSubState=dead\nUnitFileState=\nConditionResult=no\nConditionTimestampMonotonic=0\n"
    )
    first, second = parse(text)
    assert first == service_running.Unit(
        "slurmd.service", "loaded", "active", "running", "enabled", "success", False, False, 4
    )
    assert (second.name, second.loaded, second.refused) == ("munge.service", "not-found", False)


@given(st.text(alphabet="IdActiveState=\n .-0aé", max_size=200))
def test_any_answer_of_systemctl_is_taken_apart(text):
    for unit in parse(text):
        assert unit.name
    service_running.judge(parse(text), expected())


UNIT = "Id={0}\nLoadState=loaded\nActiveState={1}\nSubState={2}\nUnitFileState=enabled\nResult=exit-code\n"
FAILED = UNIT.format("{0}", "failed", "failed")
SLURMD = UNIT.format("slurmd.service", "active", "running")


def machine(root, files, slurmd="/usr/sbin/slurmd"):
    for path, text in files.items():
        root.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
        root.joinpath(path).write_text(text, encoding="utf-8")
    if slurmd:
        folder = root / "proc/77"
        folder.mkdir(parents=True)
        for name, text in (("comm", "slurmd\n"), ("status", "Uid:\t0\t0\t0\t0\n"), ("cmdline", slurmd + "\0-D\0")):
            folder.joinpath(name).write_text(text, encoding="utf-8")
    return Host(str(root))


CONF = "etc/slurm/slurm.conf"


@pytest.mark.parametrize(
    "unit, files, slurmd, needed",
    [
        ("kubelet.service", {}, "", False),
        ("kubelet.service", {"var/lib/kubelet/pki/x": ""}, "/usr/sbin/slurmd", False),
        ("kubelet.service", {"var/lib/kubelet/config.yaml": ""}, "", True),
        ("kubelet.service", {"var/lib/kubelet/kubeconfig": ""}, "/usr/sbin/slurmd", True),
        ("munge.service", {CONF: "ClusterName=c\nAuthType=auth/slurm\n"}, "/usr/sbin/slurmd", False),
        ("munge.service", {CONF: "ClusterName=c\nAuthType=auth/munge\n"}, "/usr/sbin/slurmd", True),
        ("munge.service", {CONF: "ClusterName=c\n"}, "/usr/sbin/slurmd", True),
        ("munge.service", {}, "/usr/sbin/slurmd", True),
        ("munge.service", {CONF: "ClusterName=c\n"}, "", False),
        ("slurmd.service", {CONF: "ClusterName=c\n"}, "/opt/slurm/sbin/slurmd", False),
        ("slurmd.service", {CONF: "ClusterName=c\n"}, "", True),
    ],
)
def test_a_service_of_a_scheduler_counts_where_the_node_uses_it(tmp_path, unit, files, slurmd, needed):
    host = machine(tmp_path, files, slurmd)
    units = parse(FAILED.format(unit))
    units = service_running._needed(host, units, (unit,))
    found = service_running.judge(units, expected())
    assert [one.outcome.value for one in found.findings] == (["fail"] if needed else []), found
    assert ("is not needed" in found.seen) is not needed


def test_munge_counts_where_slurmd_is_enabled_and_does_not_run_yet(tmp_path):
    host = machine(tmp_path, {}, "")
    for slurmd, needed in ((SLURMD, True), ("", False), (SLURMD.replace("=enabled", "=disabled"), False)):
        units = parse(FAILED.format("munge.service") + "\n" + slurmd)
        units = service_running._needed(host, units, ("munge.service",))
        assert bool(service_running.judge(units, expected()).findings) is needed


@pytest.mark.parametrize("unit, name", [("munge.service", "munged"), ("nvidia-dcgm.service", "nv-hostengine")])
@pytest.mark.parametrize("pids", ["88", "88\t5"])
def test_a_daemon_in_a_container_serves_the_node_if_it_needs_no_socket_there(tmp_path, unit, name, pids):
    host = machine(tmp_path, {CONF: "ClusterName=c\n"})
    status = "Uid:\t0\t0\t0\t0\nNSpid:\t{0}\n".format(pids)
    machine(tmp_path, {"proc/88/comm": name + "\n", "proc/88/status": status}, "")
    units = service_running._needed(host, parse(FAILED.format(unit)), (unit,))
    assert bool(service_running.judge(units, expected()).findings) is (name == "munged" and pids != "88")


# Limits -----------------------------------------------------------------------------------------------------------


def test_limits_of_a_process_and_of_a_drop_in():
    own = processes.limits(Host(), "self")
    assert int(own["Max open files"]) > 0 and "Max locked memory" in own
    text = "[Service]\nLimitMEMLOCK=infinity\nLimitSTACK=8192K\nLimitNOFILE=1048576\nLimitNICE=5\nLimitCORE=0 \n"
    assert dict(limit_slurmd.drop_in(text)) == {
        "Max locked memory": float("inf"),
        "Max stack size": 8388608.0,
        "Max open files": 1048576.0,
        "Max core file size": 0.0,
    }


@given(st.text(alphabet="Max opnfils0123456789unltd \n=LimtMEOCK", max_size=200))
def test_any_text_has_limits_or_none(text):
    processes.parse_limits(text)
    limit_slurmd.drop_in(text)


# Mounts -----------------------------------------------------------------------------------------------------------


def test_mounts_as_the_kernel_tells_them(tmp_path):
    folder = tmp_path / "proc" / "self"
    folder.mkdir(parents=True)
    folder.joinpath("mountinfo").write_text(
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "30 22 9:127 / /mnt/a\\040b rw - xfs /dev/md127 rw\n"
        "31 30 9:127 / /mnt/a\\040b ro master:3 - xfs /dev/md127 rw\n"
        "cut short\n",
        encoding="utf-8",
    )
    table = mounts.read(Host(str(tmp_path)))
    assert [one.point for one in table] == ["/", "/mnt/a b", "/mnt/a b"]
    top = mounts.at(table, "/mnt/a b")
    assert top is not None and not top.writable and top.device == "9:127"
    assert mounts.at(table, "/mnt") is None


def test_this_machine_has_a_root_with_room_as_df_counts_it():
    space = mounts.space(Host(), "/")
    found = os.statvfs("/")
    assert 0 <= space.used_percent <= 100 and space.total_bytes == found.f_blocks * found.f_frsize
    assert any(one.point == "/" for one in mounts.read(Host()))


def test_a_file_system_is_told_once_and_one_that_is_missing_not_at_all(tmp_path):
    (tmp_path / "tmp").mkdir()
    seen = filesystem_space.look_at_system(Evidence(Host(str(tmp_path)), {}, {}))
    assert [one.path for one in seen] == ["/"]


@pytest.mark.parametrize(
    ("used", "inodes", "codes"),
    [
        (90.0, 90.0, []),
        (90.5, None, [("space", Outcome.WARN)]),
        (98.5, 10.0, [("space", Outcome.FAIL)]),
        (10.0, 99.0, [("inodes", Outcome.FAIL)]),
    ],
)
def test_at_a_limit_it_is_still_well(used, inodes, codes):
    seen = (filesystem_space.Filesystem("/", mounts.Space(100, 10, used, inodes)),)
    found = filesystem_space.judge_system(seen, expected()).findings
    assert [(one.code, one.outcome) for one in found] == codes


# The probe of the scratch -----------------------------------------------------------------------------------------


def test_the_probe_has_no_name(tmp_path):
    """A thread watches the folder while the probe is written, a hundred times."""
    names, stop = set(), threading.Event()

    def watch():
        while not stop.is_set():
            names.update(os.listdir(str(tmp_path)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _attempt in range(100):
        scratch_mounted._write(str(tmp_path))
    stop.set()
    watcher.join()
    assert not names


def test_where_there_are_no_nameless_files_the_probe_is_removed(tmp_path, monkeypatch):
    opened = os.open

    def without(path, flags, *more, **named):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return opened(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", without)
    scratch_mounted._write(str(tmp_path))
    assert os.listdir(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("error", "root", "outcome", "code"),
    [
        (errno.ENOSPC, True, Outcome.FAIL, "full"),
        (errno.EROFS, True, Outcome.FAIL, "not_writable"),
        (errno.EIO, True, Outcome.FAIL, "not_writable"),
        (errno.EACCES, False, Outcome.UNKNOWN, "not_allowed"),
    ],
)
def test_what_the_probe_ended_with(error, root, outcome, code):
    mount = mounts.Mount("/scratch", "9:127", "xfs", "/dev/md127", True)
    found = scratch_mounted.judge(scratch_mounted.Seen(mount, error, root), expected()).findings
    assert [(one.outcome, one.code) for one in found] == [(outcome, code)]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this machine has no /dev/full")
def test_a_real_full_device_says_so(monkeypatch, tmp_path):
    """/dev/full answers each write as a full disk does."""
    opened = os.open
    monkeypatch.setattr(os, "open", lambda path, flags, *more: opened("/dev/full", os.O_WRONLY))
    with pytest.raises(OSError) as raised:
        scratch_mounted._write(str(tmp_path))
    assert raised.value.errno == errno.ENOSPC


# The clock --------------------------------------------------------------------------------------------------------


def test_the_clock_of_this_machine():
    try:
        clock = clock_synchronised.read()
    except NodeError as error:
        assert "cannot be asked" in error.reason
        return
    assert 0 <= clock.estimated_error_seconds <= 1000 and 0 <= clock.greatest_error_seconds <= 1000


def test_a_clock_that_nothing_synchronises_and_one_that_is_off():
    good = clock_synchronised.Clock(True, 0.0001, 0.02)
    assert clock_synchronised.judge(good, expected()).findings == ()
    for bad, code in (
        (dataclasses.replace(good, synchronised=False), "unsynchronised"),
        (dataclasses.replace(good, estimated_error_seconds=1.5), "error"),
    ):
        found = clock_synchronised.judge(bad, expected()).findings
        assert [(one.code, one.outcome) for one in found] == [(code, Outcome.WARN)]


def test_a_container_has_no_clock_of_its_own(tmp_path):
    assert not container.contained(Host(str(tmp_path)))
    (tmp_path / ".dockerenv").write_text("", encoding="utf-8")
    assert container.contained(Host(str(tmp_path)))
    assert clock_synchronised.look(Evidence(Host(str(tmp_path)), {}, {})) is None


# Memory -----------------------------------------------------------------------------------------------------------


def test_swap_within_memory_and_of_a_workstation_is_nothing(tmp_path):
    folder = tmp_path / "proc"
    folder.mkdir()
    text = "Filename Type Size Used Priority\n/dev/zram0 partition 8388604 4000000 100\n/swap\\040file file 100 50 -2\n"
    folder.joinpath("swaps").write_text(text, encoding="utf-8")
    seen = memory_use.look_at_swap(Evidence(Host(str(tmp_path)), {}, {}))
    assert [(one.size_bytes, one.used_bytes) for one in seen] == [(102400, 51200)]
    much = (memory_use.Swap("/swapfile", 2**32, 2**31),)
    assert memory_use.judge_swap(much, expected()).findings == ()
    assert memory_use.judge_swap(much, expected({"name": "x"})).findings[0].code == "used"


@pytest.mark.parametrize(
    ("status", "in_service", "told"),
    [("running", False, []), ("running", True, ["failed"]), ("not_ready", True, []), ("ready", False, ["failed"])],
)
def test_a_slurmd_that_the_converge_refuses_is_no_failure_of_its_own(tmp_path, status, in_service, told):
    """Or a converge could never end well on a node whose slurmd it had refused."""
    host = Host(str(tmp_path))
    host.write("/proc/sys/kernel/random/boot_id", "now\n")
    found = converge_record.Record(status, "", 1.0, 2.0, "now", "0.1.0", None, in_service)
    (unit,) = parse("Id=slurmd.service\nLoadState=loaded\nActiveState=failed\nUnitFileState=enabled\n")

    def codes():
        held = unit.name in service_running._held(host)
        return [one.code for one in service_running.judge((dataclasses.replace(unit, held=held),), None).findings]

    converge_record.write(host, found)
    assert codes() == ["failed"]  # nothing of ours is before its start
    host.write("{0}/{1}".format(systemd.DIRECTORY, GUARD), "# Managed by trainyard.gpu_node.\n")
    assert codes() == ["failed"]  # no boot converges it
    systemd.enable(host, converge_record.UNIT)
    with host.lock(converge_record.LOCK, 0) if status == "running" else contextlib.nullcontext():
        assert codes() == told


@pytest.mark.parametrize(
    ("path", "point"),
    [
        ("/", "/"),
        ("/scratch", "/scratch"),
        ("/scratch2", "/"),
        ("/scratch/a/b", "/scratch/a"),
        ("/scratch/ab", "/scratch"),
    ],
)
def test_a_path_lies_on_the_innermost_mount_and_on_the_last_one_there(path, point):
    table = [mounts.Mount("/", "8:1", "ext4", "/dev/sda1", True), mounts.Mount("/scratch", "0:1", "autofs", "x", True)]
    table += [mounts.Mount(one, "0:2", "nfs4", "y", True) for one in ("/scratch/a", "/scratch")]
    found = mounts.holding(tuple(table), path)
    assert (found.point, found.network) == (point, point != "/")
    assert mounts.holding((), path) is None


def test_a_boot_unit_that_came_after_the_boot_waits_for_the_next(tmp_path):
    """site.yml has done its work; the unit itself runs first when the node boots."""
    units = tmp_path / "etc/systemd/system"
    units.mkdir(parents=True)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("cpu  1 2 3\nbtime 1000000\n", encoding="ascii")
    for name, written in (("gpu-node-nvme_scratch.service", 999999), ("gpu-node-gpu_settings.service", 1000001)):
        (units / name).write_text("[Unit]\n", encoding="ascii")
        os.utime(units / name, (written, written))
    names = ["gpu-node-nvme_scratch.service", "gpu-node-gpu_settings.service", "gpu-node-gone.service"]
    found = service_running._newer_than_the_boot(Host(str(tmp_path)), names)
    assert found == ("gpu-node-gpu_settings.service",)
    text = "Id={0}\nLoadState=loaded\nActiveState=inactive\nUnitFileState=enabled\nResult=success\nType=oneshot\n"
    text += "RemainAfterExit=yes\n"
    for name in names[:2]:
        (unit,) = parse(text.format(name))
        unit = dataclasses.replace(unit, waits=name in found)
        told = service_running.judge((unit,), None).findings
        assert [one.code for one in told] == ([] if name in found else ["not_running"])
