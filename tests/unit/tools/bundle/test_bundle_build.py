# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The building of a bundle: what is in it, the same bytes each time, no secrets, and its signature."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Dict

import pytest

from ansible_collections.trainyard.gpu_node.plugins.plugin_utils import zipapp
from ansible_collections.trainyard.gpu_node.tools.bundle import __main__ as bundle
from ansible_collections.trainyard.gpu_node.tools.bundle.declared import BundleError, checked

ROOT = Path(__file__).resolve().parents[4]
HPCX = {"source": "https://mirror.example.com/hpcx.tbz", "sha256": "0" * 64, "version": "2.24.1"}


def test_a_bundle_is_the_node_command_and_a_program_that_runs_it() -> None:
    files = bundle.contents()
    assert set(files) == {"converge", "gpunode.pyz", "version", "SHA256SUMS"}
    content = bundle.tarball(files, "top/")
    assert len(content) <= 4_000_000
    assert content == bundle.tarball(bundle.contents(), "top/")
    with zipfile.ZipFile(io.BytesIO(files["gpunode.pyz"])) as archive:
        inside = {name: archive.read(name) for name in archive.namelist()}
    assert {"__main__.py", "pynvml.py", "gpu_node/node/converge.py"} <= set(inside)
    # It tells nothing of where it was built.
    here = str(ROOT).encode()
    assert [name for name, text in {**files, **inside}.items() if here in text] == []


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipapp, "build", lambda: b"PK")


def lines(files: Dict[str, bytes]) -> Dict[str, str]:
    return dict(reversed(line.split("  ")) for line in files["SHA256SUMS"].decode().splitlines())


def test_a_declaration_and_artefacts_have_their_places_and_every_file_its_sum(small: None, tmp_path: Path) -> None:
    (tmp_path / "node.json").write_text(json.dumps({"$comment": "rack 7", "rdma": {"names": "ordered"}}))
    (tmp_path / "hpcx-2.24.1.tbz").write_bytes(b"hpcx")
    files = bundle.contents(tmp_path / "node.json", [tmp_path / "hpcx-2.24.1.tbz"])
    assert json.loads(files["declaration.json"]) == {"$comment": "rack 7", "rdma": {"names": "ordered"}}
    assert files["artefacts/hpcx-2.24.1.tbz"] == b"hpcx"
    sums = {name: hashlib.sha256(text).hexdigest() for name, text in files.items() if name != "SHA256SUMS"}
    assert lines(files) == sums


def test_artefacts_whose_names_are_the_same_or_none_are_refused(small: None, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("x.deb", "a/x.deb", "a b.deb"):
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(BundleError, match="a/x.deb: another artefact has the same name"):
        bundle.contents(None, [tmp_path / "x.deb", tmp_path / "a/x.deb"])
    with pytest.raises(BundleError, match="a b.deb: its name cannot be that of an artefact"):
        bundle.contents(None, [tmp_path / "a b.deb"])
    with pytest.raises(BundleError, match="none.deb: it cannot be read"):
        bundle.contents(None, [tmp_path / "none.deb"])


@pytest.mark.parametrize(
    "content, reason",
    [
        ("{", "node.json: it is not valid JSON"),
        ({"rdna": {}}, "did you mean 'rdma'"),
        ({"rdma": {"expected_ports": 2000}}, "node.json: rdma, option expected_ports: 2000 is out of range"),
        ({"hpcx": dict(HPCX, source=HPCX["source"] + "?sig=abcdefghijklmnop")}, "it has an access key"),
        ({"hpcx": dict(HPCX, source="https://robot:abcdefghijkl@store/hpcx.tbz")}, "it carries a user name"),
        ({"$comment": "-----BEGIN " + "OPENSSH PRIVATE KEY-----\nb3Bl"}, "or a private key"),
        ({"$comment": "\n-----BEGIN " + "PRIVATE KEY-----"}, "or a private key"),
        ({"$comment": "$ANSIBLE_VAULT;" + "1.1;AES256\n6162\n"}, "or a private key"),
    ],
)
def test_a_declaration_that_is_wrong_or_keeps_a_secret_is_not_packed(
    small: None, tmp_path: Path, content: object, reason: str
) -> None:
    path = tmp_path / "node.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(BundleError) as raised:
        bundle.contents(path)
    assert reason in str(raised.value) and "abcdefgh" not in str(raised.value)


def test_consent_to_a_loss_is_not_packed() -> None:
    assert json.loads(checked('{"nvme_scratch": {"rebuild": true, "count": 2}}', "x")) == {"nvme_scratch": {"count": 2}}


def test_a_tarball_tells_no_time_user_or_machine_and_is_the_same_twice() -> None:
    files = {"converge": b"2", "a/c": b"1"}
    content = bundle.tarball(files, "top/")
    assert content == bundle.tarball(dict(reversed(list(files.items()))), "top/")
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = archive.getmembers()
    assert [(one.name, one.mode) for one in members] == [("top/a/c", 0o644), ("top/converge", 0o755)]
    assert {(one.mtime, one.uid, one.gid, one.uname, one.gname) for one in members} == {(0, 0, 0, "", "")}
    assert gzip.decompress(content) and content[4:8] == b"\0\0\0\0"  # the time in the head of gzip


def test_the_bundle_has_its_sum_beside_it_and_what_is_wrong_is_a_sentence(
    small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bundle, "FOLDER", tmp_path / "made")
    monkeypatch.delenv("GPU_NODE_BUNDLE_SIGN", raising=False)
    (tmp_path / "x.deb").write_bytes(b"x")
    assert bundle.main(["--artefact", str(tmp_path / "x.deb")]) == 0
    path = tmp_path / "made" / "gpu-node-bundle-{0}.tar.gz".format(bundle.version())
    line = "{0}  {1}\n".format(hashlib.sha256(path.read_bytes()).hexdigest(), path.name)
    assert Path(str(path) + ".sha256").read_text() == line
    with tarfile.open(str(path)) as archive:
        assert path.name[: -len(".tar.gz")] + "/artefacts/x.deb" in archive.getnames()
    assert bundle.main(["--declaration", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.endswith("it cannot be read (No such file or directory); name a file that can.\n")


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
    with pytest.raises(BundleError, match="sh ended with status 3; the bundle is not signed"):
        bundle.sign(path)
    monkeypatch.setenv("GPU_NODE_BUNDLE_SIGN", "/none/sign")
    with pytest.raises(BundleError, match="/none/sign could not be run"):
        bundle.sign(path)
