# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of environments on a node; what a user gets wrong is said here."""

from __future__ import annotations

import re
import urllib.parse
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ...core import module_systems
from ...core.options import option, options, state
from ...core.resource import NodeError, together
from .presets import PRESETS, architectures

VENV, CONDA = "venv", "conda"
AUTO, NONE = "auto", "none"
_NAME = (r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}", "name of an environment", "use letters, digits and _.+-")
_PATH = re.compile(r"(?:/(?!\.\.?(?:/|$))[A-Za-z0-9._+@-]+)+")
_USER_PATH = re.compile(r"(?:/(?:(?!\.\.?(?:/|$))[A-Za-z0-9._+@-]+|\$USER))+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REQUIREMENT = (
    r"[A-Za-z0-9][^\x00-\x1f\x7f]*",
    "requirement",
    "write it as pip or conda takes it, such as torch==2.4.1; options of pip have options here",
)
_IMPORT = (r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*", "module of Python", "give one such as torch")
_LINE = (r"[^\x00-\x1f\x7f]+", "single line of text", "give each command as one line")
_ARCHITECTURE = (r"[0-9]{1,2}\.[0-9]a?", "compute capability", "give one such as 8.0 (A100) or 9.0 (H100)")
_MODULE = (r"[A-Za-z0-9][A-Za-z0-9._+-]*", "folder of modules", "give one such as env")
_CUDA = (r"auto|none|[1-9][0-9]?", "major version of CUDA", "give auto, none, or a number such as 12")
# Set by us, or what would lead a build astray.
_OURS = ("HOME", "TMPDIR", "PATH", "PYTHONHOME", "PYTHONPATH", "LD_PRELOAD")


def _texts(given: Mapping[str, Any]) -> Dict[str, str]:
    """Values as a shell would have written them."""
    words = {True: "1", False: "0", None: ""}
    return {
        str(name): words[value] if value is None or isinstance(value, bool) else str(value)
        for name, value in given.items()
    }


@options
class Environment:
    """One environment. What a preset asks for comes first, and what is given here after it."""

    name: str = option(..., "Its name, by which the link and the modulefile are called.", form=_NAME)
    kind: str = option(VENV, "What it is made with.", choices=(VENV, CONDA))
    preset: str = option(
        "",
        "A set of packages, build variables and checks that is known here; C(docs/python_env.md) lists them. Those "
        "whose projects have ended are frozen, and a note says why.",
        choices=("", *PRESETS),
    )
    packages: Tuple[str, ...] = option(
        (), "What is installed, as requirements of pip or specifications of conda.", form=_REQUIREMENT
    )
    lock: str = option(
        "",
        [
            "The exact packages in place of C(packages) and of those of C(preset), as text or as an absolute path on "
            "the node.",
            "For V(venv) requirements with C(--hash=sha256:...), which pip then demands of every package; for V(conda) "
            "an explicit list, each package with its SHA-256.",
        ],
    )
    clone_of: str = option(
        "",
        "An environment of the site, as an absolute path, whose packages this one gets: of a venv the same versions, "
        "of one of conda all of it.",
    )
    python: str = option("/usr/bin/python3", "The Python that a V(venv) is made with.", kind="path")
    source_packages: Tuple[str, ...] = option(
        (),
        "Packages of a V(venv) that are built on the node, after all others. Of any other package only a wheel is "
        "taken, since building one runs its code as root.",
        form=_REQUIREMENT,
    )
    variables: Mapping[str, str] = option(
        {}, "Variables for building, such as V(HOROVOD_WITH_MPI). They win over those of C(preset).", read=_texts
    )
    verify_imports: Tuple[str, ...] = option((), "Modules that have to be importable.", form=_IMPORT)
    verify_commands: Tuple[str, ...] = option(
        (),
        "Commands that have to succeed, run by bash with the environment first in the search path. Until all have, the "
        "link stays where it was.",
        form=_LINE,
    )

    def __post_init__(self) -> None:
        wrong: List[NodeError] = []
        thing = "option " + ("lock" if self.lock else "clone_of" if self.clone_of else "packages")
        if self.lock and (self.packages or self.clone_of):
            wrong.append(NodeError(thing, "a lock says already what is installed", "leave out packages and clone_of"))
        if self.clone_of and self.preset:
            wrong.append(NodeError(thing, "a clone has the packages of the other one", "leave out preset"))
        if not (self.lock or self.packages or self.clone_of or self.preset):
            wrong.append(NodeError(thing, "nothing is to be installed", "give packages, preset, lock or clone_of"))
        if self.kind == CONDA and (self.source_packages or self.preset):
            name = "source_packages" if self.source_packages else "preset"
            wrong.append(NodeError("option " + name, "it is of kind venv alone", "leave it out, or set kind: venv"))
        for name in ("clone_of", "python"):
            value = getattr(self, name)
            if value and not _PATH.fullmatch(value.rstrip("/")):
                wrong.append(NodeError("option " + name, "{0!r} is no absolute path".format(value), "give one"))
        if self.lock.startswith("/") and not _PATH.fullmatch(self.lock):
            wrong.append(NodeError("option lock", "{0!r} is no absolute path".format(self.lock), "give one"))
        for name, value in self.variables.items():
            if not _VARIABLE.fullmatch(name) or name in _OURS or not value.isprintable():
                reason = "{0}={1!r} cannot be set here".format(name, value)
                remedy = "use letters, digits and _, one line, and none of " + ", ".join(_OURS)
                wrong.append(NodeError("option variables", reason, remedy))
        if wrong:
            raise together(wrong)


@options
class Desired:
    """``folder`` empty: ``envs`` on the scratch that is declared for this node."""

    _for_absent = ("folder",)

    present: bool = state(
        "V(present) builds the environments and removes those of ours that are no longer wanted. V(absent) removes all "
        "of ours, with their modulefiles and what was written for users."
    )
    folder: str = option(
        "",
        [
            "Where the environments lie. On a folder that all nodes see one node builds for all; on a scratch of its "
            "own each node does, and does again when the scratch was made anew.",
            "Empty for V(envs) on the scratch of this node (module M(trainyard.gpu_node.nvme_scratch)).",
        ],
    )
    environments: Tuple[Environment, ...] = option((), "The environments.", inner=Environment)
    keep: int = option(
        1,
        "How many former builds of an environment stay, the latest first. One that a process uses is not removed, "
        "which is a note.",
        bounds=(0, 100),
    )
    index_url: str = option("", "The package index of pip. Empty for pip's own.")
    find_links: str = option(
        "", "A folder of the node with the files of packages, in place of an index: no network is used."
    )
    channels: Tuple[str, ...] = option(
        ("conda-forge",), "Channels of conda, where packages are not locked.", form=_LINE
    )
    conda: str = option(
        AUTO,
        "The program that makes environments of conda, as a path; V(auto) looks for conda, mamba and micromamba where "
        "they are usually installed.",
    )
    cuda: str = option(
        AUTO,
        "The major version of CUDA that environments are built for, which is a part of what they are. V(auto) is that "
        "of C(/usr/local/cuda); V(none) for none, as on nodes without GPUs.",
        form=_CUDA,
    )
    cuda_architectures: Tuple[str, ...] = option(
        (),
        "Compute capabilities that packages are built for (C(TORCH_CUDA_ARCH_LIST), C(HOROVOD_BUILD_CUDA_CC_LIST)), so "
        "that a machine without a GPU can build. By default those of the GPUs of the profile.",
        form=_ARCHITECTURE,
        profile="gpus.products",
        of_profile=architectures,
    )
    modulefiles: str = option(
        AUTO,
        "Which modulefiles are written, one for each environment. V(auto) is for the module systems that are "
        "installed.",
        choices=module_systems.CHOICES,
    )
    modulefile_dir: str = option(
        "", "Where they go. Empty for the folder that the module system keeps for those of a site."
    )
    module_prefix: str = option("env", "What their names begin with, as C(env/NAME).", form=_MODULE)
    user_folder: str = option(
        "",
        [
            "Where the caches and own conda environments of users go in place of their homes, such as "
            "V(/scratch/$USER). It has C($USER) as a folder.",
            "Empty leaves users' settings alone.",
        ],
    )
    extensions_folder: str = option(
        "",
        "Where PyTorch builds extensions (C(TORCH_EXTENSIONS_DIR)), such as V(/mnt/resource_nvme/$USER): on a network "
        "file system the ranks of a job wait for each other's locks. Empty for a folder in O(user_folder).",
        needs=("user_folder",),
    )
    unset_conda_paths: bool = option(
        False,
        "Unset C(CONDA_ENVS_PATH), C(CONDA_ENVS_DIRS) and C(CONDA_PKGS_DIRS) at login and in our modulefiles. Some "
        "modules of sites set them, and they win over what O(user_folder) says.",
    )
    timeout_seconds: float = option(
        3600.0, "How long the build of one environment may take.", bounds=(1, 86400), unit="seconds"
    )

    def __post_init__(self) -> None:
        wrong: List[NodeError] = []
        for name in ("folder", "find_links", "modulefile_dir") if self.present else ("folder",):
            value = getattr(self, name).rstrip("/")
            object.__setattr__(self, name, value)
            if value and not _PATH.fullmatch(value):
                wrong.append(_no_path(name, value))
        if not self.present:
            if wrong:
                raise together(wrong)
            return
        if self.conda != AUTO and not _PATH.fullmatch(self.conda):
            wrong.append(_no_path("conda", self.conda))
        for name in ("user_folder", "extensions_folder"):
            value = getattr(self, name).rstrip("/")
            object.__setattr__(self, name, value)
            if value and (not _USER_PATH.fullmatch(value) or "$USER" not in value.split("/")[2:]):
                reason = "{0!r} is no absolute path with the user's name as a folder in it".format(value)
                wrong.append(NodeError("option " + name, reason, "give one such as /scratch/$USER"))
        wrong += _index(self.index_url)
        if self.index_url and self.find_links:
            wrong.append(NodeError("option index_url", "with find_links no index is asked", "give one of them"))
        names = [one.name for one in self.environments]
        for name in sorted({one for one in names if names.count(one) > 1}):
            wrong.append(NodeError("option environments", "two are called {0}".format(name), "rename one"))
        if wrong:
            raise together(wrong)

    def named(self, name: str) -> Optional[Environment]:
        return next((one for one in self.environments if one.name == name), None)


def _no_path(name: str, value: str) -> NodeError:
    reason = "{0!r} is no absolute path that a script can take".format(value)
    return NodeError("option " + name, reason, "use letters, digits and ._+@- after each slash")


def _index(url: str) -> List[NodeError]:
    if not url:
        return []
    try:
        parts = urllib.parse.urlsplit(url)
        right = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        right = False
    if not right or not re.fullmatch("[!-~]+", url):
        return [NodeError("option index_url", "it is no URL", "give one such as https://pypi.example.com/simple")]
    if parts.username is not None or parts.query:
        reason = "it carries an access key, which every user of the node would see in the list of processes"
        return [NodeError("option index_url", reason, "use a mirror that needs none, or find_links")]
    return []
