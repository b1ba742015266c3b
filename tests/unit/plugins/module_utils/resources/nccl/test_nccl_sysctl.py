# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel settings of a site that are larger than ours stay, at once and after a boot."""

from __future__ import annotations

import types

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import declaration, sysctl
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import drift
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl import options
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl.apply import STEPS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl.observe import observe
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl.plan import plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl.types import SYSCTL

THRESH = "net.ipv4.neigh.default.gc_thresh"
DEFAULT = {THRESH + "1": "128", THRESH + "2": "512", THRESH + "3": "1024", "vm.zone_reclaim_mode": "0"}
LARGER = {THRESH + "1": "8192", THRESH + "2": "32768", THRESH + "3": "65536"}
WANTED = of(options.Desired, {"limits": {}, "peermem": False, "environment": {}})


class Node:
    def __init__(self, root):
        self.root, self.host = root, Host(str(root))
        for folder in ("etc/sysctl.d", "run/sysctl.d", "usr/lib/sysctl.d"):
            (root / folder).mkdir(parents=True)
        self.runtime = {}
        self.boot()

    def write(self, path, values):
        (self.root / path.lstrip("/")).write_text("".join("{0} = {1}\n".format(*pair) for pair in values.items()))

    def set(self, values):
        for name, value in values.items():
            path = self.root / "proc/sys" / name.replace(".", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(value + "\n")

    def boot(self):
        self.set(DEFAULT)
        self.set({line.name: line.value for line in sysctl.lines(self.host)})
        self.set(self.runtime)

    def now(self):
        return {name: self.host.read_line("/proc/sys/" + name.replace(".", "/")) for name in DEFAULT}

    def converge(self, desired=WANTED):
        """What was done, and the notes about kernel settings."""
        planned = plan(observe(self.host, desired), desired)
        assert planned.refusals == ()
        for action in planned.actions:
            STEPS[type(action)](self.host, action, desired)
        assert plan(observe(self.host, desired), desired).actions == ()
        return [one.describe() for one in planned.actions], [one for one in planned.notes if "thresh" in one]

    def drift(self):
        seen = drift.look(types.SimpleNamespace(host=self.host, declared=declaration.read(self.host)))
        return [str(one) for one in drift.judge(seen, None).findings]


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


@pytest.mark.parametrize(
    "path",
    [
        "/etc/sysctl.d/99-site.conf",
        "/etc/sysctl.d/10-site.conf",
        "/usr/lib/sysctl.d/50-image.conf",
        "/run/sysctl.d/95-x.conf",
        "/etc/sysctl.conf",
    ],
)
def test_larger_values_of_a_file_stay_over_converges_and_boots(node, path):
    node.write(path, LARGER)
    node.boot()
    done, notes = node.converge()
    assert not [one for one in done if "thresh" in one]
    assert len(notes) == 3 and all(path in one for one in notes)
    for _boot in range(2):
        node.boot()
        assert {name: node.now()[name] for name in LARGER} == LARGER and node.now()["vm.zone_reclaim_mode"] == "1"
        assert node.converge()[0] == [] and node.drift() == []


def test_larger_values_that_a_service_sets_stay(node):
    """tuned sets its own, then reads the files again: ours must not have them."""
    node.runtime = LARGER
    node.boot()
    assert not [one for one in node.converge()[0] if "thresh" in one]
    assert "thresh" not in (node.root / SYSCTL.lstrip("/")).read_text()
    node.boot()
    assert node.converge()[0] == [] and node.drift() == []


def test_a_file_that_came_after_our_first_run_is_not_overruled_at_boot(node):
    node.converge()
    assert node.now()[THRESH + "3"] == "16384"
    node.write("/etc/sysctl.d/10-site.conf", LARGER)
    node.boot()  # ours is read later and still has the line
    assert node.now()[THRESH + "3"] == "16384"
    node.converge()
    node.boot()
    assert {name: node.now()[name] for name in LARGER} == LARGER
    assert node.converge()[0] == [] and node.drift() == []


def test_only_what_is_too_small_is_raised(node):
    node.write("/etc/sysctl.d/99-site.conf", {THRESH + "1": "8192"})
    node.boot()
    node.converge()
    assert [node.now()[THRESH + one] for one in "123"] == ["8192", "8192", "16384"]
    node.boot()
    assert [node.now()[THRESH + one] for one in "123"] == ["8192", "8192", "16384"]
    assert node.converge()[0] == []


def test_smaller_values_are_raised_and_a_note_names_the_file_that_restores_them(node):
    node.write("/etc/sysctl.d/99-site.conf", {THRESH + "3": "2048"})
    node.boot()
    done, notes = node.converge()
    assert "set {0}3 to 16384".format(THRESH) in done
    assert notes == [
        "/etc/sysctl.d/99-site.conf sets {0}3 to 2048 and is read after {1}, so it wins at the next boot: "
        "remove it there".format(THRESH, SYSCTL)
    ]
    node.boot()
    assert len(node.drift()) == 1  # so it is a finding, too


def test_our_own_larger_value_follows_the_option_down_and_is_undone(node):
    node.converge(of(options.Desired, {"sysctl": {THRESH + "3": "65536"}, "limits": {}, "environment": {}}))
    assert node.now()[THRESH + "3"] == "65536"
    node.converge()
    assert node.now()[THRESH + "3"] == "16384"
    node.converge(of(options.Desired, {"state": "absent"}))
    assert node.now() == DEFAULT


def test_larger_numbers_of_a_limit_with_several_stay_at_the_next_converge(node):
    name = "net.ipv4.tcp_rmem"
    node.set({name: "8192\t87380\t6291456"})
    for wanted, value in (
        ("4096 87380 134217728", "8192 87380 134217728"),
        ("4096 87380 134217728", "8192 87380 134217728"),
        ("4096 131072 67108864", "8192 131072 67108864"),  # the numbers that we raised follow the option
    ):
        node.converge(of(options.Desired, {"sysctl": {name: wanted}, "limits": {}, "environment": {}}))
        assert node.host.read_line("/proc/sys/net/ipv4/tcp_rmem").split() == value.split()
    node.converge(of(options.Desired, {"state": "absent"}))
    assert node.host.read_line("/proc/sys/net/ipv4/tcp_rmem").split() == ["8192", "87380", "6291456"]
