# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options that what works on a cluster shares; each is a field of a class of options.

Where a role's own variable is not given, it takes the one of all of them: ``gpu_node_kubernetes_`` and the option.
"""

from __future__ import annotations

import shlex
from typing import Any, Dict, List, Mapping

from ..core.frozen import replaced
from ..core.host import Host
from ..core.options import REQUIRED, Option, described, of, option, options
from ..core.resource import NodeError
from .kubectl import NAME, Kubectl

#: What the variables of all roles and playbooks begin with.
SHARED = "gpu_node_kubernetes_"
OBJECT = (NAME, "name of an object in Kubernetes", "use lower-case letters, digits, - and .")
_PATH = (r"|/.*|~.*", "absolute path", "begin it with a slash")

NODE: Any = option(
    REQUIRED,
    "Name of the node in Kubernetes.",
    form=OBJECT,
    of_role=SHARED + "name",
)
NAMESPACE: Any = option(
    "gpu-operator", "Namespace of the GPU operator and its device plugin.", form=OBJECT, of_role=SHARED + "namespace"
)
KUBECTL: Any = option("kubectl", "The program, by its name or its path.", of_role=SHARED + "kubectl")
KUBECONFIG: Any = option(
    "",
    "The kubeconfig. Empty for the one that kubectl takes by itself.",
    kind="path",
    form=_PATH,
    of_role=SHARED + "kubeconfig",
)
CONTEXT: Any = option("", "The context of the kubeconfig. Empty for its current one.", of_role=SHARED + "context")
SECONDS: Any = option(
    60, "Time limit of one call of kubectl.", bounds=(1, 3600), unit="seconds", of_role=SHARED + "seconds"
)


@options
class Reached:
    """How a cluster is reached."""

    kubectl: str = KUBECTL
    kubeconfig: str = KUBECONFIG
    context: str = CONTEXT
    seconds: float = SECONDS


def folder(files: str) -> Any:
    return option("", "Folder for {0}. Empty: none are written.".format(files), kind="path", form=_PATH)


def of_module() -> Dict[str, Option]:
    """How a cluster is reached, of a module that is of no role."""
    return {name: replaced(one, of_role="") for name, one in described(Reached).items()}


def reached(given: Mapping[str, Any]) -> Reached:
    """Of all that a module was given.

    :raises NodeError: one of them cannot be.
    """
    return of(Reached, {name: given[name] for name in described(Reached)})


def client(host: Host, asked: Any, rights: str) -> Kubectl:
    """For options that have the fields of :class:`Reached`. ``rights``: as Kubectl has it."""
    return Kubectl(host, asked.kubectl, asked.kubeconfig, asked.context, asked.seconds, rights)


def command(asked: Any) -> str:
    """kubectl as a person types it elsewhere: with the context, which is of the cluster, and without the kubeconfig."""
    return "kubectl --context {0}".format(shlex.quote(asked.context)) if asked.context else "kubectl"


def wrong(asked: Any) -> List[NodeError]:
    """Pure. Of a resource's options, what is wrong with ``nodes``, ``apply`` and ``folder`` together."""
    names = [node.name for node in asked.nodes]
    found = [
        NodeError("option nodes", name + " is named twice", "name each node once")
        for name in sorted({one for one in names if names.count(one) > 1})
    ]
    if asked.apply == "files" and not asked.folder:
        found.append(NodeError("option folder", "there is none, and apply is files", "name a folder for the files"))
    return found
