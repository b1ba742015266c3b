# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks, options, presets and what is resolved of them: no file and no process."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import urls
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.profile.builtin import PROFILES
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.python_env import Desired, locks
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.python_env.presets import (
    PRESETS,
    architectures,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.python_env.resolve import wishes
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.python_env.types import Inputs

A, B = "a" * 64, "b" * 64
PYTHON = "/usr/bin/python3"


def resolved(environment, version="3.10", missing=(), **rest):
    desired = of(Desired, dict({"folder": "/envs", "environments": [dict({"name": "one"}, **environment)]}, **rest))
    inputs = Inputs("x86_64", "", ((PYTHON, version),), missing=tuple(missing))
    return wishes(inputs, desired)


def test_a_lock_of_pip_is_the_same_in_any_order_and_layout():
    text = "# made by a tool\nZeta==2 \\\n    --hash=sha256:{0} \\\n    --hash=sha256:{1}\n"
    text += "alpha[x]==1 ; python_version>'3'  --hash=sha256:{0}\n"
    other = (
        "alpha[x]==1 ;  python_version>'3' --hash=sha256:{0}  # why\n\nZeta==2 --hash=sha256:{1} --hash=sha256:{0}\n"
    )
    first, second = (locks.pip("lock", one.format(A, B)) for one in (text, other))
    assert first == second and [one.name for one in first] == ["zeta", "alpha"]
    assert first[0].text == "Zeta==2 --hash=sha256:{0} --hash=sha256:{1}".format(A, B)


@pytest.mark.parametrize(
    "text, told",
    [
        ("alpha==1", "'alpha==1' has no SHA-256"),
        ("alpha==1 --hash=md5:" + "a" * 32, "has no SHA-256"),
        ("alpha>=1 --hash=sha256:" + A, "'alpha>=1' pins no version"),
        ("alpha --hash=sha256:" + A, "'alpha' pins no version"),
        ("--index-url https://elsewhere\nalpha==1 --hash=sha256:" + A, "'--index-url https://elsewhere' is no package"),
        ("-r other.txt", "is no package"),
        ("-e .", "is no package"),
        ("./folder --hash=sha256:" + A, "is no package"),
        ("# nothing\n", "it lists nothing"),
    ],
)
def test_a_lock_that_pins_less_than_everything_is_refused(text, told):
    with pytest.raises(NodeError) as error:
        locks.pip("lock", text)
    assert told in str(error.value)


@given(st.text(max_size=300))
def test_any_text_is_a_lock_or_one_sentence(text):
    for reader in (locks.pip, locks.conda):
        try:
            assert reader("lock", text)
        except NodeError as error:
            assert "\n" not in str(error)


def test_what_pip_reports_can_be_given_as_a_lock():
    def one(name, **archive):
        return {"metadata": {"name": name, "version": "1.0"}, "download_info": {"archive_info": archive}}

    report = {
        "install": [one("Zeta", hashes={"sha256": A}), one("al_pha", hash="sha256=" + B), one("gone", hash="md5=1")]
    }
    text = locks.of_reports([report, {"install": [{"metadata": 1}]}, None])
    assert text == "al-pha==1.0 --hash=sha256:{1}\nzeta==1.0 --hash=sha256:{0}\n".format(A, B)
    assert len(locks.pip("lock", text)) == 2


@pytest.mark.parametrize(
    "environment, rest, told",
    [
        ({}, {}, "nothing is to be installed"),
        ({"lock": "x", "packages": ["a"]}, {}, "a lock says already what is installed"),
        ({"clone_of": "/opt/env", "preset": "horovod"}, {}, "a clone has the packages of the other one"),
        ({"kind": "conda", "preset": "horovod"}, {}, "it is of kind venv alone"),
        ({"packages": ["--index-url=x"]}, {}, "is no requirement"),
        ({"packages": ["a"], "variables": {"PATH": "/evil"}}, {}, "PATH='/evil' cannot be set here"),
        ({"packages": ["a"], "python": "python3"}, {}, "'python3' is no absolute path"),
        ({"packages": ["a"], "verify_imports": ["os; import x"]}, {}, "is no module of Python"),
        ({"name": "../x", "packages": ["a"]}, {}, "is no name of an environment"),
        ({"packages": ["a"]}, {"index_url": "https://me:key@index/simple"}, "it carries an access key"),
        ({"packages": ["a"]}, {"index_url": "https://index/simple?sig=key"}, "it carries an access key"),
        ({"packages": ["a"]}, {"index_url": "ftp://index"}, "it is no URL"),
        ({"packages": ["a"]}, {"index_url": "https://i/s", "find_links": "/w"}, "with find_links no index is asked"),
        ({"packages": ["a"]}, {"user_folder": "/scratch"}, "no absolute path with the user's name"),
        ({"packages": ["a"]}, {"user_folder": "/scratch/$(id)"}, "no absolute path with the user's name"),
        ({"packages": ["a"]}, {"user_folder": "/$USER"}, "no absolute path with the user's name"),
        ({"packages": ["a"]}, {"extensions_folder": "/x/$USER"}, "it is nothing without option user_folder"),
        ({"packages": ["a"]}, {"folder": "/a/../b"}, "no absolute path"),
        ({"packages": ["a"]}, {"cuda_architectures": ["sm_80"]}, "is no compute capability"),
    ],
)
def test_what_a_user_gets_wrong_is_one_sentence(environment, rest, told):
    with pytest.raises(NodeError) as error:
        resolved(environment, **rest)
    assert told in str(error.value)


def test_two_of_one_name_are_refused():
    with pytest.raises(NodeError) as error:
        of(Desired, {"environments": [{"name": "a", "packages": ["x"]}, {"name": "a", "packages": ["y"]}]})
    assert "two are called a" in str(error.value)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets_resolve_and_say_where_they_are_from(name):
    preset = PRESETS[name]
    version = "3.10"
    (wish,), refusals, notes = resolved({"preset": name}, version, cuda_architectures=["8.0"])
    assert not refusals and preset.sources and wish.imports
    assert {locks.requirement_name(one) for one in wish.then} == set(preset.source_packages)
    assert set(map(locks.requirement_name, preset.source_packages)) <= set(map(locks.requirement_name, preset.packages))
    assert bool(preset.frozen_for) == (name in ("horovod", "onnxruntime"))
    assert any("is frozen: " + preset.frozen_for in one for one in notes) == bool(preset.frozen_for)
    # A package of one's own takes the place of the preset's.
    own = preset.packages[0].split("==")[0].split(">=")[0] + "==9"
    ((other,), dummy, dummy) = resolved({"preset": name, "packages": [own]}, version)
    assert own in other.first and preset.packages[0] not in other.first + other.then
    for need, hint in preset.needs:
        dummy, refusals, dummy = resolved({"preset": name}, version, missing=[need])
        assert hint in str(refusals[0])
    if preset.pythons[1]:
        dummy, refusals, dummy = resolved({"preset": name}, "3.13")
        assert "wants Python 3.8 to 3.11, and /usr/bin/python3 is 3.13" in str(refusals[0])


def test_build_variables_are_those_of_the_gpus_and_the_users_win():
    ((wish,), dummy, dummy) = resolved(
        {"preset": "horovod", "variables": {"HOROVOD_WITH_MPI": False}}, cuda_architectures=["7.0", "9.0"]
    )
    assert wish.variables["TORCH_CUDA_ARCH_LIST"] == "7.0;9.0"
    assert wish.variables["HOROVOD_BUILD_CUDA_CC_LIST"] == "70,90"
    assert (wish.variables["HOROVOD_WITH_MPI"], wish.variables["HOROVOD_GPU_OPERATIONS"]) == ("0", "NCCL")


def test_every_profile_has_its_compute_capability():
    known = {
        name: architectures(profile["gpus"]["products"])
        for name, profile in PROFILES.items()
        if profile.get("gpus", {}).get("products")
    }
    assert all(known.values()), [name for name, found in known.items() if not found]
    assert known["nd96asr_v4"] == ["8.0"] and known["nd40rs_v2"] == ["7.0"] and known["nd96isr_h200_v5"] == ["9.0"]
    assert known["nd128isr_ndr_gb200_v6"] == ["10.0"] and known["nd128isr_gb300_v6"] == ["10.3"]
    assert architectures(["Tesla T4", "NVIDIA A10", "NVIDIA L40S", "Quadro"]) == ["7.5", "8.6", "8.9"]


def test_the_machine_is_a_part_of_what_an_environment_is():
    desired = of(Desired, {"environments": [{"name": "a", "packages": ["x"]}]})
    seen = [
        wishes(Inputs(arch, cuda, ((PYTHON, version),)), desired)[0][0]
        for arch, cuda, version in (
            ("x86_64", "", "3.10"),
            ("aarch64", "", "3.10"),
            ("x86_64", "12", "3.10"),
            ("x86_64", "", "3.11"),
        )
    ]
    assert len({one.digest for one in seen}) == 4 and len({one.spec for one in seen}) == 1
    assert str(seen[2].machine) == "Python 3.10, x86_64, CUDA 12"


URL = "alpha @ https://{0}wheels.example.com/alpha-1-py3-none-any.whl{1}"


@pytest.mark.parametrize(
    "user, query", [("anna:hunter2@", ""), ("hunter2@", ""), ("", "?sv=2024-11-04&sig=hunter2%3D")]
)
@pytest.mark.parametrize("lock", [True, False])
def test_an_environment_is_the_same_with_another_access_key(user, query, lock):
    def digest(user, query):
        line = URL.format(user, query)
        one = {"lock": "{0} --hash=sha256:{1}".format(line, A)} if lock else {"packages": [line]}
        ((wish,), dummy, dummy) = resolved(one)
        assert wish.first[0].startswith(line)  # pip needs it
        return wish.digest

    assert digest(user, query) == digest("", "") != digest("", "?version=2")


def test_channels_are_the_same_with_another_token():
    def digest(channel):
        desired = of(
            Desired,
            {
                "folder": "/envs",
                "channels": [channel],
                "environments": [{"name": "one", "kind": "conda", "packages": ["tool"]}],
            },
        )
        return wishes(Inputs("x86_64", conda="/usr/conda"), desired)[0][0].digest

    plain = digest("https://conda.example.com/main/label/x")
    assert digest("https://conda.example.com/t/tk-12/main/label/x") == plain
    assert digest("https://anna:hunter2@conda.example.com/main/label/x") == plain != digest("https://other.com/main")


@pytest.mark.parametrize(
    "text, told",
    [
        ("get https://anna:p@h/x?a=1#b from http://h/t/tk-1/c/noarch/y", "get https://h/x#b from http://h/c/noarch/y"),
        ("git+https://tok@github.com/a/b.git@v1 x@y", "git+https://github.com/a/b.git@v1 x@y"),
        (
            "https://h/t/linux-64/x.conda file:///t/a/b/c http://h/a?x",
            "https://h/t/linux-64/x.conda file:///t/a/b/c http://h/a",
        ),
        # Of the examples of conda itself.
        ("https://h/api/t/tk-123-456/path/x https://h:80/conda/t/tk-123-45", "https://h/api/path/x https://h:80/conda"),
        ("https://h/simple/t/tk-html/x https://h/p/t/torch/torch-2.whl",) * 2,
        ("://" * 20000,) * 2,  # in no time
    ],
)
def test_what_is_shown_of_a_url(text, told):
    assert urls.shown(text) == told


def test_a_lock_that_is_refused_is_told_without_its_key():
    for text in (URL.format("anna:hunter2@", ""), URL.format("", "?sig=hunter2") + " --hash=md5:1"):
        with pytest.raises(NodeError) as error:
            locks.pip("lock", text)
        assert "hunter2" not in str(error.value)
    with pytest.raises(NodeError) as error:
        locks.conda("lock", "@EXPLICIT\nhttps://h/noarch/a-1-0.conda?sig=hunter2")
    assert "hunter2" not in str(error.value)
