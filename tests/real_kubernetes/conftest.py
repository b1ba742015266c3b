# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real API server of all tests here, and what they report beside passed and failed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Callable, Iterator, List

import cluster as cluster_module
import fleet
import programs
import pytest
from plays import environment

_REPORTED: List[str] = []


def pytest_terminal_summary(terminalreporter: object) -> None:
    if _REPORTED:
        terminalreporter.section("measured and not served")  # type: ignore[attr-defined]
        for line in dict.fromkeys(_REPORTED):
            terminalreporter.line(line)  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def report() -> Callable[[str], None]:
    """A line for the end of the run."""
    return _REPORTED.append


@pytest.fixture(scope="session")
def built() -> programs.Programs:
    try:
        return programs.ensure()
    except programs.VirtualNodeError as error:
        pytest.fail(str(error))


@pytest.fixture(scope="session")
def cluster(built: programs.Programs, report: Callable[[str], None]) -> Iterator[cluster_module.Cluster]:
    with cluster_module.started(built) as made:
        made.namespace("gpu-operator")
        yield made
        memory = ", ".join("{0} {1} MB".format(*one) for one in sorted(made.megabytes().items()))
        report("API server {0} ready in {1:.1f} s; resident: {2}".format(programs.VERSION, made.ready_seconds, memory))


@pytest.fixture(params=["1.20", "newest"])
def kubectl(built: programs.Programs, request: pytest.FixtureRequest) -> str:
    """The path of a release."""
    return str(built.kubectl[request.param])


@pytest.fixture
def one_node(cluster: cluster_module.Cluster) -> Iterator[cluster_module.Client]:
    """A client of the administrator, in a cluster with the node gpu001."""
    client = cluster.admin
    fleet.node(client, "gpu001")
    yield client
    fleet.remove_all(client)
    for name in ("default", "kube-system"):
        client.must("DELETE", "/api/v1/namespaces/{0}/pods".format(name))


@pytest.fixture
def run(kubectl: str, cluster: cluster_module.Cluster, tmp_path: Path) -> Callable[..., str]:
    """Runs kubectl as an account, by its token."""

    def call(*words: str, token: str = cluster_module.ADMIN, fails: bool = False, program: str = kubectl) -> str:
        kubeconfig = cluster.kubeconfig(tmp_path / "kubeconfig", token)
        done = subprocess.run(
            [program, "--kubeconfig", kubeconfig, *words],
            env=dict(environment(tmp_path)),
            cwd=str(tmp_path),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stdout
        return done.stdout

    return call
