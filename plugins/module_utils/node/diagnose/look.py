# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the library itself tells. Reads only, each within a child process."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import zlib
from typing import Any, List, Optional

from ...core.host import Host
from ...core.machine import short_name
from ...core.moment import moment
from ...core.resource import NodeError
from . import tool
from .processes import unnamed, without_names
from .types import MIB, Context, Files, Told

_ANY = tuple(range(256))
_PACKAGES = re.compile(
    r"nvidia|cuda|nccl|dcgm|mlnx|mofed|doca|rdma|ibverbs|ucx|openmpi|hpcx|pmix|slurm|munge|enroot|pyxis|mdadm|nvme"
)
_SLURMD_LOGS = ("/var/log/slurmd.log", "/var/log/slurm/slurmd.log", "/var/log/slurmd/slurmd.log")
_INFINIBAND = "/sys/class/infiniband"
_BUG_REPORT = "nvidia-bug-report.sh"
_BUG_REPORT_SECONDS, _BUG_REPORT_MOST = 220.0, 16 * MIB
_DISKS_MAX = 64


def verdict(host: Host, context: Context) -> Any:
    from ... import health
    from ...health.formats import json as document

    return document.document(health.examine(host, context.node))


def topology(host: Host, dummy: Context) -> Any:
    from ...facts import topology as facts

    return facts.to_dict(facts.look(host))


def gpus(host: Host, dummy: Context) -> Any:
    from ...facts import gpu_info

    return unnamed(gpu_info.gather(gpu_info.Options(), host).to_dict())


def image(host: Host, dummy: Context) -> Any:
    """As ``gpunode image --json`` has it."""
    from ...facts.image import answer

    found = answer.look(host)
    return answer.to_dict(found, answer.judge(found))


def kernel(host: Host, context: Context) -> Told:
    """Of the kernel itself: what programs write into its log is theirs. A message is one line, whatever is in it."""
    from ...health import kernel_log

    log = kernel_log.read(host)
    first = 0.0 if log.booted is None else context.since - log.booted
    lines = ["# {0}, {1}".format(log.source, "whole since the boot" if log.complete else "its beginning is lost")]
    for one in log.lines:
        if one.seconds >= first and one.facility in (None, 0):
            when = "" if log.booted is None else moment(log.booted + one.seconds) + " "
            level = "?" if one.level is None else one.level
            text = without_names(" ".join(one.text.split("\n")))
            lines.append("{0}[{1:.6f}] <{2}> {3}".format(when, one.seconds, level, text))
    return Told("\n".join(lines) + "\n")


def slurmd_log(host: Host, dummy: Context) -> Optional[Files]:
    """As slurm.conf has it."""
    from ...slurm import slurm_conf, this_node

    here = this_node.here(host)
    path = slurm_conf.option(here.text, "SlurmdLogFile") if here.text is not None else None
    if path:
        path = path.replace("%h", short_name()).replace("%n", here.node_name)
    found = next((one for one in (path, *_SLURMD_LOGS) if one and host.exists(one)), None)
    return None if found is None else Files((found,))


def slurm(host: Host, dummy: Context) -> Optional[Told]:
    from ...slurm import this_node
    from ...slurm.commands import Commands

    commands = Commands(host)
    if not commands.installed:
        return None
    node = this_node.here(host).node_name
    texts = []
    for words in (["ping"], ["-o", "show", "node", node], ["-o", "show", "partition"]):
        try:
            done = commands.ask("scontrol", *words)
            told = done.stdout + done.stderr
        except NodeError as error:
            told = "{0}\n".format(error)
        texts.append("==> scontrol {0} <==\n{1}".format(" ".join(words), told))
    return Told("\n".join(texts))


def infiniband(host: Host, dummy: Context) -> Optional[Told]:
    paths: List[str] = []
    for device in host.names(_INFINIBAND):
        top = "{0}/{1}".format(_INFINIBAND, device)
        paths += ["{0}/{1}".format(top, name) for name in ("board_id", "fw_ver", "hca_type", "node_guid")]
        for port in host.names(top + "/ports"):
            folder = "{0}/ports/{1}".format(top, port)
            paths += ["{0}/{1}".format(folder, name) for name in "state phys_state rate link_layer lid".split()]
            for group in ("counters", "hw_counters"):
                paths += ["{0}/{1}/{2}".format(folder, group, name) for name in host.names(folder + "/" + group)]
    values = [(path, host.read_line(path)) for path in paths]
    lines = ["{0} {1}".format(path, value) for path, value in values if value is not None]
    return Told("\n".join(lines) + "\n") if lines else None


def versions(host: Host, context: Context) -> Told:
    import platform

    lines = [
        "gpunode " + context.version,
        "python " + platform.python_version(),
        "kernel {0} {1} {2}".format(*os.uname()[2:5]),
        "collected " + moment(context.now),
    ]
    for path in ("/usr/lib/os-release", "/proc/driver/nvidia/version", "/opt/azurehpc/component_versions.txt"):
        text = host.read(path)
        if text is not None:
            lines += ["", "==> {0} <==".format(path), text.rstrip("\n")]
    for argv in (["ofed_info", "-s"], ["slurmd", "-V"], ["dpkg-query", "-W"], ["rpm", "-qa"]):
        if host.which(argv[0]) is not None:
            told = host.run(argv, 12.0, accept=_ANY).stdout.split("\n")
            found = sorted(
                line.replace("\t", " ") for line in told if argv[1] in ("-s", "-V") or _PACKAGES.search(line)
            )
            lines += ["", "==> {0} <==".format(" ".join(argv)), *found]
    return Told("\n".join(lines) + "\n")


def smart(host: Host, dummy: Context) -> Optional[Told]:
    if host.which("nvme") is None:
        return None
    texts = []
    for name in [name for name in host.names("/dev") if re.fullmatch(r"nvme\d+", name)][:_DISKS_MAX]:
        done = host.run(["nvme", "smart-log", "/dev/" + name], 5.0, accept=_ANY)
        texts.append("==> {0} <==\n{1}{2}".format(name, done.stdout, done.stderr))
    return Told("\n".join(texts)) if texts else None


def bug_report(host: Host, dummy: Context) -> Optional[Told]:
    """Also what it had written when its time was over: it writes as it goes. As root only, as it refuses others."""
    program = host.which(_BUG_REPORT)
    if program is None:
        return None
    folder = tempfile.mkdtemp(prefix="gpunode-")
    try:
        path = os.path.join(folder, "report.log")
        done = tool.run([program, "--output-file", path], _BUG_REPORT_SECONDS, MIB, tail=True, folder=folder)
        found = next((one for one in (path + ".gz", path) if os.path.isfile(one)), None)
        if found is None:
            return Told(done.text, done.reason or "it wrote no report", done.cut_bytes)
        with open(found, "rb") as stream:
            data, cut = unpacked(stream.read(4 * _BUG_REPORT_MOST), _BUG_REPORT_MOST)
        return Told(data.decode("utf-8", "replace"), done.reason, cut)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def unpacked(data: bytes, most: int) -> "tuple[bytes, int]":
    """(the text of a file of gzip's that may have many members and no end, or of a plain one; 1 if there was more than
    ``most`` bytes of it). Pure."""
    if data[:1] != b"\x1f":
        return data[:most], max(0, len(data) - most)
    found = b""
    while data and len(found) <= most:
        one = zlib.decompressobj(31)
        try:
            found += one.decompress(data, most + 1 - len(found))
        except zlib.error:
            break
        data = one.unused_data
    return found[:most], 1 if len(found) > most else 0
