# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at the environments of a node: ours, what is left of builds, the links, the modulefiles, who uses what."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import re
import stat
from typing import Any, Iterable, List, Mapping, Optional, Tuple

from ...core import declaration, folder_given, managed_files, module_systems, mounts
from ...core.environments import SCRATCH_FOLDER, SECTION, Tree, read_mark
from ...core.frozen import replaced
from ...core.host import Host
from ...core.open_files import named_by
from ...core.resource import NodeError
from ...core.trees import is_partial, look_at_link
from ...slurm import scratch
from . import user_files
from .options import AUTO, CONDA, NONE, VENV, Desired
from .plan import may_go
from .presets import PRESETS
from .types import Half, Inputs, State, building

_BUILDING = re.compile(r"\.gpu_node\.(.+)\.building")
_WORK = re.compile(r"\.gpu_node\.(.+)\.work")
_PLAIN = re.compile(r"(?:/(?!\.\.?(?:/|$))[A-Za-z0-9._+@-]+)+")
_CONDA = tuple(
    "{0}/bin/{1}".format(folder, name)
    for name in ("conda", "mamba", "micromamba")
    for folder in ("/opt/conda", "/opt/miniforge3", "/opt/miniconda3", "/opt/anaconda3", "/usr/local", "/usr")
) + ("/opt/conda/condabin/conda",)
_CUDA = "/usr/local/cuda"
_VERSION = "import sys; print('{0}.{1}'.format(*sys.version_info[:2]))"
# What a Python has installed, as requirements. A package without a version has broken metadata.
_INSTALLED = """
import importlib.metadata as m
print("\\n".join(sorted({d.metadata["Name"] + "==" + d.version for d in m.distributions() if d.version})))
"""
_PROGRAM_SECONDS = 30.0


def observe(host: Host, desired: Desired) -> State:
    sections = declaration.read(host)
    declared = sections.get(SECTION, {})
    folder, fault = _folder(host, desired, declared, sections.get(scratch.SECTION))
    former = _former(declared)
    names = host.names(folder) if folder and not fault[0] else []
    trees = tuple(_trees(host, folder, names))
    begun = ["{0}/{1}".format(folder, one.group(1)) for one in map(_BUILDING.fullmatch, names) if one]
    halves = tuple(Half(path, worked_on(host, path)) for path in begun)
    inputs = inputs_of(host, desired)
    systems = tuple(module_systems.look(host, desired.modulefiles, desired.modulefile_dir)) if desired.present else ()
    wanted = user_files.paths() + [
        user_files.modulefile_path(kind, place, desired, one.name)
        for kind, place in systems
        for one in desired.environments
    ]
    known = {one.name for one in trees} | {one.name for one in desired.environments}
    ours = {one.path for one in trees}
    state = State(
        inputs=inputs,
        files=managed_files.observe(host, wanted + (["{0}/any".format(folder)] if folder else []), declared),
        declared=declared,
        folder=folder,
        fault=fault,
        former=former if former != folder and _trees(host, former, host.names(former)) else "",
        there=bool(folder) and os.path.isdir(host.path(folder)),
        trees=trees,
        halves=halves,
        leftovers=tuple("{0}/{1}".format(folder, name) for name in names if _left(name, folder, begun)),
        links=tuple(look_at_link(host, "{0}/{1}".format(folder, name)) for name in sorted(known)) if folder else (),
        occupied=tuple(
            "{0}/{1}".format(folder, name)
            for name in names
            if not name.startswith(".") and "{0}/{1}".format(folder, name) not in [*ours, *begun]
        ),
        shared=bool(folder) and bool(mounts.on_network(host, [folder])),
        systems=systems,
        extensions=_extensions(host, desired),
    )
    # Reading what all processes name takes its time, so it is done only where a tree has to go.
    going = may_go(state, desired)
    by_path = {one.path: ["{0}/{1}".format(folder, one.name)] for one in going}
    return replaced(state, busy=tuple(sorted(named_by(host, by_path).items())))


def inputs_of(host: Host, desired: Desired) -> Inputs:
    if not desired.present:
        return Inputs()
    wanted = desired.environments
    needs = {need for one in wanted if one.preset for need, dummy in PRESETS[one.preset].needs}
    return Inputs(
        arch=os.uname().machine,
        cuda=_cuda(host) if desired.cuda == AUTO else "" if desired.cuda == NONE else desired.cuda,
        pythons=tuple(
            (path, _asked(host, path, _VERSION)) for path in sorted({o.python for o in wanted if o.kind == VENV})
        ),
        texts=tuple((path, host.read(path)) for path in sorted({o.lock for o in wanted if o.lock.startswith("/")})),
        clones=tuple((o.clone_of, _cloned(host, o.clone_of, o.kind)) for o in wanted if o.clone_of),
        missing=tuple(sorted(need for need in needs if not _has(host, need))),
        conda=_conda(host, desired) if any(one.kind == CONDA for one in wanted) else "",
    )


def _folder(
    host: Host, desired: Desired, declared: Mapping[str, Any], of_scratch: Optional[Mapping[str, Any]]
) -> Tuple[str, Tuple[str, str, str]]:
    """(where the environments lie, why they cannot)."""
    places = mounts.of_scratch(of_scratch)
    found = scratch.mounted(host, places)
    folder = desired.folder if desired.present else _former(declared) or desired.folder
    if not folder:
        if found is None:
            if not desired.environments and not declared:
                return "", ("", "", "")
            what = "is not mounted" if places else "is not declared"
            return "", ("the scratch", "it {0}, and no folder is given".format(what), "mount it, or give folder")
        folder = "{0}/{1}".format(found.point, SCRATCH_FOLDER)
    for point in places:
        if folder.startswith(point + "/") and mounts.at(mounts.read(host), point) is None:
            reason = "it is to lie on the scratch, which is not mounted"
            return folder, (folder, reason, "mount {0}, or give another folder".format(point))
    return folder, _unsafe(host, folder)


def _former(declared: Mapping[str, Any]) -> str:
    """A person may have edited the declaration: what is no absolute path is passed over."""
    folder = str(declared.get("folder", ""))
    return folder if _PLAIN.fullmatch(folder) else ""


def _unsafe(host: Host, folder: str) -> Tuple[str, str, str]:
    """Who else may put something there: what lies in it runs in everybody's jobs, and root writes there."""
    trusted = {0, os.geteuid(), os.stat(host.path("/")).st_uid}
    path = folder
    while path != "/":
        with contextlib.suppress(OSError):
            found = os.stat(host.path(path))
            own = path == folder
            if not stat.S_ISDIR(found.st_mode):
                return path, "it is no folder", "move it away, or give another folder"
            if found.st_uid not in trusted:
                reason = "it belongs to user {0}, who could change what all jobs run".format(found.st_uid)
                return path, reason, "give another folder, or make it root's"
            if found.st_mode & 0o022 and (own or not found.st_mode & stat.S_ISVTX):
                reason = "others than root may write to it, and could change what all jobs run"
                return path, reason, "run 'chmod go-w {0}', or give another folder".format(path)
        path = os.path.dirname(path)
    return "", "", ""


def _trees(host: Host, folder: str, names: Iterable[str]) -> List[Tree]:
    trees = []
    for name in names:
        path = "{0}/{1}".format(folder, name)
        if not name.startswith(".") and not os.path.islink(host.path(path)):
            mark = read_mark(host, path)
            if mark is not None:
                trees.append(mark)
    return trees


def worked_on(host: Host, path: str) -> bool:
    """The lock of a build is kept by the programs that it started, also when it was killed itself."""
    try:
        handle = os.open(host.path(building(path)), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(handle)


def _left(name: str, folder: str, begun: Iterable[str]) -> bool:
    work = _WORK.fullmatch(name)
    return is_partial(name) or (work is not None and "{0}/{1}".format(folder, work.group(1)) not in begun)


def _cuda(host: Host) -> str:
    """The major version of the toolkit."""
    with contextlib.suppress(ValueError, TypeError, KeyError):
        version = json.loads(host.read(_CUDA + "/version.json") or "")["cuda"]["version"]
        return str(int(str(version).partition(".")[0]))
    told = re.match(r"CUDA Version (\d+)", host.read(_CUDA + "/version.txt") or "")
    return told.group(1) if told else ""


def _asked(host: Host, python: str, code: str) -> str:
    """What a Python prints; empty: it is none, or does not answer."""
    try:
        return host.run(
            [host.path(python) if _captured(host, python) else python, "-I", "-c", code], _PROGRAM_SECONDS
        ).stdout.strip()
    except NodeError:
        return ""


def _captured(host: Host, path: str) -> bool:
    return host.root != "/" and os.path.exists(host.path(path))


def _cloned(host: Host, path: str, kind: str) -> Tuple[str, ...]:
    if kind == VENV:
        lines = _asked(host, path + "/bin/python", _INSTALLED).splitlines()
        return tuple(line for line in lines if not line.lower().startswith("pip=="))
    names = [name[: -len(".json")] for name in host.names(path + "/conda-meta") if name.endswith(".json")]
    # What pip has put there is cloned with it.
    by_pip = glob.glob(host.path(path) + "/lib/python3*/site-packages/*.dist-info/RECORD")
    return tuple(names + sorted(os.path.basename(os.path.dirname(one)) for one in by_pip)) if names else ()


def _has(host: Host, need: str) -> bool:
    if need.startswith("/"):
        return host.exists(need)
    return host.exists("{0}/bin/{1}".format(_CUDA, need)) or host.which(need) is not None


def _conda(host: Host, desired: Desired) -> str:
    if desired.conda != AUTO:
        return desired.conda if host.exists(desired.conda) else ""
    return next((path for path in _CONDA if host.exists(path)), "")


def _extensions(host: Host, desired: Desired) -> folder_given.Folder:
    """Whether users' extensions would lie on a network file system; a server that does not answer is passed over."""
    folder = (desired.extensions_folder or desired.user_folder).partition("/$USER")[0] if desired.present else ""
    return folder_given.look(host, folder) if folder else folder_given.Folder("")
