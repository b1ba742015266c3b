# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Directories that other users can write to are closed; a node.json of another user is refused."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import struct
import subprocess
import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import (
    converge_record,
    declaration,
    own_directories,
    systemd,
    trust,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import history

ME = os.geteuid()
IS_ROOT = pytest.mark.skipif(ME != 0, reason="only root can give files to another user")
OTHER = 1001


@pytest.fixture(name="node")
def _node(tmp_path):
    for path in own_directories.DIRECTORIES:
        (tmp_path / path[1:]).mkdir(parents=True)
        os.chmod(tmp_path / path[1:], 0o755)
    (tmp_path / "etc/gpu_node/node.json").write_text("{}\n")
    os.chmod(tmp_path / "etc/gpu_node/node.json", 0o644)
    return tmp_path


def close(node):
    return own_directories.close(Host(str(node)), ME)


def mode(path):
    return stat.S_IMODE(os.stat(str(path)).st_mode)


@pytest.mark.parametrize("path", own_directories.DIRECTORIES)
@pytest.mark.parametrize("opened, closed", [(0o777, 0o755), (0o1777, 0o1755), (0o757, 0o755), (0o702, 0o700)])
def test_a_directory_that_all_users_can_write_to_is_closed(node, path, opened, closed):
    os.chmod(node / path[1:], opened)
    told = close(node)
    assert mode(node / path[1:]) == closed
    reason = "other users can write to it (mode {0:04o})".format(opened)
    assert told == ["{0}: {1}. This is corrected now; check the files in it.".format(path, reason)]
    assert close(node) == []


@pytest.mark.parametrize("usual", [0o755, 0o750, 0o711, 0o700])
def test_a_usual_mode_stays_as_it_is(node, usual):
    for path in own_directories.DIRECTORIES:
        os.chmod(node / path[1:], usual)
    assert close(node) == []
    assert {mode(node / path[1:]) for path in own_directories.DIRECTORIES} == {usual}


@IS_ROOT
@pytest.mark.parametrize("owner, right", [(0, True), (OTHER, False)])
def test_a_sticky_directory_protects_a_file_only_if_its_owner_is_trusted(tmp_path, owner, right):
    """The owner of a sticky directory can remove the files of others in it."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_text("")
    os.chown(folder, owner, owner)
    os.chmod(folder, 0o1777)
    if right:
        assert trust.of_root(str(folder / "file"), sudo=False) == str(folder / "file")
        return
    with pytest.raises(NodeError, match="it belongs to user {0}".format(OTHER)):
        trust.of_root(str(folder / "file"), sudo=False)


def test_missing_directories_are_not_created(tmp_path):
    assert close(tmp_path) == [] and not list(tmp_path.iterdir())


@IS_ROOT
def test_the_group_of_root_may_write_and_another_group_may_not(node):
    os.chmod(node / "etc/gpu_node", 0o775)
    assert close(node) == []
    os.chown(node / "etc/gpu_node", 0, OTHER)
    assert len(close(node)) == 1 and mode(node / "etc/gpu_node") == 0o755


@IS_ROOT
def test_an_acl_for_another_user_is_closed(node):
    entries = [(1, 7, 0xFFFFFFFF), (2, 7, OTHER), (4, 5, 0xFFFFFFFF), (16, 7, 0xFFFFFFFF), (32, 5, 0xFFFFFFFF)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)
    try:
        os.setxattr(str(node / "etc/gpu_node"), "system.posix_acl_access", acl)
    except OSError as error:
        pytest.skip("no ACL on this file system: {0}".format(error))
    assert len(close(node)) == 1 and mode(node / "etc/gpu_node") == 0o755 and close(node) == []


@IS_ROOT
def test_a_directory_of_another_user_becomes_root_s(node):
    os.chown(node / "var/lib/gpu_node", OTHER, OTHER)
    (told,) = close(node)
    assert told.startswith("/var/lib/gpu_node: it belongs to user 1001. ")
    assert os.stat(str(node / "var/lib/gpu_node")).st_uid == 0


@IS_ROOT
def test_node_json_of_another_user_is_refused_until_root_owns_it(node):
    os.chown(node / "etc/gpu_node/node.json", OTHER, OTHER)
    with pytest.raises(NodeError) as caught:
        close(node)
    assert str(caught.value).startswith(
        "/etc/gpu_node/node.json: it belongs to user 1001, and it names programs that root runs"
    )
    os.chown(node / "etc/gpu_node/node.json", 0, 0)
    assert close(node) == []


def test_node_json_that_all_users_can_write_to_is_refused(node):
    os.chmod(node / "etc/gpu_node/node.json", 0o666)
    with pytest.raises(NodeError):
        close(node)


def test_nothing_is_called_corrected_on_a_read_only_file_system(node, monkeypatch):
    os.chmod(node / "var/lib/gpu_node", 0o777)

    def refuse(*dummy):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "fchmod", refuse)
    reason = "/var/lib/gpu_node: other users can write to it (mode 0777). "
    stays = "Its file system is read-only, so it stays as it is; check the files in it."
    assert close(node) == [reason + stays]
    monkeypatch.undo()
    assert close(node) == [reason + "This is corrected now; check the files in it."]


def test_other_files_of_a_site_in_it_are_left_alone(node):
    (node / "etc/gpu_node/silences.json").write_text("[]\n")
    os.chmod(node / "etc/gpu_node/silences.json", 0o666)
    assert close(node) == []


@IS_ROOT
def test_each_command_of_root_closes_them(node):
    os.chmod(node / "var/lib/gpu_node", 0o777)
    program = (
        "import sys; from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main\n"
        "from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host\n"
        "main.Host = lambda: Host({0!r})\nsys.exit(main.main(['boot', 'status', '--json']))\n".format(str(node))
    )
    ran = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, stdout=subprocess.PIPE, check=False)
    assert b"gpunode: /var/lib/gpu_node: other users can write to it (mode 0777)" in ran.stderr
    assert mode(node / "var/lib/gpu_node") == 0o755


@pytest.fixture(name="private", params=["private.json", "declaration.json"])
def _private(node, request):
    path = node / "etc/gpu_node" / request.param
    path.write_text('{"node_lease": {"on_expiry": ["/bin/hand-back", "KEY"]}}\n')
    os.chmod(path, 0o600)
    return path


@pytest.mark.parametrize("opened", [0o644, 0o640, 0o604, 0o444])
def test_a_file_with_keys_that_a_backup_restored_is_readable_by_root_alone(node, private, opened):
    os.chmod(private, opened)
    reason = "its mode is {0:04o}, and only root may read it".format(opened)
    (told,) = close(node)
    assert told.startswith("/etc/gpu_node/{0}: {1}. This is corrected now".format(private.name, reason))
    assert mode(private) == 0o600 and close(node) == []


@pytest.mark.parametrize("usual", [0o600, 0o400])
def test_a_file_with_keys_of_root_alone_stays_as_it_is(node, private, usual):
    os.chmod(private, usual)
    os.chmod(node / "etc/gpu_node/node.json", 0o644)
    assert close(node) == [] and mode(private) == usual and mode(node / "etc/gpu_node/node.json") == 0o644


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_the_mode_of_another_file_with_the_name_private_json_stays(node, link):
    other = node / "other"
    other.write_text("{}\n")
    os.chmod(other, 0o644)
    link(str(other), str(node / "etc/gpu_node/private.json"))
    assert close(node) == [] and mode(other) == 0o644


@IS_ROOT
@pytest.mark.parametrize("owner, mode, refused", [(0, 0o664, False), (0, 0o646, True), (OTHER, 0o644, True)])
def test_a_group_of_administrators_may_write_to_node_json(node, owner, mode, refused):
    os.chown(node / "etc/gpu_node/node.json", owner, OTHER)
    os.chmod(node / "etc/gpu_node/node.json", mode)
    if refused:
        with pytest.raises(NodeError):
            close(node)
    else:
        assert close(node) == []


@IS_ROOT
@pytest.mark.parametrize("hook, status", [("prolog", 0), ("epilog", 0), ("lease", 1)])
def test_a_configuration_tool_that_changes_the_owner_of_node_json_fails_no_prolog(
    node, monkeypatch, capsys, hook, status
):
    monkeypatch.setattr(main, "Host", lambda: Host(str(node)))
    for command in ("hook", "lease"):
        monkeypatch.setattr(main._module(command), "run", lambda *words: 0)
    os.chown(node / "etc/gpu_node/node.json", OTHER, OTHER)
    assert main.main(["hook", hook] if hook != "lease" else [hook]) == status
    assert ("names programs that root runs" in capsys.readouterr().err) == bool(status)


@pytest.mark.parametrize("refuse", [True, False])
def test_a_directory_that_root_cannot_close_fails_no_prolog(node, monkeypatch, refuse):
    os.chmod(node / "var/lib/gpu_node", 0o777)

    def refused(*dummy):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(own_directories.os, "fchmod", refused)
    if refuse:
        with pytest.raises(NodeError, match="cannot be closed"):
            close(node)
    else:
        (told,) = own_directories.close(Host(str(node)), ME, refuse=False)
        assert "cannot be closed (Operation not permitted)" in told


@IS_ROOT
@pytest.mark.parametrize("words", [["--version"], ["--version", "--json"], ["--help"], ["health", "-h"], ["--vers"]])
def test_version_and_help_do_not_depend_on_the_state_of_the_node(node, monkeypatch, capsys, words):
    monkeypatch.setattr(main, "Host", lambda: Host(str(node)))
    os.chown(node / "etc/gpu_node/node.json", OTHER, OTHER)
    try:
        status = main.main(words)
    except SystemExit as ended:
        status = ended.code
    told = capsys.readouterr()
    assert status == 0 and told.out and told.err == ""


@IS_ROOT
def test_the_converge_of_a_boot_records_why_it_is_refused(node, monkeypatch, capsys):
    monkeypatch.setattr(main, "Host", lambda: Host(str(node)))
    systemd.enable(Host(str(node)), converge_record.UNIT)
    os.chown(node / "etc/gpu_node/node.json", OTHER, OTHER)
    assert main.main(["converge", "--boot"]) == 1
    assert "node.json: it belongs to user 1001" in capsys.readouterr().err
    # What slurmd and people read: the reason, and not a refusal of this command.
    assert main.main(["boot", "admit"]) == 1
    told = capsys.readouterr()
    assert told.err == "" and "node.json: it belongs to user 1001" in told.out


@IS_ROOT
def test_a_node_that_is_ready_admits_slurmd_beside_a_node_json_of_another_user(node, monkeypatch, capsys):
    monkeypatch.setattr(main, "Host", lambda: Host(str(node)))
    os.chown(node / "etc/gpu_node/node.json", OTHER, OTHER)
    assert main.main(["boot", "admit"]) == 0 and capsys.readouterr().err == ""


# Below the directories --------------------------------------------------------------------------------------------

STATE, VOLATILE = "var/lib/gpu_node/health", "run/gpu_node/jobs"


def state_file(node, path, opened=0o644, owner=None):
    target = node / path
    target.parent.mkdir(parents=True, exist_ok=True)
    os.chmod(target.parent, 0o755)
    target.write_text("{}")
    os.chmod(target, opened)
    if owner is not None:
        os.chown(target, owner, owner)
    return target


@pytest.mark.parametrize("path", [STATE, VOLATILE, "etc/gpu_node/beeond", "opt/gpu_node/bin", STATE + "/deeper"])
def test_a_directory_below_ours_is_closed(node, path):
    (node / path).mkdir(parents=True)
    os.chmod(node / path, 0o777)
    (told,) = close(node)
    assert told.startswith("/{0}: other users can write to it (mode 0777)".format(path)) and mode(node / path) == 0o755
    assert close(node) == []


def test_links_below_ours_are_not_followed(node, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    os.chmod(outside, 0o777)
    (node / "var/lib/gpu_node/link").symlink_to(outside)
    close(node)
    assert mode(outside) == 0o777


@pytest.mark.parametrize("path", [STATE + "/history.json", VOLATILE + "/42.json"])
def test_a_state_file_that_all_users_can_write_to_keeps_its_content_and_is_closed(node, path):
    target = state_file(node, path, 0o666)
    (told,) = close(node)
    assert "check its content" in told and mode(target) == 0o644 and target.read_text() == "{}" and close(node) == []


@IS_ROOT
def test_a_state_file_of_another_user_is_moved_away_and_a_volatile_one_is_removed(node):
    state, note = (
        state_file(node, STATE + "/baseline.json", owner=OTHER),
        state_file(node, VOLATILE + "/42.json", owner=OTHER),
    )
    told = close(node)
    assert len(told) == 2 and all("it belongs to user 1001" in one for one in told)
    assert not state.exists() and not note.exists()
    assert (node / STATE / "baseline.json.damaged").read_text() == "{}" and close(node) == []


@IS_ROOT
@pytest.mark.parametrize("opened, owner", [(0o666, 0), (0o600, OTHER)])
def test_a_lock_that_another_user_holds_is_given_up(node, opened, owner):
    lock = state_file(node, "run/gpu_node/health_gate_run.lock", opened, owner)
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        (told,) = close(node)
        assert told.endswith("It is removed.")
        with Host(str(node)).lock("health_gate_run", 0.5):
            pass
    assert close(node) == []


def test_our_own_locks_and_state_stay(node):
    lock, state = state_file(node, "run/gpu_node/x.lock", 0o600), state_file(node, STATE + "/history.json", 0o600)
    (node / "var/lib/gpu_node/current").symlink_to("health")
    assert close(node) == [] and lock.exists() and state.exists() and (node / "var/lib/gpu_node/current").is_symlink()


@IS_ROOT
@pytest.mark.parametrize("rights, removed", [(7, True), (5, False)])
def test_a_default_acl_that_lets_others_write_is_removed(node, rights, removed):
    nobody = 0xFFFFFFFF
    entries = [(1, 7, nobody), (2, rights, OTHER), (4, 5, nobody), (16, rights, nobody), (32, 5, nobody)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)
    place = str(node / "var/lib/gpu_node")
    try:
        os.setxattr(place, "system.posix_acl_default", acl)
    except OSError as error:
        pytest.skip("no ACL on this file system: {0}".format(error))
    told = close(node)
    assert [("default ACL" in one) for one in told] == [True] * removed
    assert ("system.posix_acl_default" in os.listxattr(place)) is not removed and close(node) == []


@IS_ROOT
@pytest.mark.parametrize("name", ["node.json", "private.json"])
@pytest.mark.parametrize("owner, refused", [(0, False), (OTHER, True)])
def test_who_owns_a_link_decides_what_is_read(node, tmp_path_factory, name, owner, refused):
    target = tmp_path_factory.mktemp("site") / "n.json"
    target.write_text("{}")
    os.chmod(target, 0o644)
    link = node / "etc/gpu_node" / name
    if link.exists():
        link.unlink()
    link.symlink_to(target)
    os.chown(link, owner, owner, follow_symlinks=False)
    assert any(True for dummy in trust.of_declaration(Host(str(node)), ME)) is refused
    if refused:
        with pytest.raises(NodeError, match="it belongs to user 1001"):
            close(node)
    else:
        assert close(node) == []
        os.chown(target, OTHER, OTHER)
        with pytest.raises(NodeError):
            close(node)


# Programs ---------------------------------------------------------------------------------------------------------

PROBE = """
import sys
from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
main.Host = lambda: Host({0!r})
sys.exit(main.main(sys.argv[1:]))
"""


@IS_ROOT
@pytest.mark.parametrize("owner, runs", [(0, True), (OTHER, False)])
def test_a_prolog_runs_no_program_that_node_json_of_another_user_names(node, tmp_path_factory, owner, runs):
    folder = tmp_path_factory.mktemp("programs")
    for name in ("scontrol", "sinfo", "squeue"):
        (folder / name).write_text("#!/bin/sh\necho $0 >> {0}/proof\nexit 1\n".format(folder))
        os.chmod(folder / name, 0o755)
    scontrol = str(folder / "scontrol")
    declared = {
        "slurm_hooks": {"scontrol": scontrol},
        "health_gate": {"scontrol": scontrol, "keepalive": [scontrol], "prolog": True, "private": ["keepalive"]},
        "nvme_scratch": {"mount_point": "/nowhere", "required": True},
    }
    target = node / "etc/gpu_node/node.json"
    target.write_text(json.dumps(declared))
    os.chown(target, owner, owner)
    environment = dict(
        os.environ,
        SLURM_JOB_ID="42",
        SLURM_JOB_UID="1001",
        SLURMD_NODENAME="gpu01",
        SLURM_SCRIPT_CONTEXT="prolog_slurmd",
    )
    subprocess.run(
        [sys.executable, "-c", PROBE.format(str(node)), "hook", "prolog"], env=environment, check=False, timeout=120
    )
    assert (folder / "proof").exists() is runs
    known = declaration.read(Host(str(node)))
    assert ("scontrol" in known["slurm_hooks"]) is runs and known["nvme_scratch"] == declared["nvme_scratch"]


def acl_of(*entries):
    """As Linux stores it, see acl(5): (tag, rights, number)."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)


@IS_ROOT
@pytest.mark.parametrize("mode_before, acl", [(0o664, False), (0o660, True), (0o666, False)])
def test_a_state_file_is_open_to_others_by_the_same_rule_where_it_is_closed_and_where_it_is_read(
    node, mode_before, acl
):
    """What is not corrected here must not be damaged for its reader, and the other way round."""
    host = Host(str(node))
    history.write(host, history.History(drained=True))
    path = host.path(history.PATH)
    os.chmod(path, mode_before)
    if acl:
        none = 0xFFFFFFFF
        rows = ((1, 6, none), (2, 6, OTHER), (4, 4, none), (16, 6, none), (32, 0, none))
        try:
            os.setxattr(path, "system.posix_acl_access", acl_of(*rows))
        except OSError:
            pytest.skip("this file system has no ACLs")
    told = close(node)
    assert bool(told) is (acl or mode_before == 0o666)
    assert history.load(host) == (history.History(drained=True), "")
    # The mask of the ACL is the group's part of the mode.
    assert not os.stat(path).st_mode & (stat.S_IWOTH | (stat.S_IWGRP if acl else 0))
