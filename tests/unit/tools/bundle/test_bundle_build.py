# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The building of a bundle: pins, the same bytes each time, no secrets, and its signature."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.tools.bundle import __main__ as bundle
from ansible_collections.trainyard.gpu_node.tools.bundle import collection, wheels

ROOT = Path(__file__).resolve().parents[4]


def pinned() -> dict:
    """Name to the versions that the pins allow."""
    found: dict = {}
    for path in [*wheels.CORES.values(), ROOT / "tools/setup/requirements/constraints.txt"]:
        for line in path.read_text(encoding="utf-8").splitlines():
            if "==" in line:
                name, version = line.split("==")
                found.setdefault(name.lower().replace("-", "_"), set()).add(version)
    return found


def test_every_python_and_machine_has_its_wheels_at_pinned_versions() -> None:
    lock, pins = wheels.locked(), pinned()
    assert set(lock) == {wheels.tag(version, machine) for version in wheels.CORES for machine in wheels.MACHINES}
    for target, files in lock.items():
        names = {name.split("-")[0].lower() for name in files}
        assert {"ansible_core", "jinja2", "markupsafe", "pyyaml", "packaging", "cryptography", "cffi"} < names, target
        assert "nvidia_ml_py" in names
        for name in files:
            project, version = name.split("-")[:2]
            assert version in pins[project.lower()], "{0}: run python -m tools.bundle.wheels".format(name)
            assert name.endswith("any.whl") or target.split("-")[1] in name


def test_each_python_has_the_newest_core_that_runs_on_it() -> None:
    lock = wheels.locked()
    for version, core in wheels.CORES.items():
        pin = next(line for line in core.read_text(encoding="utf-8").splitlines() if line.startswith("ansible-core=="))
        assert "ansible_core-{0}-py3-none-any.whl".format(pin.split("==")[1]) in lock[wheels.tag(version, "x86_64")]


def test_a_tarball_tells_no_time_user_or_machine_and_is_the_same_twice() -> None:
    files = {"b": b"2", "a/c": b"1"}
    content = collection.tarball(files, executable=("b",), top="top/")
    assert content == collection.tarball(dict(reversed(list(files.items()))), executable=("b",), top="top/")
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = archive.getmembers()
    assert [(one.name, one.mode) for one in members] == [("top/a/c", 0o644), ("top/b", 0o755)]
    assert {(one.mtime, one.uid, one.gid, one.uname, one.gname) for one in members} == {(0, 0, 0, "", "")}
    assert gzip.decompress(content) and content[4:8] == b"\0\0\0\0"  # the time in the head of gzip


def test_the_order_of_a_folder_does_not_show() -> None:
    def packed(*names: str) -> dict:
        listing = {"files": [{"name": name} for name in names], "format": 1}
        manifest = {"file_manifest_file": {"name": "FILES.json", "chksum_sha256": "?"}}
        return {"FILES.json": json.dumps(listing).encode(), "MANIFEST.json": json.dumps(manifest).encode()}

    one, other = collection.in_order(packed("b", "a")), collection.in_order(packed("a", "b"))
    assert one == other
    told = json.loads(one["MANIFEST.json"])["file_manifest_file"]["chksum_sha256"]
    assert told == hashlib.sha256(one["FILES.json"]).hexdigest()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("inventories/site/vault.yml", "$ANSIBLE_VAULT;1.1;AES256\n6162\n"),
        ("roles/x/files/key", "-----BEGIN " + "OPENSSH PRIVATE KEY-----\n"),
        ("roles/x/files/both.crt", "-----BEGIN CERTIFICATE-----\nMII\n-----BEGIN " + "PRIVATE KEY-----\n"),
        ("roles/x/files/ec", "\n-----BEGIN " + "EC PRIVATE KEY-----\n"),
        ("inventories/x/group_vars/all.yml", "a: 1\nhidden: !vault |\n  $ANSIBLE_VAULT;" + "1.1;AES256\n  6162\n"),
        ("roles/x/files/node.pem", "x"),
        (".netrc", "machine x"),
        ("files/id_ed25519", "x"),
    ],
)
def test_a_secret_that_was_committed_ends_the_build(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "README.md").write_text("fine", encoding="utf-8")
    collection.check_secrets(tmp_path, ["README.md"])
    with pytest.raises(wheels.BundleError, match=name + ": it looks like a secret"):
        collection.check_secrets(tmp_path, ["README.md", name])


def test_only_what_git_tracks_is_packed(tmp_path: Path) -> None:
    for name in ("tracked", "lies_about"):
        (tmp_path / name).write_text("x", encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(["git", "add", "tracked"], cwd=str(tmp_path), check=True)
    assert collection.tracked(tmp_path) == ["tracked"]
    with pytest.raises(wheels.BundleError, match="it is no clone of the repository"):
        collection.tracked(Path("/"))


def test_the_signature_hook_gets_the_file_and_its_failure_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bundle.tar.gz"
    path.write_bytes(b"x")
    monkeypatch.delenv("GPU_NODE_BUNDLE_SIGN", raising=False)
    bundle.sign(path)
    monkeypatch.setenv("GPU_NODE_BUNDLE_SIGN", 'sh -c \'cp "$1" "$1.sig"\' sign')
    bundle.sign(path)
    assert (tmp_path / "bundle.tar.gz.sig").read_bytes() == b"x"
    monkeypatch.setenv("GPU_NODE_BUNDLE_SIGN", "sh -c 'exit 3'")
    with pytest.raises(wheels.BundleError, match="sh ended with status 3; the bundle is not signed"):
        bundle.sign(path)
    monkeypatch.setenv("GPU_NODE_BUNDLE_SIGN", "/none/sign")
    with pytest.raises(wheels.BundleError, match="/none/sign could not be run"):
        bundle.sign(path)


def test_a_wheel_of_the_right_name_and_another_sum_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    assert not wheels.right(path, "0" * 64)
    path.write_bytes(b"x")
    assert not wheels.right(path, "0" * 64)
    assert wheels.right(path, hashlib.sha256(b"x").hexdigest())
