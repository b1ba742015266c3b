# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The project as `make cluster-init` makes it, and a machine that is given it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.tools.cluster_init.cluster_init_machine import (
    CONVERGE,
    Machine,
    make_bundle,
)
from ansible_collections.trainyard.gpu_node.tools.cluster_init import __main__ as cluster_init


@pytest.fixture
def make_project(tmp_path: Path) -> Callable[..., Path]:
    """``make_project("1.0")`` makes the project as `make cluster-init` does, with a small bundle."""

    def make(version: str = "1.0", converge: str = CONVERGE) -> Path:
        bundle = make_bundle(tmp_path / "bundle" / version, version, converge)
        target = tmp_path / "build" / version / "gpu_node"
        cluster_init.generate(bundle, target, version)
        return target

    return make


@pytest.fixture
def machine(tmp_path: Path, make_project: Callable[..., Path]) -> Machine:
    """A blank machine; version 1.0 of the project is in the locker."""
    made = Machine(tmp_path / "root")
    made.upload(make_project())
    return made


@pytest.fixture(scope="session")
def inventory_variables(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Dict[str, Any]]:
    """What ansible-inventory says of the first GPU node of an inventory of this collection, without how to connect."""
    root = Path(cluster_init.__file__).resolve().parents[2]

    def ask(name: str) -> Dict[str, Any]:
        folder = tmp_path_factory.mktemp("inventory")
        clean = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
        clean.update(
            PYTHONPATH=os.pathsep.join(path for path in sys.path if path), ANSIBLE_LOCAL_TEMP=str(folder / "tmp")
        )
        done = subprocess.run(
            [sys.executable, "-m", "ansible.cli.inventory", "-i", str(root / "inventories" / name), "--list"],
            env=clean,
            cwd=str(folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        hosts = json.loads(done.stdout)["_meta"]["hostvars"]
        return {key: value for key, value in hosts[min(hosts)].items() if not key.startswith("ansible_")}

    return ask
