# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node owes before it takes jobs again: the table, properties of the plan, and 200 hours of ten nodes."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import random
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import module
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import Misuse, NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import journal
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active import checks as active
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import silences
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.returns import ACTIVE as IDS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.returns import RETURNS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import gate, history, owing, plan, proof
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.history import Debt, Entry, Fault, History
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate.settings import (
    PROOF_LOCK,
    REMEDY_LOCK,
    Settings,
    applied,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.lanes import Looked
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.remedies import run as remedy
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import (
    NOT_COVERED,
    Cost,
    Expected,
    Finding,
    Judgement,
    NotCovered,
    NoTool,
    Outcome,
    Remedy,
    Result,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.verdict import judge
from ansible_collections.trainyard.gpu_node.plugins.module_utils.jobs.hooks import health as hooks
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import client, drain, slurmd
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import SlurmNode
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.formats.formats_verdicts import (
    result,
    verdict,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.gate.gate_states import (
    BOOTS,
    IN_SERVICE,
    NOW,
    OURS,
    PERSON,
)

GPU = ("gpu_memory_test", "host_device_bandwidth", "gpu_compute")
XID = Finding(Outcome.FAIL, "GPU 3", "Xid 79", "reboot", Remedy.REBOOT, key="0000:0b:00.0", code="xid_79")
MEMORY = Finding(
    Outcome.FAIL, "GPU 3", "12 bytes differed", "replace", Remedy.REPLACE, key="0000:0b:00.0", code="wrong"
)
CABLE = Finding(
    Outcome.FAIL, "RDMA port mlx5_0/1", "its link is down", "look", Remedy.LOOK, key="0101:00", code="link_down"
)
WISH = Finding(Outcome.FAIL, "service chronyd", "it does not run", "start", Remedy.RESTART_SERVICE, key="chronyd")
MODULE = Finding(Outcome.FAIL, "memory module 3", "2 errors", "replace", Remedy.REPLACE, key="mc0", code="uncorrected")


# The table ----------------------------------------------------------------------------------------------


def test_the_active_checks_are_those_that_there_are():
    assert tuple(one.id for one in active.CHECKS) == IDS
    assert all(set(one.proof) <= set(IDS) and one.source for one in RETURNS)


@pytest.mark.parametrize(
    "check, code, remedy, checks, person",
    [
        ("gpu_xid", "xid_79", Remedy.REBOOT, GPU, False),
        ("gpu_lost", "lost", Remedy.REBOOT, GPU, False),
        ("gpu_row_remap", "pending", Remedy.RESET_GPU, GPU, False),
        ("gpu_xid", "xid_74", Remedy.RESET_GPU, ("gpu_peer_bandwidth",), False),
        ("gpu_xid", "xid_145_fatal", Remedy.RESET_GPU, ("gpu_peer_bandwidth",), False),
        ("gpu_nvlink", "links", Remedy.RESET_GPU, ("gpu_peer_bandwidth",), False),
        ("gpu_pcie", "width", Remedy.REPLACE, ("host_device_bandwidth",), False),
        ("ib_ports", "link_down", Remedy.LOOK, ("ib_bandwidth",), False),
        ("scratch_array", "degraded", Remedy.REPLACE, ("scratch_rate",), False),
        ("gpu_settings", "clocks", Remedy.CONFIGURE, (), False),
        ("service_running", "slurmd", Remedy.RESTART_SERVICE, (), False),
        ("filesystem_space", "full", Remedy.LOOK, (), False),
        ("kernel_taint", "died", Remedy.REBOOT, (), False),
        ("memory_errors", "uncorrected", Remedy.REPLACE, (), True),
        # An active check that failed has to pass itself.
        ("nccl_all_reduce", "slow", Remedy.LOOK, ("nccl_all_reduce",), False),
        ("gpu_compute", "slow", Remedy.REPLACE, GPU, False),
    ],
)
def test_what_a_node_owes_depends_on_why_it_went_out(check, code, remedy, checks, person):
    left = proof.left(Debt((Fault(check, code, remedy.value),)))
    assert (set(left.checks), bool(left.person)) == (set(checks), person)


def test_a_remedy_of_a_newer_library_owes_what_its_check_owes():
    assert set(proof.left(Debt((Fault("gpu_xid", "xid_79", "ask_vendor"),))).checks) == set(GPU)


def test_what_does_not_apply_is_passed_over_and_where_nothing_does_the_table_says_what_is_asked_for():
    debt = Debt((Fault("gpu_xid", "xid_79", "reboot"),))
    assert proof.left(dataclasses.replace(debt, void=("gpu_compute",))).checks == (GPU[0], GPU[1])
    assert proof.left(dataclasses.replace(debt, void=GPU)).person  # all of its GPUs are divided
    port = Debt((Fault("ib_ports", "link_down", "look"),), void=("ib_bandwidth",))
    assert proof.left(port) == proof.Left()


# The plan -----------------------------------------------------------------------------------------------


def after(*verdicts, debt=None):
    known = History(debt=debt or Debt(), drained=True, boot="boot-1")
    for one in verdicts:
        known = plan.charged(known.added(Entry.of(one)), Settings())
    return known


def seen(minutes, *results, level=Cost.PASSIVE, none=()):
    none = {one: "no such thing here" for one in none}
    return verdict(*(results or (result("gpu_count"),)), level=level, time=NOW + minutes * 60, not_applicable=none)


def proved(minutes, *checks, none=()):
    return seen(minutes, *(result(one) for one in ("gpu_count", *checks)), level=Cost.ACTIVE, none=none)


SICK = seen(0, result("gpu_xid", XID))
CLEAN = tuple(seen(minutes) for minutes in (5, 10, 15))


def decided(known, node=OURS, minutes=20.0, boot="boot-1", **settings):
    return plan.decide(node, known, Settings(**settings), NOW + minutes * 60, boot)


def test_a_reboot_and_clean_passive_verdicts_prove_nothing_of_a_gpu():
    decision = decided(after(SICK, *CLEAN), boot="boot-2")
    assert decision.action == "leave" and set(decision.prove) == set(GPU)
    assert decided(after(SICK, *CLEAN), boot="boot-2", proof=False).action == "resume"


def test_the_active_checks_of_the_parts_that_failed_bring_it_back():
    assert decided(after(SICK, *CLEAN, proved(20, *GPU))).action == "resume"
    assert decided(after(SICK, *CLEAN, proved(20, *GPU[:2], none=GPU[2:]))).action == "resume"
    assert decided(after(SICK, *CLEAN, proved(20, *GPU[:2]))).action == "leave"
    # Several runs may do it, and the proof may come before the last clean verdict.
    assert decided(after(SICK, proved(1, GPU[0]), proved(2, *GPU[1:]), CLEAN[0])).action == "resume"
    # Not what was proved before the last fault.
    assert decided(after(proved(0, *GPU), SICK, *CLEAN)).action == "leave"
    assert decided(after(SICK, proved(1, *GPU), seen(2, result("gpu_xid", XID)), *CLEAN)).action == "leave"


def test_an_active_check_that_failed_is_disproved_by_itself_and_passive_verdicts():
    failed = seen(20, result("gpu_memory_test", MEMORY), level=Cost.ACTIVE)
    assert decided(after(SICK, *CLEAN, failed, *CLEAN)).action == "leave"
    assert decided(after(SICK, failed, proved(30, *GPU), *CLEAN)).action == "resume"


def test_after_a_wrong_setting_clean_passive_verdicts_are_enough():
    assert decided(after(seen(0, result("service_running", WISH)), *CLEAN)).action == "resume"


def test_what_only_a_person_can_settle_is_said():
    decision = decided(after(seen(0, result("memory_errors", MODULE)), *CLEAN))
    assert (decision.action, decision.person, decision.prove) == ("leave", True, ())


@pytest.mark.parametrize("node", [IN_SERVICE, PERSON, SlurmNode(frozenset({"MIXED", "DRAIN"}), OURS.reason)])
def test_nothing_is_loaded_on_a_node_with_jobs_or_of_a_person(node):
    assert decided(after(SICK, *CLEAN), node).prove == ()


def test_a_proof_is_tried_once_an_hour_and_three_times_in_all():
    known = after(SICK, *CLEAN)
    for attempts, minutes, starts, person in ((0, 0, True, False), (1, 59, False, False), (1, 60, True, False)):
        debt = dataclasses.replace(known.debt, attempts=attempts, tried=NOW if attempts else 0.0)
        decision = decided(dataclasses.replace(known, debt=debt), minutes=minutes)
        assert (bool(decision.prove), decision.person) == (starts, person)
    debt = dataclasses.replace(known.debt, attempts=3, tried=NOW)
    decision = decided(dataclasses.replace(known, debt=debt), minutes=999)
    assert decision.person and not decision.prove and "3 attempts did not bring it" in decision.why
    # A clock that was set back by years holds nothing up.
    debt = dataclasses.replace(known.debt, attempts=1, tried=NOW + 1e9)
    assert decided(dataclasses.replace(known, debt=debt)).prove


@pytest.mark.parametrize("observe", [(), ("gpu_compute",)])
def test_an_observed_check_that_had_no_time_is_still_owed(observe):
    (compute,) = [check for check in active.CHECKS if check.id == "gpu_compute"]
    late = NotCovered("check gpu_compute", "no time of the budget is left for it", "run it alone")
    expected = Expected("", {}, {}, {}, {}, {}, NOW)
    made = judge("n1", Cost.ACTIVE, [compute], {"gpu_compute": Looked(None, late, 0.0)}, expected, observe=observe)
    entry = Entry.of(made)
    assert entry.passed == ()
    debt = Debt((Fault("gpu_xid", "xid_79", "reboot"),), passed=("gpu_memory_test", "host_device_bandwidth"))
    assert proof.left(debt.proved(entry) if entry.proves else debt).checks == ("gpu_compute",)


def of_observed(error=None, seen=None, observe=("gpu_compute",)):
    """The entry of a verdict in which two checks passed, and gpu_compute is observed."""
    (compute,) = [check for check in active.CHECKS if check.id == "gpu_compute"]
    expected = Expected("", {}, {}, {}, {}, {}, NOW)
    check = dataclasses.replace(compute, judge=lambda dummy, dummy2: seen)
    return Entry.of(
        judge("n1", Cost.ACTIVE, [check], {"gpu_compute": Looked(None, error, 0.0)}, expected, observe=observe)
    )


BUSY = NodeError("the GPUs of this node", "in use by python (42)", "wait")
SLOW = Finding(Outcome.FAIL, "GPU 3", "slow", "look", Remedy.LOOK, key="gpu3", code="low_compute_f16")


@pytest.mark.parametrize(
    ("fault", "entry", "owed"),
    [
        (Fault("gpu_xid", "xid_79", "reboot"), of_observed(BUSY), ("gpu_compute",)),
        (Fault("gpu_xid", "xid_79", "reboot"), of_observed(seen=Judgement("well")), ()),
        # What it finds is known, and the site does not act on it.
        (Fault("gpu_xid", "xid_79", "reboot"), of_observed(seen=Judgement("", (SLOW,))), ()),
        # A fault that needs another check: the observed one holds up nobody.
        (Fault("gpu_nvlink", "", "reset_gpu"), of_observed(BUSY), ()),
        (Fault("service_running", "", "configure"), of_observed(BUSY), ()),
    ],
    ids=["unknown", "passed", "observed fault", "another proof", "no proof"],
)
def test_an_observed_check_that_is_unknown_proves_nothing_and_holds_up_nobody_else(fault, entry, owed):
    passed = ("gpu_memory_test", "host_device_bandwidth", "gpu_peer_bandwidth")
    debt = Debt((fault,), passed=passed)
    assert proof.left(debt.proved(entry) if entry.proves else debt).checks == owed


def test_an_observed_check_without_its_tool_is_missing_as_any_other():
    entry = of_observed(NoTool("nvcc", "it is not there", "install it"))
    assert entry.missing == ("gpu_compute",) and entry.passed == ()


def test_attempts_of_an_earlier_release_do_not_keep_a_node_out(tmp_path):
    """Its arithmetic check could not run, so each of its nodes has used up its attempts."""
    host = Host(str(tmp_path))
    debt = Debt((Fault("gpu_xid", "xid_79", "reboot"),), "GPU 3", attempts=3, tried=NOW - 7200)
    known = History((Entry(NOW - 300, Cost.PASSIVE, Outcome.PASS),), True, NOW, debt=debt)
    history.write(host, known)
    assert history.read(host).debt == debt
    content = json.loads(host.read(history.PATH))
    del content["debt"]["proof"]
    host.write(history.PATH, json.dumps(content))
    read = history.read(host)
    assert read.debt == dataclasses.replace(debt, attempts=0)
    decision = plan.decide(OURS, read, Settings(), NOW, "b1")
    assert set(decision.prove) == set(GPU) and not decision.person


def test_a_boot_that_lost_its_drain_is_drained_again_until_it_has_proved_well():
    assert decided(after(SICK, *CLEAN), IN_SERVICE, boot="boot-2").action == "drain"
    assert decided(after(SICK, *CLEAN, proved(20, *GPU)), IN_SERVICE, boot="boot-2").action == "leave"
    # A hundred looks later its finding is still told.
    known = after(SICK, *(seen(minutes) for minutes in range(1, 300)))
    assert "Xid 79" in decided(known, IN_SERVICE, boot="boot-2").reason


def test_what_is_down_by_its_restart_proves_first():
    down = SlurmNode(frozenset({"DOWN", "DRAIN"}), OURS.reason)
    known = dataclasses.replace(after(SICK, *CLEAN), up="boot-1")
    decision = decided(known, down, boot="boot-2")
    assert (decision.action, set(decision.prove)) == ("leave", set(GPU))
    assert decided(known, down).prove == ()  # in the same start it is not ours to end
    well = dataclasses.replace(after(SICK, *CLEAN, proved(20, *GPU)), up="boot-1")
    decision = decided(well, down, boot="boot-2")
    assert (decision.action, decision.down) == ("resume", True) and not decided(well, boot="boot-2").down


def test_a_debt_comes_back_as_it_was_written(tmp_path):
    known = after(SICK, *CLEAN, proved(20, GPU[0], none=GPU[1:2]))
    known = dataclasses.replace(known, debt=dataclasses.replace(known.debt, attempts=2, tried=NOW))
    history.write(Host(str(tmp_path)), known)
    assert history.read(Host(str(tmp_path))) == known
    for broken in ('{"debt": 3}', '{"debt": {"tried": NaN}}', '{"debt": {"passed": "x"}}', '{"debt": {"faults": [1]}}'):
        (tmp_path / history.PATH[1:]).write_text(broken)
        assert history.read(Host(str(tmp_path))) == history.lost("its content is invalid")


FAULTS = st.builds(
    Fault,
    st.sampled_from(("gpu_xid", "gpu_nvlink", "ib_ports", "scratch_array", "memory_errors", "service_running", *IDS)),
    st.sampled_from(("", "xid_79", "xid_74")),
    st.sampled_from([one.value for one in Remedy]),
)
SOME = st.sets(st.sampled_from(IDS)).map(lambda some: tuple(sorted(some)))


def lost(**debt):
    return dataclasses.replace(history.lost("cut").debt, **debt)


NO_TOOL = Finding(Outcome.UNKNOWN, "check ib_bandwidth", "no such tool", "install it", Remedy.LOOK, code="no_tool")
HUNG = Finding(Outcome.UNKNOWN, "check ib_bandwidth", "it did not end", "look", Remedy.LOOK)
SLOW = Finding(Outcome.FAIL, "port mlx5_0/1", "200 of 400 Gbit/s", "replace", Remedy.REPLACE, code="low")
OWED = proof.left(history.lost("cut").debt).checks
OTHERS = tuple(one for one in OWED if one != "ib_bandwidth")


def measured(finding, *checks):
    """An active verdict: these pass, and the InfiniBand ports do not."""
    passes = [result(one) for one in ("gpu_count", *checks)]
    return seen(20, *passes, result("ib_bandwidth", finding), level=Cost.ACTIVE)


@pytest.mark.parametrize("unknown_drains", [False, True])
def test_after_a_lost_record_a_check_without_its_tool_keeps_no_node_out(unknown_drains):
    settings = Settings(unknown_drains=unknown_drains)
    known = history.lost("cut")
    for one in (*CLEAN, measured(NO_TOOL, *OTHERS), *CLEAN):
        known = plan.charged(known.added(Entry.of(one)), settings)
    assert known.debt.missing == ("ib_bandwidth",)
    assert plan.decide(OURS, known, settings, NOW + 1800, "boot-1").action == "resume"


def test_after_a_lost_record_each_check_that_can_run_must_pass():
    def tried(*verdicts):
        return decided(after(*CLEAN, *verdicts, *CLEAN, debt=lost()), minutes=300)

    for one in OTHERS:
        left = tuple(other for other in OTHERS if other != one)
        assert tried(measured(NO_TOOL, *left)).prove == (one,)
    # A check that ran and failed or gave no result is not one that cannot run.
    assert "ib_bandwidth" in tried(measured(HUNG, *OTHERS)).prove
    assert "ib_bandwidth" in tried(measured(SLOW, *OTHERS)).prove
    # Nor is one that failed before its tool was removed.
    after_all = tried(measured(SLOW, *OTHERS), measured(NO_TOOL, *OTHERS))
    assert (after_all.action, after_all.prove) == ("leave", ("ib_bandwidth",))
    # A missing tool does not hide what else is unknown.
    untold = Finding(Outcome.UNKNOWN, "GPU 3", "NVML does not answer", "look", Remedy.LOOK)
    both = [result("ib_bandwidth", NO_TOOL), result("gpu_xid", untold), *(result(one) for one in OTHERS)]
    assert set(tried(seen(20, *both, level=Cost.ACTIVE)).prove) == set(OWED)


def test_a_known_fault_needs_its_proof_even_if_the_tool_is_missing_or_the_check_is_left_out():
    port = seen(0, result("ib_ports", CABLE))
    known = after(port, measured(NO_TOOL), *CLEAN)
    assert decided(known, left_out=("ib_bandwidth",), minutes=300).prove == ("ib_bandwidth",)


def test_after_a_lost_record_a_check_that_the_declaration_leaves_out_is_not_required():
    debt = lost(passed=OTHERS)
    assert proof.left(debt).checks == ("ib_bandwidth",)
    assert proof.left(debt, ("ib_*",)) == proof.Left() == proof.left(lost(), ("*",))
    declared = {"health": {"without": ["ib_*", 7]}}
    assert applied(Settings(), declared, "gpu01", NOW).left_out == ("ib_*",)
    assert applied(Settings(), {"health": {"without": "ib_*"}}, "gpu01", NOW).left_out == ()
    # A check that the caller of one run left out is still owed.
    assert "gpu_compute" in proof.left(after(proved(5, *GPU[:2]), debt=lost()).debt).checks


def test_after_a_lost_record_a_node_without_a_whole_gpu_needs_clean_verdicts_alone():
    known = after(*CLEAN, proved(20, none=OWED), *CLEAN, debt=lost())
    assert decided(known, minutes=300).action == "resume"
    assert decided(after(*CLEAN, debt=lost()), minutes=300).prove == OWED


def test_the_gate_knows_which_tool_is_missing(tmp_path, monkeypatch):
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import lanes
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active import tools
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.evidence import Evidence
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Check, Expected, Judgement
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.verdict import judge

    monkeypatch.setenv("PATH", str(tmp_path))

    def fails(evidence):
        raise NodeError("ib_write_bw", "it hung", "look")

    for look, missing in ((lambda evidence: tools.need(evidence.host, {}, "ib_write_bw"), True), (fails, False)):
        check = Check("ib_bandwidth", "", Cost.ACTIVE, lambda seen, expected: Judgement(), look, seconds=20.0)
        looked = lanes.look((check,), Evidence(Host(str(tmp_path)), {}, {}), 5.0)
        expected = Expected("", {}, {}, {}, {}, {}, NOW)
        entry = Entry.of(judge("gpu01", Cost.ACTIVE, (check,), looked, expected))
        assert (entry.outcome, bool(entry.missing)) == (Outcome.UNKNOWN, missing)


@given(st.lists(FAULTS, max_size=8).map(tuple), SOME, SOME, st.sampled_from((OURS, IN_SERVICE, PERSON)), BOOTS)
def test_who_owes_something_is_never_resumed_and_who_owes_nothing_is(faults, passed, void, node, boot):
    debt = Debt(faults, passed=passed, void=void)
    left = proof.left(debt)
    assert not set(left.checks) & set(passed + void)
    known = after(*CLEAN, debt=debt)
    decision = decided(known, node, boot=boot)
    if node is OURS:
        assert (decision.action == "resume") == (left == proof.Left())
    assert not decision.prove or (node is OURS and decision.prove == left.checks)
    # More that passes never makes it owe more.
    more = proof.left(dataclasses.replace(debt, passed=IDS))
    assert more.checks == () and (not more.person or left.person)


# An overrule --------------------------------------------------------------------------------------------


def test_a_person_may_let_a_node_back_without_its_proof_until_a_date():
    given_ = {"until": "2026-11-18", "owner": "anna", "reason": "the test is broken", "nodes": ["gpu0*"]}
    declared = {"health": {"overrules": [given_, 7, {"until": "x"}]}}
    assert applied(Settings(), declared, "gpu01", NOW).proof is False
    assert applied(Settings(), declared, "gpu11", NOW).proof is True
    assert applied(Settings(), declared, "gpu01", NOW + 86400).proof is True
    assert applied(Settings(), {"health": {"overrules": 3}}, "gpu01", NOW).proof is True
    known = after(SICK, seen(2, result("gpu_memory_test", MEMORY), level=Cost.ACTIVE), *CLEAN)
    assert decided(known, proof=False).action == "resume"


def test_an_overrule_is_told_in_each_verdict_while_it_holds():
    entry = {"until": "2026-11-18", "owner": "anna", "reason": "the test is broken"}

    def told(now):
        expected = Expected("", {}, {}, {}, {}, {"overrules": [entry, 7]}, now, "gpu01")
        return [(one.outcome, one.thing, one.code, one.reason) for one in silences.judge(None, expected).findings]

    ended = (
        "the overrule by anna ended on 2026-11-18, and a proof is asked for again: take it out, or give it a new date"
    )
    assert told(NOW + 86400)[1:] == [(Outcome.WARN, "overrule", "overrule_ended", ended)]
    text = "by anna this node comes back without its proof until 2026-11-18: the test is broken"
    assert told(NOW)[1] == (Outcome.WARN, "overrule", "overruled", text)


def test_the_module_reaches_what_is_owed_and_it_counts_for_the_gate(tmp_path, monkeypatch):
    host, asked = Host(str(tmp_path)), []
    (tmp_path / "etc/gpu_node").mkdir(parents=True)
    (tmp_path / "etc/gpu_node/node.json").write_text("{}")
    monkeypatch.setattr(hooks.health, "examine", lambda host, node, options: asked.append(options) or proved(9, *GPU))
    wish = {"level": "passive", "only": [], "without": ["ib_*"], "call_timeout": 10, "profile": None, "record": False}
    wish = dict(wish, fail_on="never", proof=True, seconds=60.0)
    history.write(host, after(SICK))
    assert module._health_check(host, wish, True)["owes"] == ""  # check mode loads nothing
    assert asked.pop().level is Cost.PASSIVE and proof.left(history.read(host).debt).checks
    module._health_check(host, wish, False)
    assert asked[0].level is Cost.ACTIVE and set(asked[0].without) == {"ib_*", *set(IDS) - set(GPU)}
    assert asked[0].seconds == 60
    assert proof.left(history.read(host).debt) == proof.Left() and len(history.read(host).entries) == 2
    module._health_check(host, wish, False)
    assert asked[1].level is Cost.PASSIVE and asked[1].seconds is None and len(history.read(host).entries) == 2


def test_the_debt_alone_says_whether_a_node_may_come_back(tmp_path, monkeypatch):
    host = Host(str(tmp_path))
    history.write(host, after(SICK))
    assert owing.held(host, "gpu01", NOW) == owing.Held()  # no gate is declared, and nobody would put it back

    def declare(**gate_):
        overrules_ = [{"until": "2026-11-18", "owner": "anna", "reason": "x", "nodes": ["gpu02"]}]
        content = {"health_gate": gate_, "health": {"overrules": overrules_}}
        host.write("/etc/gpu_node/node.json", json.dumps(content))

    declare()
    found = owing.held(host, "gpu01", NOW)
    assert found.why.startswith("it owes a passing ") and found.reason.startswith("gpu_node: health: ")
    assert owing.held(host, "gpu02", NOW) == owing.Held()
    declare(proof=False)
    assert owing.held(host, "gpu01", NOW) == owing.Held()
    declare()
    # What only a person can settle holds it too.
    void = after(SICK)
    void = dataclasses.replace(void, debt=dataclasses.replace(void.debt, void=IDS))
    history.write(host, void)
    assert "can prove" in owing.held(host, "gpu01", NOW).why
    history.write(host, after(SICK, proved(9, *GPU)))
    assert owing.held(host, "gpu01", NOW) == owing.Held()


def test_the_module_tells_what_is_owed_after_its_look(tmp_path, monkeypatch):
    host = Host(str(tmp_path))
    host.write("/etc/gpu_node/node.json", json.dumps({"health_gate": {}}))
    looks = [seen(9, level=Cost.ACTIVE), proved(10, *GPU)]
    monkeypatch.setattr(hooks.health, "examine", lambda host, node, options: looks.pop(0))
    wish = {"level": "passive", "only": [], "without": [], "call_timeout": 10, "profile": None, "record": False}
    wish = dict(wish, fail_on="never", proof=True)
    history.write(host, after(SICK))
    assert module._health_check(host, wish, False)["owes"].startswith("gpu_node: health: ")
    assert module._health_check(host, wish, False)["owes"] == ""


# Two hundred hours --------------------------------------------------------------------------------------


class Machine(Host):
    """A machine whose files are kept in memory, but for the state files, which are opened below a directory."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory()
        super().__init__(self.directory.name)
        self.files = {"/sys/class/dmi/id/product_uuid": "6e4ba0a20d1c4c1f9c0f3f6f5d1b7a01"}

    def read(self, path, limit=None):
        return self.files.get(path)

    def write(self, path, text, mode=0o644):
        self.files[path] = text

    @contextlib.contextmanager
    def lock(self, name, timeout_seconds=0.0):
        yield

    def which(self, program):
        return "/usr/bin/" + program


class Controller:
    """One node as slurmctld has it."""

    installed = True

    def __init__(self):
        self.flags, self.reason = {"IDLE"}, None

    def look(self):
        return SlurmNode(frozenset(self.flags), self.reason, ("gpu",))

    def drain(self, dummy, reason, percent):
        self.flags, self.reason = self.flags | {"DRAIN"}, reason

    def undrain(self, dummy=""):
        self.flags, self.reason = self.flags - {"DRAIN"}, None
        return True


STEP, PROOF_STEPS, HOURS = 300.0, 4, 200
# (finding, check, proof that tells it, whether a reboot hides it from passive looks)
KINDS = (
    (XID, "gpu_xid", GPU, "gpu_memory_test", True),
    (CABLE, "ib_ports", ("ib_bandwidth",), "ib_bandwidth", False),
    (WISH, "service_running", (), "", False),
)


class Node:
    """A node with its hidden truth: what it has, whether that can be seen, and since when it is well."""

    def __init__(self, dice, settings):
        self.dice, self.machine, self.slurm = dice, Machine(), Controller()
        self.machine.files["/etc/gpu_node/node.json"] = json.dumps({"health_gate": settings})
        self.gate = gate.Gate(self.machine, "gpu01", lambda text: None)
        self.gate._slurm = self.slurm
        self.kind = None  # what is broken
        self.shown = self.told = False
        self.well, self.proving, self.job = 0.0, 0, 0
        self.wanted, self.person, self.waits = (), False, []
        self.jobs = self.bad_jobs = self.proofs = self.by_hand = self.faults = 0
        self.boot()

    def boot(self):
        self.machine.files["/proc/sys/kernel/random/boot_id"] = "%032x" % self.dice.getrandbits(128)
        self.proving, self.job = 0, 0
        if self.kind is not None and self.kind[4]:
            self.shown = False  # the kernel log is a new one

    def verdict(self, now, level=Cost.PASSIVE):
        results = [result("gpu_count")]
        if self.kind is not None and self.shown:
            results.append(result(self.kind[1], self.kind[0]))
        for one in self.wanted if level is Cost.ACTIVE else ():
            bad = self.kind is not None and one == self.kind[3]
            results.append(result(one, MEMORY) if bad else result(one))
        self.told = self.told or len([one for one in results if one.findings]) > 0
        return verdict(*results, level=level, time=now)

    def settle(self, now, one, at_once=False):
        was_out = drain.out_of_service(self.slurm.look())
        report = self.gate.settle(one, at_once)
        self.person = report.decision.person
        if report.decision.prove and not self.proving:
            self.wanted, self.proving = report.decision.prove, PROOF_STEPS
            self.proofs += 1
        if was_out and report.decision.action == "resume":
            self.waits.append(now - self.well)
        return report

    def step(self, now):
        self.chance(now)
        if self.job:
            self.job -= 1
        elif self.proving:
            self.proving -= 1
            if not self.proving:
                self.settle(now, self.verdict(now, Cost.ACTIVE))
                return
        if not self.proving:
            self.settle(now, self.verdict(now))
        if self.person and self.kind is None and drain.is_for_health(self.slurm.look()):
            self.slurm.undrain()
            self.by_hand += 1
        if not self.job and not drain.out_of_service(self.slurm.look()) and self.dice.random() < 0.5:
            self.prolog(now)

    def prolog(self, now):
        known = history.read(self.machine).of("")
        one = self.verdict(now, Cost.QUICK)
        boot = gate.processes.boot_id(self.machine)
        if one.outcome is Outcome.FAIL or plan.owed(known, self.gate.settings, now, boot):
            self.settle(now, one, at_once=True)
            return
        self.jobs += 1
        self.bad_jobs += self.kind is not None and self.told
        self.job = self.dice.randint(1, 24)

    def chance(self, now):
        """What happens to it: faults, people who reboot and repair, and Slurm that saves power."""
        lot = self.dice.random()
        if self.kind is None and lot < 0.004:
            self.kind, self.shown, self.told = self.dice.choice(KINDS), True, False
            self.faults += 1
        elif self.kind is not None and self.told and lot < 0.03:
            self.kind, self.shown, self.told, self.well = None, False, False, now
            if self.dice.random() < 0.5:
                self.boot()
        elif lot > 0.995 and not self.job:
            self.boot()
        elif lot > 0.985 and not self.job and not self.proving and "DRAIN" in self.slurm.flags:
            self.slurm.flags, self.slurm.reason = {"IDLE"}, None  # idle_on_node_suspend, and it is started again
            self.boot()


@pytest.fixture
def at_a_time(monkeypatch):
    """With histories as they are in memory: a hundred thousand of them are written."""
    monkeypatch.setattr(client.Slurm, "installed", True)
    monkeypatch.setattr(slurmd, "asked", lambda *dummy: (slurmd.IDLE, ""))
    monkeypatch.setattr(history, "read", lambda host: host.files.get(history.PATH, History()))
    monkeypatch.setattr(history, "taken", lambda host: (history.read(host), ""))
    monkeypatch.setattr(history, "write", lambda host, known: host.files.update({history.PATH: known}))


def hours(seed, count, **settings):
    dice = random.Random(seed)
    nodes = [Node(dice, settings) for dummy in range(count)]
    for number in range(int(HOURS * 3600 / STEP)):
        for one in nodes:
            one.step(NOW + number * STEP)
    names = ("jobs", "faults", "proofs", "by_hand", "bad_jobs")
    return sorted(wait for one in nodes for wait in one.waits), {
        name: sum(getattr(one, name) for one in nodes) for name in names
    }


def test_in_200_hours_no_sick_node_takes_a_job_and_no_healthy_one_is_out_longer_than_its_proof_takes(at_a_time):
    waits, count = hours(1, 10)
    print(
        "10 nodes, {0} h:".format(HOURS),
        count,
        "back after",
        [round(waits[at] / 60) for at in (0, len(waits) // 2, -1)],
    )
    assert count["bad_jobs"] == 0 and count["faults"] > 60 and count["proofs"] > 40 and count["jobs"] > 1000
    # Three looks, an hour to the next attempt, the proof; a power save or a reboot in the middle may cost another one.
    assert waits[-1] <= 2 * proof.EVERY_SECONDS + (PROOF_STEPS + 4) * STEP
    assert waits[len(waits) // 2] <= (PROOF_STEPS + 4) * STEP


def test_without_a_proof_sick_nodes_take_jobs_in_that_time(at_a_time):
    assert hours(1, 3, proof=False)[1]["bad_jobs"] > 0


# Who runs it --------------------------------------------------------------------------------------------


def drained(tmp_path, monkeypatch, known, state=OURS):
    host = Host(str(tmp_path))
    history.write(host, known)
    (tmp_path / "etc/gpu_node").mkdir(parents=True)
    (tmp_path / "etc/gpu_node/node.json").write_text("{}")
    looks = [state] if isinstance(state, SlurmNode) else list(state)
    monkeypatch.setattr(client.Slurm, "look", lambda self: looks.pop(0) if len(looks) > 1 else looks[0])

    def undrain(self, dummy):
        looks[:] = [IN_SERVICE]
        return True

    monkeypatch.setattr(client.Slurm, "undrain", undrain)
    monkeypatch.setattr(client.Slurm, "installed", True)
    monkeypatch.setattr(slurmd, "asked", lambda *dummy: (slurmd.IDLE, ""))
    return host


def test_a_suspended_job_which_leaves_a_node_idle_holds_the_proof_and_costs_no_attempt(tmp_path, monkeypatch):
    host, started = drained(tmp_path, monkeypatch, after(SICK)), []
    monkeypatch.setattr(hooks, "examined", lambda *dummy: seen(5))
    monkeypatch.setattr(hooks.health, "examine", lambda *dummy, **more: pytest.fail("it was loaded"))
    monkeypatch.setattr(Host, "run", lambda self, argv, *rest, **more: started.append(argv))
    monkeypatch.setattr(slurmd, "asked", lambda *dummy: ("job 42 is on it", ""))
    watch = hooks.watch(host, "gpu01", lambda text: None)
    assert started == [] and history.read(host).debt.attempts == 0
    assert "job 42 is on it" in watch.decision["decision"]["why"]
    with pytest.raises(NodeError, match="node gpu01: job 42 is on it"):
        hooks.prove(host, "gpu01", lambda text: None)


def test_the_unit_runs_what_is_owed_and_no_other_active_check(tmp_path, monkeypatch):
    host = drained(tmp_path, monkeypatch, after(SICK, *CLEAN))
    asked = []

    def examine(dummy, node, options, tell=None):
        asked.append(options)
        tell("gpu_memory_test")
        return proved(30, *GPU)

    monkeypatch.setattr(hooks.health, "examine", examine)
    watch = hooks.prove(host, "gpu01", lambda text: None)
    assert watch.decision["decision"]["action"] == "resume" and asked[0].level is Cost.ACTIVE
    assert set(asked[0].without) == set(IDS) - set(GPU)
    assert history.read(host).debt == Debt()


@pytest.mark.parametrize(
    ("section", "seconds"), [({}, None), ({"proof_seconds": 0}, None), ({"proof_seconds": 90}, 90)]
)
def test_the_unit_has_the_budget_of_the_declaration(tmp_path, monkeypatch, section, seconds):
    host = drained(tmp_path, monkeypatch, after(SICK, *CLEAN))
    (tmp_path / "etc/gpu_node/node.json").write_text(json.dumps({"health_gate": section}))
    asked = []
    monkeypatch.setattr(
        hooks.health, "examine", lambda dummy, node, options, tell: asked.append(options.seconds) or proved(30, *GPU)
    )
    hooks.prove(host, "gpu01", lambda text: None)
    assert asked == [seconds]


def test_a_budget_that_is_too_short_for_every_check_is_recorded_with_its_reason(tmp_path, monkeypatch):
    host = drained(tmp_path, monkeypatch, after(SICK, *CLEAN))
    (tmp_path / "etc/gpu_node/node.json").write_text(json.dumps({"health_gate": {"proof_seconds": 2}}))

    def examine(dummy, node, options, tell):
        raise Misuse("2 seconds for the active checks", "every check that applies needs more", "give at least 5")

    monkeypatch.setattr(hooks.health, "examine", examine)
    told = []
    watch = hooks.prove(host, "gpu01", told.append)
    reason = "setting proof_seconds of section health_gate, 2: every check that applies needs more"
    assert watch.outcome == "unknown" and watch.decision["decision"]["action"] == "leave"
    assert any(one.startswith(reason) and "give at least 5 as health_gate_proof_seconds" in one for one in told)
    known = history.read(host)
    assert known.entries[-1].finding == reason and not known.entries[-1].proves
    # A person who is asked at last reads why.
    known = dataclasses.replace(known, debt=dataclasses.replace(known.debt, attempts=3, tried=NOW))
    known = known.added(dataclasses.replace(CLEAN_ENTRY, time=known.entries[-1].time + 60))
    decision = plan.decide(OURS, known, Settings(), known.entries[-1].time, "boot-1")
    assert decision.person and "3 attempts did not bring it (the last: {0})".format(reason) in decision.why


CLEAN_ENTRY = Entry(NOW, Cost.PASSIVE, Outcome.PASS)


def test_a_proof_in_slices_ends_when_each_slice_has_passed():
    """The first attempt has no time for the second check, the second attempt runs it."""
    late = dataclasses.replace(proved(30, GPU[0]), outcome=Outcome.UNKNOWN, results=(*proved(30, GPU[0]).results, CUT))
    known = after(SICK, *CLEAN, late)
    assert set(proof.left(known.debt).checks) == set(GPU) - {GPU[0]}
    known = after(SICK, *CLEAN, late, proved(60, *GPU[1:]))
    assert proof.left(known.debt) == proof.Left()


CUT = Result(
    GPU[1],
    "t",
    Outcome.UNKNOWN,
    "",
    (Finding(Outcome.UNKNOWN, "check", "not covered", "more time", Remedy.LOOK, code=NOT_COVERED),),
    (),
    0.0,
)


@pytest.mark.parametrize("state", [IN_SERVICE, PERSON, SlurmNode(frozenset({"ALLOCATED", "DRAIN"}), OURS.reason)])
def test_nothing_runs_on_a_node_that_has_jobs_or_is_not_drained_by_us_for_its_health(tmp_path, monkeypatch, state):
    monkeypatch.setattr(hooks.health, "examine", lambda *dummy, **more: pytest.fail("it was loaded"))
    with pytest.raises(NodeError, match="not drained for its health and without jobs"):
        hooks.prove(drained(tmp_path, monkeypatch, after(SICK), state), "gpu01", lambda text: None)


def answering(tmp_path, monkeypatch, *answers):
    """A drained node whose slurmctld tells these, one after the other, the last one from then on: a node, what jobs
    are on it, or no answer."""
    host, left = drained(tmp_path, monkeypatch, after(SICK, *CLEAN)), list(answers)
    asked = []

    def look(self):
        now = left.pop(0) if len(left) > 1 else left[0]
        asked.append(now)
        if now is SILENT:
            raise NodeError("sinfo", "it did not end within 10 s", "look at 'scontrol ping'")
        return now if isinstance(now, SlurmNode) else OURS

    monkeypatch.setattr(client.Slurm, "look", look)
    monkeypatch.setattr(
        slurmd, "asked", lambda *dummy: (asked[-1] if asked and isinstance(asked[-1], str) else slurmd.IDLE, "")
    )
    return host


SILENT = None
UNTOLD = slurmd.UNTOLD + " (squeue did not end within 10 s)"


def run_proof(host, monkeypatch, seconds=30.0):
    """``seconds`` pass from one look at the clock to the next."""
    done, told, pauses = [], [], []
    clock = itertools.count(0.0, seconds)

    def examine(dummy, node, options, tell=None):
        for one in GPU:
            tell(one)
            done.append(one)
        return proved(30, *GPU)

    monkeypatch.setattr(hooks.health, "examine", examine)
    try:
        watch = hooks.prove(host, "gpu01", told.append, pauses.append, lambda: next(clock))
    except NodeError as error:
        return error, done, told, pauses
    return watch, done, told, pauses


@pytest.mark.parametrize("miss", [SILENT, UNTOLD])
def test_an_answer_that_is_missed_ends_no_proof_and_is_asked_for_again(tmp_path, monkeypatch, miss):
    watch, done, told, pauses = run_proof(answering(tmp_path, monkeypatch, OURS, miss, OURS), monkeypatch)
    assert watch.decision["decision"]["action"] == "resume" and done == list(GPU)
    assert len([one for one in told if "The proof goes on" in one]) == 1 and pauses == []


@pytest.mark.parametrize("miss", [SILENT, UNTOLD])
def test_a_slurmctld_that_stays_silent_ends_no_proof_either_and_what_was_measured_counts(tmp_path, monkeypatch, miss):
    host = answering(tmp_path, monkeypatch, OURS, miss)
    watch, done, told, pauses = run_proof(host, monkeypatch)
    assert done == list(GPU) and len([one for one in told if "The proof goes on" in one]) == 1 and pauses == []
    assert proof.left(history.read(host).debt) == proof.Left()
    if miss is SILENT:
        assert watch.decision is None and "the gate decides at its next look" in told[-1]


@pytest.mark.parametrize("answer", [PERSON, IN_SERVICE, "job 42 is on it"])
def test_a_clear_answer_ends_it_also_after_missed_ones(tmp_path, monkeypatch, answer):
    host = answering(tmp_path, monkeypatch, OURS, SILENT, UNTOLD, answer)
    error, done, dummy, dummy = run_proof(host, monkeypatch)
    assert isinstance(error, owing.NotOurs) and done == list(GPU[:2])


def test_a_silent_slurmctld_is_not_asked_after_each_check(tmp_path, monkeypatch):
    host = answering(tmp_path, monkeypatch, OURS, SILENT, PERSON)
    assert run_proof(host, monkeypatch, seconds=1.0)[1] == list(GPU)


@pytest.mark.parametrize("miss", [SILENT, UNTOLD])
def test_without_a_clear_answer_nothing_is_begun(tmp_path, monkeypatch, miss):
    error, done, dummy, pauses = run_proof(answering(tmp_path, monkeypatch, miss), monkeypatch)
    assert isinstance(error, owing.NotKnown) and done == [] and 0 < sum(pauses) < 60


def test_a_proof_ends_when_a_person_takes_the_node(tmp_path, monkeypatch):
    host = drained(tmp_path, monkeypatch, after(SICK), [OURS, PERSON])
    monkeypatch.setattr(hooks.health, "examine", lambda *dummy, tell: tell("gpu_memory_test"))
    with pytest.raises(NodeError, match="not drained for its health"):
        hooks.prove(host, "gpu01", lambda text: None)


def test_the_watch_starts_the_proof_counts_it_and_waits_while_it_runs(tmp_path, monkeypatch):
    host = drained(tmp_path, monkeypatch, after(SICK))
    started = []
    monkeypatch.setattr(hooks, "examined", lambda *dummy: seen(5))
    monkeypatch.setattr(Host, "run", lambda self, argv, *rest, **more: started.append(argv))
    for _look in range(2):
        hooks.watch(host, "gpu01", lambda text: None)
    assert started == [["systemctl", "start", "--no-block", "--", "gpu-node-health-proof.service"]]
    assert history.read(host).debt.attempts == 1
    with host.lock(hooks.PROOF_LOCK):
        assert hooks.watch(host, "gpu01", lambda text: None).decision is None


@pytest.mark.parametrize("attempts, words", [(0, "it owes a passing"), (3, "attempts did not bring it")])
def test_an_overrule_that_has_ended_is_told_once_where_the_proof_is_owed_again(tmp_path, monkeypatch, attempts, words):
    known = after(SICK)
    known = dataclasses.replace(known, debt=dataclasses.replace(known.debt, attempts=attempts))
    host = drained(tmp_path, monkeypatch, known)
    given_ = {"until": "2026-11-17", "owner": "anna", "reason": "the test is broken"}
    told = "the overrule by anna ended on 2026-11-17"

    def why(**more):
        host.write("/etc/gpu_node/node.json", json.dumps({"health": {"overrules": [dict(given_, **more)]}}))
        return gate.Gate(host, "gpu01", lambda text: None).settle(seen(5)).decision.why

    found = why()
    assert words in found and found.count(told) == 1
    assert told not in why(nodes=["gpu99"]) and told not in why(until="2099-12-31")


def test_a_person_who_resumes_a_node_in_this_boot_ends_its_debt_and_is_remembered(tmp_path, monkeypatch):
    boot = "0a6a3e1c-0000-4000-8000-000000000001"
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text(boot)
    host = drained(tmp_path, monkeypatch, dataclasses.replace(after(SICK), boot=boot), IN_SERVICE)
    gate.Gate(host, "gpu01", lambda text: None).settle(seen(5))
    assert history.read(host).debt == Debt()
    assert [one.what for one in journal.read(host)[0].events] == ["overruled"]


def test_work_on_a_node_ends_no_debt(tmp_path, monkeypatch):
    rolling = SlurmNode(frozenset({"IDLE", "DRAIN"}), drain.PREFIX + drain.ROLLING + "being converged")
    host = drained(tmp_path, monkeypatch, after(SICK), rolling)
    gate.Gate(host, "gpu01", lambda text: None).settle(seen(5))
    assert history.read(host).debt.faults and history.read(host).drained is True


def test_where_there_is_no_slurm_a_proof_is_refused_in_a_sentence(tmp_path):
    told = "^Slurm: there is no Slurm on this node; run 'gpunode health --active' by hand"
    with pytest.raises(NodeError, match=told):
        gate.Gate(Host(str(tmp_path)), "gpu01", print).to_prove(NOW)


def test_a_proof_and_a_remedy_exclude_each_other(tmp_path):
    host = Host(str(tmp_path))
    with host.lock(REMEDY_LOCK), pytest.raises(NodeError, match="^node gpu01: a remedy runs on it"):
        hooks.prove(host, "gpu01", print)
    (tmp_path / "etc/gpu_node").mkdir(parents=True)
    (tmp_path / "etc/gpu_node/node.json").write_text(json.dumps({"health_gate": {"remedies": ["reboot"]}}))
    with host.lock(PROOF_LOCK):
        assert not remedy.start(host, Settings(remedies=("reboot",)), sick=True)
        with pytest.raises(NodeError, match="^node gpu01: the active checks run that it owes"):
            remedy.run(host, "gpu01", print)
