# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""/etc/gpu_node/node.json: what was declared for this node, one section a resource.

The boot units re-apply it with no controller at hand. A resource that is to outlive a reboot plans a
:class:`Declare` as its first action, so a power cut in the middle leaves the wish on record.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, FrozenSet, Iterable, Mapping, Optional, Sequence, Tuple

from . import safe_files, trust
from .frozen import frozen
from .host import Host
from .resource import Action, NodeError, Step

PATH = "/etc/gpu_node/node.json"
#: Values of :data:`PATH` that only root may read: those of the options with ``private`` (:mod:`.options`).
PRIVATE = "/etc/gpu_node/private.json"
#: Options that name programs, or a file that names some: root of a hook runs none of a file of another user.
PROGRAMS = ("command", "keepalive", "on_expiry", "redeploy_command", "scontrol", "slurm_conf")
# The key of a section whose private options are there.
_MARK = "private"
# In place of a command that cannot be read.
_LOST = [PRIVATE]
#: What is wanted of this node as a whole, which ``gpunode converge`` goes by (node/wish.py).
WISH = "/etc/gpu_node/declaration.json"


@frozen
class Declare(Action):
    """Set one section of the declaration; ``content`` None takes the section out. ``private``: the names of its
    options that only root may read."""

    section: str
    content: Optional[Mapping[str, Any]]
    private: Tuple[str, ...] = ()

    def describe(self) -> str:
        if self.content is None:
            return "take section {0} out of {1}".format(self.section, PATH)
        return "declare section {0} in {1}".format(self.section, PATH)


class Section(Dict[str, Any]):
    """A section as it was read. ``apart``: the names that :data:`PRIVATE` has the values of; ``hidden``: those of them
    that this user cannot read, which the section lacks."""

    apart: FrozenSet[str] = frozenset()
    hidden: FrozenSet[str] = frozenset()


def read(host: Host) -> Dict[str, Dict[str, Any]]:
    """All sections; empty when nothing was declared. Users other than root get them without the commands. For root a
    lost command is the path of the private file, which cannot be run: what needs it fails, and a converge repairs it.

    From a file that another user can write to, root takes no program. Only hooks of a job read such a file
    (:mod:`.own_directories`).

    :raises NodeError: when the file cannot be read, or is not what we write (cut short by a full disk, edited by hand).
    """
    text = host.read(PATH)
    if text is None:
        text = host.read_or_fail(PATH)
    found = {name: Section(section) for name, section in _sections(PATH, text).items()}
    marked = {name: section.pop(_MARK) for name, section in found.items() if _MARK in section}
    for name, keys in marked.items():
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            thing = "section {0} of {1}".format(name, PATH)
            raise NodeError(thing, "its {0} is not a list of names".format(_MARK), "converge the node again")
    if os.geteuid() == 0 and any(True for dummy in trust.of_declaration(host)):
        return {
            name: {key: section[key] for key in section if key not in (_MARK, *PROGRAMS)}
            for name, section in found.items()
        }
    private = _private(host) if marked else {}
    for name, keys in marked.items():
        known = private.get(name, {})
        lost = [key for key in keys if key not in known]
        found[name].update(known)
        found[name].apart = frozenset(keys)
        if os.geteuid() == 0:
            found[name].update(dict.fromkeys(lost, _LOST))
        else:
            found[name].hidden = frozenset(lost)
    return dict(found)


def _private(host: Host) -> Dict[str, Dict[str, Any]]:
    """Nothing where this user may not read it, or it is damaged."""
    try:
        return _sections(PRIVATE, host.read(PRIVATE))
    except NodeError:
        return {}


def _keep_private(host: Host) -> None:
    """Before the file is written: a damaged one is kept aside.

    :raises NodeError: it cannot be read now, and its commands would be lost.
    """
    try:
        _sections(PRIVATE, host.read_or_fail(PRIVATE))
    except NodeError as error:
        if isinstance(error.__cause__, OSError):
            raise
        safe_files.set_aside(host.path(PRIVATE), PRIVATE, error.reason)


def _sections(path: str, text: Optional[str]) -> Dict[str, Dict[str, Any]]:
    if text is None:
        return {}
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        remedy = "correct or remove it, then converge the node again"
        raise NodeError(path, "it is not valid JSON ({0})".format(error), remedy) from error
    if not isinstance(content, dict):
        raise NodeError(path, "it is not an object of sections", "remove it, then converge the node again")
    for name, section in content.items():
        if not isinstance(section, dict):
            thing = "section {0} of {1}".format(name, path)
            raise NodeError(thing, "it is not an object", "take the section out, then converge the node again")
    return content


def split(
    sections: Mapping[str, Mapping[str, Any]], names: Mapping[str, Iterable[str]]
) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Pure: the content of the file for all users, and of the file for root. ``names``: the private options."""
    public: Dict[str, Any] = {}
    private: Dict[str, Any] = {}
    for name, section in sections.items():
        own = {key: section[key] for key in names.get(name, ()) if section.get(key)}
        public[name] = {key: value for key, value in section.items() if key not in own}
        if own:
            private[name] = own
            public[name][_MARK] = sorted(own)
    return public, private


def plan(
    declared: Mapping[str, Any], section: str, content: Optional[Mapping[str, Any]], private: Sequence[str] = ()
) -> Optional[Declare]:
    """The action that makes one section as wanted, or None when it is so already. ``private``: as in :class:`Declare`.

    A private option that all users can read, as the previous release wrote it, is a difference. One that this user
    cannot read is none.
    """
    # Compared as JSON, since that is what is stored: tuples become lists, keys become strings.
    wanted = None if content is None else json.loads(json.dumps(content))
    known = declared.get(section)
    open_to_all = isinstance(known, Section) and any(known.get(key) for key in private if key not in known.apart)
    if known == _readable(wanted, known) and not open_to_all:
        return None
    return Declare(section, wanted, tuple(private))


def _readable(wanted: Any, known: Any) -> Any:
    if wanted is None or not isinstance(known, Section):
        return wanted
    return {key: value for key, value in wanted.items() if key not in known.hidden}


def text(declared: Mapping[str, Any], sections: Sequence[str], actions: Iterable[Action] = ()) -> str:
    """These sections as diff mode shows them, when these steps were taken; other kinds of steps are passed over."""
    found = {name: declared[name] for name in sections if declared.get(name) is not None}
    for action in actions:
        if isinstance(action, Declare) and action.section in sections:
            found.pop(action.section, None)
            found.update({} if action.content is None else {action.section: action.content})
    return json.dumps(found, indent=2, sort_keys=True) + "\n" if found else ""


def apply(host: Host, action: Declare, dummy: object = None) -> None:
    """Write the section; each file is removed with its last section."""
    with host.lock("declaration"):
        sections = read(host)
        _keep_private(host)
        if action.content is None:
            sections.pop(action.section, None)
        else:
            sections[action.section] = dict(action.content)
        names: Dict[str, Iterable[str]] = {
            name: section.apart for name, section in sections.items() if isinstance(section, Section)
        }
        names[action.section] = action.private
        public, private = split(sections, names)
        if private:
            # A lost command of another section stays lost: its placeholder is not written.
            private = {name: {key: one for key, one in some.items() if one != _LOST} for name, some in private.items()}
            # First: a section without its command would be obeyed without it.
            host.write(PRIVATE, json.dumps(private, indent=2, sort_keys=True) + "\n", mode=0o600)
        if public:
            host.write(PATH, json.dumps(public, indent=2, sort_keys=True) + "\n")
        else:
            host.remove(PATH)
        if not private:
            host.remove(PRIVATE, folder_too=not public)


#: For the table of a resource that declares something.
STEPS: Mapping[type, Step] = {Declare: apply}
