# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""site.yml with its real roles, inventories and summary; what the modules do stands in for the node."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.nvme_scratch import Desired

ROOT = Path(__file__).resolve().parents[3]
# Notes its arguments, and answers what the test says.
MODULE = """#!{python}
# WANT_JSON
import json, os, sys
def main(name, folder):
    arguments = json.load(open(sys.argv[1]))
    given = {{key: value for key, value in arguments.items() if not key.startswith("_ansible")}}
    json.dump(given, open(os.path.join(folder, "asked." + name), "w"))
    path = os.path.join(folder, "answer." + name)
    answer = json.load(open(path)) if os.path.exists(path) else {{}}
    if "failed" not in answer:
        answer = dict({{"changed": False, "actions": [], "notes": []}}, **answer)
    print(json.dumps(answer))
if __name__ == "__main__":  # check_variables imports modules
    main({name!r}, {folder!r})
"""
PROFILE = {"name": "virtual", "compared": True, "data": {"nvme": {"count": 8, "models": ["QEMU NVMe Ctrl"]}}}
NO_DISK = "No NVMe disk fits QEMU; this node has none."
GPU = {"name": "NVIDIA A100", "persistence": True, "clocks": {}}


@pytest.fixture
def site(tmp_path):
    """The collection with other modules, and the play over this machine as one node of an example inventory."""
    collection = tmp_path / "collections/ansible_collections/trainyard/gpu_node"
    for name in ("modules", "action"):
        (collection / "plugins" / name).mkdir(parents=True)
    plugins = [
        "plugins/" + name for name in ("filter", "lookup", "module_utils", "plugin_utils", "action/check_variables.py")
    ]
    for name in ("roles", "playbooks", "meta", *plugins):
        (collection / name).symlink_to(ROOT / name)
    for module in (ROOT / "plugins" / "modules").glob("*.py"):
        text = MODULE.format(python=sys.executable, name=module.stem, folder=str(tmp_path))
        (collection / "plugins/modules" / module.name).write_text(text, encoding="utf-8")
    become = tmp_path / "become"
    become.write_text('#!/bin/sh\nwhile [ "$1" != /bin/sh ]; do shift; done\nexec "$@"\n', encoding="utf-8")
    become.chmod(0o755)

    def run(*words, inventory="virtual", **variables):
        folder = tmp_path / inventory
        folder.mkdir()
        (folder / "group_vars").symlink_to(ROOT / "inventories" / inventory / "group_vars")
        connection = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        (folder / "hosts.yml").write_text(yaml.safe_dump({"gpu_nodes": {"hosts": {"node": connection}}}), "utf-8")
        given = dict({"gpu_node_comm": [], "nvme_scratch_manage_packages": False}, **variables)
        clean = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
        done = subprocess.run(
            [sys.executable, "-m", "ansible.cli.playbook", "-i", str(folder), "-e", json.dumps(given), *words]
            + ["trainyard.gpu_node.site"],
            env=dict(
                clean,
                ANSIBLE_COLLECTIONS_PATH=str(tmp_path / "collections"),
                ANSIBLE_BECOME_EXE=str(become),
                ANSIBLE_HOME=str(tmp_path / "home"),
                ANSIBLE_NOCOLOR="1",
            ),
            cwd=str(tmp_path),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        run.output = done.stdout + done.stderr
        summary = re.search(r'(?s)"msg": (\[.*?\n    \])', done.stdout)
        assert summary, run.output
        return done.returncode, json.loads(summary[1])

    run.answer = lambda name, **answer: (tmp_path / ("answer." + name)).write_text(json.dumps(answer))
    run.asked = lambda name: json.loads((tmp_path / ("asked." + name)).read_text())
    run.answer("node_profile", ansible_facts={"gpu_node_profile": dict(PROFILE)}, actions=[DECLARED], changed=True)
    run.answer("gpu_settings", gpus=[GPU])
    run.answer("nvme_scratch", skipped_reason=NO_DISK)
    return run


DECLARED = {"description": "declare section profile in /etc/gpu_node/node.json"}


def test_the_first_check_compares_with_the_profile_that_it_would_declare(site):
    status, summary = site("--check")
    assert status == 0, site.output
    assert site.asked("health_check")["profile"] == {"name": "virtual", "data": PROFILE["data"]}
    assert summary == [
        "profile: virtual; the machine is like it",
        "scratch: none: " + NO_DISK,
        "GPUs:    1 x NVIDIA A100, clocks are the driver's own, persistence on",
        "Slurm:   hooks, node features and gres.conf of 0 GPU(s)",
        "would be changed:",
        "  - declare section profile in /etc/gpu_node/node.json",
        "needs attention: nothing",
    ]


def test_a_real_run_is_judged_by_what_is_declared(site):
    status, summary = site()
    assert status == 0 and "profile" not in site.asked("health_check"), site.output
    assert summary[4:6] == ["changed:", "  - declare section profile in /etc/gpu_node/node.json"]


def test_the_generic_inventory_takes_what_the_detected_profile_says(site):
    site("--check", inventory="generic")
    asked = site.asked("nvme_scratch")
    desired = of(Desired, asked, asked.pop("_profile"))
    assert (desired.models, desired.count) == (("QEMU NVMe Ctrl",), 8)
    assert site.asked("gpu_settings")["clocks"] == "max"


def test_an_unknown_machine_without_disks_gets_its_gpus_set_by_the_generic_inventory(site):
    unknown = {"name": "unknown", "compared": False, "reason": "No profile fits.", "data": {}}
    site.answer("node_profile", ansible_facts={"gpu_node_profile": unknown})
    status, summary = site(inventory="generic")
    assert status == 0 and site.asked("gpu_settings")["clocks"] == "max", site.output
    asked = site.asked("nvme_scratch")
    desired = of(Desired, asked, asked.pop("_profile"))
    assert desired.models and desired.count is None and desired.mount_point == "/scratch"


def test_after_an_option_error_nothing_is_said_of_the_gpus(site):
    error = "option clocks: 'fast' is unknown; give max or default."
    site.answer("gpu_settings", failed=True, msg=error)
    status, summary = site()
    assert status == 2, site.output
    assert "GPUs:    unknown: the task failed, see below" in summary
    # The variable that the user set stands before the option of the module.
    assert "  - gpu_settings_clocks (option clocks)" + error[len("option clocks") :] in summary


def test_the_summary_reads_what_the_roles_register() -> None:
    tasks = (ROOT / "roles/node_summary/tasks/main.yml").read_text(encoding="utf-8")
    read = set(re.findall(r"\b__\w+", tasks))
    files = [path for name in ("roles", "playbooks") for path in (ROOT / name).rglob("tasks/**/*.yml")]
    files += (ROOT / "roles").glob("*/tasks/*.yml")
    written = {name for path in files for name in re.findall(r"register: (__\w+)", path.read_text(encoding="utf-8"))}
    assert "__nvme_scratch_result" in read and read <= written
