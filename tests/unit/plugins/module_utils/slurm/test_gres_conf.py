# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gres.conf, its syntax and the positions of devices, as slurmd has them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import gres_conf, hosts, syntax


def listed(text, node="gpu01", configured=None):
    found = gres_conf.devices(gres_conf.gpus(syntax.of(text), node), configured)
    assert (found.reason is None) or not found.positions
    return found.reason or ["+".join(files).replace("/dev/nvidia", "") for files in found.positions]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Name=gpu File=/dev/nvidia[4-7]\n", ["4", "5", "6", "7"]),
        ("Name=gpu File=/dev/nvidia[3,0-1]\nname=gpu FILE=/dev/nvidia2", ["3", "0", "1", "2"]),
        ("AutoDetect=off\nName=gpu Type=a100 File=/dev/nvidia1,/dev/nvidia0 Cores=0-3 # yes\n", ["1", "0"]),
        ("Name=gpu \\\n  File=/dev/nvidia1\n#Name=gpu File=/dev/nvidia0", ["1"]),
        ("NodeName=gpu[01-04] Name=gpu File=/dev/nvidia0\nName=gpu File=/dev/nvidia1\n", ["1", "0"]),
        ("NodeName=gpu[02-04],gpu1 Name=gpu File=/dev/nvidia0\nName=mps Count=400\n", []),
        (
            "Name=gpu MultipleFiles=/dev/nvidia0,/dev/nvidia-caps/nvidia-cap12\nName=gpu File=/dev/nvidia1",
            ["0+-caps/nvidia-cap12", "1"],
        ),
        ('Name=gpu Type="a 100" Files=/dev/nvidia7\nNodeName=other AutoDetect=nvml Name=gpu\n', ["7"]),
        ("AutoDetect=nvml\nNodeName=gpu01 AutoDetect=off Name=gpu File=/dev/nvidia3\n", ["3"]),
    ],
)
def test_the_positions_of_the_device_files(text, expected):
    assert listed(text) == expected


@pytest.mark.parametrize(
    ("text", "configured", "reason"),
    [
        ("AutoDetect=nvml\nName=gpu File=/dev/nvidia0", None, "AutoDetect=nvml"),
        ("NodeName=gpu01 AutoDetect=nvidia Name=gpu File=/dev/nvidia0", None, "AutoDetect=nvidia"),
        ("Name=gpu Count=4", None, "no list of device files"),
        ("Name=gpu File=/dev/nvidia[0-", None, "no list of device files"),
        ("Name=gpu File=/dev/nvidia0\nName=gpu File=/dev/nvidia[0-1]", None, "/dev/nvidia0 twice"),
        ("Name=gpu Type=a File=/dev/nvidia0\nName=gpu Type=b File=/dev/nvidia1", None, "several types"),
        ("Name=gpu File=/dev/nvidia0 Colour=red", None, "Colour=red' is not one that Slurm reads"),
        ("Name=gpu File=/dev/nvidia0 and more", None, "is not one that Slurm reads"),
        ("File=/dev/nvidia0 Name=gpu", None, "is not one that Slurm reads"),
        ("AutoDetect=off Name=gpu File=/dev/nvidia0", None, "is not one that Slurm reads"),
        ("Name=gpu File=/dev/nvidia[0-1]", "gpu:a100:1,gpu:1", "with a type and without"),
    ],
)
def test_what_cannot_be_told_has_its_reason(text, configured, reason):
    assert reason in listed(text, configured=configured)


MIXED = "Name=gpu Type=v100 File=/dev/nvidia[0-1]\nName=gpu Type=A100 File=/dev/nvidia[2-5]\n"


@pytest.mark.parametrize(
    ("gres", "expected"),
    [
        ("gpu:a100:4,gpu:v100:2", ["2", "3", "4", "5", "0", "1"]),
        ("gpu:v100:no_consume:2(S:0-1),gpu:a100:1,mps:400", ["0", "1", "2"]),
        ("gpu:6", ["0", "1", "2", "3", "4", "5"]),
        ("gpu:3", ["0", "1", "2"]),
        ("gpu", ["0"]),
        ("gpu:h100:8", []),
        ("mps:400", []),
        ("", []),
    ],
)
def test_slurm_conf_picks_and_orders_by_type(gres, expected):
    assert listed(MIXED, configured=gres) == expected


def test_includes_come_in_their_place_and_count_from_the_folder_of_slurm_conf():
    files = {
        "/etc/slurm/gres.conf": "Name=gpu File=/dev/nvidia1\nINCLUDE sub/more.conf\nName=gpu File=/dev/nvidia0\n",
        "/etc/slurm/sub/more.conf": "Name=gpu File=/dev/nvidia2\nInclude last.conf",
        "/etc/slurm/last.conf": "Include gres.conf\n",
    }
    text = syntax.read("/etc/slurm/gres.conf", files.get)
    assert text.included == ("/etc/slurm/sub/more.conf", "/etc/slurm/last.conf")
    assert text.missing == ("/etc/slurm/gres.conf",)  # Slurm would go round for ever
    assert [line.files for line in gres_conf.gpus(text, "x").lines] == [("/dev/nvidia%d" % n,) for n in (1, 2, 0)]
    assert "includes /etc/slurm/gres.conf" in gres_conf.devices(gres_conf.gpus(text, "x")).reason
    assert syntax.read("/nowhere", files.get) is None


@given(st.text(alphabet='Namegpu File=/dv[0-9],#\\"\n \tInclude:', max_size=200), st.text(max_size=5))
def test_any_text_is_told(text, node):
    listed(text, node)
    listed(text, node, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b c", ("a", "b", "c")),
        ("a[08-10]", ("a08", "a09", "a10")),
        ("a[9-10]b[0,2]", ("a9b0", "a9b2", "a10b0", "a10b2")),
        ("", ()),
        ("a[1", None),
        ("a]1", None),
        ("a[[1]]", None),
        ("a[2-1]", None),
        ("a[x]", None),
        ("a[0-99999999]", None),
        ("a[0-999]b[0-999]", None),
    ],
)
def test_lists_of_names(text, expected):
    assert hosts.names(text) == expected


@given(
    st.from_regex(r"\A[ab]\[[0-9]{1,2}(-[0-9]{2})?(,[0-9]{1,3})?\]c?\Z"),
    st.from_regex(r"\A[ab][0-9]{1,3}c?\Z"),
)
def test_a_list_holds_what_it_lists(text, name):
    listed_names = hosts.names(text)
    if listed_names is not None:
        assert hosts.holds(text, name) == (name in listed_names)
        assert all(hosts.holds(text, one) for one in listed_names)
