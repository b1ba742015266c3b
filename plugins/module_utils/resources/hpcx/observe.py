# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at HPC-X on a node: ours, that of the image, the link, the modulefiles, and who runs from it."""

from __future__ import annotations

import functools
import glob
import os
import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from ...core import declaration, managed_files, module_systems, mounts
from ...core.frozen import frozen, replaced
from ...core.host import Host
from ...core.module_systems import SUFFIXES
from ...core.open_files import users
from ...core.state_file import StateFile, document
from ...core.trees import is_partial, look_at_link
from .choose import link_path, may_go
from .options import Desired
from .types import MARK_NAME, SECTION, State, Tree

_VERSION = re.compile(r"v?(\d+(?:\.\d+)+)")
_IN_NAME = re.compile(r"hpcx-v?(\d+(?:\.\d+)+)")
_PLAIN = re.compile(r"[A-Za-z0-9._+@/-]+")


def observe(host: Host, desired: Desired) -> State:
    declared = declaration.read(host).get(SECTION, {})
    prefixes = prefixes_of(declared, desired)
    trees = tuple(tree for prefix in prefixes for tree in _ours(host, prefix))
    found = _found(host, desired, {tree.path for tree in trees})
    systems = tuple(module_systems.look(host, desired.modulefiles, desired.modulefile_dir))
    link = link_path(desired)
    versions = [tree.version for tree in trees + found] + [desired.version]
    paths = possible_modulefiles(systems, desired, versions) + [link]
    target = "{0}/{1}".format(desired.prefix, desired.version)
    state = State(
        files=managed_files.observe(host, paths, declared, share=True),
        declared=declared,
        trees=trees,
        found=found,
        links=tuple(look_at_link(host, path) for path in dict.fromkeys([link] + _text(declared.get("link")))),
        prefix=_prefix(host, desired.prefix),
        occupied=bool(desired.version)
        and os.path.lexists(host.path(target))
        and target not in [tree.path for tree in trees],
        leftovers=tuple(
            "{0}/{1}".format(prefix, name) for prefix in prefixes for name in host.names(prefix) if is_partial(name)
        ),
        systems=systems,
        shared=mounts.on_network(host, prefixes),
    )
    # Reading what all processes have mapped takes its time, so it is done only where a tree has to go.
    busy = users(host, [tree.path for tree in may_go(state, desired)])
    return replaced(state, busy=tuple(sorted(busy.items())))


def prefixes_of(declared: Mapping[str, Any], desired: Desired) -> List[str]:
    """Where trees of ours can be. A person may have edited the declaration: what is no absolute path is passed over."""
    former = declared.get("prefixes")
    listed = [one for each in former for one in _text(each)] if isinstance(former, list) else []
    return list(dict.fromkeys([desired.prefix] + listed))


def _text(value: Any) -> List[str]:
    return [value] if isinstance(value, str) and value.startswith("/") and _PLAIN.fullmatch(value) else []


def possible_modulefiles(
    systems: Iterable[Tuple[str, str]], desired: Desired, versions: Iterable[Optional[str]]
) -> List[str]:
    names = [desired.module_name] + ["{0}-{1}".format(desired.module_name, one) for one in versions if one]
    return [
        "{0}/{1}{2}".format(folder, name, SUFFIXES[kind]) for kind, folder in systems for name in dict.fromkeys(names)
    ]


def looks_like_hpcx(host: Host, path: str) -> bool:
    return os.path.isfile(host.path(path + "/hpcx-init.sh")) and os.path.isfile(host.path(path + "/ompi/bin/mpirun"))


def _ours(host: Host, prefix: str) -> List[Tree]:
    trees = []
    for name in host.names(prefix):
        path = "{0}/{1}".format(prefix, name)
        if is_partial(name) or os.path.islink(host.path(path)):
            continue
        mark = read_mark(host, path)
        if mark is not None:
            trees.append(Tree(path, mark.version, mark.sha256, mark.installed))
    return trees


@frozen
class Mark:
    """What a tree says of itself. ``path``: it is not a copy."""

    path: str
    version: str
    sha256: str
    installed: int


#: The directory may be on a file server where root is another user.
MARK = StateFile("hpcx", "{0}/" + MARK_NAME, functools.partial(document, Mark), mode=0o644, private=False)


def read_mark(host: Host, path: str) -> Optional[Mark]:
    """None where there is no mark of ours, or it was written for another path."""
    mark = MARK.read(host, path)[0]
    return mark if mark is not None and mark.path == path else None


def _found(host: Host, desired: Desired, ours: Iterable[str]) -> Tuple[Tree, ...]:
    """Trees that others put there, each once, by its own path and not by that of a link to it."""
    trees: Dict[str, Tree] = {}
    for pattern in desired.adopt_paths:
        for path in sorted(glob.glob(host.path(pattern))):
            real = host.real_path("/" + os.path.relpath(path, host.root))
            if real in trees or real in ours or not _PLAIN.fullmatch(real) or not looks_like_hpcx(host, real):
                continue
            if not any(is_partial(part) for part in real.split("/")):
                trees[real] = Tree(real, _version(host, real))
    return tuple(trees.values())


def _version(host: Host, path: str) -> Optional[str]:
    told = _VERSION.search((host.read(path + "/VERSION") or "")[:200]) or _IN_NAME.search(os.path.basename(path))
    return told.group(1) if told else None


def _prefix(host: Host, path: str) -> str:
    if not os.path.lexists(host.path(path)):
        return "missing"
    if looks_like_hpcx(host, path):
        return "hpcx"
    return "folder" if os.path.isdir(host.path(path)) else "other"
