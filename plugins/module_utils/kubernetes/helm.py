# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""helm, whose release of a chart is read and upgraded. Each call has a time limit and ends in an answer or in one
sentence, which has nothing in it that a kubeconfig keeps secret."""

from __future__ import annotations

import json
import os
import re
import tempfile
from typing import Any, Dict, List, Mapping, Optional

from ..core.frozen import frozen
from ..core.host import Host
from ..core.resource import NodeError
from . import yaml
from .kubectl import OURS, without_secrets

_MOST = 400
# Whatever its state: helm 3 shows those that are deployed or failed unless it is asked, and helm 4 has no --all.
_STATES = ("--deployed", "--failed", "--pending", "--uninstalling", "--uninstalled")


@frozen
class Release:
    """``state``: as helm calls it (deployed, failed, pending-upgrade ...). ``ours``: its last revision was made here.
    ``values``: those that were given for it."""

    version: str
    state: str
    ours: bool
    values: Mapping[str, Any]


@frozen
class Helm:
    host: Host
    program: str = "helm"
    kubeconfig: str = ""
    context: str = ""
    seconds: float = 600.0

    def find(self, name: str, namespace: str) -> Optional[Release]:
        """None: there is none, in whatever state.

        :raises NodeError: helm or the cluster does not answer.
        """
        chosen = ["--namespace", namespace, "-o", "json"]
        listed = self._json("list", *_STATES, "--filter", "^{0}$".format(name), *chosen)
        found = [one for one in listed if isinstance(one, dict) and one.get("name") == name]
        if not found:
            return None
        status = self._json("status", name, *chosen)
        info = status.get("info") if isinstance(status, dict) else None
        info = info if isinstance(info, dict) else {}
        given = self._json("get", "values", name, *chosen)
        return Release(
            version=_version(str(found[0].get("chart"))),
            state=str(found[0].get("status")),
            ours=info.get("description") == OURS,
            values=given if isinstance(given, dict) else {},
        )

    def upgrade(self, name: str, namespace: str, chart: str, version: str, values: Mapping[str, Any]) -> None:
        """Install it, or upgrade it to these values and no others. What fails is rolled back by nobody."""
        with tempfile.TemporaryDirectory(prefix="gpu_node.") as folder:
            path = os.path.join(folder, "values.yaml")
            with open(path, "w", encoding="utf-8") as stream:
                stream.write(yaml.dump(values))
            chosen = ["--namespace", namespace, "--create-namespace", "--version", version]
            self._run("upgrade", "--install", name, chart, *chosen, "--reset-values", "--description", OURS, "-f", path)

    def _json(self, *words: str) -> Any:
        text = self._run(*words)
        try:
            return json.loads(text or "null") or []
        except ValueError:
            remedy = "run it by hand; helm 3 and 4 print JSON"
            raise NodeError("helm " + words[0], "it did not print JSON", remedy) from None

    def _run(self, *words: str) -> str:
        thing = "helm " + words[0]
        if self.host.which(self.program) is None:
            remedy = "install helm, name another program, or use apply: files and give helm the file of values yourself"
            raise NodeError(self.program, "this program is not installed", remedy)
        chosen = [("--kubeconfig", self.kubeconfig), ("--kube-context", self.context)]
        argv: List[str] = [self.program, *words]
        argv += ["{0}={1}".format(option, value) for option, value in chosen if value]
        try:
            done = self.host.run(argv, self.seconds, accept=tuple(range(256)))
        except NodeError as error:
            reason = "it did not end within {0:g} s".format(self.seconds)
            remedy = "look at 'helm status' of the release before it is run again"
            raise NodeError(thing, reason, remedy) from error
        if done.returncode != 0:
            told = without_secrets(self.host, self.kubeconfig, done.stderr or done.stdout)
            lines = [line.strip() for line in told.splitlines() if line.strip() and not line.startswith("WARNING: ")]
            reason = " ".join(lines)[:_MOST].replace("Error: ", "", 1) or "it wrote nothing"
            raise NodeError(thing, reason, "correct it, or run helm by hand to see its whole output")
        return done.stdout


def _version(chart: str) -> str:
    """Of gpu-operator-v26.7.0, the version."""
    match = re.search(r"-(v?[0-9]+\..*)$", chart)
    return match.group(1) if match else chart


def summary(release: Optional[Release]) -> Optional[Dict[str, Any]]:
    if release is None:
        return None
    return {"version": release.version, "state": release.state, "ours": release.ours}
