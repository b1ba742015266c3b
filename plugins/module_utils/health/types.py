# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a check is, what it says, and the verdict on a node."""

from __future__ import annotations

import enum
import math
from typing import Any, Callable, Iterable, Mapping, Optional, Tuple

from ..core.frozen import frozen
from ..core.resource import NodeError, sentence

SCHEMA = "trainyard.gpu_node/verdict/1"


#: The code of a finding: a check could not run because its tool is not installed.
NO_TOOL = "no_tool"
#: The figure of a GPU (always 1) whose label ``product`` is its name.
PRODUCT = "gpu_product_info"
#: The code of a finding: a check was left out or cut short for lack of time, so it proves nothing.
NOT_COVERED = "not_covered"


class NoTool(NodeError):
    """The tool of a check is not installed."""


class NotCovered(NodeError):
    """The time budget of the active checks was too short for a check."""


class Outcome(enum.Enum):
    """What is known of a thing. ``unknown``: it could not be checked, which is never as good as ``pass``."""

    PASS = "pass"  # noqa: S105 no password
    WARN = "warn"
    UNKNOWN = "unknown"
    FAIL = "fail"


# From best to worst. A node that could not be checked is worse than one with a warning: nothing is known of it.
ORDER = (Outcome.PASS, Outcome.WARN, Outcome.UNKNOWN, Outcome.FAIL)


def worst(outcomes: Tuple[Outcome, ...]) -> Outcome:
    return max(outcomes, key=ORDER.index, default=Outcome.PASS)


class Cost(enum.Enum):
    """How much a check takes from a node. A level of checking takes those up to it."""

    QUICK = "quick"  # before each job: some milliseconds
    PASSIVE = "passive"  # between jobs and beside them: reads more, loads nothing
    ACTIVE = "active"  # on an idle node only: uses GPUs, links and disks


LEVELS: Mapping[Cost, Tuple[Cost, ...]] = {
    Cost.QUICK: (Cost.QUICK,),
    Cost.PASSIVE: (Cost.QUICK, Cost.PASSIVE),
    Cost.ACTIVE: (Cost.QUICK, Cost.PASSIVE, Cost.ACTIVE),
}


class Certainty(enum.Enum):
    """How sure it is that the thing named is what is wrong."""

    CERTAIN = "certain"  # the hardware or driver says so, or it was counted
    LIKELY = "likely"
    POSSIBLE = "possible"  # one cause among several


class Remedy(enum.Enum):
    """The least that may help, for programs; the sentence for people stands beside it."""

    WATCH = "watch"  # nothing now
    CONFIGURE = "configure"  # converge the node, correct the profile or a setting
    RESTART_SERVICE = "restart_service"
    RESET_GPU = "reset_gpu"
    REBOOT = "reboot"
    REPLACE = "replace"  # hardware: redeploy the machine, or open a ticket
    LOOK = "look"  # a person must find out


@frozen
class Finding:
    """Something that is not as it should be: the thing, the reason, the remedy, and how sure it is.

    ``thing`` is for people (``GPU 3 (0000:0b:00.0)``, ``disk nvme2 (S5XYZ)``, ``service slurmd``). ``key`` names the
    same thing for good, so that a finding can be silenced and followed: a PCI address, a serial, a name; empty for the
    node as a whole. ``code`` tells kinds of one check apart (``xid_79``).
    """

    outcome: Outcome
    thing: str
    reason: str
    remedy: str
    action: Remedy
    certainty: Certainty = Certainty.CERTAIN
    key: str = ""
    code: str = ""

    def __str__(self) -> str:
        return sentence(self.thing, self.reason, self.remedy)


@frozen
class Measured:
    """A figure, for metrics, for comparison within a fleet, and for growth over time.

    ``name`` ends with its unit (``temperature_celsius``, ``host_to_device_gigabytes_per_second``); ``key`` as in
    :class:`Finding`. ``counter``: it only ever grows while the hardware is the same, and is kept in the baseline.
    ``better``: ``higher``, ``lower`` or "". ``parts``: what a sum is of, where that may differ from look to look;
    growth is counted between sums of the same parts only. ``labels``: what its metric has beside check and key; such a
    figure is of a part that somebody made (a GPU instance), and is not compared with other nodes.
    """

    name: str
    value: float
    key: str = ""
    counter: bool = False
    better: str = ""
    parts: str = ""
    labels: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ValueError("{0} of {1!r} is no number".format(self.name, self.key))

    @property
    def counted(self) -> Tuple[str, str]:
        """The name of this counter in the baseline."""
        return self.name, "{0}#{1}".format(self.key, self.parts) if self.parts else self.key


@frozen
class Judgement:
    """What a check says. No finding: all is well, and ``seen`` tells in a few words what was looked at.

    ``not_applicable`` tells why this machine has nothing to check here (no NVSwitch, no scratch declared).
    """

    seen: str = ""
    findings: Tuple[Finding, ...] = ()
    measured: Tuple[Measured, ...] = ()
    not_applicable: Optional[str] = None


@frozen
class Threshold:
    """Two limits of one figure; ``source`` says where they come from."""

    better: str  # "higher" or "lower"
    warn: Optional[float]
    fail: Optional[float]
    source: str

    def outcome(self, value: float) -> Outcome:
        """At a limit it is still well."""
        for limit, outcome in ((self.fail, Outcome.FAIL), (self.warn, Outcome.WARN)):
            if limit is not None and (value < limit if self.better == "higher" else value > limit):
                return outcome
        return Outcome.PASS

    def limit(self, value: float) -> Optional[float]:
        """The limit that a value is beyond; None: it is well."""
        return {Outcome.FAIL: self.fail, Outcome.WARN: self.warn}.get(self.outcome(value))


@frozen
class Growth:
    """How much a counter has grown, within how many hours."""

    by: float
    hours: float


@frozen
class Origin:
    """What a counter was at a point of the baseline, and how many hours ago that was."""

    value: float
    hours: float


@frozen
class Expected:
    """What a node is held against. ``profile`` is empty on an unknown machine, ``declared`` where nothing was declared.

    ``settings`` are those of section ``health`` of the declaration; ``now`` is in seconds since 1970. ``origins`` are
    the points of each counter in the baseline, oldest first. ``uptime_seconds``: since the boot; None: unknown.
    ``no_checks``: what the declaration leaves out and is no check, each with what to write instead.
    """

    profile_name: str
    profile: Mapping[str, Any]
    declared: Mapping[str, Mapping[str, Any]]
    thresholds: Mapping[str, Threshold]
    origins: Mapping[Tuple[str, str], Tuple[Origin, ...]]
    settings: Mapping[str, Any]
    now: float
    node: str = ""
    uptime_seconds: Optional[float] = None
    no_checks: Tuple[Tuple[str, str], ...] = ()

    def growth(self, figure: Measured, seconds: Optional[float] = None) -> Optional[Growth]:
        """The growth of a counter within the last day, or the longer window that the baseline has for it.

        ``seconds``: since the newest point that is as old, for a rate; without one, since the oldest. None: there is
        nothing to compare with, as on a first run, or after the counter began anew.
        """
        points = self.origins.get(figure.counted, ())
        # It began anew after the newest point.
        if not points or figure.value < points[-1].value:
            return None
        origin = points[0]
        if seconds is not None:
            origin = next((one for one in reversed(points) if one.hours * 3600 >= seconds), origin)
        return Growth(figure.value - origin.value, origin.hours)

    def last(self, figure: Measured) -> Optional[Origin]:
        """What a counter was at the newest point of the baseline."""
        return next(reversed(self.origins.get(figure.counted, ())), None)


Seen = Any


@frozen
class Machine:
    """The facts that decide how long active checks take. Any of them may be 0 or empty when it is not known.

    ``gpus``: how many GPUs can be measured; ``memory_bytes``: memory of the largest one; ``ports``: InfiniBand ports;
    ``scratch``: a scratch is declared; ``tools``: the names in ``data.tools.TOOLS`` that are installed; ``settings``:
    section ``health`` of the declaration.
    """

    gpus: int = 0
    memory_bytes: int = 0
    ports: int = 0
    scratch: bool = False
    tools: Tuple[str, ...] = ()
    settings: Mapping[str, Any] = {}


@frozen
class Span:
    """Wall-clock seconds of one active check, its setup included. ``least``: below this it proves nothing useful, and
    a budget leaves it out. ``usual``: a complete run."""

    least: float
    usual: float

    def __post_init__(self) -> None:
        if not 0 < self.least <= self.usual < math.inf:
            raise ValueError("{0:g} and {1:g} seconds are not a span".format(self.least, self.usual))


@frozen
class Check:
    """One subject. ``look`` reads (in a child process, under ``seconds``); ``judge`` is pure.

    ``span``: the expected time of an active check on a machine. Pure. None: it has nothing to measure there (no tool,
    one GPU where it needs two), so it ends at once. Without a budget a run takes ``usual``. With one, the look finds
    its share in ``evidence.seconds``, which is never below ``least``, and ends within it.

    ``title`` is what a pass means. ``lane``: checks of one lane run one after another, lanes side by side. A check of
    the lane ``gpu`` has no ``look``: it is given the whole :class:`gpu_info.types.Information`, with the groups of
    ``gpu_info`` that it names in ``gpu_groups``.
    """

    id: str
    title: str
    cost: Cost
    judge: Callable[[Seen, Expected], Judgement]
    look: Optional[Callable[[Any], Seen]] = None
    lane: str = "node"
    seconds: float = 10.0
    gpu_groups: Tuple[str, ...] = ()
    span: Optional[Callable[[Machine], Optional[Span]]] = None

    def __post_init__(self) -> None:
        if (self.look is None) != (self.lane == GPU_LANE):
            raise ValueError("check {0}: it has a look, or it is of the lane gpu".format(self.id))


GPU_LANE = "gpu"


@frozen
class Result:
    """One check that was run. Findings that are silenced or only observed are not among its own, nor in its outcome."""

    id: str
    title: str
    outcome: Outcome
    seen: str
    findings: Tuple[Finding, ...]
    measured: Tuple[Measured, ...]
    seconds: float


@frozen
class Silence:
    """A known fault on this node: it is told and does not count, until a date, with somebody who answers for it.

    ``finding`` is the name of a finding, see :func:`finding_name`; it may end with ``*``.
    """

    finding: str
    until: float
    owner: str
    reason: str


@frozen
class Silenced:
    check: str
    finding: Finding
    silence: Silence


@frozen
class Observed:
    """A finding that is told and counts for nothing: ``pattern`` is the entry of ``observe`` that says so."""

    check: str
    finding: Finding
    pattern: str


@frozen
class Verdict:
    """What is known of a node now: the outcome, every finding (worst first), every check, and what did not apply."""

    node: str
    time: float
    level: Cost
    profile: str
    outcome: Outcome
    results: Tuple[Result, ...]
    not_applicable: Mapping[str, str]
    silenced: Tuple[Silenced, ...]
    seconds: float
    observed: Tuple[Observed, ...] = ()

    @property
    def findings(self) -> Tuple[Tuple[str, Finding], ...]:
        """(check, finding) for all that count, worst first, in the order of the checks."""
        return _sorted((one.id, finding) for one in self.results for finding in one.findings)

    @property
    def only_observed(self) -> Tuple[Tuple[str, Finding], ...]:
        """The same for all that count for nothing because they are only observed."""
        return _sorted((one.check, one.finding) for one in self.observed)

    @property
    def measured(self) -> Tuple[Measured, ...]:
        return tuple(figure for one in self.results for figure in one.measured)

    def in_one_line(self) -> str:
        """``fail: GPU 3 (0000:0b:00.0): ...; ... (and 2 more)``."""
        if not self.findings:
            more = ", {0} findings observed".format(len(self.observed)) if self.observed else ""
            return "{0}: {1} checks{2}".format(self.outcome.value, len(self.results), more)
        others = len(self.findings) - 1
        return "{0}: {1}{2}".format(
            self.outcome.value, self.findings[0][1], " (and {0} more)".format(others) if others else ""
        )


def _sorted(pairs: Iterable[Tuple[str, Finding]]) -> Tuple[Tuple[str, Finding], ...]:
    return tuple(sorted(pairs, key=lambda pair: -ORDER.index(pair[1].outcome)))


def finding_name(check: str, finding: Finding) -> str:
    """``gpu_xid/xid_79/0000:0b:00.0``: the same fault of the same thing has the same name in each run."""
    return "/".join(part for part in (check, finding.code, finding.key) if part)
