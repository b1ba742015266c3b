# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How large a batch of the play rolling.yml is, how a node fared in it, and what a whole run came to. Pure."""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence

from ansible.errors import AnsibleFilterError

CONVERGED = "converged"
BUSY = "busy"
LEFT = "left"
# Whatever the resources of a node wait for.
WAITS = "waits for "
FAILED = "failed"
UNREACHABLE = "unreachable"
_TITLES = {
    CONVERGED: "converged",
    BUSY: "busy, left for later",
    LEFT: "out of service by others, left alone",
    FAILED: "failed",
    UNREACHABLE: "not reachable; a drain of this run may stand",
}
_TOO_MANY = "{0} failed, and {1} may (gpu_node_rolling_failures)"
_WAITS_TITLE = "converged and drained, {0}"
_FULL = "{0} nodes are drained and wait, as many as a batch has; run it again later"
_LOST = "it was lost in the middle, see above"
# So many names of converged nodes are told; of the others all, since somebody has to look at them.
_NAMES_MOST = 20


def rolling_outcome(
    first: Mapping[str, Any],
    failure: str | None = None,
    back: Mapping[str, Any] | None = None,
    waits: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    if failure is not None:
        return {"outcome": FAILED, "why": " ".join(str(failure).split())}
    if first.get("unreachable"):
        return {"outcome": UNREACHABLE, "why": " ".join(str(first.get("msg", "")).split())}
    if first.get("outcome") in (BUSY, LEFT):
        told = {"outcome": str(first["outcome"]), "why": str(first.get("why", ""))}
        return dict(told, drained=first.get("owner") == "rolling") if first["outcome"] == BUSY else told
    if first.get("outcome") == "ready" and waits:
        why = "; ".join(one["why"] for one in waits)
        return {"outcome": WAITS + waits[0]["for"], "why": why, "drained": True}
    if first.get("outcome") != "ready" or not back or back.get("outcome") not in ("in_service", LEFT):
        return {"outcome": FAILED, "why": "it did not come to its end, see above"}
    stays = back["outcome"] == LEFT
    return {"outcome": CONVERGED, "why": "stays out of service: {0}".format(back.get("why", "")) if stays else ""}


def rolling_tally(
    outcomes: Mapping[str, Mapping[str, Any]],
    hosts: Sequence[str],
    alive: Sequence[str],
    failures_max: Any,
    drained_max: int | None = None,
) -> dict[str, Any]:
    still = set(alive)
    told = {host: outcomes.get(host) or ({} if host in still else {"outcome": FAILED, "why": _LOST}) for host in hosts}
    begun = {host: one for host, one in told.items() if one}
    titles = _titles(begun)
    by = {outcome: [host for host, one in begun.items() if one["outcome"] == outcome] for outcome in titles}
    waiting = [host for host in hosts if host not in begun]
    most = failures_most(failures_max, len(hosts))
    drained = [host for host in begun if begun[host].get("drained")]
    too_many = len(by[FAILED]) > most
    full = drained_max is not None and len(drained) >= drained_max > 0
    stop = (too_many or full) and bool(waiting)
    lines = ["{0} of {1} nodes: {2}".format(len(begun), len(hosts), _counts(by, waiting))]
    if stop or not waiting:
        lines += _lists(titles, by, begun)
        if stop:
            text = _TOO_MANY.format(len(by[FAILED]), most) if too_many else _FULL.format(len(drained))
            lines.append("stopped: {0}; not begun: {1}".format(text, _names(waiting)))
    left = [host for host in hosts if begun.get(host, {}).get("outcome") != CONVERGED]
    return dict(by, waiting=waiting, stop=stop, lines=lines, not_done=left)


def rolling_batch(wanted: Any, hosts: int, forks: int) -> int:
    """A node that is drained and waits for one of Ansible's forks to be free is capacity that nobody uses."""
    # Of few nodes 10 % are less than one; none at all is what nobody means.
    if _share("gpu_node_rolling_batch", wanted, 100) == 0:
        raise _wrong("gpu_node_rolling_batch", wanted, "is a batch without nodes")
    return max(1, min(_share("gpu_node_rolling_batch", wanted, int(hosts)), int(forks)))


def failures_most(failures_max: Any, hosts: int) -> int:
    """So many nodes may fail."""
    return _share("gpu_node_rolling_failures", failures_max, hosts)


def _share(variable: str, wanted: Any, hosts: int) -> int:
    if isinstance(wanted, (list, tuple)):
        raise _wrong(variable, wanted, "is a list, and one value holds for the whole run")
    found = re.fullmatch(r"\s*([0-9]{1,9})\s*(%?)\s*", str(wanted))
    if found is None:
        raise _wrong(variable, wanted, "is neither a number of nodes nor percent")
    number = int(found.group(1))
    if found.group(2) and number > 100:
        raise _wrong(variable, wanted, "is more than all nodes")
    return number * hosts // 100 if found.group(2) else number


def _wrong(variable: str, wanted: Any, reason: str) -> AnsibleFilterError:
    return AnsibleFilterError("{0}: {1!r} {2}; give 3 or '5%'.".format(variable, str(wanted), reason))


def _counts(by: Mapping[str, Sequence[str]], waiting: Sequence[str]) -> str:
    parts = ["{0} {1}".format(len(names), title) for title, names in by.items() if names]
    return ", ".join(parts + (["{0} not begun".format(len(waiting))] if waiting else [])) or "none"


def _titles(told: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """By the outcomes in the order in which they are told."""
    waits = sorted({one["outcome"] for one in told.values() if one["outcome"].startswith(WAITS)})
    last = {outcome: _TITLES[outcome] for outcome in (FAILED, UNREACHABLE)}
    first = {outcome: title for outcome, title in _TITLES.items() if outcome not in last}
    return {**first, **{outcome: _WAITS_TITLE.format(outcome) for outcome in waits}, **last}


def _lists(
    titles: Mapping[str, str], by: Mapping[str, Sequence[str]], told: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    lines = []
    for outcome, title in titles.items():
        plain = [host for host in by[outcome] if not told[host]["why"]]
        if plain:
            lines.append("{0}: {1}".format(title, _names(plain)))
        lines += ["{0}: {1}: {2}".format(title, host, told[host]["why"]) for host in by[outcome] if told[host]["why"]]
    return lines


def _names(hosts: Sequence[str]) -> str:
    more = len(hosts) - _NAMES_MOST
    return ", ".join(hosts[:_NAMES_MOST]) + (" and {0} more".format(more) if more > 0 else "")


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {
            "rolling_batch": rolling_batch,
            "rolling_outcome": rolling_outcome,
            "rolling_tally": rolling_tally,
        }
