# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make quick`: what a change is tried with again and again, in three minutes on two cores.

Lint of the files that differ from the branch `main`, types, generated docs, and the unit tests with workers on one
Python. Test files that take long are left to `make test`, but for those that were changed, and those about a package
that was: what was left out is told at the end.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import PurePosixPath
from typing import Dict, List, Sequence, Set

from .parts import BYTECODE, MAIN, ROOT

#: Those that took 7 seconds or more of a run of all; relative to tests/unit. Most start other programs.
SLOW = (
    "playbooks/test_check_variables.py",
    "playbooks/test_health_play.py",
    "playbooks/test_managed_machines.py",
    "playbooks/test_rolling_kubernetes_play.py",
    "playbooks/test_rolling_play.py",
    "playbooks/test_site_play.py",
    "playbooks/test_validate_play.py",
    "plugins/callback/test_run_record_callback.py",
    "plugins/inventory/test_slurm_nodes_inventory.py",
    "plugins/module_utils/checkpoints/test_checkpoint_store.py",
    "plugins/module_utils/resources/test_comm_machines.py",
    "plugins/module_utils/command/test_gpunode_clocks.py",
    "plugins/module_utils/command/test_gpunode_everywhere.py",
    "plugins/module_utils/command/test_gpunode_health.py",
    "plugins/module_utils/command/test_gpunode_info.py",
    "plugins/module_utils/command/test_gpunode_pin_check.py",
    "plugins/module_utils/command/test_gpunode_profile.py",
    "plugins/module_utils/command/test_gpunode_share.py",
    "plugins/module_utils/command/test_gpunode_topo.py",
    "plugins/module_utils/command/test_gpunode_watch.py",
    "plugins/module_utils/core/node_packages/test_node_packages_dpkg.py",
    "plugins/module_utils/core/test_root_folders.py",
    "plugins/module_utils/facts/gpu_info/test_gather.py",
    "plugins/module_utils/facts/nvml/test_session.py",
    "plugins/module_utils/health/active/test_health_active_rules.py",
    "plugins/module_utils/health/active/test_health_active_tools.py",
    "plugins/module_utils/health/active/test_health_bandwidth.py",
    "plugins/module_utils/health/fleet/test_fleet_outliers.py",
    "plugins/module_utils/health/fleet/test_fleet_search.py",
    "plugins/module_utils/health/fleet/test_fleet_validate.py",
    "plugins/module_utils/health/gate/test_gate_hooks_on_simulator.py",
    "plugins/module_utils/health/gate/test_gate_on_slurm.py",
    "plugins/module_utils/health/checks/test_gpu_faults.py",
    "plugins/module_utils/health/checks/test_node_faults.py",
    "plugins/module_utils/jobs/hooks/test_hooks_on_simulator.py",
    "plugins/module_utils/kubernetes/node/test_node_on_cluster.py",
    "plugins/module_utils/kubernetes/node/test_node_plan.py",
    "plugins/module_utils/placement/test_pinning_properties.py",
    "plugins/module_utils/placement/test_pinning_real_launchers.py",
    "plugins/module_utils/gpus/settings/test_on_simulator.py",
    "plugins/module_utils/gpus/settings/test_plan_properties.py",
    "plugins/module_utils/resources/hpcx/test_hpcx_node.py",
    "plugins/module_utils/resources/nvme_scratch/test_scratch_any_state.py",
    "plugins/module_utils/resources/nvme_scratch/test_scratch_power_cuts.py",
    "plugins/module_utils/placement/running/test_running_judge.py",
    "plugins/module_utils/slurm/node/test_rolling_on_slurm.py",
    "plugins/module_utils/slurm/node/test_rolling_plan.py",
    "plugins/modules/test_enroot.py",
    "plugins/modules/test_health_check.py",
    "plugins/modules/test_hpcx.py",
    "plugins/modules/test_job_templates.py",
    "plugins/modules/test_health_gate_module.py",
    "plugins/modules/test_nccl.py",
    "plugins/modules/test_node_profile.py",
    "plugins/modules/test_pyxis.py",
    "plugins/modules/test_rdma.py",
    "plugins/modules/test_slurm_hooks.py",
    "plugins/modules/test_validate_nodes.py",
    "plugins/plugin_utils/health_report/test_health_report.py",
    "tools/cluster_init/test_cluster_init_life.py",
    "tools/docs/test_gpunode_pages.py",
    "tools/fleet/test_fleet_nodes.py",
    "tools/nvml_simulator/test_faults.py",
    "tools/nvml_simulator/test_state.py",
    "tools/test_run/test_runner.py",
)
TESTS = "tests/unit"


def changed() -> List[str]:
    """Paths that differ from `main`, or from the last commit where there is no such branch; with those not added."""
    base = _git("merge-base", "HEAD", "main") or ["HEAD"]
    known = _git("diff", "--name-only", "--diff-filter=d", base[0])
    return sorted({*known, *_git("ls-files", "--others", "--exclude-standard")})


def _git(*words: str) -> List[str]:
    done = subprocess.run(["git", *words], cwd=str(ROOT), capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def left_out(paths: Sequence[str]) -> List[str]:
    """Pure. The slow files that have nothing to do with these paths."""
    touched: Set[str] = set()
    for path in map(PurePosixPath, paths):
        if path.parts[:2] == ("tests", "unit"):
            touched.add("/".join(path.parts[2:]))
        elif path.parts[:2] == ("plugins", "modules"):
            touched.add("plugins/modules/test_{0}.py".format(path.stem))
        elif path.parts[0] == "plugins":
            # The tests of a package lie in the folder of the same name, and those of its module are called after it.
            touched |= {"{0}/".format(path.parent), "plugins/modules/test_{0}.py".format(path.parent.name)}
    return [
        slow
        for slow in SLOW
        if slow not in touched and not any(one.endswith("/") and slow.startswith(one) for one in touched)
    ]


def commands(paths: Sequence[str]) -> Dict[str, List[str]]:
    """By the word for each, in the order in which they run."""
    files = [path for path in paths if path.endswith(".py")]
    ignored = ["--ignore={0}/{1}".format(TESTS, slow) for slow in left_out(paths)]
    # ansible-test runs those of inventory plugins, each in an Ansible of its own.
    ignored.append("--ignore={0}/plugins/inventory".format(TESTS))
    workers = str(max(2, os.cpu_count() or 2))
    found = {
        "ruff": ["ruff", "check", *files],
        "format": ["ruff", "format", "--check", *files],
        "mypy": ["python", "-m", "tools.test_run.types_check"],
        "docs": ["python", "-m", "tools.docs", "--check"],
        "unit": ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", workers, TESTS, *ignored],
    }
    return found if files else {name: found[name] for name in ("docs", "unit")}


def main() -> int:
    paths = changed()
    started = time.monotonic()
    environment = dict(os.environ, PYTHONPYCACHEPREFIX=str(BYTECODE))
    environment["ANSIBLE_COLLECTIONS_PATH"] = str(ROOT / ".collections")
    environment["PATH"] = "{0}{1}{2}".format(ROOT / MAIN / "bin", os.pathsep, os.environ.get("PATH", os.defpath))
    failed = []
    for name, words in commands(paths).items():
        print("make quick: {0}".format(name), flush=True)
        if subprocess.run([words[0], *words[1:]], cwd=str(ROOT), env=environment, check=False).returncode != 0:
            failed.append(name)
    print("make quick: {0} changed file(s), {1:.0f} s".format(len(paths), time.monotonic() - started))
    print("left to make test: {0} slow test files, guests, sanity, other versions".format(len(left_out(paths))))
    if failed:
        print("failed: " + ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
