# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the hooks and files of Slurm on a node."""

from __future__ import annotations

from typing import Tuple

from ...core.managed_files import Wanted
from ...core.options import option, options, state
from ...core.resource import NodeError
from ...slurm.hooks_conf import EPILOG_NAME, PROLOG_FOLDER, PROLOG_NAMES
from ...slurm.types import Settings
from .types import EPILOG, PROLOG

_PATH = (
    r"/(?!(?:.*/)?\.\.(?:/|$))[A-Za-z0-9._/+@-]+",
    "absolute path that Slurm can take",
    "use letters, digits and ._/+@- after a slash",
)
_PATH_OR_NONE = ("|" + _PATH[0], *_PATH[1:])
_PATHS = ("prolog_folder", "epilog_folder", "gres_file", "features_file", "slurm_conf")


@options
class Desired(Settings):
    """``gres_file`` and ``features_file`` may be empty: then that file is not written."""

    _for_absent = _PATHS

    present: bool = state(
        "V(absent) removes hooks and files, and the folders that were made for them. Those on a network file system "
        "stay, as other nodes run them."
    )
    prolog_folder: str = option(
        PROLOG_FOLDER, "Drop-in folder that C(Prolog=) of slurm.conf names.", name="prolog_dir", form=_PATH
    )
    epilog_folder: str = option(
        "/etc/slurm/epilog.d", "Drop-in folder that C(Epilog=) of slurm.conf names.", name="epilog_dir", form=_PATH
    )
    gres_file: str = option(
        "/etc/slurm/gres.conf",
        [
            "Where the lines about the GPUs go. Empty leaves them out.",
            "Slurm reads only C(gres.conf) beside slurm.conf. Of another file only the lines can be copied there; an "
            "C(Include) of it is safe where every node that reads C(gres.conf) has that file, and never with CLOUD "
            "nodes, for which slurmctld itself reads it.",
        ],
        form=_PATH_OR_NONE,
    )
    gres_type: str = option(
        "",
        [
            "The type that slurm.conf gives these GPUs in C(Gres=gpu:TYPE:COUNT). Empty for C(Gres=gpu:COUNT).",
            "V(auto) takes it from the product, V(a100) for NVIDIA A100-SXM4-40GB.",
        ],
        form=(
            "[A-Za-z0-9][A-Za-z0-9_.-]{0,63}",
            "name for a type of GPU",
            "use the name that slurm.conf has in Gres=gpu:TYPE:COUNT, or auto",
        ),
    )
    gres_cores: str = option(
        "auto",
        [
            "What C(Cores) of a GPU are.",
            "V(auto) is those of its NUMA node where slurmctld takes these, else those of its socket.",
            "V(sockets) is those of its socket, also before slurmctld is upgraded to 24.11 or newer. V(none) leaves "
            "them out.",
        ],
        choices=("auto", "sockets", "none"),
    )
    shards_per_gpu: int = option(
        0,
        [
            "Into how many shards each whole GPU is divided, so that as many jobs can share it (C(--gres=shard:1)). "
            "V(0) makes none. Nothing keeps such jobs apart: each sees all of the GPU's memory.",
            "C(GresTypes) and C(Gres) of slurm.conf need them, too; what is missing there is told.",
        ],
        bounds=(0, 1024),
    )
    features_file: str = option(
        "/etc/slurm/gpu_node_features",
        "Where the node features go, one line of names with commas. Empty leaves them out.",
        form=_PATH_OR_NONE,
    )
    slurm_conf: str = option("", "Where slurm.conf is, or will be. Found by itself in its usual places.", form=_PATH)
    reconfigure: bool = option(
        False,
        "Run C(scontrol reconfigure), at which slurmctld and every slurmd read their files again, when Slurm has yet "
        "to read what was changed. Otherwise that is only reported.",
    )
    restart: bool = option(
        True,
        "Restart slurmd when it has yet to read C(gres_file) and no job runs on the node. Otherwise that is only "
        "reported. With O(reconfigure) it is not needed.",
    )

    def __post_init__(self) -> None:
        for name in _PATHS:
            object.__setattr__(self, name, getattr(self, name).rstrip("/"))
        if self.prolog_folder == self.epilog_folder:
            raise NodeError("option epilog_dir", "it is the folder of the prolog too", "give each its own folder")

    def hook_files(self) -> Tuple[Wanted, ...]:
        """The scripts."""
        prologs = ["{0}/{1}".format(self.prolog_folder, name) for name in PROLOG_NAMES]
        epilog = "{0}/{1}".format(self.epilog_folder, EPILOG_NAME)
        return tuple(Wanted(path, PROLOG, 0o755) for path in prologs) + (Wanted(epilog, EPILOG, 0o755),)

    def paths(self) -> Tuple[str, ...]:
        extra = (self.gres_file, self.features_file)
        return tuple(one.path for one in self.hook_files()) + tuple(path for path in extra if path)
