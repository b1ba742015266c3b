# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fio --output-format=json, 2.x and 3.x.

Format from its documentation (fio.readthedocs.io, "JSON output") and sources (axboe/fio: stat.c): ``bw`` is in KiB/s,
``bw_bytes`` (3.x) in bytes/s, ``runtime`` in ms; ``io_bytes`` is in bytes, before 2.99 in KiB.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Tuple

from .common import ParseError, document, plain_number, same

TOOL = "fio"


@dataclasses.dataclass(frozen=True)
class Job:
    """One job; a rate is 0 where nothing was done in that direction."""

    name: str
    read_bytes_per_second: float
    write_bytes_per_second: float


def parse(text: str) -> Tuple[Job, ...]:
    """:raises ParseError: when a job failed, or this is no JSON of fio."""
    content = document(TOOL, text)
    jobs = content.get("jobs")
    if not isinstance(jobs, list) or not jobs or not all(isinstance(job, dict) for job in jobs):
        raise ParseError(TOOL, "it has no list of jobs")
    return tuple(_job(job) for job in jobs)


def _job(job: Dict[str, Any]) -> Job:
    name = str(job.get("jobname"))[:60]
    error = plain_number(TOOL, "error of job " + name, job.get("error"))
    if error:
        raise ParseError(TOOL, "job {0} ended with error {1:g}".format(name, error))
    return Job(name, _rate(name, job.get("read")), _rate(name, job.get("write")))


def _rate(name: str, side: Any) -> float:
    if not isinstance(side, dict):
        raise ParseError(TOOL, "job {0} tells nothing of one direction".format(name))
    done = plain_number(TOOL, "io_bytes", side.get("io_bytes"))
    seconds = plain_number(TOOL, "runtime", side.get("runtime")) / 1000
    kibibytes = plain_number(TOOL, "bw", side.get("bw"))
    if done == 0 and kibibytes == 0:
        return 0.0
    rate = plain_number(TOOL, "bw_bytes", side["bw_bytes"]) if "bw_bytes" in side else kibibytes * 1024
    if "bw_bytes" not in side and same(done * 1024, rate * seconds, 0.05):
        done *= 1024
    # A runtime of some milliseconds is rounded.
    if rate <= 0 or seconds <= 0 or not same(done / seconds, rate, 0.01 + 0.001 / seconds):
        raise ParseError(TOOL, "the rate of job {0} contradicts its bytes and its time".format(name))
    if not same(rate, kibibytes * 1024, 0.001, 1025):
        raise ParseError(TOOL, "the two rates of job {0} contradict each other".format(name))
    return rate
