# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""azure_expire.yml by the real Ansible. `az` is a stand-in of a few lines with the words and JSON of its documentation:
no real Azure was asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.trainyard.gpu_node.plugins.filter.azure import azure_expired

ROOT = Path(__file__).resolve().parents[3]
AZ = """#!{python}
import json, os, sys
folder = os.path.dirname(os.path.abspath(__file__))
words = sys.argv[1:]
open(folder + "/calls", "a").write(" ".join(words) + "\\n")
groups = json.load(open(folder + "/groups.json"))
assert words[words.index("--output") + 1] == "json"
name = words[words.index("--name") + 1] if "--name" in words else ""
if words[:2] == ["group", "list"]:
    tag = words[words.index("--tag") + 1]
    print(json.dumps([one for one in groups if tag in (one["tags"] or {{}})]))
elif words[:2] == ["group", "show"]:
    again = folder + "/again.json"
    groups = json.load(open(again)) if os.path.exists(again) else groups
    print(json.dumps([one for one in groups if one["name"] == name][0]))
elif words[:2] == ["resource", "list"]:
    group = words[words.index("--resource-group") + 1]
    print(json.dumps([{{"id": "/subscriptions/x/resourceGroups/" + group + "/vm1"}}]))
elif words[:2] == ["group", "delete"]:
    assert "--yes" in words
    json.dump([one for one in groups if one["name"] != name], open(folder + "/groups.json", "w"))
else:
    sys.exit("ERROR: not known here: " + " ".join(words))
"""
PAST, FUTURE = "2026-01-31T18:00Z", "2090-01-31T18:00+01:00"


def group(name, after=None, owner="anna", **more):
    tags = {"gpu_node_delete_after": after, "gpu_node_owner": owner} if after else None
    return {"name": name, "location": "southcentralus", "tags": tags, **more}


GROUPS = [group("old", PAST), group("old-too", PAST, "ben"), group("lab", FUTURE), group("odd", "soon"), group("prod")]


@pytest.fixture
def play(tmp_path):
    collection = tmp_path / "collections/ansible_collections/trainyard"
    collection.mkdir(parents=True)
    (collection / "gpu_node").symlink_to(ROOT)
    (tmp_path / "az").write_text(AZ.format(python=sys.executable))
    (tmp_path / "az").chmod(0o755)
    (tmp_path / "groups.json").write_text(json.dumps(GROUPS))

    def run(*words, environment=(), **variables):
        environment = dict(environment)
        (tmp_path / "calls").write_text("")
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "AZURE_"))}
        variables.setdefault("gpu_node_azure_az", str(tmp_path / "az"))
        done = subprocess.run(
            [sys.executable, "-m", "ansible.cli.playbook", "-e", json.dumps(variables), *words]
            + [str(collection / "gpu_node/playbooks/azure_expire.yml")],
            env=dict(
                clean,
                ANSIBLE_COLLECTIONS_PATH=str(tmp_path / "collections"),
                ANSIBLE_HOME=str(tmp_path / "home"),
                ANSIBLE_NOCOLOR="1",
                **environment,
            ),
            cwd=str(tmp_path),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        run.output = " ".join((done.stdout + done.stderr).split())
        run.calls = (tmp_path / "calls").read_text().splitlines()
        run.deleted = [one for one in run.calls if one.startswith("group delete")]
        return done.returncode

    run.folder = tmp_path
    return run


def test_without_a_confirmation_it_only_tells_what_would_go(play):
    # The program is found in the search path.
    path = "{0}:{1}".format(play.folder, os.environ["PATH"])
    assert play(environment={"PATH": path}, gpu_node_azure_az="az") == 0, play.output
    assert play.calls and play.deleted == [] and "old (of anna): over since 2026-01-31 18:00 UTC" in play.output
    assert "resourceGroups/old/vm1" in play.output and "resourceGroups/lab" not in play.output
    assert "odd (of anna): its tag gpu_node_delete_after is no time with a zone" in play.output
    assert "prod" not in play.output


def test_only_what_was_confirmed_goes(play):
    assert play("--check", confirm="old") == 0 and play.deleted == [], play.output
    assert play(confirm="old", gpu_node_azure_subscription="s1") == 0, play.output
    assert play.deleted == ["group delete --name old --yes --output json --subscription s1"]
    assert play() == 0 and "old-too (of ben)" in play.output and "old (of anna)" not in play.output


@pytest.mark.parametrize("name", ["old,lab", "odd"])
def test_a_group_that_is_not_over_cannot_be_confirmed(play, name):
    assert play(confirm=name) != 0 and play.deleted == []
    assert (
        "no resource group of this name is over by its tag" in play.output and "name one of old, old-too" in play.output
    )


def test_the_group_of_another_owner_is_none_of_ours(play):
    assert play(confirm="old-too", gpu_node_azure_owner="anna") != 0 and play.deleted == []
    assert "and owned by anna" in play.output


def test_a_group_that_was_extended_meanwhile_stays(play):
    (play.folder / "again.json").write_text(json.dumps([group("old", FUTURE)]))
    assert play(confirm="old") == 0 and play.deleted == [], play.output


@pytest.mark.sampled(1)
@pytest.mark.parametrize("program", ["az", "/opt/none/az"])
def test_without_az_it_is_one_sentence(play, program):
    (play.folder / "bin").mkdir()
    (play.folder / "bin/az").mkdir()  # no program
    assert play(environment={"PATH": str(play.folder / "bin")}, gpu_node_azure_az=program) != 0
    told = "{0}: there is no such program{1}; install the Azure CLI, or name it by gpu_node_azure_az."
    assert told.format(program, "" if "/" in program else " in PATH") in play.output, play.output
    assert "Errno" not in play.output and "Look for resource groups" not in play.output


def test_tags_are_judged_by_their_time_and_zone():
    found = azure_expired([group("a", "1970-01-01T01:00+01:00"), group("b", "1970-01-01T00:00-01:00")], 10.0)
    assert [(one["name"], one["over"]) for one in found] == [("a", True), ("b", False)]
    assert azure_expired([group("a", PAST)], 0.0, "ben") == [] == azure_expired([group("x")], 9e9)
    with pytest.raises(AnsibleFilterError, match="az group list"):
        azure_expired("[]", 0.0)
