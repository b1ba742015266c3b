# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each play sets its strategy: the default is the site's (ANSIBLE_STRATEGY), and with another one than linear run_once
runs a task for each host and no task waits for the same task of the other hosts."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

COLLECTION = Path(__file__).resolve().parents[3]
LINEAR, PINNED = "ansible.builtin.linear", "ansible.builtin.host_pinned"
# Where each node goes at its own pace, and nothing is done once for all.
AT_ITS_OWN_PACE = {"playbooks/site.yml"}


class Loader(yaml.SafeLoader):
    """Ansible's own tags are of no interest here."""


Loader.add_multi_constructor("!", lambda loader, suffix, node: None)


def plays():
    for place in ("playbooks", "deploy", "extensions", "inventories", "tools", "docs"):
        for path in sorted((COLLECTION / place).rglob("*.y*ml")):
            try:
                documents = list(yaml.load_all(path.read_text(encoding="utf-8"), Loader))
            except yaml.YAMLError:
                continue  # a template
            for document in documents:
                for play in document if isinstance(document, list) else ():
                    if isinstance(play, dict) and "hosts" in play:
                        yield path.relative_to(COLLECTION).as_posix(), play


PLAYS = list(plays())


def test_the_plays_are_found():
    found = {name for name, dummy in PLAYS}
    assert {path.relative_to(COLLECTION).as_posix() for path in (COLLECTION / "playbooks").glob("*.yml")} <= found
    assert any(name.startswith("extensions/molecule/") for name in found)


@pytest.mark.parametrize("name, play", PLAYS, ids=["{0}:{1}".format(name, play.get("name")) for name, play in PLAYS])
def test_each_play_sets_its_strategy(name, play):
    assert play.get("strategy") == (PINNED if name in AT_ITS_OWN_PACE else LINEAR)


@pytest.mark.parametrize("name", sorted(AT_ITS_OWN_PACE | {"playbooks/tasks/converge.yml"}))
def test_plays_with_a_free_strategy_rely_on_no_order(name):
    text = (COLLECTION / name).read_text(encoding="utf-8")
    assert not [word for word in ("run_once", "serial:", "throttle:", "hostvars[") if word in text]
