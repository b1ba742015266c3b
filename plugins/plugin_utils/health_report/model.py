# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdicts of a run, put together: who is how, why, and whose figures are the odd ones out."""

from __future__ import annotations

import dataclasses
from typing import Any, Mapping

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import plain
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import sentence
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.data.repeats import WINDOW_SECONDS
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.fleet import (
    data,
    odd_versions,
    offenders,
    outliers,
    samples,
)

from ..node_answer import Untrusted
from ..verdicts import checked

SCHEMA = "trainyard.gpu_node/fleet/1"
# From best to worst. ``none``: there is no verdict, since the node was not reached, the check itself failed, or the
# verdict is not believable.
OUTCOMES = ("pass", "warn", "unknown", "none", "fail")
OUTLIER = "outlier"
OFFENDERS_MAX = 1000
# A node can name a product for each of its figures that no other node has.
TOO_FEW_MAX = 20


@dataclasses.dataclass(frozen=True)
class Line:
    """A finding. ``check`` is its id, ``outlier`` where other nodes tell it."""

    outcome: str
    check: str
    thing: str
    reason: str
    remedy: str
    certainty: str = ""
    action: str = ""

    def __str__(self) -> str:
        return sentence(self.thing, self.reason, self.remedy)


@dataclasses.dataclass(frozen=True)
class Node:
    host: str
    outcome: str
    lines: tuple[Line, ...]
    verdict: Mapping[str, Any]

    @property
    def profile(self) -> str:
        return text(self.verdict.get("profile"))

    @property
    def results(self) -> list[Mapping[str, Any]]:
        return mappings(self.verdict.get("results"))


@dataclasses.dataclass(frozen=True)
class Report:
    """``nodes``: worst first, then by name. ``time``: the newest verdict, in seconds since 1970; ``now``: of who
    reports.

    ``offenders``: parts that fail again, those with most faults first."""

    nodes: tuple[Node, ...]
    comparison: outliers.Comparison
    samples: tuple[samples.Sample, ...]
    time: float
    offenders: tuple[offenders.Offender, ...] = ()
    now: float = 0.0

    @property
    def counts(self) -> dict[str, int]:
        """Worst first; what there is none of is left out."""
        found = {outcome: sum(node.outcome == outcome for node in self.nodes) for outcome in reversed(OUTCOMES)}
        return {outcome: count for outcome, count in found.items() if count}

    @property
    def groups_told(self) -> list[str]:
        """Of the groups of which the nodes themselves tell nothing."""
        return [text("{0}: {1}".format(one.name, one.reason)) for one in self.comparison.groups if one.split]

    @property
    def again(self) -> list[tuple[str, str]]:
        """(host, sentence) of each part that fails again; without a host: it is on none of these nodes."""
        return [(one.host, text(one.sentence(self.now))) for one in self.offenders]

    @property
    def observed(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """(check, the outcome that it would count as, hosts) of what is only observed, worst first."""
        found: dict[tuple[str, str], dict[str, None]] = {}
        for node in self.nodes:
            for one in mappings(node.verdict.get("observed")):
                finding = one.get("finding")
                outcome = outcome_of(finding.get("outcome") if isinstance(finding, Mapping) else None)
                found.setdefault((text(one.get("check")), outcome), {})[node.host] = None
        every = [(check, outcome, tuple(sorted(hosts))) for (check, outcome), hosts in found.items()]
        return sorted(every, key=lambda one: (-OUTCOMES.index(one[1]), one[0]))

    @property
    def healthy(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.outcome == "pass")

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "time": self.time,
            "counts": self.counts,
            "nodes": [
                {
                    "host": node.host,
                    "outcome": node.outcome,
                    "findings": plain(node.lines),
                    "verdict": node.verdict or None,
                }
                for node in self.nodes
            ],
            "outliers": [
                {
                    "host": one.node,
                    "type": one.kind,
                    "figure": one.name,
                    "key": one.key,
                    "value": one.value,
                    "median": one.spread.median,
                    "distance_allowed": one.spread.distance,
                    "nodes": one.nodes,
                }
                for one in self.comparison.outliers
            ],
            "groups": [
                {
                    "hosts": list(one.members),
                    "type": one.kind,
                    "figure": one.name,
                    "median": one.median,
                    "median_of_others": one.usual,
                    "others": one.others,
                    "differ_in": one.split,
                }
                for one in self.comparison.groups
            ],
            "not_compared": dict(self.comparison.alone),
            "repeat_offenders": [_offender(one) for one in self.offenders[:OFFENDERS_MAX]],
        }


def report(
    verdicts: Mapping[str, Mapping[str, Any]],
    missing: Mapping[str, str],
    nodes_min: int = int(data.NODES_MIN.value),
    now: float | None = None,
) -> Report:
    """``missing``: hosts without a verdict, and why. ``now`` in seconds since 1970; None: when the newest verdict was
    given."""
    believed: dict[str, Mapping[str, Any]] = {}
    without: dict[str, Line] = {}
    for host, reason in missing.items():
        without[text(host)] = _none("no verdict", text(reason), "put that right and run it again")
    for host, verdict in verdicts.items():
        try:
            believed[text(host)] = checked(verdict, now)
        except Untrusted as error:
            remedy = "check the clock of the node, and what changes its answers: it may be compromised"
            without[text(host)] = _none("verdict", "it is not believable: {0}".format(text(str(error))), remedy)
    verdicts = believed
    figures = samples.samples(verdicts)
    comparison = outliers.compare(figures, nodes_min, _traits(verdicts))
    odd: dict[str, list[Line]] = {}
    for group in comparison.groups:
        # What is known to split the nodes makes them two kinds, of which none is sick for that.
        for member in () if group.split else group.members:
            odd.setdefault(member, []).append(_line(OUTLIER, plain(group.finding())))
    for one in comparison.outliers:
        finding = one.finding(samples.labels_of(verdicts.get(one.node)))
        odd.setdefault(one.node, []).append(_line(OUTLIER, plain(finding)))
    for other in odd_versions.of_verdicts(verdicts, samples.kinds_of(verdicts)):
        told = {"outcome": "warn", "thing": "software", "reason": other.reason, "remedy": other.remedy}
        odd.setdefault(other.node, []).append(_line(OUTLIER, told))
    nodes = [_node(host, verdict, odd.get(host, [])) for host, verdict in verdicts.items()]
    nodes += [Node(host, "none", (line,), {}) for host, line in without.items() if host not in verdicts]
    nodes.sort(key=lambda node: (-OUTCOMES.index(node.outcome), node.host))
    times = [samples.number(one.get("time")) for one in verdicts.values()]
    newest = max((one for one in times if one is not None), default=0.0)
    now = newest if now is None else now
    return Report(tuple(nodes), comparison, figures, newest, offenders.offenders(verdicts, now), now)


def _none(thing: str, reason: str, remedy: str) -> Line:
    return Line("none", "", thing, reason, remedy, "", "look")


def _offender(one: offenders.Offender) -> dict[str, Any]:
    return {
        "host": one.host or None,
        "kind": one.kind,
        "name": one.name,
        "window_seconds": WINDOW_SECONDS,
        "faults": one.faults,
        "remedies": one.remedies,
        "seconds_between_faults": one.between,
        "last": one.last,
        "hosts": plain(one.places),
        "also": list(one.also),
    }


def _traits(verdicts: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """What checks that measure nothing have seen, by node and title of the check: the driver, products, firmware.

    One that measures tells its figure, which explains nothing."""
    return {
        host: {
            text(result.get("title")): text(result.get("seen"))[:160]
            for result in mappings(verdict.get("results"))
            if result.get("outcome") == "pass" and not result.get("measured")
        }
        for host, verdict in verdicts.items()
    }


def _node(host: str, verdict: Mapping[str, Any], odd: list[Line]) -> Node:
    lines = [
        _line(text(result.get("id")), finding)
        for result in mappings(verdict.get("results"))
        for finding in mappings(result.get("findings"))
    ]
    lines.sort(key=lambda line: -OUTCOMES.index(line.outcome))
    outcome = outcome_of(verdict.get("outcome"))
    if odd and outcome == "pass":
        outcome = "warn"
    return Node(host, outcome, tuple(lines + odd), verdict)


def _line(check: str, finding: Mapping[str, Any]) -> Line:
    return Line(
        outcome_of(finding.get("outcome")),
        check,
        *(text(finding.get(name)) for name in ("thing", "reason", "remedy", "certainty", "action")),
    )


def outcome_of(value: Any) -> str:
    """What is no outcome that we know is not known."""
    return value if value in OUTCOMES else "unknown"


def mappings(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, (list, tuple)) else []


def text(value: Any) -> str:
    """One line that can be shown anywhere: without control characters, whatever a node has sent."""
    words = "" if value is None else str(value)
    words = words.encode("utf-8", "replace").decode("utf-8")
    return " ".join("".join(one if one.isprintable() else " " for one in words).split())


def too_few(comparison: outliers.Comparison) -> list[str]:
    """The kinds whose nodes are too few to compare, as lines; the largest kinds if there are many."""
    kinds = sorted(comparison.alone.items(), key=lambda item: -item[1])
    lines = ["{0}: {1} node(s), too few to tell an odd one out".format(*one) for one in kinds[:TOO_FEW_MAX]]
    if len(kinds) > TOO_FEW_MAX:
        lines.append("and {0} more kinds of nodes, too few to tell an odd one out".format(len(kinds) - TOO_FEW_MAX))
    return lines
