# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files for helm, and for a cluster that is not asked. Pure."""

from __future__ import annotations

import shlex
from typing import Tuple

from ...core.managed_files import MARKER, Wanted
from ...kubernetes import options, yaml
from .options import Desired
from .values import values

VALUES, MARKS = "gpu-operator-values.yaml", "gpu-node-marks.sh"


def paths(desired: Desired) -> Tuple[str, ...]:
    return tuple("{0}/{1}".format(desired.folder, name) for name in (VALUES, MARKS)) if desired.folder else ()


def wanted(desired: Desired) -> Tuple[Wanted, ...]:
    if not desired.folder:
        return ()
    texts = (_values(desired), _marks(desired))
    return tuple(Wanted(path, text, mode) for path, text, mode in zip(paths(desired), texts, (0o644, 0o755)))


def _values(desired: Desired) -> str:
    head = "# " + _command(desired, VALUES)
    return "\n".join([MARKER, head, yaml.dump(values(desired))])


def command(desired: Desired, path: str) -> str:
    """How a person gives helm the values, where the run takes place."""
    return _command(desired, path, *(["--kubeconfig", desired.kubeconfig] if desired.kubeconfig else []))


def _command(desired: Desired, path: str, *chosen: str) -> str:
    """Without the kubeconfig: a file may be used elsewhere."""
    words = ["helm", "upgrade", "--install", desired.release, desired.chart, "--version", desired.chart_version]
    words += ["-n", desired.namespace, "--create-namespace", "-f", path, *chosen]
    return " ".join(map(shlex.quote, [*words, *(["--kube-context", desired.context] if desired.context else [])]))


def _marks(desired: Desired) -> str:
    """Without the annotation by which we know what is ours: what this sets is of whoever runs it."""
    lines = [
        "#!/bin/sh",
        MARKER,
        "# Sets taints and labels; a node that is not registered yet ends it with an error.",
        "set -eu",
    ]
    kubectl = options.command(desired)
    tainted = sorted(node.name for node in desired.nodes if node.tainted)
    if desired.taint and tainted:
        lines.append("{0} taint node {1} {2} --overwrite".format(kubectl, " ".join(tainted), desired.taint))
    for node in sorted(desired.nodes, key=lambda one: one.name):
        if node.labels:
            labels = " ".join("{0}={1}".format(key, value) for key, value in sorted(node.labels.items()))
            lines.append("{0} label node {1} {2} --overwrite".format(kubectl, node.name, labels))
    return "\n".join(lines) + "\n"
