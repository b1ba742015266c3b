# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples under deploy/: each is read as its reader reads it, and its scripts run with a small bundle."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, Dict, List

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import converge_record as record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.converge_record import Record
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import wish
from ansible_collections.trainyard.gpu_node.tests.unit.tools.cluster_init.cluster_init_machine import (
    Machine,
    make_bundle,
)
from ansible_collections.trainyard.gpu_node.tools.cluster_init import specs

DEPLOY = Path(specs.__file__).resolve().parents[2] / "deploy"
VERSION = str(yaml.safe_load((DEPLOY.parent / "galaxy.yml").read_text(encoding="utf-8"))["version"])
BUNDLE = "gpu-node-bundle-{0}.tar.gz".format(VERSION)
KEPT = wish.PATH[1:]
# Runs what a machine would run, in its root: runner.py is what the machine starts.
CALL = "import subprocess, sys\nsys.exit(subprocess.call(sys.argv[1:]))\n"


@pytest.fixture
def blank(machine: Machine) -> Machine:
    """A machine with nothing but the bundle under /bundle."""
    machine.write("runner.py", CALL)
    make_bundle(machine.root / "bundle", VERSION)
    return machine


def digest(machine: Machine) -> str:
    return machine.read("bundle/{0}.sha256".format(BUNDLE)).split()[0]


def run(machine: Machine, *words: str) -> "subprocess.CompletedProcess[str]":
    return machine.runner("env", "PATH=/opt/cycle/jetpack/bin:/usr/sbin:/usr/bin", *words)


# --- cloud-init
def user_data() -> Dict[str, Any]:
    text = (DEPLOY / "cloud_init" / "user-data").read_text(encoding="utf-8")
    assert text.startswith("#cloud-config\n")
    return dict(yaml.safe_load(text))


def first_boot(machine: Machine) -> str:
    """What cloud-init's write_files does; gives the script's name."""
    declared, script = user_data()["write_files"]
    assert declared["owner"] == script["owner"] == "root:root" and declared["path"] == wish.PATH
    assert declared["permissions"] == "0600"
    wish.desired(wish.parse(declared["content"], "user-data"), {})
    machine.write(KEPT, declared["content"], int(declared["permissions"], 8))
    folder, name = script["path"].rsplit("/", 1)
    assert folder == "/usr/local/sbin"
    # The machine's own folder in the search path: /usr is shared with this one.
    machine.write("opt/cycle/jetpack/bin/" + name, script["content"], int(script["permissions"], 8))
    return str(name)


def test_user_data_starts_slurmd_only_after_the_node_is_ready(blank: Machine) -> None:
    data = user_data()
    # Each is a key of cloud-init's schema.
    assert set(data) == {"write_files", "runcmd"}
    assert {key for file in data["write_files"] for key in file} == {"path", "owner", "permissions", "content"}
    ((shell, option, command),) = data["runcmd"]
    assert (shell, option) == ("sh", "-c")
    script, source, sum_of_it, rest = command.split(" ", 3)
    assert source.endswith("/" + BUNDLE) and re.fullmatch("[0-9a-f]{64}", sum_of_it)
    assert rest == "&& systemctl enable --now slurmd.service"
    assert first_boot(blank) == script
    command = command.replace(source, "/bundle/" + BUNDLE).replace(sum_of_it, digest(blank))
    blank.write("answers", "1\n0\n")
    assert run(blank, shell, option, command).returncode == 1
    assert blank.lines("systemctl") == []
    assert run(blank, shell, option, command).returncode == 0
    assert blank.lines("systemctl") == ["enable --now slurmd.service"]
    assert blank.read("declared") == data["write_files"][0]["content"]


def test_a_first_boot_takes_the_bundle_from_a_mirror_and_no_other_bytes(blank: Machine) -> None:
    script = first_boot(blank)
    done = run(blank, script, "file:///bundle/" + BUNDLE, digest(blank))
    assert done.returncode == 0, done.stderr
    assert [line.split(" ", 1)[1] for line in blank.lines("converges")][0].endswith("/converge --install")
    done = run(blank, script, "/bundle/" + BUNDLE, "0" * 64)
    assert done.returncode != 0 and len(blank.lines("converges")) == 1
    assert list((blank.root / "var" / "tmp").iterdir()) == []


def test_a_first_boot_waits_for_the_unit_that_is_at_it(blank: Machine) -> None:
    script = first_boot(blank)
    blank.write("answers", "75\n75\n0\n")
    assert run(blank, script, "/bundle/" + BUNDLE, digest(blank)).returncode == 0
    assert blank.lines("sleeps") == ["180", "180"] and len(blank.lines("converges")) == 3
    blank.write("answers", "75\n" * 20)
    assert run(blank, script, "/bundle/" + BUNDLE, digest(blank)).returncode == 75
    assert len(blank.lines("converges")) == 13


# --- Packer
def blocks(text: str) -> List[str]:
    """The blocks of a file in HCL, each from its first word to its closing brace; comments are left out."""
    text = re.sub(r"(?m)^\s*#.*\n", "", text)
    found, depth, start = [], 0, 0
    for match in re.finditer(r"[{}]|\"(?:\$\{[^}]*\}|[^\"\\]|\\.)*\"", text):
        if match.group() == "{":
            depth += 1
        elif match.group() == "}":
            depth -= 1
            assert depth >= 0
            if depth == 0:
                found.append(text[start : match.end()].strip())
                start = match.end()
    assert depth == 0 and not text[start:].strip()
    return found


def test_packer_has_two_sources_and_each_variable_that_it_uses() -> None:
    text = (DEPLOY / "packer" / "gpu_node.pkr.hcl").read_text(encoding="utf-8")
    heads = [re.split(r"\s*\{", block)[0] for block in blocks(text)]
    assert [head for head in heads if not head.startswith("variable")] == [
        "packer",
        'source "azure-arm" "gpu_node"',
        'source "qemu" "gpu_node"',
        "build",
    ]
    declared = {head.split('"')[1] for head in heads if head.startswith("variable")}
    assert set(re.findall(r"\bvar\.(\w+)", text)) == declared
    build = blocks(text)[-1]
    assert 'sources = ["source.azure-arm.gpu_node", "source.qemu.gpu_node"]' in build
    for name in re.findall(r"path\.root\}/([\w.]+)", build):
        assert (DEPLOY / "packer" / name).is_file(), name
    assert BUNDLE in text


def test_the_declaration_of_an_image_touches_no_disk_and_no_clock() -> None:
    declared = wish.parse((DEPLOY / "packer" / "image.json").read_text(encoding="utf-8"), "image.json")
    desired = wish.desired(declared, {})
    assert desired["nvme_scratch"].models == ("none",)
    assert desired["gpu_settings"].present is False
    assert desired["node_profile"].declare is False
    assert {"hpcx", "enroot", "pyxis"} < set(declared) and not {"rdma", "nccl", "job_templates"} & set(declared)


def image(machine: Machine) -> "subprocess.CompletedProcess[str]":
    for name in ("image.sh", "image.json"):
        machine.write("bundle/" + name, (DEPLOY / "packer" / name).read_text(encoding="utf-8"))
    return run(machine, "sh", "/bundle/image.sh", "/bundle")


def test_an_image_keeps_the_bundle_s_unit_and_nothing_of_the_machine_it_was_made_on(blank: Machine) -> None:
    blank.write("var/lib/gpu_node/converge.json", "{}")
    blank.write("var/lib/gpu_node/health/verdict.json", "{}")
    blank.write("var/lib/gpu_node/packages/record.json", "{}")
    done = image(blank)
    assert done.returncode == 0, done.stderr
    (line,) = blank.lines("converges")
    words = "--install --declaration /bundle/image.json"
    assert line == "/bundle gpu-node-bundle-{0}/converge {1}".format(VERSION, words)
    # The node command has kept the declaration; the unit of each boot would read it.
    assert not (blank.root / KEPT).exists() and not (blank.root / "bundle").exists()
    left = sorted(str(path.relative_to(blank.root / "var/lib")) for path in (blank.root / "var/lib").rglob("*.json"))
    assert left == ["gpu_node/packages/record.json"]
    # Without a declaration of its own a node of the image is not made anything of.
    drop_in = blank.read("etc/systemd/system/gpu-node-converge.service.d/image.conf")
    assert drop_in == "[Unit]\nConditionPathExists={0}\n".format(wish.PATH)


@pytest.mark.parametrize(
    ("reason", "status"),
    [("the verdict on it is fail; 'gpunode health' tells why", 0), ("hpcx: file x: it is missing", 1), ("", 1)],
)
def test_an_image_is_made_on_a_sick_machine_and_not_where_something_was_not_installed(
    blank: Machine, reason: str, status: int
) -> None:
    kept = Record("not_ready", reason, 1.0, 2.0, "b", "1", "fail")
    record.write(Host(str(blank.root)), kept)
    blank.write("answers", "1\n")
    assert image(blank).returncode == status


def test_an_image_with_a_damaged_bundle_or_a_declaration_of_its_own_is_not_made(blank: Machine) -> None:
    blank.write(KEPT, "{}\n")
    done = image(blank)
    assert done.returncode == 1 and "it is there already" in done.stderr
    assert blank.read(KEPT) == "{}\n"
    (blank.root / KEPT).unlink()
    blank.write("bundle/" + BUNDLE, "damaged")
    assert image(blank).returncode != 0
    assert blank.lines("converges") == []


# --- Kubernetes
def manifests() -> Dict[str, Any]:
    text = (DEPLOY / "kubernetes" / "daemonset.yaml").read_text(encoding="utf-8")
    return {manifest["kind"]: manifest for manifest in yaml.safe_load_all(text)}


def test_the_daemonset_lets_pods_in_only_after_the_converge() -> None:
    found = manifests()
    assert set(found) == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "DaemonSet"}
    assert found["DaemonSet"]["apiVersion"] == "apps/v1"
    spec = found["DaemonSet"]["spec"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    pod = spec["template"]["spec"]
    # Kubernetes runs them one after the other, and the next only when the one before it has ended with 0.
    keep_away, converge, let_in = pod["initContainers"]
    taint = "trainyard.io/gpu-node-not-ready"
    assert keep_away["command"] == ["kubectl", "taint", "node", "$(NODE_NAME)", taint + "=:NoSchedule", "--overwrite"]
    assert let_in["command"] == ["kubectl", "taint", "node", "$(NODE_NAME)", taint + ":NoSchedule-"]
    # It has to run on a node with that taint, or any other.
    assert pod["tolerations"] == [{"operator": "Exists"}] and pod["hostPID"] is True
    (status,) = pod["containers"]
    assert status["readinessProbe"]["exec"]["command"][-3:] == ["/opt/gpu_node/gpunode.pyz", "boot", "status"]
    privileged = [one["name"] for one in (keep_away, converge, let_in, status) if one.get("securityContext")]
    assert privileged == ["converge", "status"]


def test_the_daemonset_s_account_may_do_what_the_taint_needs_and_no_more() -> None:
    found = manifests()
    assert found["ClusterRole"]["rules"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]}]
    account = found["ServiceAccount"]["metadata"]
    assert found["ClusterRoleBinding"]["subjects"] == [dict(account, kind="ServiceAccount")]
    assert found["DaemonSet"]["spec"]["template"]["spec"]["serviceAccountName"] == account["name"]


def test_the_container_runs_the_bundle_on_the_host(blank: Machine) -> None:
    converge = manifests()["DaemonSet"]["spec"]["template"]["spec"]["initContainers"][1]
    assert converge["image"].endswith(":" + VERSION)
    # Only the host has the namespaces; the words that nsenter is given are run as they are.
    nsenter = '#!/bin/sh\n[ "$1 $2 $3 $4" = "--target 1 --all --" ] || exit 9\nshift 4\nexec "$@"\n'
    blank.write("opt/cycle/jetpack/bin/nsenter", nsenter, 0o755)
    done = run(blank, *converge["command"])
    assert done.returncode == 0, done.stderr
    (line,) = blank.lines("converges")
    program, option, declaration, path = line.split()[1:]
    assert program.endswith("/gpu-node-bundle-{0}/converge".format(VERSION)) and option == "--install"
    assert (declaration, path) == ("--declaration", program[: -len("converge")] + "declaration.json")
    assert list((blank.root / "var" / "tmp").iterdir()) == []
    blank.write("answers", "1\n")
    assert run(blank, *converge["command"]).returncode == 1
    blank.write("bundle/" + BUNDLE, "damaged")
    assert run(blank, *converge["command"]).returncode != 0
    assert len(blank.lines("converges")) == 2
