# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Validate many nodes together: neighbours first, then all; when all fall short, halve until it has a name."""

from __future__ import annotations

import dataclasses
import re
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ...core.resource import NodeError
from . import data, judge, launch, search
from .search_types import Conclusion, Nodes, Settings, Trial

# The threshold of a profile; on its own machine no check measures it.
BETWEEN_TWO = "nccl_allreduce_two_nodes_gigabytes_per_second"
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_ADDRESS = re.compile(r"[0-9]+(\.[0-9]+){3}")


@dataclasses.dataclass(frozen=True)
class Desired:
    """``parallel``: so many tests at once at most; 0 for as many as have no node in common. ``floor``: what two healthy
    nodes reach by their profile, in GB/s."""

    nodes: Nodes
    launcher: launch.Launcher
    settings: Settings = Settings()
    busbw_min: Optional[float] = None
    parallel: int = 0
    floor: Optional[float] = None

    def __post_init__(self) -> None:
        if len(self.nodes) < 2:
            found = "a test between nodes needs two of them, and this is {0}".format(", ".join(self.nodes) or "none")
            raise NodeError("option nodes", found, "name more nodes, one an item, ranges written out")
        for node in self.nodes:
            if not _NODE.fullmatch(node):
                raise NodeError(
                    "option nodes", "{0!r} is no name of a node".format(node), "give host names, one an item"
                )
        twice = sorted({node for node in self.nodes if self.nodes.count(node) > 1})
        if twice:
            raise NodeError("option nodes", "{0} is named twice".format(", ".join(twice)), "name each once")
        shorts: Dict[str, str] = {}
        for node in self.nodes:
            other = shorts.setdefault(_short(node), node)
            if other != node:
                raise NodeError(
                    "option nodes",
                    "nccl-tests prints {0} and {1} alike, as {2}, and whether both took part cannot be told".format(
                        other, node, _short(node)
                    ),
                    "test them in separate runs",
                )
        if not self.launcher.command or not self.launcher.command[0]:
            raise NodeError("option command", "there is no command", "give one, or a launcher with its script")
        uses_script = any("{script}" in word for word in self.launcher.command)
        if uses_script and not self.launcher.script.startswith("/"):
            raise NodeError(
                "option script", "it must be an absolute path", "give that of a job script for NCCL's tests"
            )
        for name, value, least in (
            ("seconds_per_test", self.launcher.seconds, 1),
            ("runs", self.settings.runs, 1),
            ("rounds_max", self.settings.rounds_max, 1),
            ("parallel", self.parallel, 0),
        ):
            if not least <= value < float("inf"):
                raise NodeError("option " + name, "it is {0:g}".format(value), "give {0:g} or more".format(least))
        # With 0 every set would do well, and the nodes would not be compared with each other either.
        if self.busbw_min is not None and not 0 < self.busbw_min < float("inf"):
            raise NodeError(
                "option busbw_min",
                "{0:g} GB/s is no limit".format(self.busbw_min),
                "give what the nodes must reach, or leave it out to compare them with each other",
            )
        if self.busbw_min is None and not self.settings.pairwise:
            raise NodeError(
                "option busbw_min",
                "without it nodes are compared by pairs, and pairs are switched off",
                "say what the nodes must reach, or leave pairwise on",
            )


@dataclasses.dataclass(frozen=True)
class Validation:
    conclusion: Conclusion
    rounds: Tuple[Tuple[Trial, ...], ...]
    limits: judge.Limits
    due: Tuple[Nodes, ...]
    count: int
    #: Why it cannot be told by these figures which nodes are healthy, empty where it can.
    doubt: str = ""

    @property
    def limit(self) -> Optional[float]:
        """Of two nodes, GB/s."""
        return self.limits.pairs.least

    def reached(self, nodes: Nodes) -> Optional[float]:
        """The last good figure of these nodes together, GB/s."""
        good = [one.figure for one in _all(self) if one.good and set(one.nodes) == set(nodes) and one.figure]
        return good[-1] if good else None

    @property
    def most(self) -> bool:
        return self.limits.relative and 2 * len(self.conclusion.nodes) > self.count

    @property
    def outcome(self) -> str:
        """``unknown``: nothing says what healthy nodes reach, it cannot be told who it is, or somebody is suspect."""
        found = self.conclusion
        if found.clean:
            return "unknown" if self.doubt else "pass"
        if not (found.nodes or found.pairs or found.together):
            return "unknown"
        # A run without a figure is bad whatever the others reach.
        ended_badly = any(one.figure is None and set(found.nodes) & set(one.nodes) for one in _all(self))
        return "fail" if ended_badly or (self.limits.names and not self.most) else "unknown"

    def to_dict(self) -> Dict[str, Any]:
        return {
            "outcome": self.outcome,
            "busbw_limit_gigabytes_per_second": self.limit,
            "conclusion": dataclasses.asdict(self.conclusion),
            "rounds": [[dict(dataclasses.asdict(one), good=one.good) for one in tested] for tested in self.rounds],
        }


def _short(node: str) -> str:
    """What nccl-tests prints of a host's name: up to the first point (NVIDIA/nccl-tests: src/common.h, getHostName).
    An address is no host's name."""
    return node if _ADDRESS.fullmatch(node) else node.split(".", 1)[0]


def floor_of(declared: Mapping[str, Mapping[str, Any]]) -> Optional[float]:
    """What two nodes of this machine's profile reach at least, in GB/s, out of its declaration; None: nobody knows."""
    data = declared.get("profile", {}).get("data")
    thresholds = data.get("thresholds") if isinstance(data, Mapping) else None
    found = thresholds.get(BETWEEN_TWO) if isinstance(thresholds, Mapping) else None
    for key in ("warn", "fail"):
        value = found.get(key) if isinstance(found, Mapping) else None
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf"):
            return float(value)
    return None


def validate(desired: Desired, tell: Callable[[Validation], None] = lambda state: None) -> Validation:
    """``tell`` hears how it stands after each round.

    :raises NodeError: when tests cannot be started at all.
    """
    rounds: List[Tuple[judge.Ran, ...]] = []
    while True:
        state = standing(desired, rounds)
        if rounds:
            tell(state)
        if not state.due:
            return state
        rounds.append(launch.run(desired.launcher, state.due))


def standing(desired: Desired, rounds: List[Tuple[judge.Ran, ...]]) -> Validation:
    """What is known after these rounds, and what comes next. Pure."""
    limits = judge.limits(desired.nodes, rounds, desired.busbw_min, desired.floor)
    judged = judge.judged(rounds, limits)
    settings = dataclasses.replace(desired.settings, alike=desired.busbw_min is None, firm=limits.firm)
    due = search.next_tests(desired.nodes, judged, settings)
    conclusion = search.conclude(desired.nodes, judged, settings)
    due = due[: desired.parallel] if desired.parallel else due
    state = Validation(conclusion, judged, limits, due, len(desired.nodes))
    doubt = _doubt(state)
    if not doubt:
        return state
    return dataclasses.replace(state, conclusion=dataclasses.replace(conclusion, proven=()), doubt=doubt)


def _doubt(state: Validation) -> str:
    if state.limits.unknown or state.most:
        return state.limits.unknown or "more than half of the nodes fall short of the others"
    # Many nodes have no limit by pairs; but that they come to next to nothing proves nobody healthy.
    together, pairs = state.reached(state.conclusion.proven), state.limits.pairs.level
    if not state.limits.firm and together is not None and together < data.TOGETHER.value * pairs:
        return "{0} nodes together come to {1:.4g} GB/s, pairs of them to {2:.4g}".format(
            len(state.conclusion.proven), together, pairs
        )
    return ""


def lines(state: Validation) -> List[str]:
    """For people: who it is, why, and what to do."""
    found = state.conclusion
    answer = []
    for node in found.nodes:
        answer.append(
            "{0}: it falls short with different partners ({1}); take it out, and look at it with gpunode health "
            "--active.".format(node, _evidence(state, (node,)))
        )
    for pair in found.pairs:
        answer.append(
            "{0} with {1}: they fall short together and are well with others ({2}); look at the links and switches "
            "between them.".format(_named(pair.one), _named(pair.other), _evidence(state, pair.one + pair.other))
        )
    for some in found.unresolved:
        answer.append(
            "{0}: they fall short, and the tests do not tell which it is ({1}); {2}.".format(
                _named(some), _evidence(state, some), _next(state, some)
            )
        )
    if found.together:
        some = found.together[0]
        others = " (and {0} more such sets)".format(len(found.together) - 1) if len(found.together) > 1 else ""
        answer.append(
            "{0}{1}: they fall short all together, and no half of them that was tested does ({2}); look at what they "
            "share, and whether the limit holds for so many.".format(_named(some), others, _evidence(state, some))
        )
    for some in found.unsteady:
        who = "{0}: {1}suspect, they fell short in some runs and did well in others ({2}); repeat with more {3}."
        one_of = "one of these {0} is ".format(len(some)) if len(some) > 2 else ""
        answer.append(who.format(_named(some), one_of, _evidence(state, some), _option("runs")))
    if found.unproven:
        answer.append("{0}: no test of theirs was good; test them with good nodes.".format(_named(found.unproven)))
    if not found.done:
        answer.append(
            "The search was ended after {0} round(s); allow more by {1}, or begin with fewer nodes.".format(
                found.rounds, _option("rounds_max")
            )
        )
    if found.proven:
        best = state.reached(found.proven)
        rate = " at {0:.4g} GB/s".format(best) if best else ""
        answer.append("{0} do well together{1}.".format(_named(found.proven), rate))
    if state.doubt:
        answer.append("Nothing says what healthy nodes reach: {0}; give {1}.".format(state.doubt, _option("busbw_min")))
    answer.append("{0} tests in {1} rounds.".format(found.tests, found.rounds))
    return answer


def _all(state: Validation) -> List[Trial]:
    return [one for tested in state.rounds for one in tested]


def _evidence(state: Validation, nodes: Nodes) -> str:
    """The smallest bad tests in which these were."""
    bad = [one for one in _all(state) if not one.good and set(nodes) <= set(one.nodes)]
    bad = list({one.members: one for one in sorted(bad, key=lambda one: len(one.nodes))}.values())
    told = ["with {0}: {1}".format(_named(tuple(set(one.nodes) - set(nodes))), one.reason) for one in bad[:2]]
    if bad and set(bad[0].nodes) == set(nodes):
        return bad[0].reason
    if not bad:  # they were tested by pairs only
        within = [one for one in _all(state) if not one.good and set(one.nodes) <= set(nodes)]
        told = ["{0}: {1}".format(_named(one.nodes), one.reason) for one in within[:2]]
    return "; ".join(told) or "see the rounds"


def _next(state: Validation, nodes: Nodes) -> str:
    if state.limits.scatter > data.STEADY.value and state.limit is not None and len(nodes) == 2:
        return (
            "runs of the same pair scatter by {0:.0%}, so it may be chance: repeat with more {1}, or give {2}".format(
                state.limits.scatter, _option("runs"), _option("busbw_min")
            )
        )
    if len(nodes) < state.count:
        return "test them with other nodes"
    return "when all say the same, look at the test itself and at {0} first; else test them with other nodes".format(
        _option("busbw_min")
    )


def _option(name: str) -> str:
    """As the module has it, and as validate.yml does."""
    return "{0} (in validate.yml: gpu_node_validate_{0})".format(name)


def _named(nodes: Nodes) -> str:
    ordered = sorted(nodes)
    shown = ", ".join(ordered[:4])
    return shown if len(ordered) <= 4 else "{0} and {1} more".format(shown, len(ordered) - 4)
