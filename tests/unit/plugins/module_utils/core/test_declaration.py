# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node.json: one section a resource."""

from __future__ import annotations

import json
import os
import stat
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import declaration, registry
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import described
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError

contents = st.dictionaries(st.text(min_size=1, max_size=5), st.one_of(st.none(), st.integers(), st.text(max_size=5)))


def test_sections_come_and_go_and_the_file_goes_with_the_last(tmp_path):
    host = Host(str(tmp_path))
    declaration.apply(host, declaration.Declare("scratch", {"count": 8}))
    declaration.apply(host, declaration.Declare("settings", {"clocks": "max"}))
    assert declaration.read(host) == {"scratch": {"count": 8}, "settings": {"clocks": "max"}}
    declaration.apply(host, declaration.Declare("scratch", None))
    assert declaration.read(host) == {"settings": {"clocks": "max"}}
    declaration.apply(host, declaration.Declare("settings", None))
    assert not (tmp_path / "etc/gpu_node/node.json").exists()


def test_sections_of_runs_at_once_are_not_lost(tmp_path):
    """Each run reads all sections and writes all of them."""
    started = threading.Barrier(8)

    def declare(number):
        started.wait()
        for turn in range(4):
            declaration.apply(Host(str(tmp_path)), declaration.Declare("section{0}".format(number), {"turn": turn}))

    runs = [threading.Thread(target=declare, args=(number,)) for number in range(8)]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert declaration.read(Host(str(tmp_path))) == {"section{0}".format(number): {"turn": 3} for number in range(8)}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"scratch": 3}', "null", '{"scratch": {"private": 5}}'])
def test_a_damaged_file_is_one_sentence(tmp_path, text):
    (tmp_path / "etc/gpu_node").mkdir(parents=True)
    (tmp_path / "etc/gpu_node/node.json").write_text(text)
    with pytest.raises(NodeError, match=r"^(section scratch of )?/etc/gpu_node/node.json: .+; .+\.$"):
        declaration.read(Host(str(tmp_path)))


@given(
    st.dictionaries(st.sampled_from(["a", "b"]), contents), st.sampled_from(["a", "b"]), st.one_of(st.none(), contents)
)
def test_planning_against_the_result_plans_nothing(declared, section, content):
    action = declaration.plan(declared, section, content)
    after = dict(declared)
    if action is not None:
        after[section] = json.loads(json.dumps(action.content))
        if action.content is None:
            del after[section]
    assert declaration.plan(after, section, content) is None


def test_tuples_are_compared_as_the_lists_they_become():
    assert declaration.plan({"scratch": {"models": ["a"]}}, "scratch", {"models": ("a",)}) is None


def test_a_file_that_cannot_be_read_is_no_empty_declaration(tmp_path):
    (tmp_path / "etc/gpu_node/node.json").mkdir(parents=True)
    with pytest.raises(NodeError, match="^/etc/gpu_node/node.json: it cannot be read"):
        declaration.read(Host(str(tmp_path)))


PRIVATE = ("on_expiry",)
LEASE = {"until": "2030-01-01T00:00Z", "on_expiry": ["/usr/local/bin/hand-back", "--token", "Zx9qVALUE"]}


def test_the_arguments_of_a_command_are_readable_by_root_only(tmp_path):
    host = Host(str(tmp_path))
    os.umask(0o022)
    declaration.apply(host, declaration.Declare("scratch", {"count": 8}))
    declaration.apply(host, declaration.Declare("node_lease", LEASE, PRIVATE))
    files = {path.name: path for path in (tmp_path / "etc/gpu_node").iterdir()}
    assert {name: stat.S_IMODE(path.stat().st_mode) for name, path in files.items()} == {
        "node.json": 0o644,
        "private.json": 0o600,
    }
    assert "Zx9qVALUE" not in files["node.json"].read_text()
    assert declaration.read(host) == {"scratch": {"count": 8}, "node_lease": LEASE}
    declaration.apply(host, declaration.Declare("node_lease", dict(LEASE, on_expiry=[]), PRIVATE))
    assert not files["private.json"].exists() and declaration.read(host)["node_lease"]["on_expiry"] == []
    declaration.apply(host, declaration.Declare("node_lease", LEASE, PRIVATE))
    declaration.apply(host, declaration.Declare("node_lease", None))
    declaration.apply(host, declaration.Declare("scratch", None))
    assert not (tmp_path / "etc/gpu_node").exists()


def test_a_user_reads_the_declaration_without_its_commands(tmp_path, monkeypatch):
    host = Host(str(tmp_path))
    declaration.apply(host, declaration.Declare("node_lease", LEASE, PRIVATE))
    read = Host.read
    # As the kernel answers a user who may not read the file.
    monkeypatch.setattr(Host, "read", lambda self, path: None if path == declaration.PRIVATE else read(self, path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert declaration.read(host) == {"node_lease": {"until": "2030-01-01T00:00Z"}}


@pytest.mark.parametrize("content", [None, "{", "[]", "{}"])
def test_a_lost_command_fails_and_a_converge_repairs_it(tmp_path, monkeypatch, content):
    host = Host(str(tmp_path))
    declaration.apply(host, declaration.Declare("node_lease", LEASE, PRIVATE))
    path = tmp_path / "etc/gpu_node/private.json"
    path.unlink() if content is None else path.write_text(content)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    found = declaration.read(host)
    assert found["node_lease"]["on_expiry"] == [declaration.PRIVATE]
    declaration.apply(host, declaration.plan(found, "node_lease", LEASE, PRIVATE))
    assert declaration.read(host)["node_lease"] == LEASE


def test_each_option_with_a_command_is_private():
    for resource in registry.NAMES:
        for name, one in described(registry.resource(resource).options).items():
            assert one.private == (name.endswith("command") or name in ("keepalive", "on_expiry")), name
            assert not one.private or name in declaration.PROGRAMS


def test_a_user_who_cannot_read_a_command_sees_no_difference(tmp_path, monkeypatch):
    host = Host(str(tmp_path))
    declaration.apply(host, declaration.Declare("node_lease", LEASE, PRIVATE))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    read = Host.read
    monkeypatch.setattr(Host, "read", lambda self, path: None if path == declaration.PRIVATE else read(self, path))
    found = declaration.read(host)
    assert declaration.plan(found, "node_lease", LEASE, PRIVATE) is None
    assert declaration.plan(found, "node_lease", dict(LEASE, until="2031-01-01T00:00Z"), PRIVATE) is not None


def test_a_declaration_of_the_previous_release_is_split_once(tmp_path):
    host = Host(str(tmp_path))
    other = {"provider": "command", "command": ["/bin/events", "--token", "Yy8VALUE"]}
    host.write(declaration.PATH, json.dumps({"node_lease": LEASE, "cloud_events": other, "scratch": {"count": 8}}))
    for name, section, private in (("node_lease", LEASE, PRIVATE), ("cloud_events", other, ("command",))):
        action = declaration.plan(declaration.read(host), name, section, private)
        assert action is not None
        declaration.apply(host, action)
        assert declaration.plan(declaration.read(host), name, section, private) is None
    assert "VALUE" not in (tmp_path / declaration.PATH[1:]).read_text()
    assert declaration.read(host) == {"node_lease": LEASE, "cloud_events": other, "scratch": {"count": 8}}
    assert stat.S_IMODE((tmp_path / declaration.PRIVATE[1:]).stat().st_mode) == 0o600


@given(st.dictionaries(st.sampled_from(["a", "b"]), st.dictionaries(st.sampled_from(["count", "command"]), contents)))
def test_the_two_files_contain_each_value_once(sections):
    public, private = declaration.split(sections, dict.fromkeys(sections, ("command",)))
    assert set(public) == set(sections)
    for name, section in sections.items():
        together = dict(public[name], **private.get(name, {}))
        together.pop("private", None)
        assert together == section and "command" not in {key for key, value in public[name].items() if value}


class Unreadable(Host):
    """Each reader fails, as with EIO."""

    def read(self, path, limit=None):
        return None if path == declaration.PRIVATE else super().read(path)

    def read_or_fail(self, path):
        if path == declaration.PRIVATE:
            raise NodeError(path, "it cannot be read (Input/output error)", "look at the disk") from OSError(5, "EIO")
        return super().read_or_fail(path)


def test_commands_that_cannot_be_read_once_are_not_overwritten(tmp_path):
    host = Host(str(tmp_path))
    declaration.apply(host, declaration.Declare("node_lease", LEASE, PRIVATE))
    with pytest.raises(NodeError, match="Input/output error"):
        declaration.apply(Unreadable(str(tmp_path)), declaration.Declare("nccl", {"a": 1}))
    declaration.apply(host, declaration.Declare("nccl", {"a": 1}))
    assert declaration.read(host)["node_lease"] == LEASE


def test_a_damaged_private_file_is_kept_and_no_placeholder_is_written(tmp_path):
    host = Host(str(tmp_path))
    declaration.apply(host, declaration.Declare("node_lease", LEASE, PRIVATE))
    path = tmp_path / "etc/gpu_node/private.json"
    path.write_text(path.read_text()[:-9])
    damaged = path.read_text()
    declaration.apply(host, declaration.Declare("nccl", {"a": 1}))
    assert path.with_name("private.json.damaged").read_text() == damaged
    assert not path.exists() or declaration.PRIVATE not in path.read_text()
    assert declaration.read(host)["node_lease"]["on_expiry"] == [declaration.PRIVATE]  # a converge repairs it
