# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a test on several sets of nodes side by side, each under a time limit; nothing goes on when it is over."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import tempfile
import time
from typing import List, Optional, Sequence, Tuple

from ...core.resource import NodeError
from . import judge
from .search_types import Nodes

# sbatch waits for its job; a job that its limit has ended leaves through here. --error: the script may have one of its
# own (job_templates_error_file), and what is told of a failed test is in the output.
SLURM = (
    "sbatch --wait --exclusive --job-name={name} --nodes={count} --nodelist={nodes} --time={minutes} --output={output} "
    "--error={output} {script}"
).split()
SLURM_CANCEL = ("scancel", "--name={name}")
MPIRUN = ("{script}", "{hostfile}")
_OUTPUT_MAX = 4 << 20
_GRACE_SECONDS = 5.0


@dataclasses.dataclass(frozen=True)
class Launcher:
    """``command`` and ``cancel`` in words, with places for {nodes}, {count}, {hostfile}, {output}, {script}, {minutes}
    and {name}. ``seconds``: the limit of one test, its time in a queue included."""

    command: Tuple[str, ...]
    cancel: Tuple[str, ...] = ()
    script: str = ""
    folder: str = ""
    seconds: float = 900.0


@dataclasses.dataclass
class _Under:
    """A test under way."""

    nodes: Nodes
    process: "subprocess.Popen[bytes]"
    cancel: List[str]
    output: str
    printed: str
    started: float
    status: Optional[int] = None
    ended: Optional[float] = None


def run(launcher: Launcher, sets: Sequence[Nodes]) -> Tuple[judge.Ran, ...]:
    """The sets have no node in common.

    :raises NodeError: when a test cannot be started at all; the others are ended.
    """
    try:
        folder = tempfile.mkdtemp(prefix="gpu_node-validate-", dir=launcher.folder or None)
    except OSError as error:
        raise NodeError(
            launcher.folder or "the folder for temporary files",
            "nothing can be written there ({0})".format(error.strerror),
            "give another folder, one that all nodes see where Slurm writes the output",
        ) from error
    under: List[_Under] = []
    try:
        os.chmod(folder, 0o755)  # noqa: S103 ranks of another user read the list of nodes
        for place, nodes in enumerate(sets):
            under.append(_start(launcher, nodes, folder, place))
        while any(one.ended is None for one in under):
            for one in under:
                _look(one, launcher.seconds)
            time.sleep(0.05)
        return tuple(_read(one) for one in under)
    finally:
        for one in under:
            if one.ended is None:
                _end(one)
        shutil.rmtree(folder, ignore_errors=True)


def _start(launcher: Launcher, nodes: Nodes, folder: str, place: int) -> _Under:
    base = os.path.join(folder, str(place))
    with open(base + ".hosts", "w", encoding="utf-8") as stream:
        stream.write("".join(node + "\n" for node in nodes))
    places = {
        "{nodes}": ",".join(nodes),
        "{count}": str(len(nodes)),
        "{hostfile}": base + ".hosts",
        "{output}": base + ".output",
        "{script}": launcher.script,
        "{minutes}": str(max(1, int(launcher.seconds // 60))),
        "{name}": "{0}-{1}".format(os.path.basename(folder), place),
    }
    argv, cancel = ([_filled(word, places) for word in words] for words in (launcher.command, launcher.cancel))
    try:
        with open(base + ".printed", "wb") as printed:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                cwd=folder,
                start_new_session=True,
            )
    except OSError as error:
        raise NodeError(
            argv[0],
            "it cannot be started ({0})".format(error.strerror),
            "have the role job_templates make a script, run this where the command is (in validate.yml: "
            "gpu_node_validate_from), or give another one",
        ) from error
    return _Under(nodes, process, cancel, base + ".output", base + ".printed", time.monotonic())


def _filled(word: str, places: "dict[str, str]") -> str:
    for place, value in places.items():
        word = word.replace(place, value)
    return word


def _look(one: _Under, seconds: float) -> None:
    if one.ended is not None:
        return
    status = one.process.poll()
    if status is not None:
        one.status, one.ended = status, time.monotonic()
        _kill(one.process.pid, signal.SIGKILL)  # what it left behind of its session
    elif time.monotonic() - one.started >= seconds:
        _end(one)


def _end(one: _Under) -> None:
    """End it with everything that it has started, and its job."""
    if one.cancel:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                one.cancel,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=30,
                check=False,
            )
    _kill(one.process.pid, signal.SIGTERM)
    try:
        one.process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    _kill(one.process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        one.process.wait(_GRACE_SECONDS)
    one.ended = time.monotonic()


def _kill(group: int, how: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(group, how)


def _read(one: _Under) -> judge.Ran:
    text = ""
    for path in (one.output, one.printed):
        with contextlib.suppress(OSError):
            with open(path, "rb") as stream:
                text = stream.read(_OUTPUT_MAX).decode("utf-8", "replace")
            if text.strip():
                break
    return judge.read(one.nodes, text, one.status, (one.ended or one.started) - one.started)
