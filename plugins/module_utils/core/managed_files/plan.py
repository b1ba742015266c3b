# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what happens to the files of one resource; no I/O."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

from ..declaration import Declare
from ..resource import Action, Refusal
from .types import Files, MakeFolder, RemoveFile, RemoveFolder, Seen, Wanted, WriteFile

_SHARED = "{0}: on a network file system, where other nodes have it too, so it stays; remove it when no node needs it"


def refusals(files: Files, wanted: Iterable[Wanted], remedy: str) -> Tuple[Refusal, ...]:
    """One for each wanted path where something lies that is not ours."""
    return tuple(
        Refusal(one.path, "it is there and is not ours", remedy) for one in wanted if files.seen(one.path).foreign
    )


def write(files: Files, wanted: Sequence[Wanted], keep: Iterable[str] = ()) -> List[Action]:
    """Folders, then files that differ; then away with those of an earlier run that are wanted no more. What other
    nodes work with stays.

    What is foreign must have been refused, or left out of ``wanted``. A file at one of ``keep`` is left as it is.
    """
    folders = {os.path.dirname(one.path) for one in wanted}
    needed = [one for one in files.missing_folders if any(_inside(folder, one) for folder in folders)]
    actions: List[Action] = [MakeFolder(folder) for folder in needed]
    for one in wanted:
        seen = files.seen(one.path)
        if (seen.kind, seen.text, seen.mode) != ("file", one.text, one.mode):
            actions.append(WriteFile(one.path, one.text, one.mode))
    paths = {one.path for one in wanted} | set(keep)
    gone = [path for path in files.former if path not in paths and path not in files.shared]
    return actions + [RemoveFile(path) for path in gone if files.seen(path).ours]


def _inside(folder: str, outer: str) -> bool:
    return folder == outer or folder.startswith(outer + "/")


def remembered(files: Files, paths: Iterable[str]) -> Dict[str, Any]:
    """What belongs into the section of the declaration, before the files are written."""
    made = files.made_folders + tuple(one for one in files.missing_folders if one not in files.made_folders)
    return {"files": sorted(paths), "made_folders": list(made)}


def remove(files: Files, paths: Iterable[str] = ()) -> List[Action]:
    """``absent``: our files of this run and of earlier ones, then the folders that were made, inner ones first.

    What other nodes work with stays.
    """
    every = dict.fromkeys(list(paths) + list(files.former))
    actions: List[Action] = [RemoveFile(one) for one in every if files.seen(one).ours and one not in files.shared]
    return actions + [RemoveFolder(folder) for folder in reversed(files.made_folders)]


def foreign_notes(files: Files, paths: Iterable[str] = ()) -> Tuple[str, ...]:
    """What ``absent`` says of a path that is somebody else's, or other nodes' too."""
    every = dict.fromkeys(list(paths) + list(files.former))
    notes = ["{0} is not ours and is left as it is".format(path) for path in every if files.seen(path).foreign]
    ours = [path for path in every if path in files.shared and files.seen(path).ours]
    if ours:
        notes.append(_SHARED.format(", ".join(ours)))
    return tuple(notes)


def after(files: Files, actions: Iterable[Action]) -> Files:
    """What will be found when these steps were taken; other kinds of steps are passed over."""
    found, missing, former, made = dict(files.found), files.missing_folders, files.former, files.made_folders
    for action in actions:
        if isinstance(action, WriteFile):
            found[action.path] = Seen("file", action.text, action.mode)
        elif isinstance(action, RemoveFile):
            found[action.path] = Seen()
        elif isinstance(action, MakeFolder):
            missing = tuple(one for one in missing if one != action.path)
        elif isinstance(action, Declare):
            former, made = named(action.content or {})
    return Files(tuple(found.items()), missing, former, made, files.shared)


def named(declared: Mapping[str, Any]) -> Tuple[Tuple[str, ...], Tuple[str, ...]]:
    """(files, folders made) of a section. A person may have edited it: what is no absolute path is passed over."""
    lists = [declared.get("files"), declared.get("made_folders")]
    files, made = (tuple(str(one) for one in each if str(one).startswith("/")) for each in map(_list, lists))
    return files, made


def _list(value: Any) -> List[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def text(files: Files) -> str:
    """Our files as diff mode shows them."""
    ours = sorted((path, seen.text) for path, seen in files.found if seen.ours)
    return "".join("==> {0} <==\n{1}".format(path, content) for path, content in ours)
