# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The init container that checks the GPUs of a pod: its command line, with simulated GPUs and a folder as the node."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.tests.unit.deploy.kubernetes_objects import KUBERNETES
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.command import gpunode_on

pytest.importorskip("pynvml", reason="needs nvidia-ml-py")

POD = yaml.safe_load((KUBERNETES / "preflight.yaml").read_text(encoding="utf-8"))
PATCH = yaml.safe_load((KUBERNETES / "preflight.patch.yaml").read_text(encoding="utf-8"))
(CONTAINER,) = POD["spec"]["initContainers"]
COMMAND = "/opt/gpu_node/gpunode.pyz"
GPU = "nvidia.com/gpu"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(name="machine")
def _machine(nvml_simulator: Callable[..., Any]) -> Any:
    return nvml_simulator("nd96isr_h100_v5")


@pytest.fixture(name="preflight")
def _preflight(machine: Any, tmp_path: Path) -> Run:
    """``preflight(FAIL_ON="fail")``, with 8 device files unless ``files`` says otherwise."""

    def run(files: int = 8, **environment: str) -> "subprocess.CompletedProcess[str]":
        devices = tmp_path / "dev"
        devices.mkdir(exist_ok=True)
        for path in devices.iterdir():
            path.unlink()
        for name in ("nvidiactl", "nvidia-uvm", *("nvidia{0}".format(number) for number in range(files))):
            (devices / name).touch()
        shell, option, text = CONTAINER["command"]
        assert text.count("python3 -I " + COMMAND) == 1 and text.count("/dev/nvidia[0-9]*") == 1
        text = text.replace("/dev/nvidia[0-9]*", "{0}/nvidia[0-9]*".format(devices))
        text = text.replace(
            "python3 -I " + COMMAND, "{0} {1} {2} --".format(sys.executable, gpunode_on.__file__, tmp_path / "root")
        )
        given = {one["name"]: one["value"] for one in CONTAINER["env"]}
        return subprocess.run(
            [shell, option, text],
            env=dict(machine.environment(), **dict(given, **environment)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def test_a_pod_with_healthy_gpus_starts(preflight: Run) -> None:
    done = preflight()
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert ": pass, " in done.stdout


FAULTS = {
    "a lost GPU": (["fault", "gpu", "3", "lost"], 1, 1),
    "a warning": (["fault", "gpu", "3", "recovery-action", "4"], 0, 0),
    "what NVML does not tell": (
        ["fault", "call", "nvmlDeviceGetTotalEccErrors", "gpu", "3", "return", "UNKNOWN"],
        4,
        0,
    ),
}


@pytest.mark.parametrize("fault, unknown, fail", FAULTS.values(), ids=FAULTS)
def test_a_fault_keeps_a_pod_from_starting_as_far_as_it_was_asked_for(
    machine: Any, preflight: Run, fault: Any, unknown: int, fail: int
) -> None:
    machine.control(*fault)
    assert preflight().returncode == unknown
    done = preflight(FAIL_ON="fail")
    assert done.returncode == fail and "GPU 3" in done.stdout


def test_a_gpu_that_did_not_reach_the_container_keeps_it_from_starting(preflight: Run) -> None:
    for files in (0, 7):
        done = preflight(files=files)
        assert done.returncode == 1 and done.stderr == "this container has {0} of 8 GPUs\n".format(files)
    assert preflight(files=2, GPUS="2").returncode == 0
    for wrong in ("", "eight"):
        assert preflight(GPUS=wrong).returncode != 0
    assert preflight(FAIL_ON="never").returncode == 2


def test_the_pci_bus_shows_the_gpus_of_others(machine: Any, preflight: Run, tmp_path: Path) -> None:
    """sysfs is that of the host in each container."""
    for number in range(16):
        folder = tmp_path / "root/sys/bus/pci/devices/00{0:02d}:00:00.0".format(number)
        folder.mkdir(parents=True)
        (folder / "vendor").write_text("0x10de\n")
        (folder / "class").write_text("0x030200\n")
    done = preflight()
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_what_the_node_silences_is_silent_here(machine: Any, preflight: Run, tmp_path: Path) -> None:
    machine.control("fault", "gpu", "3", "lost")
    silence = {"finding": "gpu_lost/*", "until": "2999-12-31", "owner": "anna", "reason": "known", "nodes": []}
    (tmp_path / "root/etc/gpu_node").mkdir(parents=True)
    (tmp_path / "root/etc/gpu_node/node.json").write_text(json.dumps({"health": {"silences": [silence]}}))
    assert preflight().returncode == 0


def test_the_pod_and_the_patch_are_the_same(tmp_path: Path) -> None:
    spec = PATCH["spec"]["template"]["spec"]
    assert set(PATCH) == {"spec"} and set(spec) == {"initContainers", "volumes"}
    for part in spec:
        assert spec[part] == POD["spec"][part]


def test_it_has_no_right_beyond_what_it_needs() -> None:
    context: Dict[str, Any] = CONTAINER["securityContext"]
    assert context == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "runAsUser": 65534,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert POD["spec"]["automountServiceAccountToken"] is False
    assert not {"hostPID", "hostNetwork", "hostIPC"} & set(POD["spec"])
    # Single files, and not what lies beside them.
    mounts = {one["name"]: one for one in CONTAINER["volumeMounts"]}
    assert len(mounts) == len(POD["spec"]["volumes"]) == 2
    for volume in POD["spec"]["volumes"]:
        assert volume["hostPath"]["type"] == "File" and mounts[volume["name"]]["readOnly"] is True
        assert volume["hostPath"]["path"] == mounts[volume["name"]]["mountPath"]


def test_it_asks_for_the_gpus_that_the_pod_gets() -> None:
    given = {one["name"]: one["value"] for one in CONTAINER["env"]}
    # The kubelet hands those of an init container on to the others, so that a pod needs no more than the larger number.
    (pod,) = POD["spec"]["containers"]
    assert CONTAINER["resources"]["limits"] == pod["resources"]["limits"] == {GPU: int(given["GPUS"])}
    assert "utility" in given["NVIDIA_DRIVER_CAPABILITIES"]
