# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What README.md shows and names is there, and has the words of the programs."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.image.look import look
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.checks import image
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Cost, Expected
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.converge import Report
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.summary import lines

ROOT = Path(__file__).resolve().parents[4]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GPU = {
    "name": "NVIDIA A100-SXM4-40GB",
    "persistence": True,
    "clocks": {"graphics_mhz": 1410, "graphics_way": "locked", "memory_mhz": 1215, "memory_way": "default"},
}
# Passive checks that do not apply to an ND96asr_v4 under Slurm after a site.yml without further wishes, the node of
# docs/health.md and docs/health_first_month.md, and those that do not apply to the node of the demo, either. A new
# check goes into one of them, or raises the numbers of the pages.
NOT_ON_NDV4 = {
    *("fabric_manager_version", "gpu_fabric", "gpu_retired_pages", "nvswitch_sxid"),  # of other GPUs
    *("cpu_governor", "ipmi_events", "memory_errors", "pcie_acs"),  # of bare metal
    *("beeond_leftover", "env_deepspeed", "gpu_mig_instances", "gpu_mig_layout", "ib_partition_keys"),  # not declared
    *("image_software", "lease", "remedies"),  # not declared
    *("converge", "kubernetes_capacity"),  # a controller converges it, and Slurm starts its jobs
}
NOT_IN_THE_DEMO = NOT_ON_NDV4 | {
    *("ib_errors", "ib_flaps", "ib_gpu_direct", "ib_pcie", "ib_ports"),
    *("image_communication", "image_containers", "image_cuda", "image_driver"),  # no such software is on it
    *("cpu_load", "limit_slurmd", "slurm_gres"),  # no Slurm
}
CLOCK = "clock: nothing synchronises it; run 'timedatectl' and start chronyd or systemd-timesyncd."


def applying(without) -> int:
    """How many checks of level passive apply to a node, and so are counted in its verdict."""
    names = {one.id for one in registry.checks(Cost.PASSIVE)}
    assert without <= names, without - names
    return len(names - without)


def test_the_number_of_checks_in_the_pages_on_health_is_that_of_today() -> None:
    for page in ("health.md", "health_first_month.md"):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        (told,) = re.findall(r"gpu017: \w+, (\d+) checks of level passive .*, profile nd96asr_v4", text)
        assert int(told) == applying(NOT_ON_NDV4), page


def test_the_image_checks_in_the_count_of_the_demo_apply_to_its_node(tmp_path: Path) -> None:
    # The Debian image of the demo has the simulator and none of this software (tools/virtual_node, seed.py).
    library = "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    assert library in (ROOT / "tools/virtual_node/virtual_machine/seed.py").read_text(encoding="utf-8")
    (tmp_path / library).parent.mkdir(parents=True)
    (tmp_path / library).write_bytes(b"")
    seen, expected = look(Host(str(tmp_path))), Expected("", {}, {}, {}, {}, {}, 0.0)
    without = {check.id for check in image.CHECKS if check.judge(seen, expected).not_applicable is not None}
    assert without == {check.id for check in image.CHECKS} & NOT_IN_THE_DEMO


def test_the_summary_is_what_a_converge_ends_with() -> None:
    parts = {
        "node_profile": {"ansible_facts": {"gpu_node_profile": {"name": "virtual", "differences": []}}},
        "nvme_scratch": {
            "scratch": {
                "mounted": True,
                "filesystem": "xfs",
                "size_bytes": 8 << 30,
                "mount_point": "/mnt/resource_nvme",
                "disks": [{"serial": "TYSCRATCH{0}".format(number)} for number in range(8)],
            }
        },
        "gpu_settings": {"gpus": [GPU] * 8},
    }
    verdict = {"outcome": "warn", "level": "passive", "results": [{}] * applying(NOT_IN_THE_DEMO)}
    (shown,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    assert shown.splitlines() == lines(Report(parts, {"verdict": verdict, "findings": [CLOCK]}, check_mode=False))


def test_an_install_from_the_clone_goes_to_the_user_and_may_be_repeated() -> None:
    # ansible.cfg of the clone has its own folder first, which no play outside of it looks into.
    text = " ".join(README.split())
    assert "ansible-galaxy collection build --force`" in text
    assert "ansible-galaxy collection install -p ~/.ansible/collections --force trainyard-gpu_node-*.tar.gz`" in text


def test_links_of_the_documentation_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    for page in pages:
        for link in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
            if not re.match(r"https?:|mailto:", link):
                assert (page.parent / link).exists(), "{0}: {1}".format(page.name, link)


def test_the_repository_is_named_and_no_placeholder() -> None:
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))
    assert "git clone {0} ".format(galaxy["repository"]) in README
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "deploy").glob("*.md")):
        assert not re.search(r"<(this|your)[ _-]", page.read_text(encoding="utf-8"), re.IGNORECASE), page.name


def test_it_stays_short_enough_to_be_read() -> None:
    assert len(README.split()) < 1600


def test_profiles_and_plays_that_it_names_are_there() -> None:
    for name in re.findall(r"playbooks/(\w+\.yml)", README):
        assert (ROOT / "playbooks" / name).is_file(), name
    for name in re.findall(r"-i (inventories/\w+)", README):
        assert (ROOT / name).is_dir(), name
