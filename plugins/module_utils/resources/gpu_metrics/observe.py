# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at who tells of the GPUs here: the exporter of DCGM, the folder of node exporter, our own timer."""

from __future__ import annotations

import os
import re
import socket
from typing import Any, Iterator, Tuple

from ...core import declaration, folder_given, http_once, managed_files, systemd
from ...core.frozen import replaced
from ...core.host import Host
from ...core.resource import NodeError
from ...facts import dcgm
from ...facts.nvml.call import Gpu
from ...facts.nvml.session import Survey, survey
from ...metrics.settings import NVML, SECTION
from .options import Desired
from .plan import source
from .texts import drop_in_path
from .types import (
    EXPORTERS,
    OWNERS_TEXTFILE,
    TABLE,
    TEXTFILE,
    TEXTFILE_FOLDERS,
    TMPFILES,
    UNIT,
    Exporter,
    State,
)

_SECONDS = 10.0
_ANSWER_SECONDS = 5.0
# 16 GPUs with 7 instances each have some 3 MiB.
_MOST_BYTES = 16 * 1024 * 1024
_VOLTA = 5  # nvml.h: NVML_DEVICE_ARCH_VOLTA


def observe(host: Host, desired: Desired) -> State:
    declared = declaration.read(host).get(SECTION) or {}
    textfile = desired.textfile or _usual(host)
    usual = "{0}/{1}".format(os.path.dirname(textfile), OWNERS_TEXTFILE) if textfile else ""
    owners = (desired.owners_textfile or usual) if desired.owners and desired.jobs else ""
    files = (textfile, desired.owners_textfile or usual, declared.get("textfile"), declared.get("owners_textfile"))
    seen = {str(one): managed_files.look(host, str(one)) for one in files if one}
    paths = [*UNIT.paths, TABLE, TMPFILES, *(drop_in_path(one) for one in EXPORTERS)]
    state = State(
        files=managed_files.observe(host, paths, declared),
        declared=declared,
        timer=UNIT.look(host),
        exporter=_installed(host),
        textfile=textfile,
        folder=folder_given.look(host, os.path.dirname(textfile)) if textfile else None,
        owners=owners,
        owners_folder=folder_given.look(host, os.path.dirname(owners)) if owners else None,
        foreign=tuple(one for one in dict.fromkeys((textfile, owners)) if one and seen[one].foreign),
        left=tuple(path for path, one in seen.items() if one.ours),
    )
    if not state.exporter.unit or source(state, desired) == NVML:
        return state
    return replaced(state, exporter=_looked_at(host, state.exporter, desired), profiling=_profiling(host))


def _usual(host: Host) -> str:
    found = next((folder for folder in TEXTFILE_FOLDERS if os.path.isdir(host.path(folder))), None)
    return "{0}/{1}".format(found, TEXTFILE) if found else ""


def _installed(host: Host) -> Exporter:
    for unit in EXPORTERS:
        for path in systemd.files(host, unit):
            program = re.search(r"^ExecStart=[-@:+!]*(/\S+)", host.read(path) or "", re.MULTILINE)
            if program is not None:
                return Exporter(unit, program.group(1))
    return Exporter()


def _looked_at(host: Host, exporter: Exporter, desired: Desired) -> Exporter:
    exporter = replaced(exporter, unpaired=_versions(host, exporter))
    if not systemd.running(host):
        return exporter
    try:
        (shown,) = systemd.show(host, (exporter.unit,), ("ActiveState", "UnitFileState", "NeedDaemonReload"))
    except NodeError:
        return exporter
    exporter = replaced(
        exporter,
        active=shown.get("ActiveState") == "active",
        enabled=shown.get("UnitFileState") == "enabled",
        stale=shown.get("NeedDaemonReload") == "yes",
    )
    if not exporter.active:
        return replaced(exporter, taken=answers(desired.listen))
    if desired.web_config:
        return replaced(exporter, why="it wants TLS or a user")
    try:
        return replaced(exporter, told=dcgm.told(ask(desired.listen)))
    except NodeError as error:
        return replaced(exporter, why=error.reason)


def place(listen: str) -> Tuple[str, int]:
    """Where this machine reaches what listens there."""
    address, dummy, port = listen.rpartition(":")
    every = address in ("", "0.0.0.0", "[::]")  # noqa: S104
    return "127.0.0.1" if every else address.strip("[]"), int(port)


def answers(listen: str) -> bool:
    try:
        with socket.create_connection(place(listen), timeout=1.0):
            return True
    except OSError:
        return False


def ask(listen: str) -> str:
    """What the exporter tells.

    :raises NodeError: it gives no answer, or another one.
    """
    import http.client

    where = place(listen)
    request = "GET /metrics HTTP/1.0\r\nHost: {0}:{1}\r\nConnection: close\r\n\r\n".format(*where)
    try:
        status, body = http_once.ask(where, request.encode(), 1.0, _ANSWER_SECONDS, _MOST_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise NodeError("dcgm-exporter", str(error), "look at 'journalctl -u {0}'".format(EXPORTERS[0])) from error
    if status != 200:
        reason = "it answers with HTTP {0}".format(status)
        raise NodeError("dcgm-exporter", reason, "look at 'journalctl -u {0}'".format(EXPORTERS[0]))
    return body.decode("utf-8", "replace")


def _versions(host: Host, exporter: Exporter) -> Tuple[str, str]:
    said = []
    for words in ([exporter.program, "--version"], ["dcgmi", "--version"]):
        try:
            done = host.run(words, _SECONDS)
        except NodeError:
            return "", ""
        said.append(done.stdout)
    return dcgm.unpaired(*said)


def _profiling(host: Host) -> bool:
    """Whether a GPU has counters for profiling, or nobody knows."""

    def visit(gpu: Gpu) -> Iterator[int]:
        found: Any = gpu.read("nvmlDeviceGetArchitecture")
        if found.ok:
            yield found.value

    told: Survey[int] = survey(visit, host=host)
    known = [one for visited in told.visits for one in visited.parts]
    return not known or any(one >= _VOLTA for one in known)
