# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of `make hardware` on simulated machines: what it writes, what it never writes, and what it says."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.resources.node_runtime.archive_node import (
    COPIED,
    Command,
    Node,
    pythons,
)
from ansible_collections.trainyard.gpu_node.tools.hardware import __main__ as hardware

pynvml = pytest.importorskip("pynvml", reason="needs nvidia-ml-py")

PYTHONS = list(pythons().values())
OUTPUT = "root/out.tar.gz"
# One run of active checks at a time; gone with the next boot.
LOCK = {"run/gpu_node", "run/gpu_node/health_active.lock"}
SHORT = ("--without", "commands", "--without", "cost")


@pytest.fixture(scope="module")
def file() -> bytes:
    return hardware.build()


@pytest.fixture
def node(nvml_simulator, tmp_path, file):
    """A node with the file, and with the nvidia-smi of these tests."""
    if not PYTHONS:
        pytest.skip("needs a Python that is not below /usr/local")
    made = Node(tmp_path / "node", PYTHONS[0], file, nvml_simulator("nd96isr_h100_v5", "gpu.count=2"))
    text = Path(__file__).with_name("nvidia_smi.py").read_text()
    made.write("local/bin/nvidia-smi", "#!{0} -IB\n".format(PYTHONS[0]) + text)
    (made.root / "local/bin/nvidia-smi").chmod(0o755)
    made.write("local/bin/pynvml.py", Path(pynvml.__file__).read_text())
    made.write("etc/passwd", "root:x:0:0:root:/root:/bin/sh\ntrainee:x:1000:1000::/home/trainee:/bin/sh\n")
    made.write("dev/kmsg", KERNEL)
    made.environment["API_TOKEN"] = "Zq7secret-of-the-caller"
    return made


KERNEL = """6,0,0,-;Linux version 6.8.0
6,1,1000000,-;NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04
4,2,2000000,-;NVRM: Xid (PCI:0001:00:00): 31, pid=4711, name=secret-model, Ch 00000010, intr 00000000. MMU Fault
6,3,3000000,-;usb 1-1: SerialNumber: 123456
"""


def run(node, *words):
    (answer,) = node.run([Command([node.python, "-I", COPIED, "-o", "/" + OUTPUT, *words], seconds=320)])
    return answer


def texts(path):
    with tarfile.open(path) as archive:
        assert {one.mode for one in archive.getmembers()} == {0o600}
        return {one.name.partition("/")[2]: archive.extractfile(one).read().decode() for one in archive.getmembers()}


def identities(node):
    """What names the node, its GPUs, its users and its network."""
    found = [str(path.read_text()).strip() for path in node.root.glob("sys/class/infiniband/*/node_guid")]
    found += [path.read_text().strip() for path in node.root.glob("sys/class/net/*/address")]
    found += [path.read_text().strip() for path in node.root.glob("sys/class/nvme/*/serial")]
    state = (node.root / "simulator/state").glob("*")
    text = "\n".join(path.read_bytes().decode("latin-1") for path in state)
    found += re.findall(r"GPU-[0-9a-f-]{36}", text)
    return [one for one in found if len(one) > 4] + ["trainee", "secret-model", "1b2c3d4e5f607182", "Zq7secret"]


def test_the_archive_has_the_answers_of_the_machine_and_nothing_that_names_it(node):
    before = node.files()
    answer = run(node, *SHORT)
    assert (answer.status, answer.error) == (0, ""), answer
    assert answer.out.startswith("[1/5] NVML") and "\nnothing differs\n" in answer.out
    assert "attach it to an issue" in answer.out
    found = texts(node.root / OUTPUT)
    assert {"summary.txt", "gpus.json", "nvidia_smi_columns.csv", "nvidia_smi_q.txt", "system.txt"} <= set(found)
    (recording,) = [name for name in found if name.startswith("nvml_nvidia_h100")]
    assert len(json.loads(found[recording])["answers"]) > 500
    assert found["nvidia_smi_columns.csv"].count("\n") == 3
    assert "MMU Fault" in found["kernel.txt"] and "usb" not in found["kernel.txt"]
    for name, text in {**found, "output": answer.out}.items():
        assert [one for one in identities(node) if one.lower() in text.lower()] == [], name
    serial = json.loads(found["gpus.json"])["gpus"][0]["serial"]
    assert serial in ("[serial]", "0" * len(serial)) and "0x1b2c" not in found["nvidia_smi_q.txt"]
    changed = {path for path, digest in node.files().items() if before.get(path) != digest}
    assert changed - LOCK == {OUTPUT}


def test_a_column_that_differs_is_named_and_one_that_nvidia_smi_does_not_know_is_left_out(node):
    node.write("simulator/state/wrong", "power.limit=650.00\n")
    node.write("simulator/state/unknown", "temperature.memory\n")
    answer = run(node, *SHORT, "--without", "active", "--without", "nvml")
    assert answer.status == 3, answer
    assert "differs  GPU 0: power.limit: nvidia-smi 650.00, gpunode 700.0\n" in answer.out
    assert "differs  GPU 1: power.limit" in answer.out and answer.out.count("differs  ") == 2
    assert "columns that this nvidia-smi does not know: temperature.memory" in answer.out
    assert "power.limit: nvidia-smi 650.00" in texts(node.root / OUTPUT)["summary.txt"]


def test_without_nvidia_smi_the_rest_is_done(node):
    (node.root / "local/bin/nvidia-smi").unlink()
    answer = run(node, *SHORT, "--without", "active", "--without", "nvml")
    assert answer.status == 0 and "nvidia-smi: it is not in PATH, so nothing was compared" in answer.out
    assert "nvidia_smi_columns.csv" not in texts(node.root / OUTPUT)


def test_what_is_missing_is_one_sentence_and_leaves_nothing(node):
    (node.root / "root/link").symlink_to("/etc/passwd")
    before = node.files()
    library = node.environment["LD_LIBRARY_PATH"]
    cases = {
        "no driver": ("/root/x.tar.gz", {"LD_LIBRARY_PATH": "/none"}, "NVIDIA GPUs: none answers here"),
        "driver not loaded": ("/root/x.tar.gz", {"NVML_SIMULATOR_STATE": "/none"}, "NVIDIA GPUs: none answers here"),
        "full disk": ("/full/x.tar.gz", {}, "its file system has less than 4 MiB left"),
        "link": ("/root/link", {}, "it is a link"),
        "no directory": ("/none/x.tar.gz", {}, "there is no folder /none"),
    }
    assert library != "/none"
    asked = [Command([node.python, "-I", COPIED, "-o", one], environment=more) for one, more, dummy in cases.values()]
    for (how, case), answer in zip(cases.items(), node.run(asked)):
        assert (answer.status, answer.out) == (1, ""), (how, answer)
        assert answer.error.startswith("gpu-node-hardware: ") and case[2] in answer.error, (how, answer)
        assert len(answer.error.splitlines()) == 1, (how, answer)
    assert node.files() == before


def test_an_interrupt_leaves_nothing(nvml_simulator, tmp_path, file):
    simulator = nvml_simulator("nd96isr_h100_v5", "gpu.count=1")
    path, temporary = tmp_path / "file.pyz", tmp_path / "temporary"
    path.write_bytes(file)
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-I", str(path), "-o", str(tmp_path / "out.tar.gz"), "--without", "nvml"],
        env=simulator.environment(TMPDIR=str(temporary)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    line = process.stdout.readline()
    while "commands of gpunode" not in line:
        assert line, process.communicate()
        line = process.stdout.readline()
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    error = process.communicate(timeout=30)[1]
    assert (process.returncode, error) == (130, "\ninterrupted: nothing was written\n")
    assert list(temporary.iterdir()) == [] and not (tmp_path / "out.tar.gz").exists()
    assert left(str(simulator.state)) == []


def left(state):
    """Processes that still see the simulated machine."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if state.encode() in Path("/proc/{0}/environ".format(name)).read_bytes():
                found.append(Path("/proc/{0}/cmdline".format(name)).read_bytes())
        except OSError:
            continue
    return found


@pytest.mark.soak
def test_the_whole_run_ends_within_five_minutes_and_names_nobody(node):
    began = time.monotonic()
    before = node.files()
    answer = run(node)
    assert time.monotonic() - began < 300 and answer.status in (0, 3), answer
    differs = [line for line in answer.out.splitlines() if line.startswith("differs") and "cost:" not in line]
    assert differs == [] and answer.error == ""
    found = texts(node.root / OUTPUT)
    assert "cost.txt" in found and len([name for name in found if name.startswith("gpunode/")]) > 20
    for name, text in {**found, "output": answer.out}.items():
        assert [one for one in identities(node) if one.lower() in text.lower()] == [], name
    assert {path for path, digest in node.files().items() if before.get(path) != digest} - LOCK == {OUTPUT}


def test_the_file_is_the_same_for_the_same_clone(file):
    assert hardware.build() == file
