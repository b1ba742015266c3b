# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is decided about checkpoints without any azcopy: caps, intervals, what is whole, what is removed, secrets."""

from __future__ import annotations

import json
import math
import os
import stat
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.checkpoints import (
    access,
    advice,
    cores,
    destination,
    files,
    launch,
    measured,
    throttle,
    whole,
    words,
    work,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.checkpoints import plan as planned
from ansible_collections.trainyard.gpu_node.plugins.module_utils.checkpoints.put import Done
from ansible_collections.trainyard.gpu_node.plugins.module_utils.checkpoints.settings import Settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.checkpoints.words import Blob, Hidden
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import topology
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement import Request, place
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement.spare import spare
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import shared

ID = "00000000-1111-2222-3333-444444444444"
NOW = 1795700000.0  # 2026-11-26


# Caps and cores ---------------------------------------------------------------------------------------


def test_the_seeds_node_gets_the_seeds_figures():
    found = planned.shape(Settings(), cores.Cores(96, 96), 8, 20.0)
    assert (found.at_once, found.cap, found.connections, found.threads) == (8, 2300, 10, 10)
    # A call with one file keeps the cap of eight: other ranks of the node may copy theirs.
    assert planned.shape(Settings(), cores.Cores(96, 16), 1, 20.0).cap == 2300
    assert planned.shape(Settings(), cores.Cores(96, 16), 100, 20.0).at_once == 8
    assert planned.environment(found) == {"AZCOPY_CONCURRENCY_VALUE": "10", "GOMAXPROCS": "10"}


@given(st.integers(1, 16), st.integers(1, 64), st.floats(1, 400), st.integers(1, 200), st.integers(1, 256))
def test_all_nodes_together_stay_under_the_limit_and_on_the_spare_cores(nodes, declared, gbps, count, spare_cores):
    given_settings = Settings(nodes=nodes, files_per_node=declared)
    try:
        found = planned.shape(given_settings, cores.Cores(256, spare_cores), count, gbps)
    except NodeError as error:
        assert "less than 1 Mb/s" in str(error) and gbps * 920 / nodes / declared < 1
        return
    assert found.cap * found.at_once * nodes <= gbps * 1000 * 0.92 + 1e-6
    assert found.threads == 1 or found.threads * found.at_once <= spare_cores


@pytest.fixture(scope="module", name="ndv4")
def _ndv4():
    return topology.look(Host(shared("ndv4")), ask_nvml=False)


def test_azcopy_keeps_off_the_cores_of_the_ranks(ndv4):
    ranks = [rank.cpus for rank in place(ndv4, Request(ranks=8, threads=10, gpus="none")).ranks]
    found = spare(ndv4, ranks)
    assert not found.shared and found.cores == 16 and not set(found.cpus) & {cpu for one in ranks for cpu in one}
    # Masks of whole NUMA nodes leave nothing, and the last core of each is taken.
    everywhere = [node.cpus for node in ndv4.numa_nodes]
    found = spare(ndv4, everywhere)
    assert found.shared and found.cpus == tuple(max(node.cpus) for node in ndv4.numa_nodes)
    assert spare(ndv4, []).cores == 96
    assert set(spare(ndv4, ranks, tuple(range(12))).cpus) <= set(range(12))


# How often --------------------------------------------------------------------------------------------


def test_the_best_interval_is_that_of_young_and_daly():
    found = advice.advise(2300e6 / 8 * 60, 2300, 4, 400, stop_seconds=None)  # a copy of 60 s
    assert (round(found.copy_seconds), found.job_mtbf_seconds) == (60, 360000)
    assert math.isclose(found.best_seconds, math.sqrt(2 * 60 * 360000))
    background = advice.advise(2300e6 / 8 * 60, 2300, 4, 400, 5.0, 30.0)
    assert background.best_seconds < found.best_seconds and background.least_percent < found.least_percent
    assert "before the last one is in the store" in background.warning
    with pytest.raises(NodeError, match="it would hardly come forward"):
        advice.advise(1e15, 2300, 1000, 1)


@given(st.floats(1e6, 1e13), st.integers(1, 100), st.floats(50, 10000), st.floats(0.1, 100), st.floats(0.3, 3))
def test_no_other_interval_loses_less(size, nodes, mtbf, pause, factor):
    try:
        best = advice.advise(size, 20000, nodes, mtbf, pause)
    except NodeError:
        return
    other = advice.advise(size, 20000, nodes, mtbf, pause, max(best.copy_seconds, best.best_seconds * factor))
    assert other.lost_percent >= best.least_percent - 1e-9


# A busy store -----------------------------------------------------------------------------------------


def test_the_cap_is_halved_once_for_all_files_and_not_below_a_sixteenth():
    cap = throttle.Cap(1600, 1600)
    first = throttle.halved(cap, 10, 0)
    assert (first.now, first.halved) == (800, 1)
    assert throttle.halved(first, 10, 19) == first and throttle.halved(cap, 4.9, 0) == cap
    for number in range(1, 10):
        first = throttle.halved(first, 100, number * 20)
    assert first.now == 100
    assert throttle.restarts(1600, first, 10, 49) and not throttle.restarts(1600, first, 10, 50)
    assert not throttle.restarts(100, first, 10, 0) and not throttle.restarts(1600, first, 0, 0)


@given(st.integers(1, 200), st.floats(0, 1))
def test_another_try_comes_after_some_seconds(attempt, chance):
    assert 1 <= throttle.wait_seconds(attempt, chance) <= 30


# Whole ------------------------------------------------------------------------------------------------


def blob(path, modified="2026-11-26T12:00:00Z", size=5):
    return Blob(path, size, "0" * 32, modified)


def manifest(name, number, of, modified):
    return blob("{0}/{1}".format(name, whole.Part(number, of).manifest), modified)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("a1 a2 a3 a4 a5 a6 a7 a8".split()), st.integers(1, 3), st.integers(0, 3), st.integers(0, 59)
        )
    ),
    st.integers(0, 5),
)
def test_only_whole_checkpoints_are_removed_and_never_the_last_ones(drawn, keep):
    """``drawn``: name, number of parts, how many of them are there, when."""
    known = {name: (of, min(there, of), second) for name, of, there, second in drawn}
    listing = []
    for name, (of, there, second) in known.items():
        listing.append(blob(name + "/model"))
        listing += [manifest(name, one, of, "2026-11-26T12:00:{0:02d}Z".format(second)) for one in range(there)]
    every = whole.checkpoints(listing)
    removed = whole.too_many(every, keep, "a1")
    good = {name: when for name, (of, there, when) in known.items() if of == there}
    assert set(removed) <= set(good) and len(removed) == (max(0, len(good) - keep) if keep else 0)
    left = set(good) - set(removed)
    assert all(good[one] <= good[other] for one in removed for other in left)


def test_checkpoints_of_other_runs_in_the_same_place_are_never_too_many():
    names = ["7-step-10", "7-step-200", "8-step-10", "8-step-20", "7-best", "model"]
    listing = [one for name in names for one in (blob(name + "/x"), manifest(name, 0, 1, "2026-11-26T12:00:00Z"))]
    every = whole.checkpoints(listing)
    assert whole.too_many(every, 1, "7-step-200") == ("7-step-10",)
    assert whole.too_many(every, 1, "9-step-1") == whole.too_many(every, 1, "model") == ()
    assert whole.too_many(every, 0, "8-step-20") == ()


def test_what_is_whole():
    listing = [blob("a/x"), manifest("a", 0, 2, "1"), manifest("a", 1, 2, "2"), blob("b/x"), manifest("b", 0, 2, "3")]
    listing += [blob("c/x"), blob("loose"), manifest("d", 0, 1, "4"), manifest("d", 0, 2, "5")]
    found = {one.name: one for one in whole.checkpoints(listing)}
    assert [name for name, one in found.items() if one.whole] == ["a"] and set(found) == {"a", "b", "c", "d"}
    assert (found["a"].files, found["a"].size_bytes, found["a"].modified) == (1, 5, "2")
    assert whole.missing({"x": 5}, [blob("x")]) is None
    assert "x is not in the store" == whole.missing({"x": 5}, [])
    assert "6 bytes in the store, and 5 here" in whole.missing({"x": 5}, [blob("x", size=6)])
    assert "no MD5" in whole.missing({"x": 5}, [Blob("x", 5, "", "")])
    text = whole.manifest("a", whole.Part(), [blob("x")], {"x": 7}, "node", "now")
    assert whole.read(text, "it") == (Blob("x", 5, "0" * 32, "7"),)
    endless = text.replace('"bytes": 5', '"bytes": Infinity')
    for wrong in ("", "{}", "[]", "[" * 100000, endless, json.dumps({"version": 2, "files": []})):
        with pytest.raises(NodeError):
            whole.read(wrong, "it")


@pytest.mark.parametrize("text", ["", "1", "2/2", "-1/2", "a/b", "0/0"])
def test_what_is_no_part(text):
    with pytest.raises(NodeError, match="count from 0"):
        whole.part(text)


# Names and places -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, told",
    [
        ("https://a.blob.core.windows.net/c?sv=1&sig=SECRET", "it carries an access key"),
        ("https://user:SECRET@a.blob.core.windows.net/c", "it is no URL of a container"),
        ("https://a.blob.core.windows.net", "it is no URL of a container"),
        ("https://a.dfs.core.windows.net/c", "this is the endpoint of the file system"),
        ("http://a.blob.core.windows.net/c", "its data and keys would go unencrypted"),
        ("https://a.blob.core.windows.net/c/../d", "it is no URL of a container"),
        ("file:///c/d", "it is no URL of a container"),
    ],
)
def test_a_wrong_destination_is_told_without_its_secret(text, told):
    with pytest.raises(NodeError, match=told) as error:
        destination.checked(text)
    assert "SECRET" not in str(error.value)


def test_right_names():
    assert destination.checked("https://a.blob.core.windows.net/c/d/") == "https://a.blob.core.windows.net/c/d"
    assert destination.joined("https://x/c", "step-1", "a b/c+d") == "https://x/c/step-1/a%20b/c%2Bd"
    for wrong in ("a*b", "../x", "a/./b", "a//b", "x.", "naïve", "a\nb"):
        with pytest.raises(NodeError):
            destination.file_name(wrong)
    for wrong in ("", ".hidden", "a/b", "a b"):
        with pytest.raises(NodeError):
            destination.checkpoint_name(wrong)


def test_files_of_a_checkpoint(tmp_path):
    (tmp_path / "one" / "deep").mkdir(parents=True)
    (tmp_path / "one" / "deep" / "x").write_text("x")
    (tmp_path / "one" / "link").symlink_to("/etc/passwd")
    (tmp_path / "two" / "one").mkdir(parents=True)
    (tmp_path / "two" / "one" / "y").write_text("yy")
    os.mkfifo(tmp_path / "pipe")
    found = files.find([str(tmp_path / "one"), str(tmp_path / "two" / "one" / "y")])
    assert [(one.name, one.size_bytes) for one in found] == [("one/deep/x", 1), ("y", 2)]
    assert files.changed(found) == []
    (tmp_path / "two" / "one" / "y").write_text("yyy")
    assert files.changed(found) == ["y"]
    for given_paths, told in (
        ([str(tmp_path / "pipe")], "no regular file"),
        ([str(tmp_path / "none")], "cannot be read"),
        ([str(tmp_path / "one" / "deep" / "x"), "/proc/self/../self/x"], "cannot be read"),
    ):
        with pytest.raises(NodeError, match=told):
            files.find(given_paths)
    (tmp_path / "two" / "x").write_text("")
    with pytest.raises(NodeError, match="would both be x in the checkpoint"):
        files.find([str(tmp_path / "one" / "deep" / "x"), str(tmp_path / "two" / "x")])


# Secrets ----------------------------------------------------------------------------------------------


def secret(tmp_path, text="sv=1&sp=rwcl&sig=abc%3D", mode=0o600):
    path = tmp_path / "secret"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def granted(given_settings, environment=None, rights="rwcl"):
    return access.read(Host(), given_settings, rights, environment or {}, NOW)


@pytest.mark.parametrize(
    "text, mode, told",
    [
        ("sig=abc", 0o640, "others may read it, or write to it; run 'chmod 600"),
        ("https://a/c?sig=abc", 0o600, "it holds no shared access signature"),
        ("sv=1&sp=rwcl", 0o600, "it holds no shared access signature"),
        ("", 0o600, "it does not hold one line of text"),
        ("sig=a\nsig=b", 0o600, "it does not hold one line of text"),
        ("sig=abc&sp=rl", 0o600, "it does not grant: write, create"),
        ("sig=abc&se=2026-11-26T00:00:00Z", 0o600, "it expired at 2026-11-26T00:00:00Z"),
        ("sig=abc&st=2026-11-27", 0o600, "it begins at 2026-11-27, and this node's clock says 2026-11-26T"),
    ],
)
def test_a_signature_of_no_use(tmp_path, text, mode, told):
    with pytest.raises(NodeError, match=told) as error:
        granted(Settings(auth="sas_file", sas_file=secret(tmp_path, text, mode)))
    assert "abc" not in str(error.value)


def test_a_secret_is_no_link_and_nobody_elses(tmp_path):
    path = secret(tmp_path)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(NodeError, match="it cannot be read"):
        granted(Settings(auth="sas_file", sas_file=str(tmp_path / "link")))
    with pytest.raises(NodeError, match="it is no file of yours or of root's"):
        granted(Settings(auth="sas_file", sas_file=str(tmp_path)))
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
        with pytest.raises(NodeError, match="it is no file of yours or of root's"):
            granted(Settings(auth="sas_file", sas_file=path))


def test_identities_become_the_environment_of_azcopy(tmp_path):
    found = granted(Settings(auth="msi", msi_client_id=ID))
    assert dict(found.environment) == {"AZCOPY_AUTO_LOGIN_TYPE": "MSI", "AZCOPY_MSI_CLIENT_ID": ID}
    path = secret(tmp_path, "top-secret\n")
    spn = Settings(auth="spn", tenant_id=ID, application_id=ID, secret_file=path)
    found = granted(spn)
    assert dict(found.environment)["AZCOPY_SPA_CLIENT_SECRET"] == "top-secret"
    assert found.hides("x top-secret y") == "x [hidden] y" and "top-secret" not in str(access.public(spn))
    with pytest.raises(NodeError, match="the environment lacks AZURE_CLIENT_ID, "):
        granted(Settings(auth="workload"))
    of_pod = dict.fromkeys(("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE"), "x")
    assert dict(granted(Settings(auth="workload"), of_pod).environment) == {"AZCOPY_AUTO_LOGIN_TYPE": "WORKLOAD"}
    signed = granted(Settings(auth="sas_file", sas_file=secret(tmp_path, "?sv=1&sig=abc\n")))
    assert (signed.query, signed.environment) == ("sv=1&sig=abc", ())
    assert "abc" not in signed.hides("GET https://x/?sv=1&sig=abc and sig=abc&x")


# How azcopy is started --------------------------------------------------------------------------------


def command_line(pid):
    """What everybody sees of a process."""
    with open("/proc/{0}/cmdline".format(pid), encoding="utf-8") as stream:
        return stream.read()


def started(tmp_path, *given_words, **more):
    """A program that says what it got, after a while in which others may look."""
    program = tmp_path / "program"
    program.write_text(
        "#!{0}\nimport os, sys, time\ntime.sleep(0.5)\nprint(sys.argv[1:], sorted(os.sched_getaffinity(0)))\n".format(
            sys.executable
        )
    )
    program.chmod(0o755)
    child = launch.start(str(program), given_words, dict(os.environ, A="1"), **more)
    seen = command_line(child.pid)
    output = child.communicate(timeout=20)[0].decode()
    return seen, output, child.returncode


def test_a_secret_word_reaches_the_program_and_no_command_line(tmp_path):
    seen, output, status = started(tmp_path, "copy", "plain")
    assert "plain" in seen and "['copy', 'plain']" in output and status == 0
    code = "import sys, time; time.sleep(0.5); print(sys.argv[1:])"
    child = launch.start(
        sys.executable, ("-c", code, "copy", Hidden("https://x/c", "https://x/c?sig=SECRET"), "--x=1"), dict(os.environ)
    )
    seen = command_line(child.pid)
    assert "SECRET" not in seen and "https://x/c\0--x=1" in seen
    with open("/proc/{0}/environ".format(child.pid), "rb") as stream:
        assert b"SECRET" in stream.read() and stat.S_IMODE(os.fstat(stream.fileno()).st_mode) == 0o400
    output = child.communicate(timeout=20)[0].decode()
    assert output == "['copy', 'https://x/c?sig=SECRET', '--x=1']\n" and child.returncode == 0


def test_its_input_is_silent_and_has_no_end():
    """At the end of its input azcopy asks again and again, and takes a core for as long as it copies."""
    code = "import select; print(select.select([0], [], [], 0.3)[0])"
    children = [launch.start(sys.executable, ("-c", code), dict(os.environ)) for dummy in range(2)]
    assert [child.communicate(timeout=20)[0] for child in children] == [b"[]\n", b"[]\n"]


def test_nothing_is_started_where_the_secret_could_not_be_hidden(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "_stack", lambda pid: 0)
    with pytest.raises(NodeError, match="forbids tracing a program of one's own") as error:
        launch.start(sys.executable, ("-c", "print(1)", Hidden("a", "SECRET")), dict(os.environ))
    assert "SECRET" not in str(error.value)
    alive = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "-f", "print.1."], capture_output=True, text=True, check=False
    )
    assert alive.stdout == ""


def test_a_script_in_the_place_of_azcopy_is_not_given_the_secret(tmp_path):
    """The kernel makes it the argument of its interpreter, and what it calls would have the secret in sight."""
    with pytest.raises(NodeError, match="program: it is a script, which would have the signature on the command line"):
        started(tmp_path, "copy", Hidden("a", "SECRET"))


def test_azcopy_runs_on_the_cpus_that_it_is_given(tmp_path):
    one = min(os.sched_getaffinity(0))
    assert "['x'] [{0}]".format(one) in started(tmp_path, "x", cpus=(one,))[1]


# What azcopy says -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, told, again",
    [
        (
            "RESPONSE 403: 403 x\nERROR CODE: AuthorizationFailure\n",
            "refuses the credential (AuthorizationFailure)",
            False,
        ),
        ("RESPONSE 404\nERROR CODE: ContainerNotFound", "there is no such container", False),
        ("dial tcp: lookup x: no such host", "the store cannot be reached (dial tcp: lookup x: no such host)", True),
        (
            "2026/11/26 13:03:52 ERR: [P#0-T#0] FAILED: https://x : 000 : File Creation Error no space left on device",
            "the disk is full (File Creation Error no space left on device)",
            False,
        ),
        ("azcopy: error while loading shared libraries: libsecret-1.so.0: cannot open", "(libsecret-1.so.0)", False),
        ("ERROR CODE: ServerBusy\nRESPONSE 503", "the store is busy (503) (ServerBusy)", True),
        ("odd", "azcopy ended with status 1: odd", True),
    ],
)
def test_why_azcopy_failed(text, told, again):
    found = words.failure(text, 1)
    assert told in found.reason and found.again is again


def test_messages_that_are_none_are_passed_over():
    assert [words.parse(one) for one in ("", "x", "[]", "{}", '{"MessageType": 1}')] == [None] * 5
    line = json.dumps({"MessageType": "Init", "MessageContent": json.dumps({"JobID": ID})})
    assert words.job_of(words.parse(line)) == ID
    odd = words.parse(json.dumps({"MessageType": "Init", "MessageContent": json.dumps({"JobID": "../x"})}))
    assert words.job_of(odd) == "" and words.number(odd, "PercentComplete") == 0
    listed = {"Path": "a/x", "ContentLength": "5", "ContentMD5": "CbRIUGHT+yTj78qYZ+y25w==", "LastModifiedTime": "t"}
    line = json.dumps({"MessageType": "ListObject", "MessageContent": json.dumps(listed)})
    assert words.blobs([words.parse(line)]) == (Blob("a/x", 5, "09b4485061d3fb24e3efca9867ecb6e7", "t"),)


# Places of work ---------------------------------------------------------------------------------------


def test_a_folder_of_work_is_the_users_alone(tmp_path):
    (tmp_path / "gpu_node-checkpoint-{0}".format(os.geteuid())).symlink_to("/etc")
    with pytest.raises(NodeError, match="it is not a folder that this user alone can use"):
        work.opened(Host(), str(tmp_path))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "gpu_node-checkpoint-{0}".format(os.geteuid())).mkdir(mode=0o777)
    os.chmod(tmp_path / "other" / "gpu_node-checkpoint-{0}".format(os.geteuid()), 0o777)
    with pytest.raises(NodeError, match="give another place by --work"):
        work.opened(Host(), str(tmp_path / "other"))
    (tmp_path / "good").mkdir()
    found = work.opened(Host(), str(tmp_path / "good"))
    assert found.environment()["HOME"] == found.folder and found.read("x") == {}
    found.write("x", {"a": 1})
    assert found.read("x") == {"a": 1} and stat.S_IMODE(os.stat(found.path("states", "x.json")).st_mode) == 0o600
    with found.turn("y"), pytest.raises(NodeError, match="another process on this node copies it now"):
        with found.turn("y"):
            pass
    with open(found.path("states", "z.json"), "w") as stream:
        stream.write("[cut")
    assert found.read("z") == {}
    os.utime(found.path("states", "x.json"), (1, 1))
    found.tidy(100)
    assert found.read("x") == {}


def test_the_scratch_is_the_place_for_work(tmp_path):
    (tmp_path / "etc/gpu_node").mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "etc/gpu_node/node.json").write_text('{"nvme_scratch": {"mount_point": "/mnt/nvme"}}')
    host = Host(str(tmp_path))
    assert work.base(host, "") == "/var/tmp"
    (tmp_path / "proc/self/mountinfo").write_text("21 1 9:0 / /mnt/nvme rw,noatime - xfs /dev/md0 rw\n")
    assert work.base(host, "") == "/mnt/nvme" and work.base(host, "/given") == "/given"
    (tmp_path / "proc/self/mountinfo").write_text("21 1 9:0 / /mnt/nvme ro,noatime - xfs /dev/md0 rw\n")
    assert work.base(host, "") == "/var/tmp"


# Figures ----------------------------------------------------------------------------------------------


def test_the_last_success_stays_where_a_copy_failed():
    good = measured.text("", "put", Done(2, 100, 4.0, retries=1, cap=575), 50.5)
    assert 'gpu_node_checkpoint_last_success_timestamp_seconds{way="put"} 50.5' in good
    failed = measured.text(good, "put", None, 99.0)
    assert 'gpu_node_checkpoint_last_success_timestamp_seconds{way="put"} 50.5' in failed
    assert 'gpu_node_checkpoint_failed{way="put"} 1' in failed and "checkpoint_bytes" not in failed
    both = measured.text(failed, "get", Done(2, 100, 4.0), 200.0)
    assert both.count("last_success_timestamp_seconds{") == 2
