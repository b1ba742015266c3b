# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of Slurm on this machine: scontrol, squeue, sinfo. The only module that runs them; a test ensures it.

They are found by :mod:`.places`, read slurmd's slurm.conf, and print times in one form. Each error has one class and
one sentence: not installed, no answer, no such node, not permitted, refused.
"""

from __future__ import annotations

import os
import re
from typing import Optional, Sequence

from ..core.host import Completed, Host
from ..core.resource import NodeError

# slurmctld answers in milliseconds. A job waits no longer than this for one that does not.
ANSWER_SECONDS = 10.0
# Where a person or a play waits: a command gives up after MessageTimeout of slurm.conf, 10 s by default, once or twice,
# and its own message says more.
PATIENT_SECONDS = 40.0
# slurmctld reads the files of a large cluster before it answers 'scontrol reconfigure'.
RECONFIGURE_SECONDS = 120.0
_ANY_STATUS = tuple(range(256))
# slurm_errno.c, 22.05 to 26.05: the communication with slurmctld failed, so a change may have been made or not.
_NO_ANSWER = (
    r"Unable to contact slurm controller|[Cc]onnection|Communication .* failure|Socket timed out|Zero Bytes|"
    r"backup controller in standby"
)
_NO_NODE = r"Node \S+ not found|[Ii]nvalid node name"
_NAMES_NODES = ("NodeName=", "Nodes=", "--nodelist=", "--nodes=")
_NOT_PERMITTED = r"ccess/permission denied|[Ii]nvalid user id|Protocol authentication error"


class NotInstalled(NodeError):
    """This machine does not have the command."""


class NoAnswer(NodeError):
    """slurmctld does not answer. A change may have been made."""


class Refused(NodeError):
    """slurmctld answered, and changed nothing."""


class NoSuchNode(Refused):
    """slurmctld has no node of that name."""


class NotPermitted(Refused):
    """slurmctld does not permit it to this user."""


class Commands:
    """``program``: the path of scontrol if it is declared; the others are beside it. ``seconds``: how long slurmctld
    may take to answer."""

    def __init__(self, host: Host, program: str = "scontrol", seconds: float = ANSWER_SECONDS) -> None:
        self.host = host
        self.program = program
        self.seconds = seconds

    def find(self, name: str = "scontrol") -> Optional[str]:
        """The declared path, else beside slurmd, on PATH and in the usual directories; None: it is not installed."""
        from . import places  # a hook loads it only where slurmctld is asked

        folder = os.path.dirname(self.program)
        declared = os.path.join(folder, name)
        if folder and self.host.which(declared):
            return declared
        found = places.program(self.host, name)
        if found is not None:
            return self.host.path(found)
        return name if self.host.which(name) else None

    @property
    def installed(self) -> bool:
        return self.find() is not None

    def ask(self, name: str, *words: str, times: str = "standard", seconds: Optional[float] = None) -> Completed:
        """The answer of a command, also if slurmctld refuses. ``times``: the default can be compared as text.

        :raises NotInstalled: this machine does not have the command.
        :raises NoAnswer: slurmctld does not answer.
        """
        from . import places

        program = self.find(name)
        if program is None:
            raise NotInstalled(name, "it is not on this machine", "install Slurm's commands here")
        argv = places.command(self.host, ["env", "SLURM_TIME_FORMAT=" + times, program, *words])
        try:
            done = self.host.run(argv, seconds or self.seconds, accept=_ANY_STATUS)
        except NodeError as error:
            raise _no_answer("{0} {1}".format(name, error.reason)) from error
        if done.returncode != 0 and re.search(_NO_ANSWER, done.message):
            raise _no_answer(done.message)
        return done

    def run(self, name: str, *words: str, times: str = "standard", seconds: Optional[float] = None) -> str:
        """What a command that succeeded wrote.

        :raises NotInstalled: as :meth:`ask`.
        :raises NoAnswer: as :meth:`ask`.
        :raises Refused: it ended with an error.
        """
        done = self.ask(name, *words, times=times, seconds=seconds)
        if done.returncode != 0:
            raise _refused([name, *words], done.message)
        return done.stdout


def _no_answer(message: str) -> NoAnswer:
    return NoAnswer("slurmctld", "it does not answer: " + message, "look at 'scontrol ping'")


def _refused(words: Sequence[str], message: str) -> Refused:
    thing = " ".join(words)
    if re.search(_NO_NODE, message):
        named = next((one.partition("=")[2] for one in words if one.startswith(_NAMES_NODES)), "")
        if not named:
            named = words[-1] if list(words[1:3]) == ["show", "node"] else ""
        return NoSuchNode(
            "node " + named if named else thing, "slurmctld has no such node", "give the NodeName that slurm.conf has"
        )
    if re.search(_NOT_PERMITTED, message):
        return NotPermitted(thing, "it was refused: " + message, "run it as root or SlurmUser of this cluster")
    return Refused(thing, "it was refused: " + message, "run it by hand as root to see more")


def version(host: Host) -> Optional[str]:
    """The installed Slurm: ``slurm 25.11.5``, or Debian's ``slurm-wlm 22.05.8``, as ``25.11.5``."""
    from . import places

    for name, option in (("srun", "--version"), ("slurmd", "-V"), ("scontrol", "--version")):
        path = places.program(host, name)
        if path is None:
            continue
        done = host.run([host.path(path), option], ANSWER_SECONDS, accept=_ANY_STATUS)
        found = re.search(r"\bslurm\S*\s+(\d+\.\d+\.\d+\S*)", done.stdout)
        if found:
            return found.group(1)
    return None
