# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which remedy is tried, and when none is."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.attempts import Record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.settings import REMEDIES, Settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.parts import NODE, Part
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.remedies import apply
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.remedies.plan import decide
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.remedies.run import component
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.remedies.types import (
    SERVICES,
    ApplyAgain,
    CheckFree,
    Disrupting,
    Mark,
    Persistence,
    Reboot,
    Redeploy,
    ResetGpus,
    RestartService,
    SaveLogs,
    StartUnits,
    StopUnits,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Certainty, Outcome, Remedy
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import client
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import SlurmNode
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.remedies.remedy_states import (
    BOOT,
    EARLIER,
    FOUND,
    GPUS,
    MANAGER,
    NOW,
    OURS,
    REBOOT,
    REPLACE,
    RESET,
    SICK,
    attempt,
    cluster,
    finding,
    service,
    settings,
    state,
    tried,
)

PERSISTENCED, FABRIC_MANAGER = "nvidia-persistenced.service", "nvidia-fabricmanager.service"


def kinds(planned):
    return [type(one) for one in planned.steps], [type(one) for one in planned.after]


def test_the_sick_gpu_and_no_other_is_reset_with_all_that_goes_before_and_after():
    planned = decide(state(), settings("reset_gpu"))
    assert (planned.remedy, planned.part) == ("reset_gpu", "gpu:GPU-3")
    assert planned.steps == (
        Mark("gpu_node: health: remedy reset_gpu: " + FOUND, 10.0),
        SaveLogs("reset_gpu"),
        StopUnits((PERSISTENCED,)),
        CheckFree((("GPU 3", 3),)),
        ResetGpus(("GPU-3",)),
    )
    assert planned.after == (StartUnits((PERSISTENCED,)), ApplyAgain())


def test_without_its_daemon_persistence_mode_is_switched_off_and_on_of_that_gpu():
    gpus = tuple(replaced(one, persistent=True) for one in GPUS)
    planned = decide(state(gpus=gpus, units=()), settings())
    assert planned.steps[2:] == (
        Persistence(("GPU-3",), False),
        CheckFree((("GPU 3", 3),)),
        ResetGpus(("GPU-3",)),
    )
    assert planned.after == (Persistence(("GPU-3",), True), ApplyAgain())
    # The daemon does it by itself.
    planned = decide(state(gpus=gpus), settings())
    assert Persistence not in kinds(planned)[0] + kinds(planned)[1]
    # Ubuntu's daemon has --no-persistence-mode.
    planned = decide(state(gpus=gpus, daemon_holds=False), settings())
    assert planned.steps[2:4] == (StopUnits((PERSISTENCED,)), Persistence(("GPU-3",), False))
    assert planned.after[:2] == (StartUnits((PERSISTENCED,)), Persistence(("GPU-3",), True))


def test_a_second_remedy_does_not_pile_up_words_in_slurms_reason():
    marked = cluster(reason="gpu_node: health: remedy reset_gpu: " + FOUND)
    planned = decide(state(REBOOT, cluster=marked), settings())
    assert planned.steps[0] == Mark("gpu_node: health: remedy reboot: " + FOUND, 10.0)


@pytest.mark.parametrize(
    "architecture, switches, manager, together",
    [
        ("ampere", True, True, False),
        ("ampere", True, False, True),
        ("hopper", True, False, True),
        ("hopper", False, False, False),
        ("volta", False, False, True),
        ("volta", True, True, True),
    ],
)
def test_gpus_that_are_reset_together_only_are(architecture, switches, manager, together):
    gpus = tuple(replaced(one, architecture=architecture) for one in GPUS)
    planned = decide(state(gpus=gpus, switches=switches, fabric_manager=manager), settings())
    reset, free = planned.steps[-1], planned.steps[-2]
    assert reset.gpus == (tuple(one.name for one in GPUS) if together else ("GPU-3",))
    # All that are reset must be free, not the sick one alone.
    assert len(free.gpus) == len(reset.gpus)


def test_before_ampere_a_gpu_without_nvlinks_is_reset_alone():
    gpus = tuple(replaced(one, architecture="turing", linked=False) for one in GPUS)
    assert decide(state(gpus=gpus, switches=False), settings()).steps[-1].gpus == ("GPU-3",)


@pytest.mark.parametrize("unknown", [{"architecture": None}, {"linked": None}, {"minor": None}])
def test_a_gpu_that_does_not_tell_what_a_reset_takes_along_is_not_reset(unknown):
    gpus = tuple(replaced(one, **unknown) for one in GPUS)
    planned = decide(state(gpus=gpus), settings())
    assert not planned.remedy and ("does not tell" in planned.why or "not known" in planned.why)


def test_what_would_be_stopped_along_has_to_be_declared():
    planned = decide(state(beside=("lab-viewer.service",)), settings())
    assert not planned.remedy and "lab-viewer.service would be stopped along" in planned.why


def test_the_service_that_a_finding_means_is_restarted():
    assert decide(state(MANAGER), settings()).steps[-1] == RestartService("nvidia-fabricmanager.service")
    assert decide(state(service(FABRIC_MANAGER)), settings()).part == FABRIC_MANAGER
    imex = ("gpu_recovery_action", finding(Remedy.RESTART_SERVICE, code="recover_imex_domain"))
    assert decide(state(imex), settings()).steps[-1] == RestartService("nvidia-imex.service")
    assert decide(state(service(PERSISTENCED)), settings()).part == PERSISTENCED


@pytest.mark.parametrize("found", [MANAGER, service(FABRIC_MANAGER)])
def test_a_restart_of_the_fabric_manager_takes_a_reset_of_all_gpus(found):
    names = tuple(one.name for one in GPUS)
    planned = decide(state(found), settings("restart_service", "reset_gpu"))
    assert planned.remedy == "restart_service"
    assert planned.steps[2:] == (
        StopUnits((PERSISTENCED, FABRIC_MANAGER)),
        CheckFree(tuple((one.label, one.minor) for one in GPUS)),
        ResetGpus(names),
        RestartService(FABRIC_MANAGER),
    )
    # It starts again, whatever becomes of the reset.
    assert planned.after == (StartUnits((PERSISTENCED, FABRIC_MANAGER)), ApplyAgain())


def test_the_fabric_manager_is_not_restarted_where_no_reset_is_on():
    planned = decide(state(MANAGER), settings("restart_service"))
    assert not planned.steps and "reset_gpu is not on" in planned.why
    assert decide(state(MANAGER), settings("restart_service", "reboot")).remedy == "reboot"


def test_the_fabric_manager_is_not_stopped_together_with_undeclared_services():
    planned = decide(state(MANAGER, beside_manager=("site.service",)), settings())
    assert not planned.steps and "site.service would be stopped" in planned.why


def test_a_restart_of_another_service_resets_no_gpu():
    assert ResetGpus not in kinds(decide(state(service(PERSISTENCED)), settings()))[0]


@pytest.mark.parametrize("unit", ["slurmd.service", "munge.service", "containerd.service", "", "x.service -- rm"])
def test_no_other_service_is(unit):
    planned = decide(state(service(unit)), settings())
    assert not planned.remedy and not planned.steps


def test_the_journal_names_what_a_remedy_was_for():
    known = {SICK.pci_address: Part("gpu", "GPU-3"), "S5": Part("disk", "S5")}
    for findings, on, part in (
        ((RESET,), "reset_gpu", Part("gpu", "GPU-3")),
        ((REBOOT,), "reboot", Part("gpu", "GPU-3")),
        ((("nvme_smart", finding(Remedy.REPLACE, "S5")),), "redeploy", Part("disk", "S5")),
        ((("memory_errors", finding(Remedy.REBOOT, "")),), "reboot", NODE),
        ((service("nvidia-dcgm.service"),), "restart_service", Part("service", "nvidia-dcgm.service")),
    ):
        planned = decide(state(*findings), settings(on))
        assert component(planned, GPUS, known) == part
        assert planned.steps[-1:] and isinstance(planned.steps[-1], Disrupting)
    # Where the kernel module tells none.
    assert component(decide(state(REBOOT), settings("reboot")), GPUS, {}) == Part("gpu", "GPU-3")
    nameless = tuple(replaced(one, name=one.pci_address) for one in GPUS)
    assert component(decide(state(REBOOT), settings("reboot")), nameless, {}) == NODE


@pytest.mark.parametrize(
    "config, why",
    [
        ("RebootProgram           = /sbin/reboot\nResumeTimeout           = 900 sec\n", ""),
        ("RebootProgram           = /sbin/reboot\n", ""),
        ("RebootProgram           = (null)\nResumeTimeout           = 900 sec\n", "no RebootProgram"),
        ("RebootProgram           = /sbin/reboot\nResumeTimeout           = 60 sec\n", "ResumeTimeout=60, .* 900 s"),
    ],
)
def test_slurm_reboots_none_that_it_would_set_down_for_that(monkeypatch, config, why):
    monkeypatch.setattr(client.Slurm, "run", lambda self, *words: config)
    told = client.Slurm(None, "gpu00").no_reboot()
    assert re.search(why, told) and bool(told) == bool(why)


def test_a_node_that_a_person_took_meanwhile_is_not_marked():
    did = []
    person = SlurmNode(frozenset(("IDLE", "DRAIN")), "anna: mine", ("gpu",))
    slurm = SimpleNamespace(node="gpu00", look=lambda: person, update=lambda *words: did.append(words))
    with pytest.raises(NodeError, match="somebody else has changed it in Slurm meanwhile"):
        apply.mark(SimpleNamespace(slurm=slurm, pause=did.append), Mark("gpu_node: health: remedy reboot: x", 10.0))
    assert did == []


def test_reboot_and_redeploy():
    assert decide(state(REBOOT), settings()).steps[-1] == Reboot()
    planned = decide(state(REBOOT, cluster=cluster(no_reboot="no RebootProgram")), settings())
    assert (planned.remedy, planned.why) == ("", "no RebootProgram")
    assert decide(state(REPLACE), settings()).steps[-1] == Redeploy(("/opt/site/redeploy",), 900)
    assert "no command" in decide(state(REPLACE), settings(redeploy_command=())).why


def test_the_strongest_that_is_needed_comes_first_and_no_other_in_its_place():
    assert decide(state(RESET, REBOOT), settings()).remedy == "reboot"
    planned = decide(state(RESET, REPLACE), settings("reset_gpu", "reboot"))
    assert not planned.remedy and "redeploy is the least that may help, and it is not on" in planned.why


def test_what_did_not_help_leads_to_the_next_stronger_one_that_is_on():
    once, twice = tried(attempt()), tried(attempt(hours=2), attempt())
    assert decide(state(record=once), settings()).remedy == "reset_gpu"
    assert decide(state(record=twice), settings()).remedy == "reboot"
    assert decide(state(record=twice), settings("reset_gpu", "redeploy")).remedy == "redeploy"
    planned = decide(state(record=twice), settings("reset_gpu"))
    assert not planned.remedy and "was tried 2 times within 7 days" in planned.why
    # Of another GPU, or too long ago.
    assert decide(state(record=tried(attempt(part="gpu:GPU-1"), attempt(hours=170))), settings()).remedy == "reset_gpu"


def test_a_service_that_does_not_run_leads_to_no_reset():
    record = tried(*(attempt("restart_service", PERSISTENCED, hours) for hours in (2, 1)))
    assert decide(state(service(PERSISTENCED), record=record), settings()).remedy == "reboot"
    record = tried(*(attempt("restart_service", "nvidia-fabricmanager.service", hours) for hours in (2, 1)))
    assert decide(state(MANAGER, record=record), settings()).remedy == "reset_gpu"


def test_guesses_warnings_and_what_is_not_known_move_nothing():
    for one in (
        finding(certainty=Certainty.POSSIBLE),
        finding(outcome=Outcome.WARN),
        finding(outcome=Outcome.UNKNOWN),
        finding(Remedy.LOOK),
        finding(Remedy.CONFIGURE),
        finding(Remedy.WATCH),
    ):
        assert not decide(state(("any", one)), settings()).remedy
    assert not decide(state(("any", finding(key="0000:ff:00.0"))), settings()).remedy


def test_a_day_has_a_limit_beyond_which_the_breaker_is_latched():
    record = tried(*(attempt("restart_service", "nvidia-imex.service", hours) for hours in (20, 10, 5)))
    assert decide(state(record=record), settings()).remedy
    record = record.added(attempt(part="gpu:GPU-1", hours=3))
    planned = decide(state(record=record), settings())
    assert not planned.remedy and planned.latch == "4 remedies were tried on this node within a day, and it fails still"
    # A clock that was set back gives no new ones.
    assert decide(state(record=record, now=NOW - 40 * 86400), settings()).latch
    assert not decide(state(record=record.release("anna")), settings()).latch


def test_too_many_nodes_with_a_remedy_latch_the_breaker():
    one = state(cluster=cluster(remedied=("gpu00", "gpu07"), size=20))
    assert decide(one, settings()).remedy
    two = state(cluster=cluster(remedied=("gpu07", "gpu08"), size=20))
    assert "2 of 20 nodes of partition gpu had a remedy" in decide(two, settings()).latch
    assert decide(two, settings(remedied_percent=20.0)).remedy
    # One may in any case.
    assert decide(state(cluster=cluster(size=3)), settings()).remedy


def test_the_breaker_of_another_node_holds_this_one_without_latching_it():
    planned = decide(state(cluster=cluster(latched=("gpu09",))), settings())
    assert not planned.remedy and not planned.latch and "the breaker of gpu09 is latched in Slurm" in planned.why


def test_after_a_remedy_its_effect_is_waited_for():
    record = Record((replaced(attempt(), ended=NOW - 60),))
    assert "ended less than" in decide(state(record=record), settings()).why
    assert decide(state(record=Record((replaced(attempt(), ended=NOW - 180),))), settings()).remedy


# What must never be ---------------------------------------------------------------------------------------------

FLAGS = ("IDLE", "DRAIN", "ALLOCATED", "MIXED", "COMPLETING", "DOWN", "FAIL", "UNKNOWN", "MAINT", "RESERVED", "CLOUD")
FLAGS += ("NOT_RESPONDING", "POWERING_DOWN", "POWERED_DOWN", "POWERING_UP", "REBOOT_ISSUED", "REBOOT_REQUESTED")
FLAGS += ("INVALID_REG", "BLOCKED", "SOMETHING_NEW")
REASONS = (None, OURS, "anna: new memory", "Not responding", "gpu_node: rolling: anna", "gpu_node: scratch", "gpu_node")
FINDINGS = (RESET, REBOOT, REPLACE, MANAGER, service(PERSISTENCED), service("slurmd.service"))
ATTEMPTS = st.builds(
    attempt,
    st.sampled_from(REMEDIES),
    st.sampled_from(("gpu:GPU-3", "node", PERSISTENCED)),
    st.floats(-100, 400),
    st.sampled_from((BOOT, EARLIER)),
)


WRONG = (
    {"outcome": Outcome.PASS},
    {"outcome": Outcome.WARN},
    {"outcome": Outcome.UNKNOWN},
    {"record": Record(latched="too many")},
    {"record": Record(unreadable="cut short")},
    {"cluster": None},
    {"cluster": cluster(jobs="job 7 is on it")},
    {"cluster": cluster(jobs="")},
    {"cluster": cluster(latched=("gpu05",))},
    {"cluster": cluster(reason=OURS.replace("health: ", "health: remedies latched: "), latched=("gpu00",))},
    {"cluster": cluster(("DRAIN",))},
    {"cluster": cluster(("IDLE",))},
    {"cluster": replaced(cluster(), node=replaced(cluster().node, partitions=()))},
    *({"cluster": cluster(reason=one)} for one in REASONS if one != OURS),
    *({"cluster": cluster(("IDLE", "DRAIN", one))} for one in FLAGS if one not in ("IDLE", "DRAIN", "CLOUD")),
)


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
@pytest.mark.parametrize("found", [RESET, REBOOT, REPLACE, MANAGER], ids=lambda one: one[1].action.value)
def test_one_thing_that_is_not_as_it_must_be_is_enough(found, wrong):
    assert decide(state(found), settings()).remedy
    planned = decide(state(found, **wrong), settings())
    assert not planned.remedy and not planned.steps and not planned.after and planned.why and not planned.latch


@st.composite
def worlds(draw):
    """A node on which a remedy would be tried, with a few things changed."""
    made = state(
        *draw(st.lists(st.sampled_from(FINDINGS), min_size=1, max_size=3)),
        record=Record(tuple(draw(st.lists(ATTEMPTS, max_size=5)))),
        cluster=cluster(
            remedied=sorted(draw(st.sets(st.sampled_from(("gpu00", "gpu01", "gpu02", "gpu03")), max_size=2))),
            size=draw(st.sampled_from((1, 10, 100))),
            no_reboot=draw(st.sampled_from(("", "it is not set up"))),
        ),
        switches=draw(st.booleans()),
        fabric_manager=draw(st.booleans()),
    )
    for change in draw(st.lists(st.sampled_from(WRONG), max_size=2)):
        made = replaced(made, **change)
    return made


@given(worlds(), st.sets(st.sampled_from(REMEDIES)).map(sorted))
def test_nothing_is_done_to_a_node_that_is_not_ours_idle_and_known(world, on):
    planned = decide(world, settings(*on) if on else Settings())
    if not planned.remedy:
        assert planned.why and not planned.steps and not planned.after
        return
    assert planned.remedy in on
    node = world.cluster.node
    assert world.outcome is Outcome.FAIL and world.cluster.jobs == "idle"
    assert node.flags <= {"IDLE", "DRAIN", "CLOUD"} and {"IDLE", "DRAIN"} <= node.flags
    assert node.reason == OURS  # and no word of a latch
    assert not world.record.latched and not world.record.unreadable
    assert not world.cluster.latched[0].ours
    assert len(world.record.within(86400, NOW)) < 4
    # The whole plan: logs before anything is taken away, and nothing stopped that is not started again.
    steps = [type(one) for one in planned.steps]
    assert steps[:2] == [Mark, SaveLogs] and sum(issubclass(one, Disrupting) for one in steps[:2]) == 0
    stopped = {unit for one in planned.steps if isinstance(one, StopUnits) for unit in one.units}
    assert stopped == {unit for one in planned.after if isinstance(one, StartUnits) for unit in one.units}
    assert not [one for one in planned.steps if isinstance(one, RestartService) and one.unit not in SERVICES]
    if ResetGpus in steps:
        assert steps.index(CheckFree) == steps.index(ResetGpus) - 1


@given(worlds(), st.sampled_from(REMEDIES), st.sampled_from((BOOT, EARLIER)))
def test_an_attempt_that_did_not_end_is_put_in_order_before_anything_else(world, remedy, boot):
    """As after kill -9 between any two steps: what was stopped is started, and no step of a remedy comes with it."""
    cut = attempt(remedy, boot=boot, ended=False, units=(PERSISTENCED, "nvidia-dcgm.service"), persistent=("GPU-3",))
    world = replaced(world, record=world.record.added(cut))
    planned = decide(world, settings())
    assert not planned.steps and not planned.remedy and not planned.latch
    if remedy == "reboot" and boot == BOOT and planned.unfinished is None:
        assert world.cluster is None or {"REBOOT_ISSUED", "REBOOT_REQUESTED"} & world.cluster.node.flags
        return
    assert planned.unfinished == cut
    if boot == EARLIER:
        assert planned.after == ()  # a start of the machine brings all of it
    else:
        assert planned.after == (
            StartUnits((PERSISTENCED, "nvidia-dcgm.service")),
            Persistence(("GPU-3",), True),
            ApplyAgain(),
        )
    # Once it is in order it is an attempt like any other, and counts.
    ended = world.record.ended(cut, NOW - 300, "killed")
    assert ended.unfinished is None and cut.time in [one.time for one in ended.within(1e12, NOW)]


def test_a_reboot_that_is_still_to_come_is_waited_for():
    asked = tried(attempt("reboot", "node", ended=False))
    for flags in (("DOWN", "DRAIN", "REBOOT_ISSUED"), ("IDLE", "DRAIN", "REBOOT_REQUESTED")):
        planned = decide(state(record=asked, cluster=cluster(flags)), settings())
        assert planned.unfinished is None and planned.why == "a reboot was asked for, and is still to come"
    planned = decide(state(record=asked, cluster=None), settings())
    assert planned.unfinished is None and "not known" in planned.why
    # Cancelled by a person, or never asked for: the run was killed before.
    assert decide(state(record=asked), settings()).unfinished == asked.attempts[0]
    assert decide(state(record=asked, boot="boot-3"), settings()).unfinished == asked.attempts[0]


def test_remedies_are_off_by_default():
    assert decide(state(), Settings()).why == "no remedy is on (health_gate_remedies)"
    assert Settings().remedies == ()
