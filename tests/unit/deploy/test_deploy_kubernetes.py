# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples under deploy/kubernetes: valid for each version of Kubernetes that docs/kubernetes.md names."""

from __future__ import annotations

import re
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.profile.builtin import PROFILES
from ansible_collections.trainyard.gpu_node.tools.cluster_init import specs

ROOT = Path(specs.__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
# docs/kubernetes.md names them.
VERSIONS = ("1.27", "1.30", "1.33", "1.37")
# The others are values of charts and patches.
MANIFESTS = [FOLDER / "daemonset.yaml", FOLDER / "preflight.yaml", *sorted((FOLDER / "pods").glob("*.yaml"))]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_are_valid_for_each_version(path, version):
    documents = [one for one in yaml.safe_load_all(path.read_text()) if one is not None]
    assert documents
    for document in documents:
        kubernetes_validate.validate(document, version, strict=True)


def test_pods_fit_on_their_node():
    """Pods with one GPU each, and the one with all, fit beside the CPUs that the kubelet keeps."""
    files = sorted((FOLDER / "pods").glob("*.yaml"))
    assert len(files) > 20
    for path in files:
        profile = PROFILES[path.stem]
        pods = {one["metadata"]["name"]: one for one in yaml.safe_load_all(path.read_text())}
        kept = re.search(r'reservedSystemCPUs: "([0-9,-]+)"', path.read_text()).group(1)
        count, free = profile["gpus"]["count"], profile["cpus"] - len(kept.split(","))
        wanted = {name: one["spec"]["containers"][0]["resources"]["limits"] for name, one in pods.items()}
        assert int(wanted["one-gpu"]["cpu"]) * count <= free, path.stem
        assert int(wanted["one-gpu"]["memory"][:-2]) * count << 30 < profile["memory"]["bytes"]
        if count > 1:
            assert wanted["whole-node"]["nvidia.com/gpu"] == str(count)
            assert int(wanted["whole-node"]["cpu"]) <= free
        for one in pods.values():
            resources = one["spec"]["containers"][0]["resources"]
            assert resources["requests"] == resources["limits"]  # Guaranteed, or no core is its own
        halves = [name for one in wanted.values() for name in one if "/mig-" in name]
        assert bool(halves) == any(
            "A100" in one or "H100 80GB" in one or "H200" in one for one in profile["gpus"]["products"]
        )


def test_a_manifest_that_is_wrong_is_found():
    (pod,) = yaml.safe_load_all((FOLDER / "preflight.yaml").read_text())
    pod["spec"]["containers"][0]["resource"] = pod["spec"]["containers"][0].pop("resources")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(pod, "1.33", strict=True)
