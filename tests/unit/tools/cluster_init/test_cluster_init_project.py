# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The generated project: its files, its variables, and what is refused."""

from __future__ import annotations

import configparser
import hashlib
import json
import re
from pathlib import Path
from typing import Any, Callable, Dict

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import wish
from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import declarations
from ansible_collections.trainyard.gpu_node.tools.bundle.declared import BundleError
from ansible_collections.trainyard.gpu_node.tools.cluster_init import __main__ as cluster_init
from ansible_collections.trainyard.gpu_node.tools.cluster_init import specs
from ansible_collections.trainyard.gpu_node.tools.cluster_init.runner import Spec, specs_of

ROOT = Path(cluster_init.__file__).resolve().parents[2]
# Names of variables that are the site's or the collection's plays' own, and belong to no role.
OF_PLAYS = {"gpu_node_comm", "gpu_node_health_fail_on"}


def declared(project: Path, spec: str) -> Dict[str, Any]:
    text = (project / "specs" / spec / "cluster-init" / "files" / "declaration.json").read_text(encoding="utf-8")
    assert wish.text(wish.parse(text, spec)) == text  # as a node keeps it
    return dict(json.loads(text))


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
            "files/declaration.json",
            "files/version",
            "files/gpu-node-bundle-1.0.tar.gz.sha256",
            "tests/test_ready.py",
        }
        assert (folder / "scripts" / "10-gpu_node-1.0.sh").stat().st_mode & 0o777 == 0o755
        line = (folder / "files" / "gpu-node-bundle-1.0.tar.gz.sha256").read_text(encoding="utf-8")
        blob = (project / "blobs" / "gpu-node-bundle-1.0.tar.gz").read_bytes()
        assert line == "{0}  gpu-node-bundle-1.0.tar.gz\n".format(hashlib.sha256(blob).hexdigest())


@pytest.mark.parametrize("spec", ["ndv2", "ndv4", "ndv5"])
def test_a_spec_has_the_declaration_of_its_inventory(
    make_project: Callable[..., Path], inventory_variables: Callable[[str], Dict[str, Any]], spec: str
) -> None:
    variables = inventory_variables("azure_" + spec)
    expected = declarations.of_playbooks(variables, variables.__getitem__, False)
    assert expected["node_profile"]["name"] and expected["nccl"] == {"replace_foreign": True}
    if spec != "ndv2":
        # CycleCloud's own place for the local disks.
        assert expected["nvme_scratch"] == {"mount_point": "/mnt/resource_nvme"}
        expected["nvme_scratch"] = {"mount_point": "/nvme"}
    assert declared(make_project(), spec) == dict(expected, **{wish.COMMENT: specs.MARKER})


def test_the_other_specs_name_no_machine(make_project: Callable[..., Path]) -> None:
    project = make_project()
    execute = declared(project, "execute")
    assert execute["node_profile"]["name"] == "auto" and execute["node_profile"]["manage"] == "known"
    assert {name: section for name, section in execute.items() if section and not name.startswith(("$", "node"))} == {
        "health": {"fail_on": "fail"},
        "nccl": {"replace_foreign": True},
        "nvme_scratch": {"mount_point": "/nvme"},
    }
    scheduler = declared(project, "scheduler")
    assert scheduler["node_profile"]["asked"] == ["pyxis", "job_templates"]
    assert not {"rdma", "hpcx", "nccl", "enroot", "health_gate"} & set(scheduler)
    assert scheduler["nvme_scratch"]["models"] == ["none"] and scheduler["gpu_settings"]["state"] == "default"


@pytest.mark.parametrize("spec", specs.SPECS, ids=lambda spec: spec.name)
def test_every_variable_is_one_of_a_role(spec: specs.Spec) -> None:
    known = set(OF_PLAYS)
    for file in (ROOT / "roles").glob("*/meta/argument_specs.yml"):
        known |= set(yaml.safe_load(file.read_text(encoding="utf-8"))["argument_specs"]["main"]["options"])
    assert set(specs.variables_of(spec, ROOT / "inventories")) <= known


def inventory(folder: Path, text: str) -> specs.Spec:
    (folder / "mine" / "group_vars" / "gpu_nodes").mkdir(parents=True)
    (folder / "mine" / "group_vars" / "gpu_nodes" / "main.yml").write_text(text, encoding="utf-8")
    return specs.Spec("mine", "mine", (("nvme_scratch_mount_point", "/nvme"),))


def test_templates_of_variables_are_filled_in(tmp_path: Path) -> None:
    text = 'mirror: https://m/x\nhpcx_version: "2.1"\nhpcx_sha256: "{0}"\nhpcx_source: "{{{{ mirror }}}}.tbz"\n'
    spec = inventory(tmp_path, text.format("0" * 64) + "nccl_limits: '{{ omit }}'\n")
    found = json.loads(specs.declaration(spec, tmp_path))
    assert found["hpcx"] == {"source": "https://m/x.tbz", "sha256": "0" * 64, "version": "2.1"} and found["nccl"] == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            'nccl_replace_foreign: "{{ ansible_facts.x }}"\n',
            "spec mine: nccl_replace_foreign takes something that is known",
        ),
        (
            'hpcx_version: "{{ gpu_node_profile.name }}"\n',
            "spec mine: hpcx_version takes something that is known on a node",
        ),
        ("rdma_expected_ports: many\n", "spec mine: rdma, option expected_ports: 'many' is no whole number"),
        ("rdma_expected_ports: 2000\n", "spec mine: rdma, option expected_ports: 2000 is out of range"),
        (
            "hpcx_source: https://m/x.tbz?sig=abcdefghijklmnop\nhpcx_sha256: '{0}'\nhpcx_version: '2'\n".format(
                "0" * 64
            ),
            "spec mine: it has an access key",
        ),
    ],
)
def test_a_declaration_that_cannot_be_made_is_told_in_a_sentence(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(BundleError) as raised:
        specs.declaration(inventory(tmp_path, text), tmp_path)
    assert str(raised.value).startswith("the variables of " + reason) and "\n" not in str(raised.value)


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
        (
            "password: !vault |\n  $ANSIBLE_VAULT;1.1;AES256\n  6162\n",
            "keep what is secret in /etc/gpu_node/declaration.json",
        ),
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
