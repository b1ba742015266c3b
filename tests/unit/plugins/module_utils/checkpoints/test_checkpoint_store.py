# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checkpoints by the real azcopy into an emulator of the store: what arrives, and what does not when things fail."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.parse

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.checkpoints import blob_store

MANIFEST = "gpunode-manifest.0-of-1.json"


@pytest.fixture(name="azurite", scope="module")
def _azurite(tmp_path_factory):
    found = blob_store.started(tmp_path_factory.mktemp("azurite") / "data")
    yield found
    found.stop()


@pytest.fixture(name="gpunode")
def _gpunode(azurite, tmp_path):
    azurite.proxy.busy = azurite.proxy.refused = 0
    azurite.proxy.seen.clear()
    azurite.proxy.urls.clear()
    return blob_store.Gpunode(azurite, tmp_path)


def md5(path):
    return hashlib.md5(path.read_bytes()).hexdigest()


def azcopies(child):
    """The command lines of the azcopy processes below a process."""
    pids = subprocess.run(["pgrep", "-P", str(child.pid)], capture_output=True, text=True, check=False).stdout.split()
    lines = []
    for pid in pids:
        try:
            with open("/proc/{0}/cmdline".format(pid), "rb") as stream:
                lines.append(stream.read().decode().replace("\0", " "))
        except OSError:
            continue
    return [line for line in lines if "azcopy" in line.split(" ")[0]]


def test_files_arrive_with_their_md5_and_come_back_the_same(gpunode):
    files = [gpunode.file("run/model-{0}.pt".format(number), 300000 + number) for number in range(3)]
    (gpunode.folder / "run/elsewhere").symlink_to("/etc/passwd")
    output, errors = gpunode.run(
        "put", "step-1", str(gpunode.folder / "run"), "--metrics", str(gpunode.folder / "m.prom")
    )
    assert output.startswith("checkpoint step-1: 3 file(s), 878.9 KiB in ") and errors == ""
    assert gpunode.names() == ["step-1/" + MANIFEST, *("step-1/run/" + one.name for one in files)]
    top = gpunode.folder.name + "/step-1/"
    assert [gpunode.azurite.md5(top + "run/" + one.name) for one in files] == [md5(one) for one in files]
    manifest = json.loads(gpunode.azurite.request("GET", "/ckpt/" + top + MANIFEST)[2])
    assert [(one["name"], one["md5"]) for one in manifest["files"]] == [("run/" + one.name, md5(one)) for one in files]
    assert 'gpu_node_checkpoint_bytes{way="put"} 900003' in (gpunode.folder / "m.prom").read_text()
    # The same again is done at once, and another content under this name is not.
    assert (
        gpunode.run("put", "step-1", str(gpunode.folder / "run"))[0]
        == "checkpoint step-1: it is there already, whole\n"
    )
    files[0].write_bytes(b"other")
    told = gpunode.run("put", "step-1", str(gpunode.folder / "run"), status=1)[1]
    assert "checkpoint step-1: it is there already, made of other files; " in told
    shown = json.loads(gpunode.run("list", "--json")[0])["checkpoints"]
    assert [(one["name"], one["whole"], one["files"], one["bytes"]) for one in shown] == [("step-1", True, 3, 900003)]
    errors = gpunode.run("get", "latest", str(gpunode.folder / "back"))[1]
    assert "the newest whole checkpoint is step-1" in errors
    for number in (1, 2):
        name = "run/model-{0}.pt".format(number)
        assert md5(gpunode.folder / "back" / name) == md5(gpunode.folder / name)
    # Plans and logs are not in the home folder, and nothing is left of what went well.
    assert os.listdir(str(gpunode.home)) == []
    assert glob.glob(str(gpunode.work / "*/plans/*")) == [] and glob.glob(str(gpunode.work / "*/states/*.json")) == []


@pytest.mark.soak
def test_eight_together_stay_under_the_sum_of_the_caps_that_four_nodes_share(gpunode):
    files = [str(gpunode.file("m-{0}".format(number), 1000000)) for number in range(8)]
    shape = json.loads(gpunode.run("put", "step-1", *files, "--nodes", "4", "--dry-run", "--json")[0])
    assert shape["cap_mbps"] == 575 and len(shape["commands"]) == 8
    # 0.07 Gb/s for four nodes of eight files are 2 Mb/s for each file, and 16 for this node.
    section = gpunode.folder / "root"
    (section / "etc/gpu_node").mkdir(parents=True)
    (section / "etc/gpu_node/node.json").write_text(
        json.dumps({"checkpoint": {"account_ingress_gbps": 0.07, "nodes": 4}})
    )
    run_on(gpunode, section, "put", "step-2", *files)
    assert 5 < gpunode.azurite.proxy.rate() <= 16 * 1.1
    assert gpunode.names("step-2/g") == ["step-2/" + MANIFEST]


def run_on(gpunode, root, *words):
    """On a folder as the node, whose declaration counts; the work folder is below it then."""
    os.makedirs(str(root) + str(gpunode.work))
    os.makedirs(str(root) + os.path.dirname(str(gpunode.sas)), exist_ok=True)
    shutil.copy(str(gpunode.sas), str(root) + str(gpunode.sas))
    command = gpunode.words(*words)
    command[2] = str(root)
    done = subprocess.run(command, env=gpunode.environment, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)])
def test_a_killed_run_leaves_no_manifest_and_the_same_command_goes_on(gpunode, number):
    files = [str(gpunode.file("small", 1000)), str(gpunode.file("large", 12000000))]
    section = gpunode.folder / "root"
    (section / "etc/gpu_node").mkdir(parents=True)
    declared = {"account_ingress_gbps": 0.012, "headroom_percent": 0, "files_per_node": 1}
    (section / "etc/gpu_node/node.json").write_text(json.dumps({"checkpoint": declared}))
    os.makedirs(str(section) + str(gpunode.work))
    shutil.copy(str(gpunode.sas), str(section) + str(gpunode.sas))
    command = gpunode.words("put", "step-1", *files)
    command[2] = str(section)
    pipe = subprocess.PIPE
    child = subprocess.Popen(command, env=gpunode.environment, stdout=pipe, stderr=pipe, text=True)
    states = str(section) + str(gpunode.work) + "/*/states/step-1*.json"
    wait_for(lambda: any('"job": "' in open(one).read() for one in glob.glob(states)) and gpunode.azurite.proxy.seen)
    lines = azcopies(child)
    assert lines and not any("sig=" in line for line in lines), lines
    children = subprocess.run(["pgrep", "-P", str(child.pid)], capture_output=True, text=True, check=False).stdout
    child.send_signal(number)
    errors = child.communicate(timeout=30)[1]
    if number == signal.SIGTERM:
        assert child.returncode == 1 and "it was ended by signal SIGTERM, and azcopy with it; run the same" in errors
    # azcopy ends with it at once, and not when it next has something to say.
    wait_for(lambda: all(_dead(pid) for pid in children.split()), seconds=1)
    assert "step-1/" + MANIFEST not in gpunode.names()
    assert "it is not whole" in gpunode.run("get", "step-1", "back", status=1)[1] or gpunode.names() == []
    declared.update(account_ingress_gbps=20)
    (section / "etc/gpu_node/node.json").write_text(json.dumps({"checkpoint": declared}))
    again = subprocess.run(command, env=gpunode.environment, capture_output=True, text=True, timeout=100, check=False)
    assert again.returncode == 0, again.stderr
    assert gpunode.names() == ["step-1/" + MANIFEST, "step-1/large", "step-1/small"]
    assert gpunode.azurite.md5(gpunode.folder.name + "/step-1/large") == md5(gpunode.folder / "large")


def _dead(pid):
    try:
        with open("/proc/{0}/stat".format(pid)) as stream:
            return stream.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def test_a_file_that_is_there_is_not_sent_again(gpunode):
    files = [gpunode.file("a", 400000), gpunode.file("b", 400001)]
    gpunode.run("put", "step-1", *map(str, files))
    top = gpunode.folder.name + "/step-1/"
    assert gpunode.azurite.request("DELETE", "/ckpt/" + top + MANIFEST)[0] == 202
    # As a run leaves it that was killed between its last file and its manifest.
    (folder,) = glob.glob(str(gpunode.work / "*"))
    kept = {
        one.name: {"path": str(one), "bytes": one.stat().st_size, "mtime_ns": one.stat().st_mtime_ns, "done": True}
        for one in files
    }
    url = "{0}/{1}".format(gpunode.azurite.url, gpunode.folder.name)
    with open(folder + "/states/step-1.0-of-1.json", "w") as stream:
        json.dump({"destination": url, "files": kept}, stream)
    gpunode.azurite.proxy.seen.clear()
    errors = gpunode.run("put", "step-1", *map(str, files))[1]
    assert "2 of 2 files are there from an earlier run" in errors
    assert sum(size for dummy, size in gpunode.azurite.proxy.seen) < 10000
    assert "step-1/" + MANIFEST in gpunode.names()


def test_what_was_written_to_meanwhile_is_no_checkpoint(gpunode):
    path = gpunode.file("model", 6000000)
    child = gpunode.start("put", "step-1", str(path), "--files", "1024")  # a cap of 17 Mb/s
    wait_for(lambda: gpunode.azurite.proxy.seen)
    with open(path, "r+b") as stream:
        stream.write(b"changed")
    errors = child.communicate(timeout=100)[1]
    assert child.returncode == 1 and "file model: it was written to while it was copied (" in errors, errors
    assert errors.count("\n") == 1  # and nothing was tried again
    assert "step-1/" + MANIFEST not in gpunode.names()


def test_the_secret_is_nowhere_but_in_its_file(gpunode):
    path = gpunode.file("model", 3000000)
    child = gpunode.start("put", "step-1", str(path), "--files", "1024", "--keep", "1")
    lines = []
    while child.poll() is None:
        lines += azcopies(child)
        time.sleep(0.02)
    output, errors = child.communicate()
    assert child.returncode == 0, errors
    sig = re.search("sig=([^&]*)", gpunode.secret).group(1)
    secrets = (sig, urllib.parse.unquote(sig))
    assert any("copy" in line for line in lines)
    for text in (*lines, output, errors):
        assert not any(one in text for one in secrets), text
    assert not any(one.encode() in gpunode.everything_kept() for one in secrets)
    assert any(sig in url for url in gpunode.azurite.proxy.urls)  # and it is what azcopy had
    top = gpunode.folder.name + "/step-1/"
    assert not any(one.encode() in gpunode.azurite.request("GET", "/ckpt/" + top + MANIFEST)[2] for one in secrets)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "change, told",
    [
        (
            {"key": blob_store.KEY[:-8] + "AAAAAA=="},
            "the store refuses the credential (AuthorizationFailure); see that",
        ),
        ({"ends": "2020-01-01T00:00:00Z"}, ": it expired at 2020-01-01T00:00:00Z, and this node's clock says "),
        ({"begins": "2035-01-01T00:00:00Z"}, ": it begins at 2035-01-01T00:00:00Z, and this node's clock says "),
        ({"rights": "rl"}, ": it does not grant: write, create; "),
    ],
)
def test_a_wrong_secret_is_one_sentence_without_it(gpunode, change, told):
    gpunode.write_secret(blob_store.signature(**change))
    errors = gpunode.run("put", "step-1", str(gpunode.file("model", 1000)), status=1)[1]
    assert told in errors and errors.count("\n") == 1 and "sig=" not in errors, errors
    assert gpunode.names() == []


def test_a_file_that_changes_after_its_copy_is_no_checkpoint_either(gpunode):
    files = [gpunode.file("large", 300000), gpunode.file("small", 1000)]

    def change(command, path):
        if command == "PUT" and "/small" in path:  # the larger one goes first
            files[0].write_bytes(b"x" * 300000)

    gpunode.azurite.proxy.before = change
    errors = gpunode.run("put", "step-1", *map(str, files), "--files", "1", status=1)[1]
    gpunode.azurite.proxy.before = lambda command, path: None
    assert "checkpoint step-1: large was written to while it was copied; " in errors
    assert "step-1/" + MANIFEST not in gpunode.names()


@pytest.fixture(name="small")
def _small(gpunode):
    """A file system of 4 MB."""
    folder = gpunode.folder / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small file system here")
    yield folder
    gpunode.azurite.proxy.before = lambda command, path: None
    subprocess.run(["umount", str(folder)], check=False)


def fill(folder):
    with contextlib.suppress(OSError), open(folder / "filled", "wb", buffering=0) as stream:
        while True:
            stream.write(b"x" * 65536)


@pytest.mark.soak
def test_a_full_disk_is_told_before_and_while_a_checkpoint_comes_back(gpunode, small):
    gpunode.run("put", "step-1", str(gpunode.file("model", 3000000)))
    (small / "half").write_bytes(b"x" * 2**21)
    errors = gpunode.run("get", "step-1", str(small / "in"), status=1)[1]
    assert "2.0 MiB are free there, and the checkpoint has 2.9 MiB; free some space there" in errors
    (small / "half").unlink()
    gpunode.azurite.proxy.before = lambda command, path: fill(small) if command == "HEAD" and "/model" in path else None
    errors = gpunode.run("get", "step-1", str(small / "in"), status=1)[1]
    assert "file model: the disk is full (" in errors and "no space left on device); free some" in errors, errors


@pytest.mark.soak
def test_a_full_scratch_is_told_and_leaves_no_manifest(gpunode, small):
    path = gpunode.file("model", 300000)
    gpunode.work = small
    fill(small)
    errors = gpunode.run("put", "step-1", str(path), status=1)[1]
    assert errors.count("\n") == 1 and "No space left on device" in errors and "free some space" in errors, errors
    (small / "filled").unlink()
    # It fills while the file is copied.
    gpunode.azurite.proxy.before = lambda command, path: fill(small) if command == "PUT" and "/model" in path else None
    errors = gpunode.run("put", "step-1", str(path), status=1)[1]
    assert "No space left on device" in errors and "step-1/" + MANIFEST not in gpunode.names(), errors


@pytest.mark.soak
def test_a_busy_store_halves_the_cap_and_is_told(gpunode):
    path = gpunode.file("model", 6000000)
    gpunode.azurite.proxy.busy = 3
    output, errors = gpunode.run(
        "put", "step-1", str(path), "--files", "512", "--metrics", str(gpunode.folder / "m.prom")
    )
    assert gpunode.azurite.proxy.refused == 3
    assert "% of the requests with 503; the cap is 17.5 Mb/s now, it was 35" in errors, errors
    assert output.startswith("checkpoint step-1: 1 file(s)") and "step-1/" + MANIFEST in gpunode.names()
    assert gpunode.azurite.md5(gpunode.folder.name + "/step-1/model") == md5(path)
    assert 'gpu_node_checkpoint_cap_mbps{way="put"} 17.5' in (gpunode.folder / "m.prom").read_text()


@pytest.mark.soak
def test_the_last_ones_are_kept_and_what_is_not_whole_is_left(gpunode):
    path = gpunode.file("model", 2000)
    top = "/ckpt/" + gpunode.folder.name
    assert gpunode.azurite.request("PUT", top + "/half/model", b"x")[0] == 201
    for number in range(1, 5):
        output = gpunode.run("put", "step-{0}".format(number), str(path), "--keep", "2")[0]
        time.sleep(1.1)  # the store has whole seconds
    assert "removed: checkpoint step-2" in output
    assert {one.split("/")[0] for one in gpunode.names()} == {"half", "step-3", "step-4"}


@pytest.mark.soak
def test_files_of_one_name_on_several_nodes_do_not_take_each_others_place(gpunode):
    """Each node has a scratch of its own, and the same program writes there."""
    contents = []
    for node in (0, 1):
        path = gpunode.file("node-{0}/step-1/model.pt".format(node), 1000 + node)
        gpunode.file("node-{0}/step-1/COMPLETE".format(node), 0)
        contents.append(path.read_bytes())
        gpunode.run("put", "step-1", str(path.parent), "--part", "{0}/2".format(node))
    assert [one for one in gpunode.names() if one.endswith("model.pt")] == [
        "step-1/part-0-of-2/step-1/model.pt",
        "step-1/part-1-of-2/step-1/model.pt",
    ]
    for node in (0, 1):
        gpunode.run("get", "step-1", "back-{0}".format(node), "--part", "{0}/2".format(node))
        assert (gpunode.folder / "back-{0}/step-1/model.pt".format(node)).read_bytes() == contents[node]
    told = gpunode.run("get", "step-1", "all", status=1)[1]
    assert "step-1/model.pt is in more than one part, with other content; bring each part into a folder" in told
    assert not list((gpunode.folder).glob("all/**/*.pt"))


@pytest.mark.soak
def test_parts_of_several_nodes_make_one_checkpoint(gpunode):
    paths = [gpunode.file("shard-{0}".format(number), 1000 + number) for number in range(2)]
    gpunode.run("put", "step-1", str(paths[0]), "--part", "0/2")
    assert "1 of 2 parts" in gpunode.run("list")[0]
    assert "it is not whole: 1 of 2 parts have a manifest" in gpunode.run("get", "step-1", "back", status=1)[1]
    assert "it is there with another number of parts" in gpunode.run("put", "step-1", str(paths[1]), status=1)[1]
    gpunode.run("put", "step-1", str(paths[1]), "--part", "1/2")
    gpunode.run("get", "latest", "back")
    assert [md5(gpunode.folder / "back" / one.name) for one in paths] == [md5(one) for one in paths]


def test_what_was_changed_in_the_store_is_not_brought_back(gpunode):
    gpunode.run("put", "step-1", str(gpunode.file("model", 1000)))
    gpunode.azurite.request("PUT", "/ckpt/{0}/step-1/model".format(gpunode.folder.name), b"x" * 1000)
    errors = gpunode.run("get", "step-1", "back", status=1)[1]
    assert "model was changed in the store after its manifest was written; take another one" in errors
