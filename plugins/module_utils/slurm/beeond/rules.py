# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who starts the file system of a job, with which words, and what is left of one. Pure.

The options of ``beeond`` and what it writes into its status file: beeond/source/beeond and
beeond/scripts/lib/beegfs-ondemand-stoplocal of BeeGFS 7.
"""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ...core.frozen import frozen
from ...core.options import option, options
from ...core.processes import Started
from .. import hosts
from ..types import Job
from . import FOLDER

CONFIG = "/etc/gpu_node/beeond"
LOGS = "/var/log/gpu_node/beeond"
# In the scratch; 0700.
DATA = "beeond"
# What ``beeond`` calls its mounts: a client may have its module under another name than beegfs (beegfs-client-compat).
MOUNT = "beegfs_ondemand"
RELEASE = 7
# BeeGFS has 8003 to 8008; all of one file system are shifted alike.
PORT_STEP, PORT_SLOTS = 10, 10
# ``beeond`` names the files of its daemons' numbers by the second of its start alone, and two jobs with the same file
# would end each other's. So jobs with different ports start in different seconds, with one to spare on a busy machine.
TURN_SECONDS = 2
FEWEST_NODES = 2
# Clocks of a cluster agree within seconds, or Slurm's credentials would not hold.
CLOCK_SECONDS = 10.0
# What a node waits beyond the starter's own time, so that it never gives up before the starter has.
PATIENCE_SECONDS = 30.0
ASK_STARTER_SECONDS = 4.0
# Prologs of a job begin together; one of the starter that is not as far by then was killed, or hangs.
NOTE_SECONDS = 90.0
# What a stop takes at most: the mount, the program, the daemons that it did not end, the folder.
STOP_SECONDS = 120.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


@options
class Settings:
    """The options that the hooks need."""

    word: str = option(
        "beeond",
        "The word in a job's comment or constraint by which it asks for a shared scratch.",
        form=(r"[A-Za-z0-9_-]{1,32}", "word", "use letters, digits, _ and -"),
    )
    mount_point: str = option(
        "/beeond",
        "Folder of the mount points; that of a job is called by its number. It is made where it is not there, and "
        "refused where others than root may write to it or something is mounted.",
        form=(r"/[A-Za-z0-9][A-Za-z0-9._-]*", "folder right below /", "give a path such as /beeond"),
    )
    start_seconds: int = option(
        180,
        "How long the start may take. The other nodes of the job wait half a minute longer.",
        bounds=(30, 900),
        unit="seconds",
    )
    port_shift: int = option(
        1000,
        "Added to the ports of BeeGFS (8003 to 8008), with ten times the last digit of the job's number on top.",
        bounds=(100, 20000),
    )


@frozen
class Instance:
    """The file system of one job as one of its nodes notes it. ``nodes``: the starter is the first. ``restart``: which
    start of the job this is. ``until``: when this node gives up waiting, in seconds since 1970. ``by``: the process
    that starts it, on the starter. ``refused``: why this node takes no part."""

    job: int
    nodes: Tuple[str, ...]
    shift: int
    point: str
    data: str
    restart: str = ""
    until: float = 0.0
    by: Optional[Started] = None
    refused: str = ""

    @property
    def starter(self) -> str:
        return self.nodes[0] if self.nodes else ""

    @property
    def status(self) -> str:
        return "{0}/{1}.status".format(FOLDER, self.job)

    @property
    def node_file(self) -> str:
        return "{0}/{1}.nodes".format(FOLDER, self.job)

    @property
    def output(self) -> str:
        """What ``beeond start`` says."""
        return "{0}/{1}.out".format(FOLDER, self.job)

    @property
    def logs(self) -> str:
        return "{0}/{1}".format(LOGS, self.job)


@frozen
class Seen:
    """What a node is, before a job. Texts that are not empty say why something cannot be: ``scratch_wrong``,
    ``point_wrong`` (of the folder of all mount points), ``client_wrong`` (the kernel module). ``scratch``: its mount
    point. ``mounted``: file systems by their mount points. ``others``: what is noted of other jobs."""

    scratch: str = ""
    scratch_wrong: str = ""
    point_wrong: str = ""
    client_wrong: str = ""
    mounted: Mapping[str, str] = {}
    others: Tuple[Instance, ...] = ()


def longest_seconds(settings: Settings) -> float:
    """What a prolog takes at most for it: the end of an earlier start, the start, and the end of one that failed."""
    return settings.start_seconds + PATIENCE_SECONDS + 2 * STOP_SECONDS


def asked(settings: Settings, job: Job) -> bool:
    """Whether the job asks for it, by a word of its comment or of its constraint."""
    return job.says(settings.word)


def lowest_first(names: Iterable[str]) -> Tuple[str, ...]:
    """Without doubles, numbers by their value: gpu2 before gpu10, the same on each node of the job."""

    def key(name: str) -> Tuple[List[Tuple[int, int, str]], str]:
        parts = [part for part in re.split(r"([0-9]+)", name) if part]
        return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts], name

    return tuple(sorted(set(names), key=key))


def shift_of(settings: Settings, job_id: int) -> int:
    return settings.port_shift + PORT_STEP * (job_id % PORT_SLOTS)


def seconds_to_turn(now: float, job_id: int) -> float:
    """How long the starter waits for its turn; 0: it may begin within this second."""
    turn = PORT_SLOTS * TURN_SECONDS
    wait = (job_id % PORT_SLOTS * TURN_SECONDS - now) % turn
    return 0.0 if turn - wait < 1 else wait


def decide(settings: Settings, job: Job, seen: Seen, now: float) -> Instance:
    """What this node notes of the job's file system; ``refused`` says why it takes no part."""
    names = hosts.names(job.nodes) or ()
    point = "{0}/{1}".format(settings.mount_point, job.id)
    made = Instance(
        job.id,
        lowest_first(names),
        shift_of(settings, job.id),
        point,
        "{0}/{1}/{2}".format(seen.scratch.rstrip("/"), DATA, job.id) if seen.scratch else "",
        job.restart,
        now + settings.start_seconds + PATIENCE_SECONDS,
    )
    return Instance(**dict(_fields(made), refused=_refused(job, seen, made)))


def _fields(one: Instance) -> Dict[str, Any]:
    return {name: getattr(one, name) for name in Instance.__annotations__}


def _refused(job: Job, seen: Seen, made: Instance) -> str:
    if job.node not in made.nodes:
        return "Slurm told no list of the job's nodes with this node in it"
    if not all(_NAME.fullmatch(name) for name in made.nodes):
        return "a name in the list of the job's nodes is none of a host"
    if len(made.nodes) < FEWEST_NODES:
        return "the job has one node, whose scratch is its own already"
    if seen.scratch_wrong or not seen.scratch:
        return seen.scratch_wrong or "no scratch was declared"
    if seen.point_wrong:
        return seen.point_wrong
    if made.point in seen.mounted:
        return "something ({0}) is mounted at {1}".format(seen.mounted[made.point], made.point)
    if seen.client_wrong:
        return seen.client_wrong
    for one in seen.others:
        if one.job != job.id and one.shift == made.shift and not one.refused:
            return "job {0} has the same ports on this node (shift {1})".format(one.job, one.shift)
    return ""


def not_ready(mine: Instance, node: str, theirs: Optional[Instance]) -> Optional[str]:
    """What the starter makes of another node's note: "" it is ready; None: not yet; else why nothing is started."""
    if theirs is None or theirs.restart != mine.restart:
        return None
    if theirs.refused:
        return "{0}: {1}".format(node, theirs.refused)
    for what in ("nodes", "shift", "point", "data"):
        if getattr(theirs, what) != getattr(mine, what):
            text = "{0} has another {1} for it ({2}, not {3})"
            return text.format(node, what, _shown(getattr(theirs, what)), _shown(getattr(mine, what)))
    return ""


def agreement(mine: Instance, theirs: Mapping[str, Instance]) -> Tuple[str, Tuple[str, ...]]:
    """What the starter makes of all the notes it has: (why nothing is started, the nodes to ask again)."""
    again = []
    for node in mine.nodes[1:]:
        wrong = not_ready(mine, node, theirs.get(node))
        if wrong:
            return wrong, ()
        if wrong is None:
            again.append(node)
    return "", tuple(again)


def late(nodes: Sequence[str], wrong: Mapping[str, str]) -> str:
    """Why nothing is started, where ``nodes`` were not ready in time. ``wrong``: why one could not be asked."""
    why = wrong.get(nodes[0], "there was no time to ask it") or "its prolog has noted nothing"
    more = " (nor were {0} more nodes)".format(len(nodes) - 1) if len(nodes) > 1 else ""
    return "node {0} was not ready in time{1}: {2}".format(nodes[0], more, why)


def seconds_between_asks(nodes: int) -> float:
    """How often a node that waits asks the starter whether it still starts: at most eight nodes in a second, since an
    sshd drops connections where more than ten are at their beginning (MaxStartups)."""
    return max(ASK_STARTER_SECONDS, nodes / 8)


def of_this_start(mine: Instance, theirs: Optional[Instance]) -> bool:
    return theirs is not None and theirs.restart == mine.restart


def given_up(mine: Instance, starters: Optional[Instance], seconds: float, seen: bool) -> str:
    """Why a node that waits need not wait any longer; empty: it waits. ``seconds``: for how long the starter, which
    answers, has had no note of this start: its prolog was killed, or has not come so far. ``seen``: it had one."""
    if starters is not None and of_this_start(mine, starters) and starters.refused:
        return "{0} did not start it: {1}".format(mine.starter, starters.refused)
    if seen and not of_this_start(mine, starters) and seconds > 0:
        return "{0} has ended it already, and its log tells why".format(mine.starter)
    if seconds > NOTE_SECONDS:
        return "{0} has noted nothing of it for {1:g} s".format(mine.starter, NOTE_SECONDS)
    return ""


def _shown(value: Any) -> str:
    return " ".join(value) if isinstance(value, tuple) else str(value)


def seconds_left(now: float, deadline: float, theirs: Iterable[Instance]) -> float:
    """How long the start may take so that it has ended before any other node gives up."""
    return min([deadline, *(one.until - CLOCK_SECONDS for one in theirs)]) - now


def start_words(one: Instance, pdsh: bool) -> Tuple[str, ...]:
    """Never -F, which clears a data path, nor -l, whose files have the same names for all jobs."""
    return (
        *("start", "-n", one.node_file, "-i", one.status, "-d", one.data, "-c", one.point),
        *("-p", str(one.shift), "-L", one.logs, "-f", CONFIG, "-q"),
        *(("-P",) if pdsh else ()),
    )


def stop_words(one: Instance) -> Tuple[str, ...]:
    """In ``stoplocal``, -d deletes the data and -c is no mount point: it passes over what is gone already.

    The data is not deleted by it: that may take minutes, and is done by a rename.
    """
    return ("stoplocal", "-i", one.status, "-L", "-c", "-q")


def release_wrong(release: Optional[int]) -> str:
    """Why ``beeond`` of this release is not run; empty: it is.

    That of 8 takes the key by an option of its own (-C) and without it turns authentication off.
    """
    if release is None:
        return "the release of BeeGFS is not known, as there are no sources of its client"
    return "" if release == RELEASE else "BeeGFS {0} is installed, and only {1} is supported".format(release, RELEASE)
