# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module beeond as Ansible runs it; the node is a folder, and what builds the client is a script that says so."""

from __future__ import annotations

import json

import pytest

from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import declarations
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import process, run_module

KEY = "k" * 31 + "Z"


@pytest.fixture
def run(tmp_path):
    root = tmp_path / "root"
    for path in ("usr/bin/scontrol", "opt/beegfs/sbin/beeond", "lib/modules/6.1/build/Makefile"):
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text("")
    (root / "usr/bin/scontrol").chmod(0o755)
    (root / "opt/beegfs/src/client/client_module_7").mkdir(parents=True)
    (root / "proc/sys/kernel").mkdir(parents=True)
    (root / "proc/sys/kernel/osrelease").write_text("6.1\n")
    client = root / "etc/init.d/beegfs-client"
    client.parent.mkdir(parents=True)
    module = root / "lib/modules/6.1/updates/fs/beegfs_autobuild/beegfs.ko"
    client.write_text("#!/bin/sh\necho $1 >> {0}/builds\nmkdir -p {1}\n: > {2}\n".format(root, module.parent, module))
    client.chmod(0o755)

    def call(check=False, **arguments):
        # What the action plugin tells of an option that is a secret.
        return run_module("beeond", arguments, root, check, secrets=declarations.secrets({"beeond": arguments}))

    call.root = root
    return call


def files(root):
    return {str(one.relative_to(root)) for one in root.rglob("*") if "run/gpu_node" not in str(one)}


def test_check_real_check_real_and_absent_and_the_key_is_nowhere_but_in_its_file(run):
    before = files(run.root)
    planned = run(check=True, auth_secret=KEY)
    assert planned["changed"] and files(run.root) == before
    made = run(auth_secret=KEY)
    assert [one["description"] for one in made["actions"]] == [one["description"] for one in planned["actions"]]
    assert made["built_for"] == made["kernel"] == "6.1" and made["module"] is True
    auth = run.root / "etc/gpu_node/beeond/auth"
    assert auth.read_text() == KEY + "\n" and auth.stat().st_mode & 0o777 == 0o400
    assert KEY not in json.dumps([planned, made])
    holders = [one for one in run.root.rglob("*") if one.is_file() and KEY in one.read_text(errors="replace")]
    assert holders == [auth]
    assert "connAuthFile = /etc/gpu_node/beeond/auth" in (run.root / "etc/gpu_node/beeond/beegfs-meta.conf").read_text()
    assert (run.root / "beeond").is_dir()

    # Built once, and the key stays where none is given.
    assert not run(auth_secret=KEY)["changed"] and not run(check=True)["changed"] and not run()["changed"]
    assert (run.root / "builds").read_text() == "rebuild\n"
    (run.root / "var/lib/beegfs/client").mkdir(parents=True)
    (run.root / "var/lib/beegfs/client/force-auto-build").write_text("")
    assert run()["changed"] and not run()["changed"]
    assert (run.root / "builds").read_text() == "rebuild\nrebuild\n"
    auth.chmod(0o644)
    assert run()["changed"] and auth.stat().st_mode & 0o777 == 0o400
    assert run(auth_secret=KEY + "2")["changed"] and auth.read_text() == KEY + "2\n"

    assert run(state="absent")["changed"] and not run(state="absent")["changed"]
    assert not (run.root / "beeond").exists() and not (run.root / "etc/gpu_node").exists()


def test_a_build_that_fails_is_told_and_is_tried_again(run):
    client = run.root / "etc/init.d/beegfs-client"
    works = client.read_text()
    client.write_text("#!/bin/sh\necho 'no rule to make it' >&2\nexit 2\n")
    told = json.loads(
        process(
            "beeond", {"auth_secret": KEY}, run.root, secrets=declarations.secrets({"beeond": {"auth_secret": KEY}})
        ).stdout
    )
    assert told["failed"] and "could not be built: no rule to make it" in told["msg"] and KEY not in json.dumps(told)
    client.write_text(works)
    assert run(auth_secret=KEY)["built_for"] == "6.1"


def test_a_machine_with_beegfs_8_is_refused_and_nothing_is_changed(run):
    # Its packages have all else that is looked for: beeond, the script that builds the client, the same folders.
    sources = run.root / "opt/beegfs/src/client"
    (sources / "client_module_7/build").mkdir()  # what an upgrade leaves where something was built
    (sources / "client_module_8").mkdir()
    (sources / "client_compat_module_8").mkdir()
    before = files(run.root)
    secrets = declarations.secrets({"beeond": {"auth_secret": KEY}})
    told = json.loads(process("beeond", {"auth_secret": KEY}, run.root, secrets=secrets).stdout)
    assert told["failed"] and "package beegfs-client: BeeGFS 8 is installed, and only 7 is supported" in told["msg"]
    assert files(run.root) - {"run"} == before


def test_ansible_logs_no_key(run):
    done = process(
        "beeond",
        {"auth_secret": KEY},
        run.root,
        secrets=declarations.secrets({"beeond": {"auth_secret": KEY}}),
        logged=True,
    )
    assert "module_args" in done.stdout and KEY not in done.stdout + done.stderr
