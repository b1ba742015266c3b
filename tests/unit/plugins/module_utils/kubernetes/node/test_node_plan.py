# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of a node of Kubernetes: every combination of cordon, annotation, kubelet, pods and wish."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.node import observe, plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.node.types import (
    ANNOTATION,
    Busy,
    Cordon,
    Decision,
    Desired,
    Evict,
    Pod,
    Release,
    State,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.node.types import Outcome, Owner

OURS = "gpu_node: rolling: being converged"
RUN, OTHER = "3f2a9c1b", "0badcafe"
MINE, THEIRS = OURS + " (run 3f2a9c1b)", OURS + " (run 0badcafe)"
WAITS = "gpu_node: rolling: waits for its pods"
FAILED, SLOW = "gpu_node: rolling: failed: GPU 3 is lost", "gpu_node: rolling: failed: GPU 3 is slow (active)"
BEFORE = "; before: cordoned by somebody else"
HEALTH = "gpu_node: health: GPU 3 is lost"
# Somebody else's words in our annotation are not ours.
ANNOTATIONS = (None, OURS, MINE, THEIRS, WAITS, FAILED, SLOW, MINE + BEFORE, FAILED + BEFORE, "anna: new memory", "")
ANNOTATIONS += (OURS + " (run 3f2a9c1b, active)",)
TRAIN, WEB = Pod("default", "train", gpus=True), Pod("default", "web")
LONE, DATA = Pod("default", "lone", managed=False), Pod("default", "data", gpus=True, local=True)
GOES = Pod("default", "goes", gpus=True, leaving=True)
PODS = ((), (TRAIN,), (WEB,), (TRAIN, WEB), (LONE,), (DATA, WEB), (GOES,), (GOES, TRAIN))
EVERY_STATE = [State(registered=False)] + [
    State(True, cordoned, ready, annotation, "7", pods)
    for cordoned, ready, annotation, pods in itertools.product((True, False), (True, False), ANNOTATIONS, PODS)
]
EVERY_WISH = [
    Desired("n1", drained, busy=busy, others=others, run=run, evict_unmanaged=allowed, delete_emptydir_data=allowed)
    for drained, busy, others, run, allowed in itertools.product(
        (True, False), Busy, (True, False), ("", RUN), (True, False)
    )
]
EVERY_WISH += [Desired("n1", busy=busy, run=RUN, active=True) for busy in Busy]
EVERY_WISH += [Desired("n1", False, run=RUN, owes=HEALTH)]
OUT = [one for one in EVERY_WISH if one.drained]


def settled(start, desired, time_left=False, evict_left=True):
    """Each step carried out; what happened, and where it ended."""
    done, now = [], start
    for _step in range(5):
        decision = plan.decide(now, desired, time_left, evict_left)
        if decision.action is None:
            return done, decision, now
        done.append(decision.action)
        now = plan.expected(now, decision.action)
    raise AssertionError("no end: {0} {1} {2}".format(start, desired, done))


def fails(start, desired):
    """It would come back, and its kubelet does not report."""
    mine = start.ours is not None and (not desired.run or start.ours.run in (None, desired.run))
    return not desired.drained and mine and not start.ready and start.before is None and not desired.owes


@pytest.mark.sampled(12)
@pytest.mark.parametrize("desired", EVERY_WISH, ids=str)
@pytest.mark.parametrize("time_left", [False, True])
def test_every_plan_ends_and_undoes_nothing_of_others(desired, time_left):
    for start, evict_left in itertools.product(EVERY_STATE, (True, False)):
        if fails(start, desired):
            if time_left:
                assert plan.decide(start, desired, True) == Decision()
            else:
                with pytest.raises(NodeError, match="its kubelet does not report"):
                    plan.decide(start, desired, False)
            continue
        done, decision, now = settled(start, desired, time_left, evict_left)
        assert plan.decide(now, desired, time_left, evict_left) == decision
        waits = decision.outcome is None
        leaving = any(pod.leaving for pod in now.pods)
        assert not waits or (desired.drained and now.pods and (time_left or leaving)), (start, decision)
        assert waits or decision.why
        assert len([one for one in done if not isinstance(one, Evict)]) <= 2
        # Cordoned by others before: so it is afterwards.
        if start.before is not None:
            assert now.cordoned and now.before == start.before
        if start.owner is Owner.SOMEBODY and not (desired.drained and desired.others):
            assert done == []
        if start.ours is not None and start.ours.run == OTHER and desired.run:
            assert done == [] and decision.outcome is Outcome.LEFT
        if not start.registered:
            assert done == [] and decision.outcome is Outcome.LEFT
        for action in done:
            assert isinstance(action, Release) or not isinstance(action, Cordon) or action.reason.startswith(OURS[:19])


@pytest.mark.parametrize("desired", OUT, ids=str)
def test_ready_is_said_only_of_a_node_that_is_ours_and_without_such_pods(desired):
    counts = dict.fromkeys(Outcome, 0)
    for start, evict_left in itertools.product(EVERY_STATE, (True, False)):
        done, decision, now = settled(start, desired, False, evict_left)
        evicts = desired.busy is Busy.EVICT
        if decision.outcome is None:
            continue
        counts[decision.outcome] += 1
        if decision.outcome is Outcome.READY:
            assert now.owner is Owner.ROLLING and not now.with_gpus and not (evicts and now.pods)
            owes = start.ours is not None and start.ours.active
            assert now.annotation == desired.text(start.before, owes=owes) and (desired.active or not owes)
            assert desired.others or (not now.ours.for_somebody and (start.ready or start.owner is Owner.ROLLING))
        if decision.outcome is Outcome.BUSY:
            assert now.pods and now.pods[0].label in decision.why
            gone = now.owner is not Owner.ROLLING or now.ours.failed or now.ours.active
            assert gone if desired.busy is Busy.LEAVE else now.cordoned
        if not evicts:
            assert not any(isinstance(one, Evict) for one in done)
        for action in done:
            if isinstance(action, Evict):
                # Only when the cordon is ours, and nobody is evicted who may not be.
                assert done.index(action) > 0 or start.owner is Owner.ROLLING
                assert not any(pod.leaving for pod in action.pods)
                assert desired.evict_unmanaged or all(pod.managed for pod in start.pods)
                assert desired.delete_emptydir_data or not any(pod.local for pod in start.pods)
    assert counts[Outcome.READY] and counts[Outcome.LEFT] and counts[Outcome.BUSY]


@pytest.mark.parametrize("desired", [one for one in EVERY_WISH if not one.drained], ids=str)
def test_back_in_service_comes_what_we_cordoned_and_nothing_else(desired):
    for start in EVERY_STATE:
        if fails(start, desired):
            continue
        done, decision, now = settled(start, desired)
        if decision.outcome is Outcome.IN_SERVICE:
            assert not now.cordoned and now.annotation is None and start.owner is not Owner.SOMEBODY
            assert not (desired.owes and start.owner is Owner.ROLLING)
        else:
            assert decision.outcome is Outcome.LEFT and (now.cordoned or not start.registered)
        if desired.owes and done and start.owner is Owner.ROLLING and start.before is None:
            assert done == [Cordon("gpu_node: rolling: waits for a proof: GPU 3 is lost")]


@pytest.mark.parametrize(
    "start, wish, time_left, step",
    [
        (State(), {}, False, Cordon(OURS)),
        (State(pods=(WEB,)), {}, False, Cordon(OURS)),
        (State(pods=(TRAIN,)), {}, False, Outcome.BUSY),
        (State(pods=(TRAIN,)), {}, True, Cordon(OURS)),
        (State(pods=(TRAIN,)), {"busy": Busy.DRAIN, "run": RUN}, False, Cordon(WAITS)),
        (State(cordoned=True, annotation=OURS, pods=(TRAIN,)), {}, True, None),
        (State(cordoned=True, annotation=OURS, pods=(TRAIN,)), {}, False, Release()),
        (State(cordoned=True, annotation=OURS, pods=(TRAIN,)), {"busy": Busy.EVICT}, True, None),
        (State(cordoned=True, annotation=OURS, pods=(WEB,)), {"busy": Busy.EVICT}, True, Evict((WEB,))),
        (State(cordoned=True, annotation=OURS, pods=(TRAIN, GOES)), {"busy": Busy.EVICT}, False, Evict((TRAIN,))),
        (State(cordoned=True, annotation=OURS, pods=(GOES,)), {"busy": Busy.EVICT}, False, None),
        (State(cordoned=True, pods=(TRAIN,)), {"others": True}, False, Outcome.BUSY),
        (State(cordoned=True, pods=(TRAIN,)), {"others": True, "busy": Busy.EVICT}, False, Cordon(OURS + BEFORE)),
        (State(cordoned=True, annotation=OURS + BEFORE), {"drained": False}, False, Release(cordoned=True)),
        (State(cordoned=True, annotation=OURS + BEFORE), {}, False, Release(cordoned=True)),
        (State(cordoned=True, annotation=THEIRS), {"run": RUN, "take_over": True}, False, Cordon(MINE)),
        (State(cordoned=True, annotation=SLOW), {"run": RUN}, False, Outcome.LEFT),
        (State(cordoned=False, annotation=SLOW), {"run": RUN}, False, Cordon(MINE)),  # uncordoned by hand
        (State(ready=False), {}, False, Outcome.LEFT),
        (State(ready=False), {"others": True}, False, Cordon(OURS)),
    ],
)
def test_the_next_step(start, wish, time_left, step):
    decision = plan.decide(start, Desired("n1", **wish), time_left)
    assert (decision.outcome if isinstance(step, Outcome) else decision.action) == step, decision


def test_a_budget_is_told_in_the_words_of_the_api():
    pods = (Pod("a", "x", held="Cannot evict pod as it would\nviolate the pod's disruption budget."), TRAIN)
    start = State(cordoned=True, annotation=OURS, pods=pods)
    decision = plan.decide(start, Desired("n1", busy=Busy.EVICT), False, evict_left=False)
    assert decision.outcome is Outcome.BUSY and decision.why == (
        "pods hold it (a/x, default/train); a/x: Cannot evict pod as it would violate the pod's disruption budget."
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("metadata", "spec", "status", "containers", "volumes", "resources", "limits", "annotations", "ownerReferences")


@given(JSON, st.sampled_from(KEYS), st.sampled_from(KEYS))
def test_no_answer_of_an_api_is_too_odd(value, outer, inner):
    one = {outer: {inner: value}, "metadata": {inner: value, "annotations": {ANNOTATION: value}}}
    found = observe.state(one, [one, {outer: value}, {outer: {inner: [value]}}])
    for desired in (Desired("n1"), Desired("n1", busy=Busy.EVICT), Desired("n1", drained=False)):
        try:
            assert plan.decide(found, desired, False)
        except NodeError as error:
            assert "does not report" in str(error)


@pytest.mark.parametrize(
    "spec, gpus",
    [
        ({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}, True),
        ({"containers": [{"resources": {"requests": {"nvidia.com/mig-1g.10gb": "1"}}}]}, True),
        ({"containers": [{}], "initContainers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]}, True),
        ({"containers": [{}], "resourceClaims": [{"name": "gpu"}]}, True),
        ({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "0"}}}]}, False),
        ({"containers": [{"resources": {"limits": {"cpu": "8", "rdma/hca": "1"}}}]}, False),
    ],
)
def test_who_holds_gpus(spec, gpus):
    made = observe.pod({"metadata": {"name": "a", "namespace": "b"}, "spec": spec, "status": {"phase": "Running"}})
    assert made.gpus is gpus and made.label == "b/a"
    for phase in ("Succeeded", "Failed"):
        assert observe.pod({"metadata": {"name": "a"}, "spec": spec, "status": {"phase": phase}}) is None
