# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the choice of a profile."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple

from ...core.options import option, options, state
from ...core.resource import NodeError
from ...facts.nvml.session import CALL_TIMEOUT_SECONDS
from ...facts.profile import builtin, cloud, schema
from ...facts.profile.choose import check_name
from ...facts.profile.types import AUTO, Profile
from .manage import Wish


def _profiles(value: Any) -> Mapping[str, Profile]:
    if isinstance(value, Mapping):
        return value
    raise NodeError("option profiles", "{0!r} is no mapping".format(value), "give profiles by name")


@options
class Desired:
    """``present`` false takes the section out of the declaration, and looks at nothing."""

    present: bool = state("V(absent) takes the section out of the declaration, and looks at nothing.")
    name: str = option(
        AUTO,
        [
            "The profile. V(auto) chooses one by the VM size, else by the hardware. V(unknown) says that none is "
            "wanted.",
            "A name that there is no profile of is an error that lists those there are.",
        ],
    )
    profiles: Mapping[str, Any] = option(
        {},
        [
            "Profiles of the site: a mapping of profiles by name, or the path of a folder on the controller with a "
            "YAML file for each. One takes the place of the collection's profile of the same name.",
            "The page C(docs/profiles.md) tells what a profile may hold.",
        ],
        kind="raw",
        read=_profiles,
    )
    metadata: str = option(
        AUTO,
        [
            "Whether the cloud is asked for the VM size. With V(auto) only a machine whose firmware names Azure, GCP "
            "or OCI asks, and only when O(name) is V(auto), so that no time is lost elsewhere.",
            "On AWS the firmware tells the instance type, and nobody is asked.",
        ],
        choices=(AUTO, cloud.ALWAYS, cloud.NEVER),
    )
    metadata_url: str = option(
        cloud.URL,
        [
            "Where the cloud is asked, with C(http://). No proxy is used.",
            "The default stands for the address of the machine's own cloud.",
        ],
    )
    metadata_timeout_seconds: float = option(
        cloud.TIMEOUT_SECONDS,
        "How long the cloud is waited for, in all.",
        bounds=(0.01, 60),
        unit="seconds",
    )
    gpus: Optional[bool] = option(
        None,
        [
            "Whether NVML is asked. Without it, GPUs are known by their PCI ids.",
            "By default V(true), and V(false) when O(root) is another tree.",
        ],
    )
    call_timeout_seconds: float = option(
        CALL_TIMEOUT_SECONDS,
        "After this time a single NVML call is given up.",
        bounds=(0.01, 600),
        unit="seconds",
    )
    declare: bool = option(
        True,
        "Whether the choice is kept in C(/etc/gpu_node/node.json), where the node's own checks find it. On a machine "
        "that is left alone nothing is kept, see O(manage).",
    )
    manage: str = option(
        "any",
        [
            "Which machines are managed. V(any) means all.",
            "V(known) means those with an NVIDIA GPU or NVSwitch on the PCI bus, with a driver or without, with a "
            "profile, with a disk of O(scratch_models), or with a scratch or GPU settings that were declared before. "
            "Any other machine is left alone but for what is in O(asked). The playbooks of the collection say so "
            "unless C(gpu_node_manage) is true.",
        ],
        choices=("any", "known"),
    )
    asked: Tuple[str, ...] = option(
        (),
        "Resources that were asked for by name, or C(comm) for those of the communication stack. Other words are "
        "passed over, so tags of a run can be given.",
    )
    scratch_models: Tuple[str, ...] = option(
        (), "Patterns of the models of disks that are scratch material, as C(nvme_scratch_models)."
    )
    require_known: bool = option(
        False, "Fail when no profile describes the machine. Otherwise it is called unknown, and nothing is compared."
    )
    fail_on: str = option(
        "never",
        "Fail when the machine differs from its profile. V(fail) is for a missing part, say, V(warn) for any "
        "difference.",
        choices=("never", "fail", "warn"),
    )
    root: str = option(
        "/",
        "Look at a captured tree (a folder that holds C(sys) and C(proc)) instead of this machine, and declare in it.",
        kind="path",
    )

    def __post_init__(self) -> None:
        for name in sorted(self.profiles):
            for problem in schema.problems(self.profiles[name], name)[:1]:
                raise NodeError(
                    "profile {0!r}".format(name), problem, "correct its file (docs/profiles.md says what it may hold)"
                )
        if self.present:
            check_name(self.name, self.every)

    @property
    def every(self) -> Mapping[str, Profile]:
        """All profiles by name: the collection's, and those of the site."""
        return dict(builtin.PROFILES, **self.profiles)

    @property
    def ask_nvml(self) -> bool:
        return self.root == "/" if self.gpus is None else self.gpus

    @property
    def wish(self) -> Wish:
        return Wish(self.manage == "any", self.asked)
