# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast the declared scratch writes and reads, and that it reads what was written.

The probe is a file without a name (O_TMPFILE, or one whose name is taken away before anything is written), so that it
is gone whenever and however this ends.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import tempfile
from typing import Dict, Iterator, Optional, Tuple

from ...core.resource import NodeError
from ...slurm import scratch as mounts
from ..evidence import Evidence
from ..parse import fio
from ..settings import number
from ..types import Check, Cost, Expected, Judgement, Machine, Remedy, Span
from . import apart, direct_io, survey, tools
from .readings import Figure, Reading, Readings, judge, unmeasured

WRITE, READ = "scratch_write_gigabytes_per_second", "scratch_read_gigabytes_per_second"
SETTING = "scratch_probe_gibibytes"
_REMEDY = "look at the array with 'gpunode scratch status', and at its disks with the check of NVMe"
FIGURES: Dict[str, Figure] = {
    WRITE: Figure("write", "GB/s", _REMEDY, Remedy.LOOK),
    READ: Figure("read", "GB/s", _REMEDY, Remedy.LOOK),
}
# Never more than this part of what is free: a probe must not be what fills a scratch.
_PART_OF_FREE = 0.1
_SECONDS = 180.0
# Errors of a file system whose disks are gone or broken; anything else (no space, read-only) is told as it is.
_BROKEN = (errno.EIO, errno.ENODEV, errno.ENXIO, errno.EUCLEAN, errno.ESHUTDOWN)


def look(evidence: Evidence) -> Readings:
    places = mounts.places(evidence.declared.get(mounts.SECTION))
    if not places:
        return Readings(not_applicable="no scratch is declared for this node")
    survey.node_is_free(evidence.host)
    found = mounts.mounted(evidence.host, places)
    if found is None:
        raise NodeError("scratch " + places[0], "it is not mounted", "run 'gpunode scratch status' on the node")
    wanted = number(evidence.settings, SETTING)
    thing, folder = "scratch " + found.point, evidence.host.path(found.point)
    program = tools.find(evidence.host, evidence.settings, "fio")
    task = functools.partial(measure, folder, int(wanted * 2**30), program)
    try:
        figures = apart.measure(thing, _SECONDS, task, None, ())
        reading = Reading(thing, found.point, figures)
    except NodeError as error:
        reading = unmeasured(thing, found.point, error)
    return Readings("fio" if program else "our own direct reads and writes", (reading,))


class Broken(NodeError):
    """The file system or a disk under it is at fault."""

    fault, code = Remedy.LOOK.value, "io_error"


class Changed(NodeError):
    """What was read is not what was written."""

    fault, code = Remedy.REPLACE.value, "data_changed"


def measure(folder: str, wanted: int, program: object = None) -> Tuple[Tuple[str, float], ...]:
    """(name, GB/s) of a write and a read around the page cache.

    :raises NodeError: :class:`Broken` and :class:`Changed` tell of the scratch, others of why it was not measured.
    """
    try:
        space = os.statvfs(folder)
        size = min(wanted, int(space.f_bavail * space.f_frsize * _PART_OF_FREE))
        size -= size % direct_io.BLOCK
        if size < direct_io.BLOCK * direct_io.THREADS:
            raise NodeError(folder, "it has too little space for a probe", "free some of it, or look at who fills it")
        with nameless(folder) as handle:
            os.ftruncate(handle, size)  # direct writes that make a file longer would wait for each other
            write, read = direct_io.run(handle, size)
            if isinstance(program, str):
                write, read = _fio(program, handle, size)
    except direct_io.Different as error:
        remedy = "keep jobs off it, and look at the array and its disks: data on it is not safe"
        raise Changed(folder, "it reads other data than were written ({0})".format(error), remedy) from error
    except OSError as error:
        reason = "it cannot be written and read ({0})".format(error.strerror)
        kind = Broken if error.errno in _BROKEN else NodeError
        raise kind(folder, reason, "run 'gpunode scratch status', and look at the kernel log") from error
    return (WRITE, write / 1e9), (READ, read / 1e9)


@contextlib.contextmanager
def nameless(folder: str) -> Iterator[int]:
    """A file without a name, opened around the page cache."""
    try:
        handle = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT):
            raise
        named, path = tempfile.mkstemp(prefix=".gpu_node.probe.", dir=folder)
        os.unlink(path)
        try:
            handle = os.open("/proc/self/fd/{0}".format(named), os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
        finally:
            os.close(named)
    try:
        yield handle
    finally:
        os.close(handle)


def _fio(program: str, handle: int, size: int) -> Tuple[float, float]:
    """Bytes a second. It opens the file through /proc, as it has no name."""
    path = "/proc/{0}/fd/{1}".format(os.getpid(), handle)
    common = ["--filename=" + path, "--size={0}".format(size), "--bs=1M", "--direct=1", "--ioengine=libaio"]
    common += ["--iodepth=64", "--thread", "--output-format=json", "--allow_file_create=0", "--fallocate=none"]
    answer = []
    for direction in ("write", "read"):
        argv = [program, "--name=" + direction, "--rw=" + direction, *common]
        ended = apart.run(argv, _SECONDS / 3, apart.environment())
        try:
            job = fio.parse(ended.stdout)[0]
        except NodeError as error:
            raise NodeError("fio", "{0}: {1}".format(error.reason, ended.words), "run it by hand") from error
        answer.append(job.write_bytes_per_second if direction == "write" else job.read_bytes_per_second)
    return answer[0], answer[1]


def judge_scratch(seen: Readings, expected: Expected) -> Judgement:
    """Pure."""
    return judge(seen, expected, FIGURES)


def span(machine: Machine) -> Optional[Span]:
    """The probe is written and read once, by fio a second time. 1 GB/s: an array of local NVMe disks is faster."""
    seconds = 1.0 + 2 * number(machine.settings, SETTING) * 2**30 / 1e9 * (2 if "fio" in machine.tools else 1)
    return Span(seconds, seconds) if machine.scratch else None


CHECK = Check(
    id="scratch_rate",
    title="The scratch writes and reads at its rate, and keeps data",
    cost=Cost.ACTIVE,
    judge=judge_scratch,
    look=look,
    lane="active",
    seconds=240.0,
    span=span,
)
