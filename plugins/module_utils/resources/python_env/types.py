# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found of environments on a node, and the steps to what is wanted."""

from __future__ import annotations

from typing import Any, Mapping, Tuple

from ...core.environments import Tree
from ...core.folder_given import Folder
from ...core.frozen import frozen
from ...core.managed_files import Files
from ...core.resource import Action
from ...core.trees import Link


def building(path: str) -> str:
    """The file beside a tree that is there while it is built: an environment holds its own path, so that it is built
    where it stays. Who builds has it locked, and so do the programs that he started."""
    folder, name = path.rsplit("/", 1)
    return "{0}/.gpu_node.{1}.building".format(folder, name)


def workshop(path: str) -> str:
    """The folder beside a tree that stands for home, temporary files and downloads while it is built."""
    folder, name = path.rsplit("/", 1)
    return "{0}/.gpu_node.{1}.work".format(folder, name)


@frozen
class Machine:
    """What an environment is built for: ``cuda`` is the major version of the toolkit, or empty."""

    python: str
    arch: str
    cuda: str

    def __str__(self) -> str:
        parts = ["Python " + self.python if self.python else "", self.arch, "CUDA " + self.cuda if self.cuda else ""]
        return ", ".join(part for part in parts if part)


@frozen
class Inputs:
    """What decides which environments are wanted, beside the options: ``pythons``: (program, version as 3.11 or "");
    ``texts``: of lock files by path, None where one cannot be read; ``clones``: what the environments that are to be
    cloned have, by path, empty where there is none; ``missing``: what presets need and is not there."""

    arch: str = ""
    cuda: str = ""
    pythons: Tuple[Tuple[str, str], ...] = ()
    texts: Tuple[Tuple[str, Any], ...] = ()
    clones: Tuple[Tuple[str, Tuple[str, ...]], ...] = ()
    missing: Tuple[str, ...] = ()
    conda: str = ""


@frozen
class Half:
    """What an interrupted build left at ``path``. ``worked_on``: a program that it started still runs."""

    path: str
    worked_on: bool = False


@frozen
class State:
    """``folder``: where the environments lie, resolved; ``fault``: (thing, reason, remedy) why none can be there.
    ``occupied``: names in it that are not ours. ``shared``: it is on a network file system, where other nodes run from
    the trees too. ``busy``: who uses which tree. ``former``: the folder of an earlier run, where it still has trees of
    ours. ``extensions``: where users' extensions of PyTorch would be built."""

    inputs: Inputs = Inputs()
    files: Files = Files()
    declared: Mapping[str, Any] = {}
    folder: str = ""
    fault: Tuple[str, str, str] = ("", "", "")
    former: str = ""
    there: bool = False
    trees: Tuple[Tree, ...] = ()
    halves: Tuple[Half, ...] = ()
    leftovers: Tuple[str, ...] = ()
    links: Tuple[Link, ...] = ()
    occupied: Tuple[str, ...] = ()
    shared: bool = False
    systems: Tuple[Tuple[str, str], ...] = ()
    busy: Tuple[Tuple[str, str], ...] = ()
    extensions: Folder = Folder("")

    def link(self, path: str) -> Link:
        return next((one for one in self.links if one.path == path), Link(path))


@frozen
class MakeTop(Action):
    """``path``: a folder of root's for all environments."""

    path: str

    def describe(self) -> str:
        return "make the folder {0}".format(self.path)


@frozen
class RemoveHalf(Action):
    path: str

    def describe(self) -> str:
        return "remove {0}, which an interrupted build left".format(self.path)


@frozen
class BuildTree(Action):
    path: str
    name: str
    kind: str
    digest: str

    def describe(self) -> str:
        return "build the {0} environment {1} as {2} and verify it".format(self.kind, self.name, self.path)


@frozen
class RemoveTree(Action):
    path: str

    def describe(self) -> str:
        return "remove the environment {0}".format(self.path)
