# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module node_profile as Ansible runs it: captured trees, simulated GPUs, a metadata service of our own."""

from __future__ import annotations

import http.server
import json
import os
import pathlib
import socket
import threading
import time

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.modules import node_profile as module
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import unpack
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module

FOLDER = pathlib.Path(__file__).resolve().parents[4] / "roles" / "node_profile" / "files" / "profiles"
PROFILES = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.yml")}


@pytest.fixture
def node(nvml_simulator, tmp_path):
    """A node of size ND96asr_v4. The real cloud is never asked: a URL is always given."""
    simulator = nvml_simulator("nd96asr_v4")
    root = unpack("ndv4", tmp_path / "node")

    def run(check=False, **arguments):
        given = {"root": root, "gpus": True, "metadata": "never"}
        given.update(arguments)
        return run_module("node_profile", given, check=check, environment=simulator.environment())

    run.simulator = simulator
    run.root = pathlib.Path(root)
    run.declaration = run.root / "etc/gpu_node/node.json"
    return run


@pytest.fixture
def metadata():
    """A metadata service on the loopback interface that tells one VM size after another."""
    sizes = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps({"vmSize": sizes[0]}).encode()
            self.send_response(200 if self.headers["Metadata"] == "true" else 400)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield sizes, "http://127.0.0.1:{0}/metadata/instance/compute".format(server.server_port)
    server.shutdown()
    server.server_close()
    thread.join(5)


def test_check_then_real_then_check_then_absent(node):
    planned = node(check=True)
    assert planned["changed"] and not node.declaration.exists()
    assert "nd96asr_v4" in planned["diff"]["after"] and "nd96asr_v4" not in planned["diff"]["before"]

    done = node()
    assert done["changed"] and done["actions"] == planned["actions"]
    assert (done["name"], done["source"], done["matches"], done["differences"]) == ("nd96asr_v4", "hardware", True, [])
    declared = json.loads(node.declaration.read_text())
    assert declared == {"profile": {"name": "nd96asr_v4", "data": PROFILES["nd96asr_v4"]}}

    for check in (True, False):
        again = node(check=check)
        assert not again["changed"] and again["actions"] == []
        assert again["diff"]["before"] == again["diff"]["after"]

    assert node(check=True, state="absent")["changed"] and node.declaration.exists()
    gone = node(state="absent")
    assert gone["changed"] and "ansible_facts" not in gone and not node.declaration.exists()
    assert not node(state="absent")["changed"]


def test_other_sections_are_left_alone(node):
    node.declaration.parent.mkdir(parents=True)
    node.declaration.write_text('{"scratch": {"count": 8}}')
    node()
    assert set(json.loads(node.declaration.read_text())) == {"scratch", "profile"}
    node(state="absent")
    assert json.loads(node.declaration.read_text()) == {"scratch": {"count": 8}}


def test_the_facts_hold_what_later_roles_need(node):
    result = node(declare=False)
    assert not result["changed"] and not node.declaration.exists()
    fact = result["ansible_facts"]["gpu_node_profile"]
    told = {"name", "source", "reason", "data", "compared", "matches", "differences", "roles", "left", "lost"}
    assert set(fact) == told
    assert fact["data"]["nvme"]["models"][0] == "Microsoft NVMe Direct Disk"


def test_the_cloud_chooses_before_the_hardware(node, metadata):
    sizes, url = metadata
    sizes[:] = ["Standard_ND96amsr_A100_v4"]
    result = node(metadata="auto", metadata_url=url, metadata_timeout_seconds=10)
    assert (result["name"], result["source"], result["matches"]) == ("nd96amsr_a100_v4", "metadata", False)
    assert "product of GPU 0001:00:00.0" in [one["subject"] for one in result["differences"]]
    sizes[:] = ["Standard_NC64as_T4_v3"]
    result = node(metadata="auto", metadata_url=url, metadata_timeout_seconds=10)
    assert (result["name"], result["compared"], result["matches"]) == ("unknown", False, False)
    assert result["ansible_facts"]["gpu_node_profile"]["data"] == {}


def test_a_cloud_that_is_not_there_costs_less_than_a_second(node):
    """As the service sees it, from the connection to its end: how fast a process starts does not count."""
    waited = []

    def be_silent(server):
        while True:
            connection, _address = server.accept()
            begin = time.monotonic()
            with connection:
                while connection.recv(4096):
                    pass
            waited.append(time.monotonic() - begin)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=be_silent, args=(server,), daemon=True).start()
        url = "http://127.0.0.1:{0}/".format(server.getsockname()[1])
        found = node(gpus=False, metadata="auto", metadata_url=url)
        while not waited:  # the end of the connection arrives
            time.sleep(0.05)
    assert found["source"] == "hardware" and "within 0.5 s" in found["reason"]
    assert 0.3 < sum(waited) < 1.0, waited


def test_a_lost_gpu_is_a_difference(node):
    node.simulator.control("fault", "gpu", "3", "lost")
    result = node()
    assert result["name"] == "nd96asr_v4" and not result["matches"]
    assert [(one["subject"], one["expected"], one["found"]) for one in result["differences"]] == [
        ("GPUs that NVML reports", 8, 7)
    ]
    assert any("0004:00:00.0" in note for note in result["notes"])


def test_gpus_off_the_bus_leave_a_sick_machine_with_its_profile(node):
    node()
    before = node.declaration.read_text()
    devices = node.root / "sys/bus/pci/devices"
    for device in devices.iterdir():
        if (device / "vendor").read_text().strip() == "0x10de" and (device / "class").read_text().startswith("0x03"):
            device.unlink()
    for check in (True, False):
        result = node(gpus=False, manage="known", check=check)
        assert (result["name"], result["source"], result["left"]) == ("nd96asr_v4", "declared", None)
        assert ("GPUs on the PCI bus", 8, 0, "fail") in [tuple(one.values()) for one in result["differences"]]
        assert "gpu_settings" in result["roles"] and not result["changed"] and node.declaration.read_text() == before


def test_gpus_without_driver_and_profile_are_managed(node):
    node.simulator.control("fault", "driver", "not-loaded")
    result = node(name="unknown", manage="known")
    assert (result["name"], result["left"]) == ("unknown", None) and "gpu_settings" in result["roles"]


def test_nothing_is_kept_on_a_machine_that_is_left_alone(node, tmp_path):
    bare = unpack("hb176", tmp_path / "bare")
    declaration = pathlib.Path(bare) / "etc/gpu_node/node.json"
    for check in (True, False):
        left = node(root=bare, gpus=False, manage="known", asked=["all"], check=check)
        assert (left["roles"], left["changed"], left["actions"]) == ([], False, [])
        assert "gpu_node_manage: true" in left["left"] and not declaration.exists()
    asked = node(root=bare, gpus=False, manage="known", asked=["pyxis", "comm_typo"])
    assert asked["roles"] == ["pyxis"] and asked["changed"] and declaration.exists()
    # What is declared goes on request, and stays otherwise.
    assert not node(root=bare, gpus=False, manage="known")["changed"] and declaration.exists()
    assert node(root=bare, state="absent")["changed"] and not declaration.exists()
    every = node(root=bare, gpus=False)
    assert "nccl" in every["roles"] and every["left"] is None and every["changed"]


def test_a_disk_that_is_scratch_material_makes_a_machine_known(node, tmp_path):
    root = unpack("ndv4", tmp_path / "disks")
    for device in (pathlib.Path(root) / "sys/bus/pci/devices").iterdir():
        if (device / "vendor").read_text().strip() == "0x10de":
            device.unlink()
    given = {"root": root, "gpus": False, "manage": "known", "name": "unknown"}
    known = node(scratch_models=["Microsoft NVMe Direct*"], **given)
    assert known["left"] is None and "nvme_scratch" in known["roles"]
    left = node(scratch_models=["nvme_card"], declare=False, **given)
    assert "Microsoft NVMe Direct Disk (nvme" in left["left"] and left["roles"] == []


def test_without_driver_the_machine_is_known_by_its_pci_ids(node):
    node.simulator.control("fault", "driver", "not-loaded")
    result = node()
    assert result["name"] == "nd96asr_v4"
    assert [one["severity"] for one in result["differences"]] == ["warn"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"name": "nd96asr_v5"}, "there is no profile of that name; did you mean 'nd96asr_v4'? choose among"),
        ({"name": "x"}, "there is no profile of that name; choose among: aws_p4d"),
        ({"profiles": {"x": "text"}}, "profile 'x': a profile must be a mapping"),
        ({"profiles": {"x": {"name": "x"}}}, "description is missing"),
        ({"metadata_timeout_seconds": 0}, "option metadata_timeout_seconds: 0 seconds is out of range"),
        ({"call_timeout_seconds": -1}, "option call_timeout_seconds: -1 seconds is out of range"),
        ({"metadata": "always", "metadata_url": "https://127.0.0.1/"}, "metadata_url"),
        ({"metadata": "sometimes"}, "one of"),
        ({"root": "/no/where"}, "root /no/where: there is no such folder; give the top of a captured tree."),
        ({"profiles": "text"}, "is no mapping; give profiles by name"),
        ({"unheard_of": 1}, "Unsupported parameters"),
    ],
)
def test_a_wrong_argument_ends_in_one_sentence_and_no_change(node, arguments, words):
    result = node(**arguments)
    assert result["failed"] and words in result["msg"]
    assert "\n" not in result["msg"].strip() and not node.declaration.exists() and not os.path.exists("/no")


def test_a_machine_that_has_to_be_known_or_like_its_profile_stops_the_run_and_is_not_declared(node):
    result = node(name="unknown", require_known=True)
    assert result["failed"] and "this machine: It was named explicitly; name a profile" in result["msg"]
    other = node(name="nd96amsr_a100_v4", fail_on="fail")
    assert other["failed"] and len(other["refusals"]) > 1 and not node.declaration.exists()
    assert "the profile nd96amsr_a100_v4 has" in other["msg"]
    node.simulator.control("fault", "driver", "not-loaded")  # a difference of severity warn
    assert not node(fail_on="fail").get("failed") and node(fail_on="warn")["failed"]


def test_a_profile_of_the_site_takes_the_place_of_one_of_the_collection(node):
    mine = dict(PROFILES["nd96asr_v4"], infiniband={"count": 7})
    result = node(name="nd96asr_v4", profiles={"nd96asr_v4": mine})
    assert [one["expected"] for one in result["differences"]] == [7]


def test_a_damaged_declaration_is_named_and_kept(node):
    node.declaration.parent.mkdir(parents=True)
    node.declaration.write_text("{ cut short")
    for arguments in ({}, {"state": "absent"}):
        result = node(**arguments)
        assert result["failed"] and "/etc/gpu_node/node.json" in result["msg"]
    assert node.declaration.read_text() == "{ cut short"


def test_all_that_is_returned_is_documented(node):
    documented = yaml.safe_load(module.RETURN)
    result = node()
    extra = {"changed", "diff", "invocation", "warnings", "deprecations"}
    assert set(result) - extra == set(documented)
    assert set(result["ansible_facts"]["gpu_node_profile"]) == set(
        documented["ansible_facts"]["contains"]["gpu_node_profile"]["contains"]
    )
