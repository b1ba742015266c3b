# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The generated project: its files, its variables, and what is refused."""

from __future__ import annotations

import configparser
import hashlib
import re
from pathlib import Path
from typing import Any, Callable, Dict

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.tools.cluster_init import __main__ as cluster_init
from ansible_collections.trainyard.gpu_node.tools.cluster_init import specs
from ansible_collections.trainyard.gpu_node.tools.cluster_init.runner import Spec, specs_of

ROOT = Path(cluster_init.__file__).resolve().parents[2]
# Names of variables that are the site's or the collection's plays' own, and belong to no role.
OF_PLAYS = {"gpu_node_comm", "gpu_node_health_fail_on"}


def variables(project: Path, spec: str) -> Dict[str, Any]:
    text = (project / "specs" / spec / "cluster-init" / "files" / "site.yml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


def test_the_project_has_the_layout_that_cyclecloud_uploads(make_project: Callable[..., Path]) -> None:
    project = make_project("1.0")
    ini = configparser.ConfigParser()
    ini.read(str(project / "project.ini"))
    assert dict(ini["project"]) == {
        "name": "gpu_node",
        "label": "Training-ready GPU nodes",
        "type": "application",
        "version": "1.0",
    }
    assert ini["blobs"]["Files"] == "gpu-node-bundle-1.0.tar.gz"
    names = {"ndv2", "ndv4", "ndv5", "execute", "scheduler"}
    assert {section[5:] for section in ini.sections() if section.startswith("spec ")} == names
    assert {folder.name for folder in (project / "specs").iterdir()} == names
    for name in names:
        folder = project / "specs" / name / "cluster-init"
        found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
        assert found == {
            "scripts/10-gpu_node-1.0.sh",
            "files/site.yml",
            "files/version",
            "files/gpu-node-bundle-1.0.tar.gz.sha256",
            "tests/test_ready.py",
        }
        assert (folder / "scripts" / "10-gpu_node-1.0.sh").stat().st_mode & 0o777 == 0o755
        line = (folder / "files" / "gpu-node-bundle-1.0.tar.gz.sha256").read_text(encoding="utf-8")
        blob = (project / "blobs" / "gpu-node-bundle-1.0.tar.gz").read_bytes()
        assert line == "{0}  gpu-node-bundle-1.0.tar.gz\n".format(hashlib.sha256(blob).hexdigest())


@pytest.mark.parametrize("spec", ["ndv2", "ndv4", "ndv5"])
def test_a_spec_has_the_variables_of_its_inventory(
    make_project: Callable[..., Path], inventory_variables: Callable[[str], Dict[str, Any]], spec: str
) -> None:
    expected = inventory_variables("azure_" + spec)
    assert expected["node_profile_name"] and expected["nccl_replace_foreign"] is True
    if spec != "ndv2":
        # CycleCloud's own place for the local disks.
        assert expected["nvme_scratch_mount_point"] == "/mnt/resource_nvme"
        expected["nvme_scratch_mount_point"] = "/nvme"
    assert variables(make_project(), spec) == expected


def test_the_other_specs_name_no_machine(make_project: Callable[..., Path]) -> None:
    project = make_project()
    assert variables(project, "execute") == {
        "node_profile_name": "auto",
        "gpu_node_health_fail_on": "fail",
        "nccl_replace_foreign": True,
        "nvme_scratch_mount_point": "/nvme",
    }
    scheduler = variables(project, "scheduler")
    assert scheduler["gpu_node_comm"] == ["pyxis", "job_templates"]
    assert scheduler["nvme_scratch_models"] == ["none"] and scheduler["gpu_settings_state"] == "default"


@pytest.mark.parametrize("spec", specs.SPECS, ids=lambda spec: spec.name)
def test_every_variable_is_one_of_a_role(spec: specs.Spec) -> None:
    known = set(OF_PLAYS)
    for file in (ROOT / "roles").glob("*/meta/argument_specs.yml"):
        known |= set(yaml.safe_load(file.read_text(encoding="utf-8"))["argument_specs"]["main"]["options"])
    assert set(specs.variables_of(spec, ROOT / "inventories")) <= known


def test_the_same_bundle_gives_the_same_project(make_project: Callable[..., Path]) -> None:
    def content() -> Dict[str, bytes]:
        project = make_project()
        return {str(path.relative_to(project)): path.read_bytes() for path in project.rglob("*") if path.is_file()}

    first = content()
    assert content() == first
    assert not list(make_project().parent.glob(".new-*"))


def test_a_damaged_bundle_is_refused_and_the_project_that_was_there_stays(make_project: Callable[..., Path]) -> None:
    project = make_project("1.0")
    bundle = project.parents[2] / "bundle" / "1.0" / "gpu-node-bundle-1.0.tar.gz"
    damaged = bytearray(bundle.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    bundle.write_bytes(bytes(damaged))
    before = (project / "project.ini").stat().st_ino
    with pytest.raises(
        specs.ClusterInitError, match=r"it is not the bundle that .*\.sha256 names; run make bundle again"
    ):
        cluster_init.generate(bundle, project, "1.0")
    assert (project / "project.ini").stat().st_ino == before
    with pytest.raises(specs.ClusterInitError, match="there is no such file; run make bundle first"):
        cluster_init.generate(bundle.with_name("other.tar.gz"), project, "1.0")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("password: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  6162\n", "keep what is secret in /etc/gpu_node/site.yml"),
        ("a: [1\n", "it is not plain YAML"),
        ("- a\n", "it holds no variables"),
    ],
)
def test_what_is_not_plain_variables_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "group_vars" / "gpu_nodes").mkdir(parents=True)
    (tmp_path / "group_vars" / "gpu_nodes" / "main.yml").write_text(text, encoding="utf-8")
    with pytest.raises(specs.ClusterInitError, match=re.escape(reason)):
        specs.of_inventory(tmp_path)
    with pytest.raises(specs.ClusterInitError, match="no group_vars/gpu_nodes"):
        specs.of_inventory(tmp_path / "group_vars")


def test_the_example_of_a_template_names_this_version_and_specs_that_exist() -> None:
    text = (ROOT / "deploy" / "cyclecloud" / "slurm.txt").read_text(encoding="utf-8")
    version = str(yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["version"])
    for node, spec in (("scheduler", "scheduler"), ("login", "scheduler"), ("gpu", "ndv4")):
        assert specs_of(text, node) == [Spec("gpu_node", spec, version)]


def test_specs_of_the_defaults_come_first_in_the_order_of_the_template() -> None:
    template = """
    [cluster test]
    [[node late]]
      [[[cluster-init cyclecloud/slurm:scheduler:4.0.9]]]
    [[nodearray execute]]
      Extends = x
      [[[cluster-init cyclecloud/slurm:execute:4.0.9]]]
      [[[configuration]]]
      [[[cluster-init gpu_node:ndv4:0.1.0]]]
    [[node defaults]]
      [[[cluster-init cyclecloud/slurm:default:4.0.9]]]
      [[[cluster-init limits:all:1.0.0]]]
    """
    assert [spec.name for spec in specs_of(template, "execute")] == ["default", "all", "execute", "ndv4"]
    assert [spec.name for spec in specs_of(template, "late")] == ["default", "all", "scheduler"]
    assert specs_of(template, "execute")[3] == Spec("gpu_node", "ndv4", "0.1.0")
