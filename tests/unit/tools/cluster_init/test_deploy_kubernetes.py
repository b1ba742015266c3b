# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples under deploy/kubernetes: valid for each version of Kubernetes that is named, and read as their reader
reads them."""

from __future__ import annotations

import json
import re
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.profile.builtin import PROFILES
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.formats import npd
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import kubernetes, record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Outcome
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.health.formats.formats_verdicts import (
    DARK,
    LOST,
    NOW,
    WARM,
    result,
    verdict,
)
from ansible_collections.trainyard.gpu_node.tools.cluster_init import specs

ROOT = Path(specs.__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
# docs/kubernetes.md names them.
VERSIONS = ("1.27", "1.30", "1.33", "1.37")
MANIFESTS = sorted(
    path for path in FOLDER.rglob("*.yaml") if path.name not in ("values.yaml", "patch.yaml") and path.is_file()
)
PLUGIN = FOLDER / "node_problem_detector" / "gpu_node_health.sh"
CONFIG = json.loads((FOLDER / "node_problem_detector" / "gpu_node_health.json").read_text())
PATCH = yaml.safe_load((FOLDER / "node_problem_detector" / "patch.yaml").read_text())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_are_valid_for_each_version(path, version):
    documents = [one for one in yaml.safe_load_all(path.read_text()) if one is not None]
    assert documents
    for document in documents:
        kubernetes_validate.validate(document, version, strict=True)


def test_pods_fit_on_their_node():
    """All of a node's pods with one GPU each fit beside the CPUs that the kubelet keeps, and so does the one with all."""
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


@pytest.mark.parametrize("version", VERSIONS)
def test_boards_are_valid(version):
    for document in json.loads((ROOT / "deploy/grafana/boards.json").read_text())["items"]:
        kubernetes_validate.validate(document, version, strict=True)


def test_a_manifest_that_is_wrong_is_found():
    (pod,) = yaml.safe_load_all((FOLDER / "preflight.yaml").read_text())
    pod["spec"]["containers"][0]["resource"] = pod["spec"]["containers"][0].pop("resources")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(pod, "1.33", strict=True)


# node-problem-detector ------------------------------------------------------------------------------------


def seconds(text):
    """A duration of Go in the forms that are used here."""
    return float(re.fullmatch(r"([0-9]+)s", text).group(1))


def test_the_config_is_one_that_the_detector_takes():
    """As its ApplyConfiguration and Validate (pkg/custompluginmonitor/types/config.go) have it."""
    assert CONFIG["plugin"] == "custom" and set(CONFIG) == {
        "plugin",
        "pluginConfig",
        "source",
        "metricsReporting",
        "conditions",
        "rules",
    }
    limit = seconds(CONFIG["pluginConfig"]["timeout"])
    assert seconds(CONFIG["pluginConfig"]["invoke_interval"]) > 0
    (mounted,) = [
        one["mountPath"]
        for one in PATCH["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
        if one["name"] == "gpu-node-plugin"
    ]
    for rule in CONFIG["rules"]:
        assert rule["type"] in ("temporary", "permanent") and seconds(rule["timeout"]) <= limit
        assert rule["path"] == "{0}/{1}".format(mounted, PLUGIN.name)
        if rule["type"] == "permanent":
            assert rule["condition"] in [one["type"] for one in CONFIG["conditions"]]
    # The condition is the one that the gate itself names.
    assert [one["type"] for one in CONFIG["conditions"]] == [kubernetes.CONDITION]
    assert CONFIG["pluginConfig"]["max_output_length"] == npd.LONGEST


def test_the_patch_mounts_what_the_gate_writes():
    spec = PATCH["spec"]["template"]["spec"]
    paths = {one["name"]: one.get("hostPath", {}).get("path") for one in spec["volumes"]}
    assert paths["gpu-node-health"] == str(Path(record.VERDICT).parent)
    (place,) = [one["mountPath"] for one in spec["containers"][0]["volumeMounts"] if one["name"] == "gpu-node-health"]
    assert all(rule["args"] == [place + "/npd"] for rule in CONFIG["rules"])


def plugin(path, *words):
    done = subprocess.run(["sh", str(PLUGIN), str(path), *words], capture_output=True, text=True, check=False)
    assert done.stderr == "" and len(done.stdout) <= npd.LONGEST + 1 and done.stdout.count("\n") == 1
    return done.returncode, done.stdout.strip()


@pytest.mark.parametrize(
    "outcome, status", [(Outcome.PASS, 0), (Outcome.WARN, 0), (Outcome.FAIL, 1), (Outcome.UNKNOWN, 2)]
)
def test_a_verdict_reaches_the_detector(tmp_path, outcome, status):
    declared = {"health_gate": {"npd_file": "/var/lib/gpu_node/health/npd", "interval_seconds": 100}}
    findings = {Outcome.WARN: [WARM], Outcome.FAIL: [LOST], Outcome.UNKNOWN: [DARK]}.get(outcome, [])
    assert record.write(Host(str(tmp_path)), verdict(result("gpu_xid", *findings)), declared) == ()
    path = tmp_path / "var/lib/gpu_node/health/npd"
    code, told = plugin(path, str(int(NOW) + 250))
    assert code == status and told and "too old" not in told
    # Two and a half intervals, then nobody knows.
    assert plugin(path, str(int(NOW) + 251)) == (2, "the last verdict is too old: gpu-node-health.timer does not run")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "expires=99999999999\n",
        "status=0\nmessage=x\n",
        "expires=x\nstatus=0\n",
        "expires=99999999999\nstatus=7\n",
        "expires=99999999999\nstatus=\n",
        "expires=9 9\nstatus=0\n",
        "expires=-1\nstatus=0\n",
        "status=0;exit 0\nexpires=$(date)\n",
    ],
)
def test_a_file_that_is_not_whole_is_unknown(tmp_path, text):
    (tmp_path / "npd").write_text(text)
    code, told = plugin(tmp_path / "npd")
    assert code == 2 and told.startswith("no verdict: ")
    assert plugin(tmp_path / "nowhere")[0] == 2


def test_words_of_users_make_no_line_and_no_command(tmp_path):
    hostile = "x\nstatus=0\nexpires=99999999999 $(touch {0}/made) `id` %s %n \x1b[2J".format(tmp_path)
    one = verdict(result("gpu_xid", replace(LOST, reason=hostile)))
    (tmp_path / "npd").write_text(npd.status(one, 1e9))
    code, told = plugin(tmp_path / "npd", str(int(time.time())))
    assert code == 1 and "\x1b" not in told and not (tmp_path / "made").exists()
    assert (tmp_path / "npd").read_text().count("\n") == 4


# NVSentinel -----------------------------------------------------------------------------------------------


def test_the_policy_names_our_condition_and_the_fields_of_the_monitor():
    content = yaml.safe_load((FOLDER / "nvsentinel" / "values.yaml").read_text())
    (policy,) = content["kubernetes-object-monitor"]["policies"]
    assert policy["resource"] == {"group": "", "version": "v1", "kind": "Node"} and policy["enabled"] is True
    assert set(policy["healthEvent"]) == {"componentClass", "isFatal", "message", "recommendedAction", "errorCode"}
    expression = policy["predicate"]["expression"]
    assert 'c.type == "{0}" && c.status == "True"'.format(kubernetes.CONDITION) in expression

    def holds(**status):
        """The expression, for the few words of CEL in it."""
        found = re.fullmatch(
            r'has\(resource\.status\.conditions\) && resource\.status\.conditions\.filter\(c, c\.type == "(\w+)" && '
            r'c\.status == "(\w+)"\)\.size\(\) > 0',
            expression,
        )
        kind, wanted = found.groups()
        return any((one["type"], one["status"]) == (kind, wanted) for one in status.get("conditions", ()))

    assert holds(conditions=[{"type": "Ready", "status": "True"}, {"type": "GpuNodeUnhealthy", "status": "True"}])
    assert not holds() and not holds(conditions=[{"type": "Ready", "status": "True"}])
    for status in ("False", "Unknown"):
        assert not holds(conditions=[{"type": "GpuNodeUnhealthy", "status": status}])


# Preflight ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status, starts", [(0, True), (3, True), (1, False), (2, False), (4, False), (127, False)])
def test_the_preflight_lets_a_healthy_pod_start_and_no_other(tmp_path, status, starts):
    (pod,) = yaml.safe_load_all((FOLDER / "preflight.yaml").read_text())
    (first,) = pod["spec"]["initContainers"]
    assert first["resources"] == pod["spec"]["containers"][0]["resources"]
    program = tmp_path / "python3"
    program.write_text('#!/bin/sh\necho "$@" >>{0}/asked\nexit {1}\n'.format(tmp_path, status))
    program.chmod(0o755)
    done = subprocess.run(first["command"], env={"PATH": "{0}:/usr/bin:/bin".format(tmp_path)}, check=False)
    assert (done.returncode == 0) == starts
    assert (tmp_path / "asked").read_text() == "/opt/gpu_node/gpunode.pyz health --quick --only gpu_*\n"
