# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode diagnose`` on a simulated machine whose users have written secrets and markup wherever they can."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit import forked
from ansible_collections.trainyard.gpu_node.tests.unit.data.image import images
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.plugin_utils.health_report import (
    test_health_report_in_a_browser as in_a_browser,
)

browse = in_a_browser.browse

GPUNODE = Path(__file__).resolve().parents[2] / "command" / "gpunode_on.py"
MARK = "Zq7secret"
DECLARED = json.dumps({"a": {"password": MARK + "-declared", "kept": "yes"}})
HOSTILE = '</pre><script>document.title="owned"</script><img src=x onerror=document.title="owned">\x1b[31m'
KMSG = """6,0,100,-;Linux version 6.8.0
4,1,2000000,-;NVRM: Xid (PCI:0000:0b:00): 31, pid=4711, name=Zq7secret, Ch 00000010, intr 00000000. MMU Fault
12,2,3000000,-;Zq7secret: what a program wrote
4,3,4000000,-;python[4711]: segfault at 0 ip 1 sp 2 error 4 {0}
"""


class Node:
    def __init__(self, simulator, root):
        self.root, self.programs = root / "node", root / "programs"
        self.programs.mkdir()
        simulator.control("process", "add", "0", str(os.getpid()), "10")
        self.environment = simulator.environment(
            PATH="{0}:{1}".format(self.programs, os.environ["PATH"]), HF_TOKEN=MARK + "-of-caller"
        )
        self.write("/etc/gpu_node/node.json", DECLARED)
        self.write("/var/lib/gpu_node/health/verdict.json", "{{not JSON, token={0}".format(MARK))
        fault = {"finding": "process 4711 (Zq7secret) is a zombie", "at": 1}
        self.write("/var/lib/gpu_node/health/journal.json", json.dumps([fault]))
        self.write("/dev/kmsg", KMSG.format(HOSTILE.replace("\x1b", "\\x1b")))
        self.write("/etc/slurm/slurm.conf", "SlurmdLogFile=/var/log/slurm/%n.log\nNodeName={0}\n".format(self.name))
        log = "start\n{0}\nenv: AZURE_STORAGE_KEY={1} https://h/c?sv=1&sig={1}\nsaid {1}-declared and {1}-of-caller\n"
        self.write("/var/log/slurm/{0}.log".format(self.name), log.format(HOSTILE, MARK))
        for name in ("lsblk", "df", "ip", "lspci", "journalctl", "mdadm", "dpkg-query", "rpm", "dcgmi", "nvme"):
            self.program(name, "echo {0}: fine".format(name))
        self.program("nvidia-smi", "echo '            Name                              : Zq7secret'")
        self.program("nvidia-bug-report.sh", 'echo "Authorization: Bearer Zq7secret" | gzip > "$2.gz"')

    @property
    def name(self):
        return os.uname().nodename.split(".")[0]

    def write(self, path, text):
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def program(self, name, text):
        path = self.programs / name
        path.write_text("#!/bin/sh\n" + text + "\n")
        path.chmod(0o755)

    def gpunode(self, *words, timeout=100, command="diagnose"):
        return forked.run(
            [sys.executable, str(GPUNODE), str(self.root), "--", command, *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            text=True,
            check=False,
        )


@pytest.fixture
def node(nvml_simulator, tmp_path):
    return Node(nvml_simulator(), tmp_path)


def texts(path):
    """By the name of the file, without its folder."""
    with tarfile.open(path) as archive:
        names = archive.getnames()
        assert len({name.split("/")[0] for name in names}) == 1
        return {name.split("/", 1)[1]: archive.extractfile(name).read().decode() for name in names}


def test_all_that_the_node_tells_is_in_it_and_no_secret(node, tmp_path):
    path = str(node.root / "out.tar.gz")
    done = node.gpunode("-o", path, "--hours", "8760")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert max(map(len, done.stdout.splitlines())) <= max(80, len(path) + 60)
    found = texts(path)
    for name, text in {**found, "output": done.stdout}.items():
        assert MARK not in text, name
        assert "\x1b" not in text and "<img" not in text.replace("&lt;img", "") or name != "index.html"
    assert set(found) == {
        *(
            "index.html",
            "manifest.json",
            "verdict.json",
            "image.json",
            "topology.json",
            "gpus.json",
            "nvidia_smi.txt",
            "dcgm.txt",
        ),
        *("nvidia_bug_report.txt", "kernel.txt", "journal.txt", "slurmd.txt", "declaration.txt", "record.txt"),
        *("versions.txt", "disks.txt", "pci.txt", "network.txt"),
    } | ({"smart.txt"} & set(found)) | ({"system.txt", "mounts.txt"} & set(found))
    assert "MMU Fault" in found["kernel.txt"] and "Xid" in found["kernel.txt"]
    assert '"kept": "yes"' in found["declaration.txt"] and "start" in found["slurmd.txt"]
    assert json.loads(found["verdict.json"])["node"] == node.name and len(json.loads(found["gpus.json"])["gpus"]) > 0
    (process,) = json.loads(found["gpus.json"])["gpus"][0]["processes"]["running"]
    assert process["pid"] == os.getpid() and not {"name", "command"} & set(process)
    manifest = json.loads(found["manifest.json"])
    assert {one["name"]: one["status"] for one in manifest["parts"]}["slurm"] in ("none", "whole")
    assert sum(one["hidden"] for one in manifest["parts"]) >= 6


def test_the_software_is_told_as_gpunode_image_tells_it_and_without_secrets(node):
    image = images.azure_hpc(node.root)
    node.write("/etc/gpu_node/node.json", DECLARED)
    image.dpkg({"nvidia-fabricmanager-535": "535.183.01-1"})
    image.link("/usr/local/nccl", "/none/token=" + MARK)
    told = {"CUDA": "12.2", "https://me:{0}@host/x?sig={0}".format(MARK): HOSTILE}
    image.file("/opt/azurehpc/component_versions.txt", json.dumps(told))
    asked = json.loads(node.gpunode("--json", command="image").stdout)
    path = node.root / "out.tar.gz"
    done = node.gpunode("-o", str(path), "--without", "bug_report")
    assert done.returncode == 0, done.stdout + done.stderr
    found = texts(path)
    assert not [name for name, text in found.items() if MARK in text or "\x1b" in text]
    document = json.loads(found["image.json"])
    assert [one["rule"] for one in document["problems"]] == ["fabric_manager", "broken_link"]
    (manifest,) = [one for one in json.loads(found["manifest.json"])["parts"] if one["name"] == "image"]
    assert manifest["status"] == "whole" and manifest["hidden"] > 0
    for versions in (asked["versions"], document["versions"]):
        assert versions.pop("azure_hpc").startswith("CUDA 12.2, https://")
    assert document["versions"] == asked["versions"] and len(document["versions"]) > 20
    assert document["problems"][0] == asked["problems"][0]
    shown = found["index.html"].split("<h2>Software</h2>")[1].split("<h2>")[0]
    assert "it is of 535.183.01, and the driver is of 535.161.08: it does not start" in shown
    assert "<td>driver</td><td>535.161.08</td>" in shown and "[hidden]" in shown and "<img" not in shown


def test_what_hangs_is_told_and_costs_nothing_else(node):
    node.program("lspci", "echo first; sleep 100")
    node.program("nvidia-smi", "trap '' TERM INT; sleep 100")
    path, began = node.root / "out.tar.gz", time.monotonic()
    done = node.gpunode("-o", str(path), "--timeout", "12")
    assert time.monotonic() - began < 40
    assert done.returncode == 3, done.stdout + done.stderr
    words = " ".join(done.stdout.split())
    assert "not collected nvidia_smi: the time limit of the whole was used up" in words
    assert "not collected bug_report: the time limit of the whole was used up before its turn" in words
    found = texts(path)
    assert "verdict.json" in found and "disks.txt" in found and "nvidia_smi.txt" not in found
    assert "used up" in found["index.html"]


def test_json_is_the_manifest(node):
    path = node.root / "out.tar.gz"
    done = node.gpunode("-o", str(path), "--json", "--without", "*", "--without", "x")
    assert done.returncode == 2 and "no such part" in json.loads(done.stdout)["error"]["message"]
    done = node.gpunode("-o", str(path), "--json", "--without", "verdict")
    document = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert document["file"] == str(path) and document["bytes"] == path.stat().st_size
    assert document["schema"] == "trainyard.gpu_node/diagnosis/1"
    assert "no verdict" in texts(path)["index.html"]


def test_it_stays_below_the_size_that_was_asked_for(node):
    node.write(
        "/var/log/slurm/{0}.log".format(node.name),
        "".join("{0} {1}\n".format(n, os.urandom(60).hex()) for n in range(40000)),
    )
    path = node.root / "out.tar.gz"
    done = node.gpunode("-o", str(path), "--most", "1")
    assert done.returncode == 0 and path.stat().st_size < 2**20
    assert "cut slurmd:" in done.stdout
    found = texts(path)
    assert sum(len(text.encode()) for text in found.values()) < 2**20
    assert found["slurmd.txt"].splitlines()[-1].startswith("39999 ") and "left out" in found["index.html"]


@pytest.mark.parametrize(
    "words, status, told",
    [
        ((), 2, "give -o FILE.tar.gz"),
        (("-o", "x", "--hours", "0"), 2, "give 0.1 to 8760"),
        (("-o", "x", "--hours", "nan"), 2, "give 0.1 to 8760"),
        (("-o", "x", "--most", "0"), 2, "give 1 to 1024"),
        (("-o", "x", "--timeout", "1e9"), 2, "give 10 to 3600"),
        (("-o", "/none/such/x.tar.gz"), 1, "there is no folder /none/such"),
        (("-o", "/tmp"), 1, "it is there and is no file"),
    ],
)
def test_what_means_nothing_is_refused_before_anything_is_read(node, words, status, told):
    done = node.gpunode(*words, timeout=20)
    assert done.returncode == status and told in done.stderr and done.stdout == ""


def test_no_link_is_followed(node):
    target, path = node.root / "target", node.root / "out.tar.gz"
    target.write_text("old")
    path.symlink_to(target)
    done = node.gpunode("-o", str(path))
    assert done.returncode == 1 and "it is a link" in done.stderr and target.read_text() == "old"


def test_the_list_tells_each_part(node):
    done = node.gpunode("--list")
    assert done.returncode == 0 and max(map(len, done.stdout.splitlines())) <= 80
    rows = json.loads(node.gpunode("--list", "--json").stdout)
    assert [one["name"] for one in rows][0] == "verdict" and len(rows) == len(done.stdout.splitlines()) - 1


def test_the_page_opens_in_a_browser(node, browse):
    """The fixture fails when the page says anything on the console, as one that must load something does."""
    path = node.root / "out.tar.gz"
    node.gpunode("-o", str(path))
    shown = browse(texts(path)["index.html"])
    assert "<title>{0}: diagnosis</title>".format(node.name) in shown and "<img" not in shown
    assert 'href="kernel.txt"' in shown
