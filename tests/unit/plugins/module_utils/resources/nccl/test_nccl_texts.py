# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The texts that others read: NCCL, a shell, pam_limits, systemd."""

from __future__ import annotations

import subprocess

from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import processes
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import MARKER
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl import Desired, texts
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nccl.observe import LINES


def nccl_reads(text):
    """setEnvFile of src/misc/param.cc: a line up to its = is the name, the rest is the value, blanks and all."""
    found = {}
    for line in text.split("\n"):
        line = line[:-1] if line.endswith("\r") else line
        if not line.startswith("#") and "=" in line:
            name, _equals, value = line.partition("=")
            found.setdefault(name[:1023], value[:1023])
    return found


def test_the_conf_as_nccl_reads_it():
    desired = Desired(
        settings={"NCCL_IB_PCI_RELAXED_ORDERING": "1", "NCCL_SOCKET_IFNAME": "=eth0"},
        extra=("# ours", "NCCL_DEBUG_FILE=/tmp/n ccl.%h.%p"),
    )
    assert nccl_reads(texts.conf(desired, "/etc/gpu_node/nccl_topology.xml")) == {
        "NCCL_IB_PCI_RELAXED_ORDERING": "1",
        "NCCL_SOCKET_IFNAME": "=eth0",
        "NCCL_TOPO_FILE": "/etc/gpu_node/nccl_topology.xml",
        "NCCL_DEBUG_FILE": "/tmp/n ccl.%h.%p",
    }
    assert texts.conf(Desired(), None) is None


NAMES = st.from_regex(r"NCCL_[A-Z0-9_]{1,20}", fullmatch=True).filter(
    lambda one: one not in ("NCCL_TOPO_FILE", "NCCL_CONF_FILE")
)
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=0x24F), min_size=1, max_size=60).filter(
    lambda one: one.isprintable() and one == one.strip()
)


@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=5))
def test_any_setting_that_is_taken_reaches_nccl(settings):
    assert nccl_reads(texts.conf(Desired(settings=settings), None)) == settings


@given(st.dictionaries(st.from_regex(r"GPU_T_[A-Z0-9_]{1,9}", fullmatch=True), VALUES, min_size=1, max_size=3))
def test_any_variable_that_is_taken_reaches_a_shell(variables):
    script = texts.environment(Desired(environment=variables).variables)
    done = subprocess.run(
        ["sh", "-eu", "-c", script + "exec env -0"], capture_output=True, check=True, env={"PATH": "/usr/bin:/bin"}
    )
    found = dict(line.split("=", 1) for line in done.stdout.decode("utf-8").split("\0") if line)
    assert {name: found[name] for name in variables} == variables


def test_what_is_set_already_stays():
    script = texts.environment({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})
    for mine in ("FASTEST_FIRST", ""):
        done = subprocess.run(
            ["sh", "-eu", "-c", script + 'printf %s "$CUDA_DEVICE_ORDER"'],
            capture_output=True, check=True, env={"CUDA_DEVICE_ORDER": mine, "PATH": "/usr/bin:/bin"}, text=True,
        )  # fmt: skip
        assert done.stdout == mine


def test_limits_are_four_words_a_line():
    lines = texts.limits({"memlock": "unlimited", "nofile": "1048576"}).splitlines()
    assert [line.split() for line in lines if not line.startswith("#")] == [
        ["*", "-", "memlock", "unlimited"],
        ["root", "-", "memlock", "unlimited"],
        ["*", "-", "nofile", "1048576"],
        ["root", "-", "nofile", "1048576"],
    ]


def test_slurmd_has_systemds_names_and_units():
    text = texts.slurmd({"memlock": "unlimited", "nofile": "4096", "stack": "8192", "nproc": "100"})
    assert text.splitlines()[1:] == [
        "[Service]",
        "LimitMEMLOCK=infinity",
        "LimitNOFILE=4096",
        "LimitSTACK=8192K",
        "LimitNPROC=100",
    ]


def test_nothing_wanted_is_no_file():
    for make in (texts.environment, texts.limits, texts.slurmd, texts.sysctl):
        assert make({}) is None


def test_every_file_has_our_mark_first():
    pairs = {"memlock": "unlimited"}
    for text in (
        texts.limits(pairs),
        texts.slurmd(pairs),
        texts.environment(pairs),
        texts.sysctl(pairs),
        texts.modules(),
    ):
        assert text.startswith(MARKER) and text.endswith("\n")


def test_limits_of_a_process_as_the_kernel_writes_them():
    text = "\n".join(
        [
            "Limit                     Soft Limit           Hard Limit           Units     ",
            "Max stack size            8388608              unlimited            bytes     ",
            "Max open files            1024                 524288               files     ",
            "Max locked memory         unlimited            unlimited            bytes     ",
            "Max realtime priority     0                    0                    ",
        ]
    )
    found = {"Max stack size": "8388608", "Max open files": "1024", "Max locked memory": "unlimited"}
    assert processes.parse_limits(text) == {**found, "Max realtime priority": "0"}
    assert set(processes.limits(Host(), "self")) >= set(LINES)
