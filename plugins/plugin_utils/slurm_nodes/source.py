# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where an answer comes from: scontrol, here or behind a command such as ssh, or a file with a saved answer."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from typing import IO, Dict, List, Sequence, Tuple

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.nodes import parse
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import SlurmNode

# 10,000 nodes are 30 MB of JSON. More than this is no answer of scontrol.
LARGEST_BYTES = 256 * 1024 * 1024
# What env and every shell say of a program that is not there.
_NOT_FOUND = 127
# The same words and times whatever the machine's language and place are: seconds since 1970.
_PLAIN = ("env", "LC_ALL=C", "SLURM_TIME_FORMAT=%s")


def from_file(path: str) -> Tuple[SlurmNode, ...]:
    """:raises NodeError: it cannot be read, or is no answer of scontrol."""
    try:
        if os.stat(path).st_size > LARGEST_BYTES:
            raise NodeError(path, "it is larger than an answer of scontrol can be", "give the saved answer")
        with open(path, encoding="utf-8", errors="replace") as stream:
            return parse(stream.read(), path)
    except OSError as error:
        raise NodeError(path, "it cannot be read ({0})".format(error.strerror), "give the saved answer") from error


def from_slurm(prefix: Sequence[str], scontrol: str, timeout_seconds: float) -> Tuple[SlurmNode, ...]:
    """JSON where this scontrol has it, else text.

    :raises NodeError: no answer in time, none, or one that is not whole.
    """
    deadline = time.monotonic() + timeout_seconds
    words = [*prefix, *_PLAIN, scontrol, "-a"]
    status, output, dummy = _run([*words, "--json", "show", "node"], deadline, timeout_seconds)
    if status == 0 and output.lstrip().startswith("{"):
        return parse(output, " ".join([*prefix, scontrol, "--json", "show", "node"]))
    status, output, errors = _run([*words, "-o", "show", "node"], deadline, timeout_seconds)
    origin = " ".join([*prefix, scontrol, "-o", "show", "node"])
    if status != 0:
        lines = (errors.strip() or output.strip()).splitlines() or ["it says nothing"]
        raise NodeError(
            origin,
            "it ended with status {0}: {1}".format(status, lines[-1][:300]),
            _remedy(status, bool(prefix)),
        )
    return parse(output, origin)


def _remedy(status: int, elsewhere: bool) -> str:
    if status != _NOT_FOUND:
        return "run it by hand; slurmctld must answer ('scontrol ping'), and ssh must need no password"
    if elsewhere:
        return "set 'scontrol: PATH' in this file, as it is on the machine that 'command' reaches"
    return "where scontrol is elsewhere, set 'command: [ssh, LOGIN_NODE]' or 'scontrol: PATH' in this file"


def _run(argv: List[str], deadline: float, timeout_seconds: float) -> Tuple[int, str, str]:
    """(status, output, errors) of a command that has no terminal and ends in time, with all that it started."""
    told = " ".join(word for word in argv if word not in _PLAIN)
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise NodeError(
            argv[0], "it cannot be started ({0})".format(error.strerror), "correct the option 'command'"
        ) from error
    try:
        texts = _read(process, deadline)
        if texts is None:
            raise NodeError(
                told,
                "it did not answer within {0:g} s".format(timeout_seconds),
                "see whether slurmctld is well ('scontrol ping'), or give it longer (option 'timeout')",
            )
        return process.wait(max(0.1, deadline - time.monotonic())), texts[0], texts[1]
    except OverflowError as error:
        raise NodeError(
            told,
            "it wrote more than {0} MiB".format(LARGEST_BYTES // 1024**2),
            "see what it writes; this is no answer of scontrol",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise NodeError(told, "it does not end", "see what it waits for") from error
    finally:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def _read(process: subprocess.Popen[bytes], deadline: float) -> Tuple[str, str] | None:
    """Both outputs to their end; None when the time is over.

    :raises OverflowError: there is too much of it.
    """
    if process.stdout is None or process.stderr is None:
        return "", ""
    chunks: Dict[IO[bytes], List[bytes]] = {process.stdout: [], process.stderr: []}
    size = 0
    with selectors.DefaultSelector() as waiting:
        for stream in chunks:
            waiting.register(stream, selectors.EVENT_READ, stream)
        while waiting.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            for key, _dummy in waiting.select(left):
                chunk = os.read(key.fd, 1024 * 1024)
                if not chunk:
                    waiting.unregister(key.fileobj)
                chunks[key.data].append(chunk)
                size += len(chunk)
                if size > LARGEST_BYTES:
                    raise OverflowError(size)
    out, err = (b"".join(parts).decode("utf-8", "replace") for parts in chunks.values())
    return out, err
