# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which environments are wanted, whole: from the options, the presets, the locks and the machine. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from ...core import urls
from ...core.environments import tree_name
from ...core.frozen import frozen
from ...core.resource import NodeError, Refusal
from . import locks
from .options import CONDA, VENV, Desired, Environment
from .presets import PRESETS, Preset
from .types import Inputs, Machine


@frozen
class Wish:
    """``first`` and ``then``: the lines for pip, or those of conda in ``first``; ``packages``: those of a conda list.
    ``spec``: a digest of all but the machine, so that builds for two machines are known as one wish, and of no access
    key, which changes while what it fetches stays."""

    name: str
    kind: str
    digest: str
    spec: str
    machine: Machine
    python: str
    program: str = ""
    first: Tuple[str, ...] = ()
    then: Tuple[str, ...] = ()
    packages: Tuple[locks.Package, ...] = ()
    clone_of: str = ""
    locked: bool = False
    variables: Mapping[str, str] = {}
    imports: Tuple[str, ...] = ()
    commands: Tuple[str, ...] = ()
    preset: str = ""

    def path(self, folder: str) -> str:
        return "{0}/{1}".format(folder, tree_name(self.name, self.digest))


def wishes(inputs: Inputs, desired: Desired) -> Tuple[List[Wish], List[Refusal], List[str]]:
    """(environments, why some cannot be made, what the reader should know)."""
    found: List[Wish] = []
    refusals: List[Refusal] = []
    notes: List[str] = []
    for one in desired.environments if desired.present else ():
        made = _wish(inputs, desired, one)
        if isinstance(made, Refusal):
            refusals.append(made)
            continue
        found.append(made)
        notes += _notes(one, made, desired)
    return found, refusals, notes


def _notes(one: Environment, wish: Wish, desired: Desired) -> List[str]:
    thing = "environment {0}".format(one.name)
    preset = PRESETS.get(one.preset, Preset(()))
    notes = []
    if preset.frozen_for:
        notes.append("{0}: the preset {1} is frozen: {2}".format(thing, one.preset, preset.frozen_for))
    if not wish.locked and not one.clone_of:
        notes.append(
            "{0}: its packages are not locked, so another build of it may differ; its {1} can be given as lock".format(
                thing, "gpu_node.lock" if wish.kind == VENV else "list ('conda list --explicit --sha256')"
            )
        )
    if wish.then and not desired.cuda_architectures:
        notes.append(
            "{0}: {1} is built for the GPUs of the machine that builds it; where that has none, set "
            "cuda_architectures".format(thing, ", ".join(map(locks.requirement_name, wish.then)))
        )
    return notes


def _wish(inputs: Inputs, desired: Desired, one: Environment) -> Union[Wish, Refusal]:
    thing = "environment {0}".format(one.name)
    preset = PRESETS.get(one.preset, Preset(()))
    version = dict(inputs.pythons).get(one.python, "") if one.kind == VENV else ""
    machine = Machine(version, inputs.arch, inputs.cuda)
    refusal = _unfit(inputs, one, preset, machine, thing)
    if refusal is not None:
        return refusal
    variables = dict(_variables(desired), **dict(preset.variables, **one.variables))
    shared: Dict[str, Any] = {
        "name": one.name,
        "kind": one.kind,
        "machine": machine,
        "python": one.python if one.kind == VENV else "",
        "program": inputs.conda if one.kind == CONDA else "",
        "clone_of": one.clone_of,
        "imports": tuple(dict.fromkeys(preset.imports + one.verify_imports)),
        "commands": tuple(dict.fromkeys(preset.commands + one.verify_commands)),
        "preset": one.preset,
        "locked": bool(one.lock),
    }
    try:
        if one.kind == CONDA:
            shared.update(_conda(inputs, desired, one, thing))
        else:
            shared.update(_pip(inputs, one, preset, thing))
    except NodeError as error:
        return Refusal(error.thing, error.reason, error.remedy)
    if shared.get("then"):
        shared["variables"] = variables
    what = {
        "kind": one.kind,
        "first": [urls.same(one) for one in shared.get("first", ())],
        "then": [urls.same(one) for one in shared.get("then", ())],
        "packages": [[each.file, each.sha256] for each in shared.get("packages", ())],
        "cloned": [urls.same(each) for each in dict(inputs.clones).get(one.clone_of, ())],
        "variables": dict(shared.get("variables", {})),
    }
    spec = _digest(what)
    where = [machine.python, machine.arch, machine.cuda]
    return Wish(spec=spec, digest=_digest({"spec": spec, "machine": where}), **shared)


def _digest(what: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def _variables(desired: Desired) -> Dict[str, str]:
    """What builds for GPUs read: of PyTorch's extensions, so of DeepSpeed, and of Horovod."""
    listed = desired.cuda_architectures
    if not listed:
        return {}
    plain = [one.replace(".", "").rstrip("a") for one in listed]
    return {"TORCH_CUDA_ARCH_LIST": ";".join(listed), "HOROVOD_BUILD_CUDA_CC_LIST": ",".join(dict.fromkeys(plain))}


def _unfit(inputs: Inputs, one: Environment, preset: Preset, machine: Machine, thing: str) -> Optional[Refusal]:
    if one.kind == CONDA:
        if not inputs.conda:
            remedy = "install one of them, or name it with the option conda"
            return Refusal(thing, "neither conda, mamba nor micromamba is on the node", remedy)
        return None
    if not machine.python:
        reason = "{0} is no Python 3 that can be run".format(one.python)
        return Refusal(thing, reason, "install it, or give another one as python")
    version = tuple(int(part) for part in machine.python.split("."))
    oldest, newest = preset.pythons
    if version < oldest or (newest is not None and version > newest):
        span = "{0}.{1}".format(*oldest) + (" to {0}.{1}".format(*newest) if newest else " or newer")
        reason = "the preset {0} wants Python {1}, and {2} is {3}".format(one.preset, span, one.python, machine.python)
        return Refusal(thing, reason, "give another Python as python")
    if preset.cuda and machine.cuda and machine.cuda != preset.cuda:
        reason = "the preset {0} is of CUDA {1}, and this node has CUDA {2}".format(
            one.preset, preset.cuda, machine.cuda
        )
        return Refusal(thing, reason, "set cuda to {0} and have that toolkit in /usr/local/cuda".format(preset.cuda))
    gone = [hint for need, hint in preset.needs if need in inputs.missing]
    if gone:
        return Refusal(thing, "its build needs {0}".format(", ".join(gone)), "install that on the node that builds")
    return None


def _text(inputs: Inputs, one: Environment, thing: str) -> str:
    if not one.lock.startswith("/"):
        return one.lock
    text = dict(inputs.texts).get(one.lock)
    if text is None:
        raise NodeError(thing, "its lock {0} cannot be read".format(one.lock), "put the file there, on the node itself")
    return str(text)


def _cloned(inputs: Inputs, one: Environment, thing: str) -> Tuple[str, ...]:
    found = dict(inputs.clones).get(one.clone_of, ())
    if not found:
        what = "environment of conda" if one.kind == CONDA else "environment with a Python"
        raise NodeError(thing, "{0} is no {1}".format(one.clone_of, what), "correct clone_of, or its kind")
    return found


def _pip(inputs: Inputs, one: Environment, preset: Preset, thing: str) -> Dict[str, Any]:
    sources = {locks.same(name) for name in preset.source_packages + one.source_packages}
    if one.lock:
        lines = [each.text for each in locks.pip("{0}, its lock".format(thing), _text(inputs, one, thing))]
    elif one.clone_of:
        lines = sorted(_cloned(inputs, one, thing))
    else:
        own = {locks.requirement_name(line) for line in one.packages}
        lines = sorted(
            {line for line in preset.packages if locks.requirement_name(line) not in own} | set(one.packages)
        )
    unknown = sources - {locks.requirement_name(line) for line in lines}
    if unknown:
        reason = "{0} is to be built and is not among its packages".format(", ".join(sorted(unknown)))
        raise NodeError(thing, reason, "list it there too")
    then = tuple(line for line in lines if locks.requirement_name(line) in sources)
    return {"first": tuple(line for line in lines if line not in then), "then": then}


def _conda(inputs: Inputs, desired: Desired, one: Environment, thing: str) -> Dict[str, Any]:
    if one.lock:
        return {"packages": locks.conda("{0}, its lock".format(thing), _text(inputs, one, thing))}
    if one.clone_of:
        _cloned(inputs, one, thing)
        return {}
    channels = [word for channel in desired.channels for word in ("--channel", channel)]
    return {"first": tuple(["--override-channels", *channels, *sorted(one.packages)])}
