# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's ClusterPolicy against the values: what its template renames, leaves out or quotes is no difference.

The objects are what the template of the chart v26.7.0 makes of such values."""

from __future__ import annotations

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.kubernetes_gpu import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.kubernetes_gpu.policy import differences
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.kubernetes_gpu.values import values

CRD = {"nvidiaDriverCRD": {"enabled": True, "deployDefaultCR": False, "driverType": "gpu"}}
BY_CRD = {"enabled": True, "useNvidiaDriverCRD": True}
RDMA = {"enabled": False, "useHostMofed": False}
PLAIN = {"enabled": True, "useNvidiaDriverCRD": False, "kernelModuleType": "auto", "rdma": RDMA}


def of_driver(asked, there):
    return differences({"driver": {"enabled": True, "rdma": RDMA, **asked}}, {"driver": there})


def test_drivers_by_the_crd_of_the_operator():
    asked = {**CRD, "version": "570.148.08", "kernelModuleType": "open"}
    assert of_driver(asked, BY_CRD) == []
    # Either way round it is one difference: all else of the driver lies where it is not compared.
    assert of_driver(asked, PLAIN) == ["driver.nvidiaDriverCRD.enabled"]
    assert of_driver({"version": "1"}, BY_CRD) == ["driver.nvidiaDriverCRD.enabled"]
    assert of_driver({}, PLAIN) == [] and of_driver({}, {"enabled": True, "rdma": RDMA}) == []  # before there was a CRD
    assert of_driver(CRD, {**BY_CRD, "enabled": False}) == ["driver.enabled"]


@pytest.mark.parametrize(
    "asked, there",
    [
        ({"upgradePolicy": {"gpuPodDeletion": {"force": True}}}, {"upgradePolicy": {"podDeletion": {"force": True}}}),
        ({"imagePullSecrets": [], "env": [], "hostNetwork": False, "secretEnv": ""}, {}),
        ({"version": 570}, {"version": "570"}),
    ],
)
def test_what_the_template_writes_otherwise(asked, there):
    assert of_driver(asked, {**PLAIN, **there}) == []


def test_what_differs_is_told_by_the_key_of_the_values():
    deletion = {"upgradePolicy": {"gpuPodDeletion": {"force": True}}}
    for there in ({}, {"upgradePolicy": {"podDeletion": {"force": False}}}):
        assert of_driver(deletion, {**PLAIN, **there}) == ["driver.upgradePolicy.gpuPodDeletion.force"]
    assert of_driver({"version": "570"}, {**PLAIN, "version": "580"}) == ["driver.version"]
    assert of_driver({"version": "570"}, PLAIN) == ["driver.version"]
    # A part without its switch is on.
    assert differences({"toolkit": {"enabled": False}}, {"toolkit": {}}) == ["toolkit.enabled"]


def test_all_that_is_made_here_is_in_the_object_or_not_compared():
    configs = {"all": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}]}
    node = {"name": "n1", "host_driver": False, "host_toolkit": True}
    given = {"mig_manager": True, "mig_configs": configs, "sharing_config_map": "gpu-node-sharing"}
    made = values(of(Desired, {"nodes": [node], "values": {"devicePlugin": {"mps": {"root": "/run/x"}}}, **given}))
    spec = {
        "cdi": {"enabled": True},
        "driver": PLAIN,
        "toolkit": {"enabled": False},
        "mig": {"strategy": "mixed"},
        "migManager": {"enabled": True, "config": {"name": "gpu-node-mig-configs", "default": "all-disabled"}},
        "devicePlugin": {"enabled": True, "config": {"name": "gpu-node-sharing", "default": "whole"}},
        "dcgmExporter": {
            "enabled": True,
            "config": {"name": "gpu-node-exporter-metrics"},
            "serviceMonitor": {"enabled": True, "honorLabels": True},
        },
        "daemonsets": {"labels": {}, "tolerations": made["daemonsets"]["tolerations"]},
    }
    assert differences(made, spec) == []
    spec["cdi"]["enabled"] = False
    assert differences(made, spec) == ["cdi.enabled"]
