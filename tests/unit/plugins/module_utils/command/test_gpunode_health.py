# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode health``: what it prints and what it ends with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit import forked
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.command import gpunode_on

pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
GPUS = ("--only", "gpu_*", "--without", "gpu_count", "--without", "gpu_xid", "--without", "gpu_processes")


def health(machine, root, *words):
    return forked.run(
        [sys.executable, gpunode_on.__file__, str(root), "--", "health", *words],
        env=machine.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def machine(nvml_simulator):
    return nvml_simulator("nd96asr_v4")


def test_healthy_gpus_are_one_line_and_status_0(machine, tmp_path):
    done = health(machine, tmp_path, "--quick", *GPUS)
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 1), done.stdout
    assert ": pass, " in done.stdout
    told = health(machine, tmp_path, "--quick", "--all", *GPUS).stdout
    assert "pass     gpu_lost: Every GPU answers (8 GPUs answered)" in told


@pytest.mark.parametrize(
    ("fault", "statuses"),
    [
        (None, (0, 0, 0)),
        ("fault gpu 3 lost", (1, 1, 1)),
        ("fault gpu 3 recovery-action 4", (3, 0, 0)),
        ("fault call nvmlDeviceGetTotalEccErrors gpu 3 return UNKNOWN", (4, 4, 0)),
    ],
)
def test_what_is_a_failure_can_be_chosen(machine, tmp_path, fault, statuses):
    if fault:
        machine.control(*fault.split())
    for limit, status in zip(("warn", "unknown", "fail"), statuses):
        done = health(machine, tmp_path, "--quick", "--fail-on", limit, *GPUS)
        assert (done.returncode, done.stderr) == (status, ""), done.stdout


@pytest.mark.parametrize("form", ["text", "json", "npd", "prometheus"])
def test_what_could_not_be_checked_at_all_is_unknown_for_it_too(machine, tmp_path, form):
    (tmp_path / "etc/gpu_node").mkdir(parents=True)
    (tmp_path / "etc/gpu_node/node.json").write_text("{")
    words = ("--quick", "--format", form, "--fail-on")
    assert health(machine, tmp_path, *words, "fail").returncode == 0
    assert health(machine, tmp_path, *words, "unknown").returncode == (2 if form == "npd" else 4)
    (tmp_path / "etc/gpu_node/node.json").unlink()
    # A wrong command line starts no pod, whatever counts as a failure.
    assert health(machine, tmp_path, *words, "fail", "--only", "gpu_nonsense").returncode == 2
    assert health(machine, tmp_path, *words, "never").returncode == 2


@pytest.mark.parametrize(
    ("fault", "status", "nagios", "npd"),
    [
        ("fault gpu 3 lost", 1, 2, 1),
        ("fault gpu 3 recovery-action 4", 3, 1, 0),
        ("fault call nvmlDeviceGetTotalEccErrors gpu 3 return UNKNOWN", 4, 3, 2),
    ],
)
def test_a_fault_has_its_status_in_each_form(machine, tmp_path, fault, status, nagios, npd):
    machine.control(*fault.split())
    done = health(machine, tmp_path, "--quick", *GPUS)
    assert done.returncode == status and done.stderr == "" and "GPU 3" in done.stdout
    assert health(machine, tmp_path, "--quick", "--nagios", *GPUS).returncode == nagios
    told = health(machine, tmp_path, "--quick", "--npd", *GPUS)
    assert told.returncode == npd and len(told.stdout.strip()) <= 80 and "GPU 3" in told.stdout
    verdict = json.loads(health(machine, tmp_path, "--quick", "--json", *GPUS).stdout)
    assert verdict["schema"] == "trainyard.gpu_node/verdict/1"


@pytest.mark.parametrize("code", ["GPU_IS_LOST", "RESET_REQUIRED", "IRQ_ISSUE", "NO_PERMISSION"])
def test_every_command_has_the_same_remedy_for_a_gpu(machine, tmp_path, code):
    machine.control("fault", "call", "nvmlDeviceGetHandleByIndex_v2", "gpu", "3", "return", code)
    verdict = json.loads(health(machine, tmp_path, "--quick", "--json", "--only", "gpu_lost").stdout)
    (finding,) = verdict["results"][0]["findings"]
    told = forked.run(
        [sys.executable, gpunode_on.__file__, str(tmp_path), "--", "info"],
        env=machine.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert finding["remedy"] in " ".join(told.stdout.split()), (finding, told.stdout)


def test_one_gpu_that_hangs_is_named_within_the_limit(machine, tmp_path):
    machine.control("fault", "call", "nvmlDeviceGetTotalEccErrors", "gpu", "5", "hang")
    began = time.monotonic()
    done = health(machine, tmp_path, "--quick", "--call-timeout", "1", *GPUS)
    # Opening NVML may take three times the limit of a call, and a second child goes on with the other GPUs.
    assert time.monotonic() - began < 20
    (line,) = [line for line in done.stdout.splitlines() if "hung" in line or "did not return" in line]
    assert "GPU 5" in line and done.returncode == 1


def test_every_form_is_printed(machine, tmp_path):
    for form in ("text", "json", "nagios", "npd", "prometheus", "nfd", "azure"):
        done = health(machine, tmp_path, "--quick", "--format", form, *GPUS)
        assert done.returncode == 0 and done.stdout and done.stderr == "", (form, done)


# Each of these, with what it loads, costs a fiftieth of a run before a job or more. NVIDIA's binding has it that
# subprocess, shutil and tempfile are loaded in any case (ctypes.util).
COSTLY = {
    "dataclasses",
    "inspect",
    "datetime",
    "asyncio",
    "logging",
    "multiprocessing",
    "textwrap",
    "difflib",
    "hashlib",
}


def loaded_by(machine, tmp_path, *options):
    """What the process loads that makes the verdict; its looks are made in children."""
    words = [str(tmp_path), "--", "health", "--json", "--without", "ib_*", *options]
    code = """
import runpy, sys
before = set(sys.modules)
sys.argv[0] = {0!r}
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit:
    print("LOADED", *sorted(set(sys.modules) - before), file=sys.stderr)
""".format(gpunode_on.__file__)
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, *words],
        env=dict(machine.environment(), PYTHONPATH=os.pathsep.join(path for path in sys.path if path)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    loaded = set(done.stderr.partition("LOADED ")[2].split())
    assert any(name.endswith(".health.checks.gpu_ecc") for name in loaded), done
    return loaded


def test_before_a_job_nothing_is_loaded_that_it_does_not_need(machine, tmp_path):
    loaded = loaded_by(machine, tmp_path, "--quick")
    assert not loaded & COSTLY
    unwanted = (".topology", ".nvlink_registers", ".gpu_xid_registers")
    assert not [name for name in loaded if ".active" in name or "_passive" in name or name.endswith(unwanted)]


def test_between_jobs_nothing_is_loaded_that_only_others_need(machine, tmp_path):
    loaded = loaded_by(machine, tmp_path)
    assert not loaded & COSTLY
    assert not [name for name in loaded if ".active" in name or ".resources." in name]


def test_the_list_names_every_check_of_a_level(machine, tmp_path):
    quick = health(machine, tmp_path, "--quick", "--list").stdout.splitlines()
    whole = health(machine, tmp_path, "--active", "--list").stdout.splitlines()
    assert 5 < len(quick) < len(whole) and set(line.split()[0] for line in quick) < {line.split()[0] for line in whole}
    assert isinstance(json.loads(health(machine, tmp_path, "--list", "--json").stdout), list)


def test_counters_are_kept_only_when_asked(machine, tmp_path):
    health(machine, tmp_path, *GPUS)
    assert not (tmp_path / "var").exists()
    health(machine, tmp_path, "--record", *GPUS)
    assert json.loads((tmp_path / "var/lib/gpu_node/health/baseline.json").read_text(encoding="utf-8"))["counters"]


def test_what_is_wrong_ends_in_a_sentence(machine, tmp_path):
    done = health(machine, tmp_path, "--only", "gpu_nonsense")
    assert done.returncode == 2
    assert (
        done.stderr
        == "gpunode: check 'gpu_nonsense': there is none of this name; 'gpunode health --active --list' has them.\n"
    )
    folder = tmp_path / "etc/gpu_node"
    folder.mkdir(parents=True)
    (folder / "node.json").write_text("{", encoding="utf-8")
    done = health(machine, tmp_path)
    assert done.returncode == 4 and "node.json: it is not valid JSON" in done.stderr and "Traceback" not in done.stderr
