# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module enroot as Ansible runs it, on captured machines, with real packages, dpkg, a real web server and bash."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
import yaml

from ansible_collections.trainyard.gpu_node.plugins.modules import enroot as module
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import unpack
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.core.node_packages import debs
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import run_module

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("dpkg-deb", "bash"))) or os.geteuid() != 0, reason="it needs dpkg, bash, and root"
)
SETTINGS = "etc/enroot/enroot.conf.d/50-gpu_node.conf"
MOUNTS = "etc/enroot/mounts.d/50-gpu_node.fstab"
# As enroot 4 reads its files: the first value that it finds stays, and the shell looks at each one.
READER = r"""
set -euo pipefail
for file in "$@"; do
    bash -n "$file"
    while IFS=$' \t=' read -r key value; do
        [[ $key =~ ^(ENROOT_[A-Z_]+|MELLANOX_.*|NVIDIA_.*)$ ]] || continue
        [ -v "$key" ] || declare "$key=$(eval echo "$value")"
        echo "$key=${!key}"
    done < "$file"
done
"""
NAMED = {"name": "enroot", "version": "1", "source": "/x.deb", "sha256": "ab" * 32}
WITH_CLI = "4.2.0-1"
HOOKS = ("50-slurm-pmi.sh", "50-slurm-pytorch.sh", "50-sharp.sh", "50-mig-config.sh")


def enroot_package(folder, version):
    """The names and places of enroot's own package."""
    script = "#!/bin/sh\necho {0}\n".format(version)
    files = {
        "/usr/bin/enroot": (script, 0o755),
        "/usr/bin/enroot-nsenter": (script, 0o755),
        "/etc/enroot/enroot.conf": ("#ENROOT_DATA_PATH ${XDG_DATA_HOME}/enroot\n", 0o644),
        "/etc/enroot/enroot.conf.d/README": ("Drop-ins.\n", 0o644),
        "/etc/enroot/hooks.d/98-nvidia.sh": (script, 0o755),
        "/etc/enroot/mounts.d/10-system.fstab": ("\n", 0o644),
    }
    files.update({"/usr/share/enroot/hooks.d/" + name: (script, 0o755) for name in HOOKS})
    if version.startswith("4"):
        files["/etc/apparmor.d/enroot"] = ("abi <abi/4.0>,\n", 0o644)
    if version == WITH_CLI:
        files["/usr/bin/nvidia-container-cli"] = (script, 0o755)
    conffiles = sorted(path for path in files if path.startswith("/etc/"))
    return debs.build(folder, "enroot", version, files, conffiles=conffiles)


@pytest.fixture
def node(tmp_path, monkeypatch):
    """``node(machine)`` is a function that runs the module on that captured machine."""
    monkeypatch.setenv("DPKG_FORCE", "unsafe-io")  # dpkg would wait for the disk after each file

    def make(machine, slurmd=True, scratch=True):
        root = debs.database(tmp_path / machine)
        unpack(machine, root)
        for key in ("user/max_user_namespaces", "user/max_mnt_namespaces"):
            path = root / "proc/sys" / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("514000\n")
        (root / "etc").mkdir(exist_ok=True)
        if slurmd:
            (root / "usr/sbin").mkdir(parents=True, exist_ok=True)
            (root / "usr/sbin/slurmd").write_text("#!/bin/sh\n")
            (root / "usr/sbin/slurmd").chmod(0o755)
        sections = {"slurm_hooks": {}}
        if scratch:
            sections["nvme_scratch"] = {"mount_point": "/mnt/resource_nvme"}
        (root / "etc/gpu_node").mkdir(exist_ok=True)
        (root / "etc/gpu_node/node.json").write_text(json.dumps(sections, indent=2, sort_keys=True) + "\n")

        def call(check=False, **arguments):
            return run_module("enroot", arguments, root, check)

        call.root = root
        return call

    return make


@pytest.fixture
def mirror(tmp_path):
    """``mirror(url, version)`` is the option packages; the packages lie in ``mirror.folder``."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    sums = {version: enroot_package(folder, version)[1] for version in ("3.5.0-1", "4.1.2-1", WITH_CLI)}

    def option(url, version):
        source = "{0}/enroot_{1}_all.deb".format(url, version)
        return [{"name": "enroot", "version": version, "source": source, "sha256": sums[version]}]

    option.folder = folder
    return option


def tree(root):
    return debs.tree(root, ("var/lib/dpkg", "run", "var/log", "sys"))


def read_as_enroot_does(root, *paths):
    argv = ["bash", "-c", READER, "reader", *(str(root / path) for path in paths)]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=True, timeout=60, env={"PATH": os.environ["PATH"]}
    )
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


def test_check_real_check_real_upgrade_and_absent_leaves_what_it_found(node, mirror):
    run = node("ndv4")
    before = tree(run.root)
    with debs.served(mirror.folder) as url:
        old, new = mirror(url, "3.5.0-1"), mirror(url, "4.1.2-1")
        planned = run(check=True, packages=old)
        assert planned["changed"] and tree(run.root) == before
        made = run(packages=old)
        # Check mode cannot know which folders come with the package.
        told = [one["description"] for one in planned["actions"] if one["action"] != "make_folder"]
        assert [one["description"] for one in made["actions"]] == told
        assert made["diff"] == planned["diff"] and made["version"] == "3.5.0-1"
        assert not run(check=True, packages=old)["changed"] and not run(packages=old)["changed"]
        upgraded = run(packages=new)
        actions = ["fetch_package", "declare", "install_packages"]
        assert upgraded["version"] == "4.1.2-1" and [one["action"] for one in upgraded["actions"]] == actions
    # Without a list of packages the installed one is set up further.
    assert not run()["changed"]
    assert run(hooks=["sharp"])["changed"] and not run(hooks=["sharp"])["changed"]
    assert sorted(os.listdir(str(run.root / "etc/enroot/hooks.d"))) == ["50-sharp.sh", "98-nvidia.sh"]
    assert run(check=True, state="absent")["changed"]
    assert run(state="absent")["changed"] and not run(state="absent")["changed"]
    assert debs.installed(run.root, "enroot") is None
    assert tree(run.root) == before


def test_what_enroot_reads_on_a_full_node(node, mirror):
    run = node("ndv4")
    with debs.served(mirror.folder) as url:
        result = run(packages=mirror(url, "4.1.2-1"), settings={"ENROOT_MOUNT_HOME": True, "ENROOT_MAX_PROCESSORS": 0})
    assert read_as_enroot_does(run.root, "etc/enroot/enroot.conf", SETTINGS) == {
        "ENROOT_RUNTIME_PATH": "/run/enroot/user-{0}".format(os.getuid()),
        "ENROOT_CACHE_PATH": "/mnt/resource_nvme/enroot/cache/{0}".format(os.getuid()),
        "ENROOT_DATA_PATH": "/mnt/resource_nvme/enroot/data/{0}".format(os.getuid()),
        "ENROOT_TEMP_PATH": "/mnt/resource_nvme/enroot/temp/{0}".format(os.getuid()),
        "ENROOT_SQUASH_OPTIONS": "-noI -noD -noF -noX -no-duplicates",
        "ENROOT_ROOTFS_WRITABLE": "yes",
        "ENROOT_RESTRICT_DEV": "yes",
        "ENROOT_MOUNT_HOME": "yes",
        "ENROOT_MAX_PROCESSORS": "0",
        "MELLANOX_VISIBLE_DEVICES": "all",
    }
    assert [one["path"] for one in result["user_folders"]][:2] == [
        "/run/enroot/user-{uid}",
        "/mnt/resource_nvme/enroot/cache/{uid}",
    ]
    assert any("8 GPU(s) and no nvidia-container-cli" in note for note in result["notes"])
    for line in (run.root / MOUNTS).read_text().splitlines()[1:]:
        words = line.split()
        assert len(words) == 6 and words[0] == words[1] and words[2] == "none" and words[4:] == ["0", "-1"]
        assert {"bind", "ro", "nofail", "x-create=auto"} < set(words[3].split(","))
    for name in ("50-slurm-pmi.sh", "50-slurm-pytorch.sh"):
        assert os.readlink(str(run.root / "etc/enroot/hooks.d" / name)) == "/usr/share/enroot/hooks.d/" + name


def test_a_site_that_set_the_same_key_is_told_since_its_value_wins(node, mirror):
    run = node("ndv4")
    with debs.served(mirror.folder) as url:
        run(packages=mirror(url, "4.1.2-1"))
    (run.root / "etc/enroot/enroot.conf").write_text("ENROOT_DATA_PATH /shared/enroot\n")
    assert read_as_enroot_does(run.root, "etc/enroot/enroot.conf", SETTINGS)["ENROOT_DATA_PATH"] == "/shared/enroot"
    assert any("wins with ENROOT_DATA_PATH /shared/enroot; to have ours" in note for note in run()["notes"])


@pytest.mark.parametrize(
    "machine, mellanox", [("ndv2", True), ("ndv4", True), ("ndv5", True), ("gb200", None), ("laptop", False)]
)
def test_every_kind_of_machine_gets_what_it_has(node, mirror, machine, mellanox):
    run = node(machine, scratch=machine != "ndv2")
    with debs.served(mirror.folder) as url:
        result = run(packages=mirror(url, "4.1.2-1"))
    if mellanox is not None:
        assert (result["settings"].get("MELLANOX_VISIBLE_DEVICES") == "all") is mellanox
    base = "/var/lib/enroot" if machine == "ndv2" else "/mnt/resource_nvme/enroot"
    assert result["settings"]["ENROOT_DATA_PATH"] == base + "/data/$(id -u)"
    subprocess.run(["bash", "-n", str(run.root / SETTINGS)], check=True, timeout=60)


def test_a_login_node_keeps_the_home_folders(node, mirror):
    run = node("laptop", slurmd=False, scratch=False)
    with debs.served(mirror.folder) as url:
        result = run(packages=mirror(url, "4.1.2-1"))
    assert result["user_folders"] == [] and "ENROOT_DATA_PATH" not in result["settings"]


def test_what_comes_with_the_packages_is_not_told_to_be_missing(node, mirror):
    run = node("ndv4")
    (run.root / "proc/sys/kernel").mkdir(exist_ok=True)
    (run.root / "proc/sys/kernel/apparmor_restrict_unprivileged_userns").write_text("1\n")
    with debs.served(mirror.folder) as url:
        assert len(run(check=True, packages=mirror(url, WITH_CLI))["notes"]) == 2
        result = run(packages=mirror(url, WITH_CLI))
    assert result["notes"] == [] and result["nvidia_container_cli"] == "/usr/bin/nvidia-container-cli"
    assert not [one for one in result["actions"] if "apparmor" in one["description"]]


def test_absent_does_not_ask_for_right_packages(node, mirror):
    run = node("ndv4")
    with debs.served(mirror.folder) as url:
        run(packages=mirror(url, "3.5.0-1"))
    wrong = [dict(NAMED, source="/x.zip", architecture="mips")]
    assert run(state="absent", packages=wrong, scratch="mnt", settings={"ENROOT_X": "`x`"})["changed"]
    assert debs.installed(run.root, "enroot") is None


def test_user_namespaces_and_ubuntus_restriction(node, mirror):
    run = node("ndv4")
    values = run.root / "proc/sys"
    (values / "user/max_user_namespaces").write_text("0\n")
    (values / "kernel").mkdir(exist_ok=True)
    (values / "kernel/apparmor_restrict_unprivileged_userns").write_text("1\n")
    with debs.served(mirror.folder) as url:
        result = run(packages=mirror(url, "3.5.0-1"))
        assert (values / "user/max_user_namespaces").read_text() == "65536\n"
        assert "userns create," in (run.root / "etc/apparmor.d/gpu_node_enroot").read_text()
        assert any("apparmor_parser is missing" in note for note in result["notes"])
        # Version 4 brings a profile of its own.
        last = run(packages=mirror(url, "4.1.2-1"))["actions"][-1]
        assert last["description"] == "remove /etc/apparmor.d/gpu_node_enroot"
        assert not run(packages=mirror(url, "4.1.2-1"))["changed"]
    assert not (run.root / "etc/apparmor.d/gpu_node_enroot").exists()
    assert (values / "kernel/apparmor_restrict_unprivileged_userns").read_text() == "1\n"
    run(state="absent")
    assert (values / "user/max_user_namespaces").read_text() == "0\n"


def test_a_wrong_sum_changes_nothing_and_a_dead_mirror_leaves_the_old_version(node, mirror):
    run = node("ndv4")
    before = tree(run.root)
    with debs.served(mirror.folder) as url:
        wrong = dict(mirror(url, "4.1.2-1")[0], sha256="0" * 64)
        assert "its sha256 is" in run(packages=[wrong])["msg"]
        assert tree(run.root) == before
        run(packages=mirror(url, "3.5.0-1"))
    standing = tree(run.root)
    with debs.served(mirror.folder, cut_after=200) as url:
        assert run(packages=mirror(url, "4.1.2-1"))["failed"]
    assert tree(run.root) == standing and debs.installed(run.root, "enroot") == ("3.5.0-1", "ii")


def test_without_enroot_it_is_skipped(node):
    result = node("ndv4")()
    assert not result["changed"] and "not installed" in result["skipped_reason"]


@pytest.mark.parametrize(
    "options, told",
    [
        ({"settings": {"ENROOT_DATA_PAHT": "/x"}}, "enroot knows no such key"),
        ({"settings": {"ENROOT_DATA_PATH": ["/x", "/y"]}}, "more than text"),
        ({"hooks": ["98-nvidia.sh"]}, "value of hooks must be one or more of"),
        ({"packages": [{"name": "enroot"}]}, "missing required arguments"),
        ({"packages": [dict(NAMED, source="/x.zip")]}, "no .deb and no .rpm"),
        ({"packages": [dict(NAMED, architecture="mips")]}, "architecture 'mips' is not known"),
        ({"scratch": "mnt"}, "no absolute path"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_one_sentence(node, options, told):
    run = node("laptop")
    before = tree(run.root)
    result = run(**options)
    assert result["failed"] and told in result["msg"] and tree(run.root) == before


def test_everything_that_is_returned_is_documented(node):
    documented = yaml.safe_load(module.RETURN)
    returned = set(node("laptop")()) - {"changed", "diff", "invocation", "failed", "warnings", "deprecations"}
    assert returned == set(documented)
