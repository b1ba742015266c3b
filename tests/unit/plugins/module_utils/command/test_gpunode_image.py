# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode image`` on the roots of four images: what it prints, ends with, saves and compares."""

from __future__ import annotations

import json
import os
import re

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.tests.unit.data.image import images


@pytest.fixture
def gpunode(tmp_path, monkeypatch, capsys):
    def run(*words, root=None):
        monkeypatch.setattr(main, "Host", lambda: Host("/" if root is None else str(root.path)))
        run.status = main.main(["image", *map(str, words)])
        run.errors = capsys.readouterr()
        return run.errors.out

    monkeypatch.chdir(tmp_path)
    return run


@pytest.mark.parametrize("name", images.IMAGES)
def test_an_image_is_told_within_80_columns(gpunode, tmp_path, name):
    out = gpunode("--root", images.IMAGES[name](tmp_path / "root").path)
    assert gpunode.status == 0 and out.endswith("All parts fit each other.\n")
    assert max(map(len, (line for line in out.splitlines() if "/" not in line))) <= 80


def test_an_empty_image(gpunode, tmp_path):
    assert gpunode("--root", tmp_path) == "Nothing that is known here is installed.\n" and gpunode.status == 0


def test_an_empty_image_that_is_not_as_required_says_why(gpunode, tmp_path):
    out = gpunode("--root", tmp_path, "--require", "cuda>=12")
    assert gpunode.status == 1 and out.startswith("Nothing that is known here is installed.\n\nfail  ")
    assert "option --require requires >=12, and none is found" in " ".join(out.split()) and "All parts" not in out


def test_problems_have_a_status(gpunode, tmp_path):
    root = images.azure_hpc(tmp_path / "root")
    root.link("/usr/local/cuda-11.8", "/opt/cuda-11.8")
    out = gpunode("--root", root.path)
    assert gpunode.status == 3 and re.search(r"^warn  /usr/local/cuda-11.8: this link", out, re.MULTILINE)
    root.cuda("13.0.1")
    out = gpunode("--root", root.path)
    assert gpunode.status == 1 and re.search(r"^fail  CUDA 13.0.1", out, re.MULTILINE)
    told = json.loads(gpunode("--root", root.path, "--json"))
    assert [one["rule"] for one in told["problems"]] == ["cuda_driver", "broken_link"]
    assert told["problems"][0]["message"].startswith("CUDA 13.0.1 (/usr/local/cuda-13.0): it needs driver 580")


@pytest.mark.parametrize(
    "words, status, told",
    [
        (("driver>=535,<600", "cuda >= 12"), 0, ""),
        (("driver>=550",), 1, "option --require requires >=550, and this is 535.161.08"),
        (("driver>=535", "driver<535.160"), 1, "requires >=535,<535.160"),
        (("enroot>=3",), 1, "none is found"),
    ],
)
def test_what_is_required(gpunode, tmp_path, words, status, told):
    out = gpunode(
        "--root", images.azure_hpc(tmp_path / "root").path, *(one for word in words for one in ("--require", word))
    )
    assert gpunode.status == status and told in " ".join(out.split())


@pytest.mark.parametrize(
    "words, status, told",
    [
        (("--require", "driver"), 2, "option --require driver: it is no requirement; write it as 'driver>=535,<600'"),
        (("--require", "drver>=1"), 2, "option --require drver>=1: there is no such component; did you mean 'driver'?"),
        (("--require", "driver>=1", "--require", "driver>=new"), 2, "option --require driver>=new: "),
        (("--require", "driver>=new"), 2, "no requirement on a version"),
        (("--root", "nowhere"), 1, "there is no such folder"),
        (("--compare", "nowhere.json"), 1, "there is no such file; write one with 'gpunode image --save FILE'"),
        (("--odd", "one.json", "two.json"), 1, "one.json: there is no such file"),
        (("--odd", "one.json", "--root", "x"), 2, "it looks at no image, so it does not go with --root"),
        (("--save", "a", "--compare", "b"), 2, "not allowed with argument"),
    ],
)
def test_wrong_use_is_a_sentence(gpunode, words, status, told):
    out = gpunode(*words)
    assert (gpunode.status, out) == (status, "") and told in gpunode.errors.err, gpunode.errors.err
    assert len(gpunode.errors.err.splitlines()) == 1 and not os.listdir(".")


def test_a_baseline_tells_what_has_changed(gpunode, tmp_path):
    root = images.azure_hpc(tmp_path / "root")
    gpunode("--root", root.path, "--save", "golden.json")
    assert gpunode.status == 0
    first = (tmp_path / "golden.json").read_text()
    gpunode("--root", root.path, "--save", "golden.json")
    assert (tmp_path / "golden.json").read_text() == first  # nothing of the moment or the machine is in it
    assert str(tmp_path) not in first
    out = gpunode("--root", root.path, "--compare", "golden.json")
    assert gpunode.status == 0 and out.endswith("The versions are those of golden.json.\n")
    root.nccl(images.LIB, "2.21.5", "12.2")
    out = gpunode("--root", root.path, "--compare", "golden.json")
    assert gpunode.status == 1 and out.endswith("differs  nccl: 2.19.3 in the baseline, 2.21.5 here\n")
    told = json.loads(gpunode("--root", root.path, "--compare", "golden.json", "--json"))
    assert told["differences"] == [{"component": "nccl", "before": "2.19.3", "now": "2.21.5"}]
    # The whole answer is a baseline, too.
    (tmp_path / "whole.json").write_text(json.dumps(told))
    assert gpunode("--root", root.path, "--compare", "whole.json").endswith("The versions are those of whole.json.\n")


@pytest.mark.parametrize("kind", ["link", "no folder"])
def test_a_baseline_goes_only_where_it_was_told_to(gpunode, tmp_path, kind):
    root = images.azure_hpc(tmp_path / "root")
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    gpunode("--root", root.path, "--save", "link" if kind == "link" else "none/golden.json")
    told = {"link": "it is a link; remove it", "no folder": "there is no folder {0}/none".format(tmp_path)}[kind]
    assert gpunode.status == 1 and told in gpunode.errors.err and gpunode.errors.out == ""
    assert (tmp_path / "target").read_text() == "old" and not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "content",
    ["", "[]", "[" * 100000, '{"schema": "other", "versions": {}}', '{"schema": 1}', '{"versions": {"a": 1}}'],
)
def test_what_is_no_baseline(gpunode, tmp_path, content):
    (tmp_path / "b.json").write_text(content)
    gpunode("--compare", "b.json")
    assert gpunode.status == 1 and "it holds no versions of an image" in gpunode.errors.err


def test_the_odd_node_of_several(gpunode, tmp_path):
    names = []
    for number in range(4):
        root = images.dgx_os(tmp_path / str(number))
        if number == 1:
            root.nccl(images.LIB, "2.18.5", "12.4")
        names.append("node{0}.json".format(number))
        gpunode("--root", root.path, "--save", names[-1])
    out = gpunode("--odd", *names)
    assert (gpunode.status, out) == (1, "node1: nccl: it has 2.18.5, and 3 of 4 nodes have 2.21.5\n")
    told = json.loads(gpunode("--odd", *names, "--json"))
    assert [(one["node"], one["name"]) for one in told["odd"]] == [("node1", "nccl")] and told["nodes"] == 4
    assert gpunode("--odd", names[0], names[2], names[3]) == "No node is otherwise than most of the 3.\n"
    assert gpunode.status == 0
