# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last verdict as files, for other programs: JSON, metrics for Prometheus, labels and status for Kubernetes.

A file that cannot be written, or lies there and is not ours, costs that file and is told.
"""

from __future__ import annotations

import json
from typing import Any, List, Mapping, Optional, Tuple

from ... import health
from ...core import declaration, managed_files, safe_files
from ...core.host import Host
from ...core.options import of_section
from ...core.resource import NodeError
from ...metrics.labels.rules import VALID_INTERVALS
from .. import attempts
from ..formats import json as verdict_json
from ..formats import nfd, prometheus
from ..types import Cost, Verdict
from . import history, kubernetes, node_status
from .settings import SECTION, Settings

VERDICT = "/var/lib/gpu_node/health/verdict.json"
KUBERNETES = "/var/lib/gpu_node/health/kubernetes.json"
# Their modules are not loaded before a job.
_BASELINE = "/var/lib/gpu_node/health/baseline.json"
_JOURNAL = "/var/lib/gpu_node/health/journal.json"
_ACTIVE = "/var/lib/gpu_node/health/active.json"
_STATE = (history.PATH, _BASELINE, _JOURNAL, _ACTIVE, attempts.PATH)
# All that a run of checks leaves on a node, but for the files of other programs.
STATE_FILES = (
    VERDICT,
    KUBERNETES,
    node_status.PATH,
    *(path + ending for path in _STATE for ending in ("", safe_files.DAMAGED)),
)


def keep(host: Host, verdict: Verdict) -> Tuple[str, ...]:
    """All that a run of checks leaves: the counters for the next verdicts, the journal, and the files; returns what to
    tell.

    :raises NodeError: the declaration cannot be read.
    """
    notes: List[str] = []
    try:
        moved = health.record(host, verdict)
        notes += [moved] if moved else []
    except NodeError as error:
        notes.append(str(error))
    from .. import remember  # not wanted before a job

    declared = declaration.read(host)
    notes += _keep_active(host, verdict)
    notes += remember.keep(host, verdict, of_section(Settings, declared.get(SECTION)).journal_folder)
    return tuple(notes) + write(host, verdict, declared)


def _keep_active(host: Host, verdict: Verdict) -> Tuple[str, ...]:
    if verdict.level is not Cost.ACTIVE:
        return ()
    from . import kept  # seldom wanted

    try:
        moved = kept.keep(host, verdict)
    except NodeError as error:
        return (str(error),)
    return (moved,) if moved else ()


def write(host: Host, verdict: Verdict, declared: Mapping[str, Mapping[str, Any]]) -> Tuple[str, ...]:
    """What was not written and why."""
    settings = of_section(Settings, declared.get(SECTION))
    notes: List[str] = []
    valid_seconds = settings.interval_seconds * VALID_INTERVALS
    _write(host, VERDICT, verdict_json.render(verdict), notes)
    _write(host, node_status.PATH, node_status.render(verdict, valid_seconds), notes)
    if settings.textfile:
        _write_beside(host, settings.textfile, prometheus.render(verdict, settings.interval_seconds), notes)
    if settings.labels_file:
        _write_beside(host, settings.labels_file, nfd.render(verdict, valid_seconds), notes)
    if settings.kubernetes_node:
        before = _read(host, KUBERNETES)
        content = kubernetes.document(verdict, settings.kubernetes_node, settings.unknown_drains, before)
        _write(host, KUBERNETES, json.dumps(content, indent=2, sort_keys=True) + "\n", notes)
    return tuple(notes)


def stored(host: Host) -> Optional[Any]:
    """The last verdict as it was written; None where there is none that can be read."""
    return _read(host, VERDICT)


def _read(host: Host, path: str) -> Optional[Any]:
    try:
        return json.loads(host.read(path) or "")
    except ValueError:
        return None


def _write_beside(host: Host, path: str, text: str, notes: List[str]) -> None:
    note = managed_files.write_beside(host, path, text)
    if note is not None:
        notes.append(note)


def _write(host: Host, path: str, text: str, notes: List[str]) -> None:
    try:
        host.write(path, text)
    except NodeError as error:
        notes.append(str(error))
