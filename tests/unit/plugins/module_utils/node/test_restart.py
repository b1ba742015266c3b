# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The restart of slurmd at the end of a run: once for all resources, by the wish of any, told of each."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import converge as whole
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import restart
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.summary import lines
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import nccl, pyxis, slurm_hooks
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import slurmd

CONF, GRES = "/etc/slurm/slurm.conf", "/etc/slurm/gres.conf"
DROP_IN, LIMITS = pyxis.types.DROP_IN, nccl.types.SLURMD
WHY = "slurmd has yet to read it, and is not restarted, as its state is MIXED: run this again when no job runs here"
DESIRED = {"slurm_hooks": slurm_hooks.Desired(), "pyxis": pyxis.Desired(), "nccl": nccl.Desired()}


def parts(**more):
    found = {
        "slurm_hooks": {
            "unread": [GRES, CONF],
            "slurm_conf": CONF,
            "reconfigure_pending": True,
            "restart_pending": True,
            "actions": [
                {"action": "write_file", "path": GRES, "text": "Name=gpu"},
                {"action": "make_folder", "path": "/etc/slurm"},
                {"action": "remove_file", "path": "/etc/slurm/old"},
            ],
        },
        "pyxis": {"restart_pending": True, "actions": []},
        "nccl": {"restart_pending": True, "actions": []},
        "rdma": {"reboot_pending": True},
        "declaration": {"changed": True, "actions": []},
    }
    return dict(found, **more)


@pytest.fixture
def asked(monkeypatch):
    """How slurmd was asked for; ``asked.why`` is the answer."""

    class Asked(list):
        why = None

    made = Asked()

    def settle(host, unread, wished, check_mode, planned):
        made.append((unread, wished, check_mode, planned))
        if isinstance(made.why, Exception):
            raise made.why  # pylint: disable=raising-bad-type
        return made.why

    monkeypatch.setattr(slurmd, "settle", settle)
    return made


def test_one_restart_serves_all_and_their_results_say_so(asked):
    found = parts()
    told = restart.settle(None, found, DESIRED, False)
    assert asked == [((GRES, DROP_IN, LIMITS), True, False, {})]
    assert told["changed"] and [one["action"] for one in told["actions"]] == ["restart_slurmd"]
    # What a hook needs of slurm.conf is still to be read, by slurmctld.
    assert found["slurm_hooks"]["unread"] == [CONF] and found["slurm_hooks"]["reconfigure_pending"]
    assert not any(found[name]["restart_pending"] for name in DESIRED)
    assert restart.settle(None, found, DESIRED, False) == {} and len(asked) == 1
    report = whole.Report({"slurmd": told}, {}, False)
    assert report.waits == [] and "  - restart slurmd, as no job runs here" in lines(report)


def test_what_is_withheld_is_told_and_waited_for_and_stays_pending(asked):
    asked.why = WHY
    found = parts()
    told = restart.settle(None, found, DESIRED, False)
    assert not told["changed"] and told["actions"] == [] and found == parts()
    report = whole.Report({"slurmd": told}, {}, False)
    assert report.waits == [{"for": "slurmd", "why": WHY}] and not report.to_dict()["ready"]
    assert lines(report)[-1] == "  - " + WHY and report.failures == []


def test_in_check_mode_the_files_are_as_they_will_be(asked):
    restart.settle(None, parts(), DESIRED, True)
    assert asked[0][2:] == (True, {GRES: "Name=gpu", "/etc/slurm/old": None})


def test_the_wish_of_one_is_enough_and_a_boot_has_none(asked):
    left = {name: type(one)(restart=False) for name, one in DESIRED.items()}
    restart.settle(None, parts(), left, False)
    restart.settle(None, parts(), dict(left, nccl=DESIRED["nccl"]), False)
    # Only of those that have something for slurmd.
    restart.settle(None, parts(nccl={"restart_pending": False}), dict(left, nccl=DESIRED["nccl"]), False)
    restart.settle(None, parts(), DESIRED, False, may=False)
    assert [one[1] for one in asked] == [False, True, False, False]


def test_what_failed_or_has_nothing_new_is_nothing_to_restart_for(asked):
    broken = {"failed": True, "msg": "no"}
    quiet = dict(parts()["slurm_hooks"], unread=[CONF], restart_pending=False)
    assert restart.settle(None, parts(slurm_hooks=quiet, pyxis=broken, nccl=broken), DESIRED, False) == {}
    assert not asked


def test_a_restart_that_fails_is_a_failure_of_the_node(asked):
    asked.why = NodeError("slurmd", "it hangs", "look at it")
    told = restart.settle(None, parts(), DESIRED, False)
    assert whole.Report({"slurmd": told}, {}, False).failures == ["slurmd: slurmd: it hangs; look at it."]


def test_every_resource_that_slurmd_reads_lets_the_user_keep_it_from_restarting():
    named = [name for name in registry.NAMES if registry.resource(name).unread is not None]
    assert named == ["slurm_hooks", "nccl", "pyxis"]
    for name in named:
        assert registry.resource(name).options().restart is True
