# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a whole node to its declaration: the profile, each resource in its order, the verdict.

A resource that fails stops those that need it, in an undo those that it needs, and no other. What each came to is a
part of the report; what a machine is refused for is told of all resources together.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ..core import declaration, registry
from ..core.frozen import frozen, plain
from ..core.host import Host
from ..core.nearest import nearest
from ..core.options import at, of
from ..core.resource import Misuse, NodeError, Refused, Resource, Unfinished
from ..core.run import result, run
from ..facts.nvml.binding import RUNTIME as INSTALLED
from ..facts.profile.types import SECTION
from ..resources.node_profile.manage import ROLES
from ..slurm import this_node
from . import restart, wish

PROFILE, IMAGE = "node_profile", "image"
#: Parts of a report that are no resources.
RUNTIME, DECLARATION, WHOLE = "node_runtime", "declaration", "converge"
Part = Dict[str, Any]
#: Runs one resource: host, record, desired options, check mode.
Runner = Callable[[Host, Resource, Any, bool], Any]


class Ended(BaseException):
    """Somebody, or the time limit, wants the run to end: no step takes it for a failure of its own."""


@frozen
class Request:
    """``only``: these resources (all: none are named); ``without``: not these. ``undo``: take them away, backwards.
    ``boot``: services that wait for the run are neither restarted nor asked for.

    ``command``: the node command that runs this and is not the installed one: it is installed, unless in check mode.

    There is none of a declaration with a mistake in it: who has one may begin, and has changed nothing yet.
    """

    sections: wish.Sections
    only: Tuple[str, ...] = ()
    without: Tuple[str, ...] = ()
    check_mode: bool = False
    undo: bool = False
    command: Optional[str] = None
    boot: bool = False

    def __post_init__(self) -> None:
        """
        :raises Misuse: a name that chooses nothing: the run would do less, or more, than was meant.
        :raises NodeError: the declaration is wrong, whatever the figures of the machine's profile are.
        """
        known = (RUNTIME, *registry.NAMES, wish.HEALTH)
        for name in (*self.only, *self.without):
            if name not in known:
                remedy = "{0}use some of {1}".format(nearest(str(name), known), ", ".join(known))
                raise Misuse("resource {0!r}".format(name), "there is no such resource", remedy)
        wish.desired(self.wanted, {})

    @property
    def wanted(self) -> wish.Sections:
        """The sections as the run goes by them."""
        sections = wish.absent(self.sections) if self.undo else self.sections
        return wish.at_boot(sections) if self.boot else sections

    @property
    def whole(self) -> bool:
        return not self.only and not self.without

    def chosen(self, name: str) -> bool:
        return (not self.only or name in self.only) and name not in self.without


@frozen
class Report:
    """``parts``: by the names of the resources, in the order of the run, what a module of theirs would return. A part
    that has ``failed`` has ``msg``. ``health``: the verdict with its findings, where one was made."""

    parts: Mapping[str, Part]
    health: Part
    check_mode: bool

    @property
    def profile(self) -> Optional[Dict[str, Any]]:
        """What is known of the machine's profile."""
        found: Optional[Dict[str, Any]] = at(self.parts, PROFILE + ".ansible_facts.gpu_node_profile")
        return found

    @property
    def failures(self) -> List[str]:
        found = ["{0}: {1}".format(name, part["msg"]) for name, part in self.parts.items() if part.get("failed")]
        return found + ([self.health["msg"]] if self.health.get("failed") else [])

    @property
    def waits(self) -> List[Dict[str, str]]:
        """What the node waits for before it may take jobs: ``for``, and ``why`` with the remedy."""
        records = [(registry.resource(name).wait, part) for name, part in self.parts.items() if name in registry.NAMES]
        found = [(wait.what, wait.why(part)) for wait, part in records if wait is not None and not part.get("failed")]
        found.append((restart.SLURMD, self.parts.get(restart.SLURMD, {}).get("waits") or ""))
        return [{"for": what, "why": why} for what, why in found if why]

    def to_dict(self) -> Dict[str, Any]:
        return {
            "changed": any(part.get("changed") for part in self.parts.values()),
            "resources": {name: _without_facts(part) for name, part in self.parts.items()},
            "health": self.health,
            "profile": self.profile,
            "ready": not self.failures and not self.waits,
            "failures": self.failures,
            "waits": self.waits,
        }


def _without_facts(part: Part) -> Part:
    return {key: value for key, value in part.items() if key != "ansible_facts"}


def converge(host: Host, request: Request, runner: Runner = run) -> Report:
    """:raises NodeError: the declaration does not go with the figures of the machine's profile."""
    parts: Dict[str, Part] = {}
    health: Part = {}
    try:
        health = _converge(host, request, request.wanted, runner, parts)
    except Ended as error:
        parts[WHOLE] = {"failed": True, "msg": str(error)}
    return Report(parts, health, request.check_mode)


def _converge(host: Host, request: Request, sections: wish.Sections, runner: Runner, parts: Dict[str, Part]) -> Part:
    """``parts`` are filled in; what is given back is the verdict."""
    figures: Mapping[str, Any] = {}
    managed: Optional[Sequence[str]] = None
    # Whatever was chosen: a run of one resource changes an image that is refused no more than one of all.
    if not request.undo and IMAGE in sections and IMAGE not in request.without:
        wanted = wish.desired({IMAGE: sections[IMAGE]}, {})[IMAGE]
        parts[IMAGE] = _one(host, registry.resource(IMAGE), wanted, request.check_mode, runner)
        if parts[IMAGE].get("failed"):
            return {}
    if not request.undo:
        profile = parts[PROFILE] = _profile(host, sections, request, runner)
        if profile.get("failed"):
            return {}
        fact = profile.get("ansible_facts", {}).get("gpu_node_profile")
        if fact is not None:
            figures, managed = fact["data"], fact["roles"]
    desired = wish.desired(sections, figures)
    if not request.undo and (managed is None or managed):
        # Also the installed one, which may have lost its Python since.
        if request.command is not None or host.exists(INSTALLED):
            part = runtime(host, request.command or "", request.check_mode)
            if request.command is not None or part.get("failed") or part.get("changed"):
                parts[RUNTIME] = part
        parts[DECLARATION] = _declared(host, request)
    names = [name for name in registry.NAMES if name in sections and name not in parts and request.chosen(name)]
    for name in reversed(names) if request.undo else names:
        present = getattr(desired[name], "present", True)
        if present and managed is not None and name in ROLES and name not in managed:
            continue
        stopped = _stopped(name, names, parts, request.undo) if present or request.undo else ""
        if stopped:
            parts[name] = {"failed": True, "msg": stopped}
            continue
        parts[name] = _one(host, registry.resource(name), desired[name], request.check_mode, runner)
    told = restart.settle(host, parts, desired, request.check_mode, not request.boot)
    if told:
        parts[restart.SLURMD] = told
    if request.undo and not any(part.get("failed") for part in parts.values()):
        parts[DECLARATION] = _declared(host, request)
        if request.whole or RUNTIME in request.only:
            parts[RUNTIME] = runtime(host, None, request.check_mode)
    if not request.undo and wish.HEALTH in sections and request.chosen(wish.HEALTH):
        return _health(host, desired[wish.HEALTH], parts, request)
    return {}


def _stopped(name: str, names: Sequence[str], parts: Mapping[str, Part], undo: bool) -> str:
    """Pure. Why a resource is not begun: one that it needs failed, or in an undo one that needs it; empty: it is."""
    resources = registry.RESOURCES
    beside = [one for one in names if name in resources[one].requires] if undo else resources[name].requires
    failed = " and ".join(one for one in beside if parts.get(one, {}).get("failed"))
    words = "not taken away, as {0} failed and needs it" if undo else "not done, as {0} failed"
    return words.format(failed) if failed else ""


def _one(host: Host, resource: Resource, desired: Any, check_mode: bool, runner: Runner) -> Part:
    try:
        return result(runner(host, resource, desired, check_mode), resource, desired)
    except Unfinished as error:
        return dict(result(error.outcome, resource, desired), failed=True, msg=str(error))
    except Refused as error:
        refusals = [{"thing": one.thing, "reason": one.reason, "remedy": one.remedy} for one in error.refusals]
        return {"failed": True, "msg": str(error), "refusals": refusals}
    except NodeError as error:
        return {"failed": True, "msg": str(error)}


def single(
    host: Host, name: str, given: Mapping[str, Any], check_mode: bool, profile: Any, command: Optional[str]
) -> Part:
    """One resource by itself, with the figures of ``profile`` or, where it is None, of the declared one. What it sets
    up may run the node command: then ``command``, where it is not the installed one, is installed.

    :raises NodeError: an option that is wrong.
    """
    resource = registry.resource(name)
    if profile is None:
        profile = (declaration.read(host).get(SECTION) or {}).get("data")
    desired: Any = of(resource.options, given, profile)
    first: Part = {}
    wanted = command is not None or host.exists(INSTALLED)
    if wanted and resource.needs_command and getattr(desired, "present", True):
        looked = _one(host, resource, desired, True, run)
        if not looked.get("failed") and not looked["skipped_reason"]:
            first = runtime(host, command or "", check_mode)
            if first.get("failed"):
                return first
    part = _one(host, resource, desired, check_mode, run)
    last = restart.settle(host, {name: part}, {name: desired}, check_mode)
    if first.get("changed"):
        part.update(changed=True, actions=first["actions"] + part.get("actions", []))
    if last.get("failed"):
        part.update(last)
    elif last:
        part.update(
            changed=part["changed"] or last["changed"],
            actions=part["actions"] + last["actions"],
            notes=part["notes"] + last["notes"],
        )
    return part


def runtime(host: Host, source: Optional[str], check_mode: bool) -> Part:
    """The node command itself, from ``source``; empty: the installed one, which must start; None: taken away."""
    from ..resources import node_runtime  # few converges bring it

    try:
        sha256 = None if source is None else _identity(source or host.path(INSTALLED))
        outcome = node_runtime.run(host, node_runtime.Desired(sha256), source or None, check_mode)
    except NodeError as error:
        return {"failed": True, "msg": str(error)}
    return {
        "changed": outcome.changed,
        "actions": [action.to_dict() for action in outcome.plan.actions],
        "sha256": outcome.after.sha256,
        "diff": {"before": _text(outcome.before), "after": _text(outcome.after)},
    }


def _text(state: Any) -> str:
    return json.dumps(plain(state), indent=2, sort_keys=True) + "\n"


def _identity(path: str) -> str:
    """
    :raises NodeError: it cannot be read.
    """
    from ..resources.node_runtime import identity

    try:
        with open(path, "rb") as stream:
            return identity(stream.read())
    except OSError as error:
        raise NodeError(path, "it cannot be read ({0})".format(error.strerror), "run site.yml to install it") from error


def _declared(host: Host, request: Request) -> Part:
    """The wish is on record before anything is done, so that a boot after a power cut goes on with it. What was not
    chosen stays as it was declared."""
    try:
        sections = declared(wish.read(host) if not request.whole else None, request)
        text = wish.text(sections) if sections else None
        if wish.stands(host, text) if text is not None else not host.exists(wish.PATH):
            return {"changed": False, "actions": []}
        if not request.check_mode and text is not None:
            wish.write(host, text)
        elif not request.check_mode:
            host.remove(wish.PATH, folder_too=True)
    except NodeError as error:
        return {"failed": True, "msg": str(error)}
    step = "remove {0}" if text is None else "write {0}"
    told = {"action": "declaration", "description": step.format(wish.PATH)}
    return {"changed": True, "actions": [told]}


def declared(before: Optional[wish.Sections], request: Request) -> wish.Sections:
    """Pure. What is declared when the request is done, where ``before`` was. Texts are those of the request: a
    controller that takes a node over writes none."""
    kept = {name: section for name, section in (before or {}).items() if not request.chosen(name)}
    made = {} if request.undo else {name: one for name, one in request.sections.items() if request.chosen(name)}
    found = {**kept, **made}
    names = [name for name in (*registry.NAMES, wish.HEALTH) if name in found]
    texts = {name: request.sections[name] for name in wish.TEXTS if names and name in request.sections}
    return {**texts, **{name: found[name] for name in names}}


def _profile(host: Host, sections: wish.Sections, request: Request, runner: Runner) -> Part:
    """Always looked at, as others need its figures; declared where it is chosen."""
    given = dict(sections.get(PROFILE, {}))
    given["asked"] = [*given.get("asked", ()), *request.only, *asked(sections)]
    given.setdefault("scratch_models", sections.get("nvme_scratch", {}).get("models") or [])
    resource = registry.resource(PROFILE)
    desired = wish.desired({PROFILE: given}, {})[PROFILE]
    only_look = PROFILE not in sections or not request.chosen(PROFILE)
    part = _one(host, resource, desired, request.check_mode or only_look, runner)
    # What would be declared of it is no change of a run that does not declare it.
    return dict(part, changed=False, actions=[], diff={}) if only_look and part.get("changed") else part


#: Options that say of a resource that it must be there: its disks or GPUs are asked for.
_ASKING: Mapping[str, Tuple[str, ...]] = {
    "gpu_settings": ("require_gpus",),
    "mig_layout": ("require_gpus",),
    "nvme_scratch": ("serials", "devices", "count", "require_disks"),
}


def asked(sections: wish.Sections) -> Tuple[str, ...]:
    """Pure. Resources that are to be managed on a machine that has nothing to manage, too: they say what is missing."""
    return tuple(name for name, words in _ASKING.items() if any(sections.get(name, {}).get(word) for word in words))


def _health(host: Host, desired: wish.Verdict, parts: Mapping[str, Part], request: Request) -> Part:
    from .. import health  # half of the library, and not every converge asks for it
    from ..health.types import Cost

    fact = at(parts, PROFILE + ".ansible_facts.gpu_node_profile") or {}
    # In check mode it is not declared; the real run will be compared with it. On a machine that is left alone it never
    # is.
    undeclared = fact and (request.check_mode or not fact["roles"])
    profile = {"name": fact["name"], "data": fact["data"]} if undeclared else None
    # This run cannot wait for its own end, nor one of a boot for what waits for it.
    without = (*desired.without, WHOLE, *(("service_running",) if request.boot else ()))
    options = health.Options(Cost.PASSIVE, (), without, profile=profile)
    try:
        verdict = health.examine(host, this_node.here(host).node_name, options)
    except NodeError as error:
        return {"failed": True, "msg": str(error)}
    told: Part = {
        "verdict": health.to_dict(verdict),
        "outcome": verdict.outcome.value,
        "findings": [str(finding) for dummy, finding in verdict.findings],
    }
    if health.reached(verdict.outcome, desired.fail_on):
        told.update(failed=True, msg=verdict.in_one_line())
    return told
