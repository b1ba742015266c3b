# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is required of an image: a node that has another one is left as it is, whatever was chosen of it."""

from __future__ import annotations

import os
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError, Refused
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.run import run
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node import converge as whole
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.summary import lines
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import image
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.image import RESOURCE, Desired
from ansible_collections.trainyard.gpu_node.tests.unit.data.image import images

SECTIONS = {"node_profile": {"metadata": "never", "name": "unknown"}, "rdma": {"ipoib": "off"}}


@pytest.fixture
def root(tmp_path):
    made = images.azure_hpc(tmp_path / "root")
    for folder in ("/sys/class/dmi/id", "/run"):
        made.at(folder).mkdir(parents=True, exist_ok=True)
    return made


def files(root):
    return {str(path.relative_to(root.path)) for path in root.path.rglob("*")} - {
        "run/gpu_node",
        "run/gpu_node/image.lock",
    }


def converge(root, require, **more):
    sections = dict(SECTIONS, image={"require": require})
    return whole.converge(Host(str(root.path)), whole.Request(sections, **more))


@pytest.mark.parametrize("more", [{}, {"only": ("rdma",)}, {"check_mode": True}, {"boot": True}])
def test_an_image_that_is_not_as_required_is_left_as_it_is(root, more):
    before = files(root)
    report = converge(root, {"driver": ">=550", "cuda": ">=12"}, **more)
    assert report.failures == [
        "image: NVIDIA's driver: image_require requires >=550, and this is 535.161.08; install a version that fits, or "
        "correct the requirement."
    ]
    assert files(root) == before and list(report.parts) == ["image"]
    assert not report.to_dict()["ready"] and not report.to_dict()["changed"]
    assert lines(report)[-1] == "  - " + report.failures[0]


def test_an_image_as_required_is_converged(root):
    report = converge(root, {"driver": ">=535,<600", "cuda": ">=12"})
    assert report.failures == [] and {"image", "node_profile", "rdma"} <= set(report.parts)
    assert "image:   as required, driver 535.161.08, cuda 12.2.2, nccl 2.19.3" in lines(report)
    assert not converge(root, {"driver": ">=535,<600"}).parts["image"]["changed"]


def test_who_skips_it_or_undoes_asks_nothing_of_the_image(root):
    assert converge(root, {"driver": ">=550"}, without=("image",)).failures == []
    report = converge(root, {"driver": ">=550"}, undo=True)
    assert report.failures == [] and report.parts["image"]["skipped_reason"] == "nothing is required of the image"


def test_without_a_requirement_nothing_is_read(root, monkeypatch):
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import image

    monkeypatch.setattr(image, "look", lambda host: pytest.fail("the image was read"))
    outcome = run(Host(str(root.path)), RESOURCE, Desired(), False)
    assert outcome.plan.skipped == "nothing is required of the image"


@pytest.mark.parametrize("fail_on, refused", [("never", False), ("fail", False), ("warn", True)])
def test_what_does_not_fit_stops_where_that_is_asked_for(root, fail_on, refused):
    root.link("/usr/local/cuda-11.8", "/opt/cuda-11.8")
    desired = Desired(require={"driver": ">=535"}, fail_on=fail_on)
    if refused:
        with pytest.raises(Refused, match="this link leads to /opt/cuda-11.8"):
            run(Host(str(root.path)), RESOURCE, desired)
    else:
        assert len(run(Host(str(root.path)), RESOURCE, desired).plan.notes) == (fail_on == "fail")


def test_a_requirement_that_only_warns_is_a_note(root):
    desired = Desired(require={"nccl": {"version": ">=2.20", "outcome": "warn"}})
    (note,) = run(Host(str(root.path)), RESOURCE, desired).plan.notes
    assert "image_require requires >=2.20, and this is 2.19.3" in note


@pytest.mark.parametrize(
    "given, words",
    [
        ({"require": {"drver": ">=1"}}, "option require.drver: there is no such component; did you mean 'driver'?"),
        ({"require": {"driver": "535"}}, "option require.driver: '535' is no requirement on a version"),
        ({"require": ["driver>=535"]}, "no mapping"),
        ({"fail_on": "bad"}, "'bad' is not known here"),
    ],
)
def test_a_wrong_wish_is_a_sentence(given, words):
    with pytest.raises(NodeError) as error:
        of(RESOURCE.options, given)
    assert words in str(error.value)
    assert os.linesep not in str(error.value)


def test_an_image_that_does_not_answer_holds_no_boot(root, monkeypatch):
    monkeypatch.setattr(image, "look", lambda host: time.sleep(60))
    monkeypatch.setattr(image, "_SECONDS", 0.3)
    (told,) = converge(root, {"driver": ">=1"}).failures
    assert told.startswith("image: the image: it could not be read within 0.3 s; look for a file system")
