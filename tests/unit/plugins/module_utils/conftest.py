# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for a cluster, and the real kubectl that talks to it."""

from __future__ import annotations

import shutil

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.kubectl import Kubectl
from ansible_collections.trainyard.gpu_node.tests.kubernetes_api import Api, quick


@pytest.fixture
def api(tmp_path, monkeypatch):
    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl; on Debian the package kubernetes-client has it")
    monkeypatch.setenv("HOME", str(tmp_path))  # where kubectl keeps what it learnt of a server
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with Api() as made:
        made.add("namespaces", {"metadata": {"name": "gpu-operator"}})
        yield made


@pytest.fixture
def quick_api(api, monkeypatch):
    """What is read of it is read without kubectl."""
    monkeypatch.setattr(Kubectl, "_run", quick(api, Kubectl._run))
    return api
