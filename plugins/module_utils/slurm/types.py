# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The job that a hook runs for, what the hooks are to do, and how Slurm sees this node."""

from __future__ import annotations

import re
from typing import FrozenSet, Mapping, Optional, Tuple

from ..core.frozen import frozen
from ..core.options import found, option, options
from ..core.resource import NodeError

SECTION = "slurm_hooks"
# What a hook takes at most (hooks.hook: its steps, what a finding costs in Slurm, the start of a program on a busy
# machine); an epilog takes the grace period on top.
LONGEST_SECONDS = 100
# A job in Slurm's files and cgroups from 26.05 on (sluid.c): s and 13 digits in base 32 without I, L, O and U.
SLUID = "s[0-9A-HJKMNP-TV-Z]{13}"
_HIGHEST = 2**32 - 3
# Names of users, accounts and partitions that may go into metrics. Anything else counts as not given.
_NAME = re.compile(r"[A-Za-z0-9._@+-]{1,64}")


@frozen
class Job:
    """One job on this node. ``gpus`` are positions in slurmd's list of GPUs, ``visible`` the same or UUIDs: which GPUs
    these are is for :mod:`.gpus` to say. ``sluid`` is what Slurm 26.05 calls the job's cgroup. ``comment`` and
    ``features`` are the user's words (--comment, --constraint). ``nodes`` is the list of the job's nodes as Slurm
    writes it, ``restart`` how often the job was started before, where Slurm tells that. ``user``, ``account`` and
    ``partition`` are names, or "" if Slurm has none or the name has other characters."""

    id: int
    uid: int
    gid: Optional[int] = None
    gpus: Tuple[str, ...] = ()
    node: str = ""
    visible: Tuple[str, ...] = ()
    slurm_conf: str = ""
    sluid: Optional[str] = None
    comment: str = ""
    features: str = ""
    nodes: str = ""
    restart: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], node: str = "") -> Job:
        """The data that slurmd passes to a prolog and an epilog. ``node``: this node, if slurmd does not name it.

        :raises NodeError: slurmd did not start this process.
        """
        gid, sluid = environment.get("SLURM_JOB_GID", ""), environment.get("SLURM_JOB_SLUID", "")
        return cls(
            id=_number(environment, "SLURM_JOB_ID"),
            uid=_number(environment, "SLURM_JOB_UID"),
            gid=int(gid) if re.fullmatch(r"[0-9]{1,10}", gid) and int(gid) <= _HIGHEST else None,
            gpus=_gpus(environment.get("SLURM_JOB_GPUS", "")),
            node=environment.get("SLURMD_NODENAME") or node,
            visible=_gpus(environment.get("CUDA_VISIBLE_DEVICES", "")),
            slurm_conf=environment.get("SLURM_CONF", ""),
            sluid=sluid if re.fullmatch(SLUID, sluid) else None,
            comment=environment.get("SLURM_JOB_COMMENT", ""),
            features=environment.get("SLURM_JOB_CONSTRAINTS", ""),
            # Older versions have the second name alone (_build_env() in slurmd).
            nodes=environment.get("SLURM_JOB_NODELIST") or environment.get("SLURM_NODELIST", ""),
            restart=environment.get("SLURM_JOB_RESTART_COUNT", ""),
            # slurmd 22.05 and 24.11 set all three for prolog and epilog; the account only if the job has one.
            user=name_of(environment.get("SLURM_JOB_USER")),
            account=name_of(environment.get("SLURM_JOB_ACCOUNT")),
            partition=name_of(environment.get("SLURM_JOB_PARTITION")),
        )

    def says(self, word: str) -> bool:
        """Whether its comment or its features have this word."""
        texts = (self.comment, self.features)
        return bool(word) and any(word in re.split(r"[^A-Za-z0-9_-]+", text) for text in texts)


@frozen
class Jobs:
    """What is known of the jobs of this node. ``names``: those that our notes, their cgroups, their processes or Slurm
    report. ``users``: theirs. ``told``: whether that is all of them; without it any user may have a job here.

    ``ended``: jobs that are over by Slurm's word or our notes. ``processes``: who has a process on this node.
    """

    names: FrozenSet[str] = frozenset()
    users: FrozenSet[int] = frozenset()
    told: bool = True
    ended: FrozenSet[int] = frozenset()
    processes: FrozenSet[int] = frozenset()


def name_of(text: object) -> str:
    """The name of a user, account or partition; "" if it is not a plain name."""
    return text if isinstance(text, str) and _NAME.fullmatch(text) else ""


def _gpus(text: str) -> Tuple[str, ...]:
    if not text:
        return ()
    from ..facts.nvml.selectors import slurm_gpus  # a job without GPUs needs none of it

    return slurm_gpus(text)


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    if not re.fullmatch(r"[0-9]{1,10}", text):
        raise NodeError(
            name,
            "slurmd did not set it ({0!r})".format(text),
            "let slurmd run the hook as its Prolog or Epilog, or set the variable to try it by hand",
        )
    # Numbers of jobs and of users have 32 bits, and the two highest mean none (NO_VAL and INFINITE in slurm.h).
    if int(text) > _HIGHEST:
        raise NodeError(name, "{0} is out of range".format(text), "give a number up to {0}".format(_HIGHEST))
    return int(text)


@options
class Settings:
    """The options that the hooks need; without a declaration they have their defaults. ``scontrol``: its path."""

    clocks: bool = option(True, "Raise the clocks of a job's GPUs, and return them to what was declared for the node.")
    job_folder: bool = option(
        True, "Give each job a folder of its own on the scratch, C(SCRATCH/jobs/JOBID), and remove it after the job."
    )
    end_processes: bool = option(True, "End processes that a job left on its GPUs.")
    grace_seconds: float = option(
        5.0, "Time between SIGTERM and SIGKILL for such a process.", bounds=(0, 120), unit="seconds"
    )
    scontrol: str = found("scontrol")


@frozen
class SlurmNode:
    """A node in an answer of slurmctld, whoever asked. ``flags``: its states (``IDLE``, ``DRAIN``, ``DOWN`` …), see
    :func:`.states.normalised`. ``host``: the machine that Slurm has it on. sinfo gives the first three and the name."""

    flags: FrozenSet[str]
    reason: Optional[str] = None
    partitions: Tuple[str, ...] = ()
    gres: str = ""
    name: str = ""
    address: str = ""
    host: str = ""
    features: Tuple[str, ...] = ()
    reservation: str = ""
    cpus: Optional[int] = None
    memory_mib: Optional[int] = None
    boot_time: Optional[int] = None
    version: str = ""
