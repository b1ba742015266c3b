# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files for a cluster that is not asked: the config map, values of the GPU operator, and the labels. Pure."""

from __future__ import annotations

import shlex
from typing import Any, Dict, Tuple

from ...core.managed_files import MARKER, Wanted
from ...kubernetes import options, yaml
from ...kubernetes import sharing_configs as configs
from .options import Desired
from .types import LABEL, manifest

CONFIG_MAP, VALUES, LABELS = "gpu-sharing-config-map.yaml", "gpu-sharing-values.yaml", "gpu-sharing-labels.sh"
_HEAD = {
    CONFIG_MAP: "# {kubectl} apply -f {file}",
    VALUES: "# helm upgrade --reuse-values -f {file} -n {namespace}{context} RELEASE nvidia/gpu-operator",
}


def paths(desired: Desired) -> Tuple[str, ...]:
    names = (CONFIG_MAP, VALUES, LABELS) if desired.folder else ()
    return tuple("{0}/{1}".format(desired.folder, name) for name in names)


def operator_values(config_map: str, default: str) -> Dict[str, Any]:
    """What the GPU operator's chart is to be given."""
    return {"devicePlugin": {"config": {"create": False, "name": config_map, "default": default}}}


def wanted(desired: Desired) -> Tuple[Wanted, ...]:
    if not desired.folder:
        return ()
    made = manifest(desired.namespace, desired.config_map, configs.data(desired.configs))
    texts = {CONFIG_MAP: yaml.dump(made), VALUES: yaml.dump(operator_values(desired.config_map, desired.default))}
    texts = {name: "\n".join([MARKER, _head(desired, name), text]) for name, text in texts.items()}
    texts[LABELS] = _labels(desired)
    modes = {LABELS: 0o755}
    return tuple(
        Wanted("{0}/{1}".format(desired.folder, name), text, modes.get(name, 0o644)) for name, text in texts.items()
    )


def _head(desired: Desired, name: str) -> str:
    context = " --kube-context {0}".format(shlex.quote(desired.context)) if desired.context else ""
    return _HEAD[name].format(kubectl=options.command(desired), file=name, namespace=desired.namespace, context=context)


def _labels(desired: Desired) -> str:
    lines = [
        "#!/bin/sh",
        MARKER,
        "# Sets the labels; a node that is not registered yet ends it with an error.",
        "set -eu",
    ]
    kubectl = options.command(desired)
    named = [node for node in desired.nodes if node.config]
    for config in sorted({node.config for node in named}):
        names = " ".join(sorted(node.name for node in named if node.config == config))
        lines.append("{0} label node {1} {2}={3} --overwrite".format(kubectl, names, LABEL, config))
    return "\n".join(lines) + "\n"
