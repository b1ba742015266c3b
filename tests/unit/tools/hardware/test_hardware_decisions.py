# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make hardware` decides without a machine: what is masked, which columns differ, which commands it runs."""

from __future__ import annotations

import json
import os
import time
from types import SimpleNamespace

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main
from ansible_collections.trainyard.gpu_node.tools.hardware import commands, compare, cost, machine, run
from ansible_collections.trainyard.gpu_node.tools.hardware.mask import Mask

KNOWN = {"host": ["gpu07", "gpu07.site.example"], "user": ["alice"], "serial": ["1322621034567", "S4EMNX0R"]}
IDENTITIES = [
    ("gpu07.site.example: pass", "[host]: pass"),
    ("at GPU07:", "at [host]:"),
    ("/home/bob/model.py by alice", "/home/[user]/model.py by [user]"),
    ("Serial Number : 1322621034567", "Serial Number : [serial]"),
    ("Serial Number                      : 1655122001234", "Serial Number                      : 0000000000000"),
    ('"serial": "1655122001234",', '"serial": "0000000000000",'),
    ("GPU PDI   : 0x1b2c3d4e5f607182", "GPU PDI   : 000000000000000000"),
    ("GPU-f28b1011-e12a-4c9f-ca36-b13b0b4c7b04", "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"),
    ("link/ether 00:0d:3a:1b:2c:3d brd", "link/ether xx:xx:xx:xx:xx:xx brd"),
    (
        "link/infiniband 00:00:10:49:fe:80:00:00:00:00:00:00:00:15:5d:ff:fe:33:ff:b7 brd",
        "link/infiniband " + ":".join(["xx"] * 20) + " brd",
    ),
    ("inet 10.1.2.34/24 and 192.0.2.255.", "inet xx.x.x.xx/24 and xxx.x.x.xxx."),
    ("inet6 fe80::20d:3aff:fe1b:2c3d/64", "inet6 xxxx::xxx:xxxx:xxxx:xxxx/64"),
    ("node_guid 0015:5dff:fe33:ffb7", "node_guid xxxx:xxxx:xxxx:xxxx"),
    ("id 0123456789abcdef0123456789abcdef.", "id xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx."),
    ("machine 0123456789abcdef0123456789abcdef", "machine xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"),
]


@pytest.mark.parametrize(("text", "masked"), IDENTITIES)
def test_what_names_a_machine_is_masked(text, masked):
    assert Mask(KNOWN).text(text) == masked


def test_what_names_the_site_is_masked(tmp_path):
    silence = {"finding": "gpu_ecc/*", "until": "2027-01-01", "owner": "Bob bob@site.example", "reason": "ticket 4711"}
    declared = tmp_path / "node.json"
    overrule = {"owner": "Eve Adams", "reason": "moved to row 7"}
    declared.write_text(json.dumps({"health": {"silences": [silence], "overrules": [overrule]}}))
    texts = [
        '"thing": "NFS server filer9", "key": "filer9", "reason": "it does not answer"',
        "[4.2] nfs: server nas01.site.example not responding, still trying",
        json.dumps({"silenced": [{"finding": {"reason": "an NFS server hangs"}, "silence": silence}]}),
        "overruled by Eve Adams: moved to row 7",
        '{"owner": "gpu", "reason": "a \\"quoted\\" word"}, "reason": "the GPU is lost"',
    ]
    mask = Mask(machine.of_site(texts, str(declared)))
    masked = "\n".join(map(mask.text, texts))
    for word in ("filer9", "nas01", "Bob", "site.example", "4711", "Eve", "row 7", "quoted", '"gpu"'):
        assert word not in masked, masked
    assert "an NFS server hangs" in masked and "NFS server [server]" in masked and "the GPU is lost" in masked


@pytest.mark.parametrize("content", ["", "{", "[]", '{"health": []}', '{"health": {"silences": [1]}}'])
def test_a_declaration_that_cannot_be_read_names_nobody(tmp_path, content):
    (tmp_path / "node.json").write_text(content)
    found = machine.of_site(["no server"], str(tmp_path / "node.json"))
    assert not any(found.values())


@pytest.mark.parametrize(
    "text",
    [
        "driver 580.159.04, VBIOS 96.00.DA.00.0C, InfoROM G520.0200.00.05",
        "GPU 0000:0b:00.0: PCI 10de:2330, 12:30:45 on 2026-11-26",
        "NVIDIA H100 80GB HBM3, board 695-2G520-0200-000, ubuntu 22.04",
        "Serial Number : N/A",
        '"serial": null,',
        "gpu070 and my-gpu070 are other names",
        "[    0.537854] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build",
    ],
)
def test_a_text_without_identities_stays_as_it_is(text):
    assert Mask(KNOWN).text(text) == text


def test_a_host_or_a_user_with_a_word_of_the_archive_leaves_products_readable(monkeypatch):
    """Many images have a user nvidia, and machines are called gpu or after their product."""
    users = [SimpleNamespace(pw_name=name, pw_uid=1000 + number) for number, name in enumerate(("nvidia", "alice"))]
    monkeypatch.setattr(machine.pwd, "getpwall", lambda: users)
    monkeypatch.setattr(machine.socket, "gethostname", lambda: "GPU")
    monkeypatch.setattr(machine.os, "uname", lambda: SimpleNamespace(nodename="h100.site.example"))
    for name in ("USER", "LOGNAME", "SUDO_USER"):
        monkeypatch.delenv(name, raising=False)
    known = machine.known([GPU])
    assert known["user"] == ["alice"] and known["host"] == ["h100.site.example", "site.example"]
    text = '{"name": "NVIDIA H100 80GB HBM3"}, GPU 0, /proc/driver/nvidia/gpus'
    assert Mask(known).text(text) == text
    assert Mask(known).text("alice on h100.site.example") == "[user] on [host]"


@pytest.mark.parametrize("hangs", [False, True], ids=["all answer", "the directory service hangs"])
def test_users_whom_only_a_directory_service_knows_are_masked(tmp_path, monkeypatch, hangs):
    known = {200001: "SITE\\alice", 200002: "bob@site.example", 65534: "nobody", 61200: "dynamic"}

    def name(number):
        if number == 200002 and hangs:
            time.sleep(60)
        return SimpleNamespace(pw_name=known[number])

    monkeypatch.setattr(machine.pwd, "getpwall", list)
    monkeypatch.setattr(machine.pwd, "getpwuid", name)
    monkeypatch.setattr(machine, "_OWNER_SECONDS", 0.5)
    for pid, number in ((1, 0), (7, 200001), (8, 65534), (9, 61200), (10, 999999)):
        (tmp_path / "proc" / str(pid)).mkdir(parents=True)
        (tmp_path / "proc" / str(pid) / "status").write_text("Name:\tx\nUid:\t{0}\t0\t0\t0\n".format(number))
    (tmp_path / "proc/self").mkdir()
    file = tmp_path / "u/bob/train.py"
    file.parent.mkdir(parents=True)
    file.write_text("")
    lstat = os.lstat
    owned = {str(file.parent): 200002}
    monkeypatch.setattr(
        machine.os, "lstat", lambda path: SimpleNamespace(st_uid=owned[path]) if path in owned else lstat(path)
    )
    text = "ran {0} and /u/alice/run.sh, /missing/path".format(file)
    found = machine.owners([text], str(tmp_path / "proc"))
    assert {"alice", "SITE"} <= found and not found & {"nobody", "dynamic", "root"}
    assert ("bob" in found) is not hangs
    masked = Mask(machine.known([GPU], found)).text(text)
    assert "alice" not in masked and ("bob" in masked) is hangs and "train.py" in masked


GPU = {
    "index": 0,
    "name": "NVIDIA H100 80GB HBM3",
    "pci_address": "0000:00:06.0",
    "memory": {"total_bytes": 85520809984},
    "settings": {"persistence": True, "compute_mode": "exclusive_process"},
    "power": {"limit_watts": 700.0},
    "temperature": {"gpu_celsius": 31, "memory_celsius": None},
}
SAID = {
    "name": "NVIDIA H100 80GB HBM3",
    "pci.bus_id": "00000000:00:06.0",
    "driver_version": "580.159.04",
    "memory.total": "81559",
    "persistence_mode": "Enabled",
    "compute_mode": "Exclusive_Process",
    "power.limit": "700.00",
    "temperature.gpu": "35",
    "temperature.memory": "[N/A]",
}


def test_equal_answers_in_other_words_do_not_differ():
    assert compare.differences([SAID], {"gpus": [GPU], "driver_version": "580.159.04"}) == []


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("name", "NVIDIA H100 PCIe"),
        ("pci.bus_id", "00000000:00:07.0"),
        ("driver_version", "580.159.05"),
        ("memory.total", "81500"),
        ("persistence_mode", "Disabled"),
        ("compute_mode", "Default"),
        ("power.limit", "699.00"),
        ("power.limit", "[N/A]"),
        ("temperature.gpu", "60"),
        ("temperature.memory", "38"),
    ],
)
def test_each_column_that_differs_is_named(column, said):
    document = {"gpus": [GPU], "driver_version": "580.159.04"}
    (found,) = compare.differences([dict(SAID, **{column: said})], document)
    assert (found.gpu, found.column, found.nvidia_smi) == (0, column, said)


def test_a_missing_gpu_is_a_difference():
    (found,) = compare.differences([SAID, SAID], {"gpus": [GPU], "driver_version": "580.159.04"})
    assert (found.column, found.nvidia_smi, found.ours) == ("number of GPUs", "2", "1")


def test_each_command_is_run_or_left_out_with_a_reason():
    parsers = {one.prog.partition(" ")[2]: one for one in main.every(main.parser())}
    known = {name for name, one in parsers.items() if one.commands() is None or not one.commands().required}
    run = {
        max((name for name in known if (words + " ").startswith(name + " ")), key=len)
        for words, _ in commands.READ_ONLY
    }
    assert run.isdisjoint(commands.LEFT_OUT) and run | set(commands.LEFT_OUT) == known
    assert all(main._parsed(words.split()) for words, _ in (*commands.READ_ONLY, (commands.ACTIVE, 0)))


def test_a_cost_above_its_limit_is_named():
    costs = [cost.Cost("health --quick", 0.2, 2.1), cost.Cost("health", 0.5, 3.4), cost.Cost("info", 9.0, 60.0)]
    assert cost.over(costs) == costs[:1] and str(costs[0]).endswith("2.10 x the rival (more than 2)")


def test_the_node_command_runs_from_a_file_system_that_is_mounted_noexec(tmp_path):
    """As far as execve(2) is concerned, a file without its permission is the same."""
    path = tmp_path / "gpunode"
    path.write_text('#!/bin/sh\necho "$1 to you"\n')
    path.chmod(0o600)
    made = run.Run(str(tmp_path), lambda: str(path))
    run._commands(made)
    assert made.differences == []
    assert made.texts["gpunode/help.txt"].endswith("help to you\n")
