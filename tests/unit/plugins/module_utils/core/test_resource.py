# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every resource is run with: rounds, the second plan, steps that nobody knows, locks, and who may."""

from __future__ import annotations

import dataclasses
import os

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host, LockHeld
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import option, options
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import (
    Action,
    NodeError,
    Plan,
    Refusal,
    Refused,
    Resource,
    Together,
    Unfinished,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.run import result, run


@dataclasses.dataclass(frozen=True)
class Add(Action):
    """Installs a word; with a capital letter it is a package, which brings another word."""

    word: str

    def describe(self):
        return "add " + self.word

    def then_look(self):
        return self.word.isupper()


@dataclasses.dataclass(frozen=True)
class Odd(Action):
    def describe(self):
        return "nobody can"


@options
class Wish:
    words: str = option("ab", "Letters that are wanted, in this order.")
    refuses_at: str = option("", "A letter that, once there, makes the plan refuse.")


class Node:
    """The letters that are there; a capital one brings the small one's neighbour ``z``, which has to go."""

    def __init__(self, deaf=""):
        self.there, self.deaf, self.log = [], deaf, []

    def observe(self, host, desired):
        self.log.append("look")
        return tuple(self.there)

    def plan(self, state, desired):
        if desired.refuses_at and desired.refuses_at in state:
            return Plan(refusals=(Refusal("a letter", "it is there", "take it away"),))
        missing = tuple(Add(one) for one in desired.words if one not in state)
        return Plan(missing, notes=("{0} are there".format(len(state)),))

    def add(self, host, action, desired):
        self.log.append(action.word)
        if action.word not in self.deaf:
            self.there.append(action.word)

    def resource(self, steps=None):
        return Resource(
            name="letters",
            options=Wish,
            observe=self.observe,
            plan=self.plan,
            steps={Add: self.add} if steps is None else steps,
            facts=lambda outcome, desired: {"letters": list(outcome.after)},
            shown=lambda outcome, desired, planned: "".join(outcome.after if planned else outcome.before),
            title="letters",
            lock_seconds=0.2,
        )


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return Host(str(tmp_path))


def test_observe_plan_apply_observe(host):
    node = Node()
    done = run(host, node.resource(), Wish())
    assert node.log == ["look", "a", "b", "look"] and done.changed
    told = result(done, node.resource(), Wish())
    assert told["letters"] == ["a", "b"] and told["diff"]["before"] == "" and told["diff"]["after"] == "ab"
    assert [one["description"] for one in told["actions"]] == ["add a", "add b"]
    assert told["notes"] == ["0 are there", "2 are there"]
    assert not run(host, node.resource(), Wish()).changed


def test_check_mode_changes_nothing(host):
    node = Node()
    assert run(host, node.resource(), Wish(), check_mode=True).changed and node.log == ["look"]
    assert not os.path.exists(host.path("/run"))


def test_after_a_package_the_node_is_looked_at_before_the_rest(host):
    node = Node()
    done = run(host, node.resource(), Wish(words="aPbQc"))
    assert node.log == ["look", "a", "P", "look", "b", "Q", "look", "c", "look"]
    assert [one.word for one in done.plan.actions] == list("aPbQc")


def test_what_was_noted_before_a_package_came_is_not_told(host):
    """A node that lacked something in the first look may have it by the package."""
    done = run(host, Node().resource(), Wish(words="aBc"))
    assert done.notes() == ["2 are there", "3 are there"]


def test_the_rounds_have_an_end(host):
    node = Node(deaf="P")
    with pytest.raises(NodeError, match="the node still differs from what was asked: add P; run it again"):
        run(host, node.resource(), Wish(words="P"))
    assert node.log.count("P") == 3


def test_what_is_still_to_do_afterwards_is_an_error(host):
    node = Node(deaf="b")
    with pytest.raises(NodeError, match="after 2 action"):
        run(host, node.resource(), Wish())
    assert node.log == ["look", "a", "b", "look"]


def test_a_refusal_before_changes_nothing_and_one_afterwards_is_told(host):
    node = Node()
    node.there.append("x")
    with pytest.raises(Refused, match="a letter: it is there; take it away"):
        run(host, node.resource(), Wish(refuses_at="x"))
    assert node.log == ["look"]
    with pytest.raises(Refused, match="a letter: it is there; take it away"):
        run(host, Node().resource(), Wish(refuses_at="b"))


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_step_that_nothing_carries_out_is_an_error_before_anything_is_done(host, check_mode):
    node = Node()
    resource = node.resource(steps={Odd: lambda *dummy: None})
    with pytest.raises(NodeError, match=r"letters: its plan has a step that nothing carries out \(Add\); report this"):
        run(host, resource, Wish(), check_mode)
    assert node.log == ["look"]


def test_only_root_may(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    node = Node()
    with pytest.raises(NodeError, match="letters: only root may change it; run it as root"):
        run(Host(), node.resource(), Wish())
    assert node.log == []
    assert run(Host(str(tmp_path)), node.resource(), Wish(), check_mode=True).changed


def test_two_runs_take_turns(host):
    with host.lock("letters"), pytest.raises(LockHeld, match="another run has been working on it"):
        run(host, Node().resource(), Wish())


# Steps that are carried out in one go -----------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Small(Add):
    """One that goes together with its neighbours."""


class Group(Node):
    """Small letters go together, digits do not; what is in ``sick`` cannot be done."""

    def __init__(self, sick="", deaf=""):
        super().__init__(deaf)
        self.sick = sick

    def plan(self, state, desired):
        found = super().plan(state, desired)
        small = tuple(Small(one.word) if one.word.islower() else one for one in found.actions)
        return Plan(small, refusals=found.refusals)

    def add_all(self, host, actions, desired):
        words = "".join(action.word for action in actions)
        self.log.append(words)
        self.there += [word for word in words if word not in self.sick + self.deaf]
        sick = [word for word in words if word in self.sick]
        return NodeError(sick[0], "it is sick", "see a doctor") if sick else None

    def resource(self, **more):
        def ending(state, rest, desired, failed):
            told = "" if failed is None else str(failed)
            return told + ("an x is there." if "x" in state else "")

        together = Together((Small,), self.add_all)
        return replaced(super().resource(), together=together, ending=ending, **more)


def test_neighbours_go_together_and_others_keep_their_place(host):
    node = Group()
    done = run(host, node.resource(), Wish(words="ab1cd2"))
    assert node.log == ["look", "ab", "1", "cd", "2", "look"]
    assert [one.word for one in done.plan.actions] == list("ab1cd2")


def test_what_could_not_be_done_fails_the_run_after_all_the_rest(host):
    node = Group(sick="b")
    with pytest.raises(Unfinished, match=r"^b: it is sick; see a doctor\.$") as caught:
        run(host, node.resource(), Wish(words="ab1c"))
    assert node.log == ["look", "ab", "1", "c", "look"]
    outcome = caught.value.outcome
    assert outcome.changed and outcome.after == ("a", "1", "c") and len(outcome.plan.actions) == 4


def test_what_could_not_be_done_comes_before_a_refusal_that_follows_from_it(host):
    with pytest.raises(Unfinished, match="b: it is sick"):
        run(host, Group(sick="b").resource(), Wish(words="ab", refuses_at="a"))
    with pytest.raises(Refused):
        run(host, Group().resource(), Wish(words="ab", refuses_at="a"))


def test_after_a_package_that_could_not_be_looked_at_nothing_goes_on(host):
    node = Group(sick="b")
    with pytest.raises(Unfinished):
        run(host, node.resource(), Wish(words="bPc"))
    assert node.log == ["look", "b", "P", "look"]


@pytest.mark.parametrize("check_mode", [False, True])
def test_not_all_is_well_though_there_is_nothing_to_do(host, check_mode):
    node = Group()
    node.there += ["a", "b", "x"]
    with pytest.raises(Unfinished, match="^an x is there") as caught:
        run(host, node.resource(), Wish(), check_mode)
    assert node.log == ["look"] and not caught.value.outcome.changed


def test_an_ending_tells_why_something_is_left_to_do(host):
    node = Group(deaf="b")
    with pytest.raises(NodeError, match="after 2 action"):
        run(host, node.resource(), Wish())
    node.there.append("x")
    with pytest.raises(Unfinished, match="^an x is there"):
        run(host, node.resource(), Wish())


def test_check_mode_tells_the_state_that_is_foreseen(host):
    def predict(state, actions, desired):
        return state + tuple(action.word for action in actions)

    node = Group()
    resource = node.resource(predict=predict)
    foreseen = result(run(host, resource, Wish(), check_mode=True), resource, Wish())
    assert foreseen["letters"] == ["a", "b"] and node.there == []
    assert result(run(host, resource, Wish()), resource, Wish())["diff"] == foreseen["diff"]
    done = run(host, resource, Wish(), check_mode=True)
    assert done.before is done.after
