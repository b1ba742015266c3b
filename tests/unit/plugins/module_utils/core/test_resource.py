# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every resource is run with: rounds, the second plan, steps that nobody knows, locks, and who may."""

from __future__ import annotations

import dataclasses
import os

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host, LockHeld
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import option, options
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import (
    Action,
    NodeError,
    Plan,
    Refusal,
    Refused,
    Resource,
    result,
    run,
)


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
