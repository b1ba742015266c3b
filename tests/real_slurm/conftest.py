# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real Slurm of two ages: 22.05 of Debian 12 and 24.11 of Debian 13."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterator

import pytest
import slurm_root

SUITES = ("bookworm", "trixie")
_BUILD = """
import sys
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import zipapp
sys.stdout.buffer.write(zipapp.build())
"""
Layers = Callable[[str], slurm_root.Layers]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "soak: is long; `make soak` runs it, `make test` leaves it out")


@pytest.fixture(scope="session")
def layers(tmp_path_factory: pytest.TempPathFactory) -> Layers:
    reason = slurm_root.reason_to_skip()
    if reason:
        pytest.skip(reason)
    environment = dict(os.environ, PYTHONPATH=str(slurm_root.REPOSITORY / ".collections"))
    zipapp = subprocess.run([sys.executable, "-c", _BUILD], env=environment, stdout=subprocess.PIPE, check=True).stdout
    made: Dict[str, slurm_root.Layers] = {}

    def layers_of(suite: str) -> slurm_root.Layers:
        if suite not in made:
            made[suite] = slurm_root.prepared(suite, zipapp, tmp_path_factory.mktemp("prepared-" + suite))
        return made[suite]

    return layers_of


@pytest.fixture(params=SUITES)
def suite(request: Any) -> str:
    return str(request.param)


@pytest.fixture
def node(layers: Layers, suite: str, tmp_path: Path, request: Any) -> Iterator[slurm_root.Root]:
    """A node without daemons; ``@pytest.mark.parametrize("node", [...], indirect=True)`` gives another host name."""
    with slurm_root.root(layers(suite), tmp_path, getattr(request, "param", "gpu01")) as made:
        yield made
