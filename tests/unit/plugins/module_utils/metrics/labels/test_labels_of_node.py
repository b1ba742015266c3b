# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our own labels, their file, and how Node Feature Discovery takes it."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.formats import nfd
from ansible_collections.trainyard.gpu_node.plugins.module_utils.metrics.labels import file, own, rules, vgpu
from ansible_collections.trainyard.gpu_node.plugins.module_utils.metrics.labels.types import (
    Device,
    Facts,
    MigDevice,
    VirtualGpu,
)
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.metrics.labels import labels_reader

NOW = 1795600000
WHOLE = Device(0, "H100", mig_capable=True)


def divided(*profiles, bare=()):
    return replaced(WHOLE, mig_enabled=True, mig=tuple(MigDevice(one, {}) for one in profiles), bare=bare)


SEVEN = divided(*["1g.10gb"] * 7)


@pytest.mark.parametrize(
    ("devices", "layout"),
    [
        ([], None),
        ([Device(0, "Tesla T4")], None),
        ([WHOLE, WHOLE], "off"),
        ([divided()], "empty"),
        ([SEVEN] * 8, "1g.10gb-x7"),
        ([SEVEN, Device(1, "T4")], "1g.10gb-x7"),  # the other one cannot be divided
        ([divided("1g.10gb", "3g.40gb", "1g.10gb", "1g.10gb+me")], "3g.40gb-x1_1g.10gb-x2_1g.10gb.me-x1"),
        ([divided("1c.3g.40gb", "2c.3g.40gb")], "2c.3g.40gb-x1_1c.3g.40gb-x1"),
        ([divided("2g.20gb", bare=("3g.40gb",))], "3g.40gb-bare-x1_2g.20gb-x1"),
        ([SEVEN] * 3 + [WHOLE], "1g.10gb-x7-on-3_off-on-1"),
        ([WHOLE] + [SEVEN] * 3, "1g.10gb-x7-on-3_off-on-1"),
        ([replaced(SEVEN, mig=None), SEVEN], None),
        ([divided("\n+x/y")], "x_y-x1"),
    ],
)
def test_the_layout_has_a_short_name(devices, layout):
    assert own.layout(devices) == layout


def test_a_layout_that_is_too_long_for_a_label_has_a_digest_that_equal_nodes_share():
    kinds = [divided("4g.40gb", "2g.20gb", "1g.10gb+me"), divided("3g.40gb", "3g.40gb"), SEVEN]
    name = own.layout(kinds)
    assert name.startswith("mixed-") and len(name) == 14 and own.layout(kinds[::-1]) == name
    assert own.layout([*kinds, SEVEN]) != name


def test_what_was_not_told_has_no_label():
    assert own.labels(Facts()) == {}
    assert own.labels(Facts(devices=(SEVEN,), complete=False)) == {}
    facts = Facts(
        devices=(SEVEN,),
        numa_nodes=2,
        scratch_ready=False,
        scratch_gib=0,
        infiniband_ports=8,
        infiniband_gbps=400.0,
    )
    assert own.labels(facts) == {
        "trainyard.io/numa-nodes": "2",
        "trainyard.io/scratch-ready": "false",
        "trainyard.io/scratch-gib": "0",
        "trainyard.io/infiniband-ports": "8",
        "trainyard.io/infiniband-rate-gbps": "400",
        "trainyard.io/mig-layout": "1g.10gb-x7",
    }
    assert own.labels(Facts(infiniband_gbps=2.5))["trainyard.io/infiniband-rate-gbps"] == "2.5"


def test_no_label_of_the_node_is_one_of_the_gate():
    """The later of two files would win."""
    facts = Facts(
        devices=(SEVEN,), numa_nodes=2, scratch_ready=True, scratch_gib=1, infiniband_ports=8, infiniband_gbps=400.0
    )
    assert not [name for name in own.labels(facts) if name.startswith(rules.NAMESPACE + "/gpu-node-")]
    assert nfd.name("gpu-node-check-x").startswith("gpu-node-")


# The file ---------------------------------------------------------------------------------------------

LABELS = {"trainyard.io/numa-nodes": "2", "nvidia.com/cuda.driver.rev": "", "nvidia.com/gpu.product": "Tesla-T4"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "features.d").mkdir()
    return tmp_path / "features.d"


def test_labels_hold_until_their_time_and_then_they_are_gone(folder):
    (folder / "trainyard").write_text(rules.render(LABELS, NOW + 750))
    assert rules.render(LABELS, NOW).endswith("trainyard.io/numa-nodes=2\n")
    for now, expected in ((NOW, LABELS), (NOW + 750, LABELS), (NOW + 751, {})):
        node = labels_reader.read(folder, now)
        assert node.labels == expected and node.dropped == []


def test_the_reader_knows_what_is_wrong(folder):
    """Or it would prove nothing."""
    (folder / ".trainyard.tmp").write_text("a.io/hidden=1\n")
    (folder / "large").write_text("a.io/large=1\n" + "#" * 65536)
    (folder / "one").write_text("a.io/old=1\n# +expiry-time=2000-01-01T00:00:00Z\na.io/gone=1\n")
    (folder / "three").write_text(
        "a.io/bare\nkubernetes.io/x=1\nx=1\na.io/y=-1\na.io/b=1 2\n# +expiry-time=soon\na.io/c=\n"
    )
    (folder / "two").write_text("a.io/bare=later\n# +no-label\na.io/none=1\na.io/old=2\n")
    node = labels_reader.read(folder, NOW)
    assert node.labels == {"a.io/old": "2", "a.io/bare": "later", "a.io/c": ""}
    assert node.doubled == ["a.io/old", "a.io/bare"] or node.doubled == ["a.io/bare", "a.io/old"]
    assert len(node.dropped) == 6


def test_the_files_of_gate_and_labels_stand_beside_each_other(folder):
    (folder / "gpu_node").write_text(rules.render({"trainyard.io/gpu-node-profile": "nd96asr_v4"}, NOW))
    (folder / "trainyard").write_text(rules.render(LABELS, NOW))
    node = labels_reader.read(folder, NOW)
    assert node.doubled == [] and node.labels == dict(LABELS, **{"trainyard.io/gpu-node-profile": "nd96asr_v4"})


def test_the_timestamp_stays_while_the_gpus_stay_the_same():
    found = {"nvidia.com/gfd.timestamp": "200", "nvidia.com/gpu.count": "8", "trainyard.io/numa-nodes": "2"}
    before = rules.render(dict(found, **{"nvidia.com/gfd.timestamp": "100"}), NOW)
    assert file.steady(found, before)["nvidia.com/gfd.timestamp"] == "100"
    assert file.steady(dict(found, **{"trainyard.io/numa-nodes": "1"}), before)["nvidia.com/gfd.timestamp"] == "100"
    fewer = dict(found, **{"nvidia.com/gpu.count": "7"})
    assert file.steady(fewer, before) == fewer and file.steady(found, "") == found
    assert file.steady(found, before.replace("=100", "=-1")) == found
    assert "nvidia.com/gfd.timestamp" not in file.steady({"trainyard.io/numa-nodes": "2"}, before)


def test_a_label_that_cannot_be_is_left_out_and_told():
    good, notes = file.checked(dict(LABELS, **{"a.io/x": "a\nb", "a.io/" + "n" * 64: "1", "plain": "1", "A/x": "1"}))
    assert good == LABELS and len(notes) == 4 and all("is left out" in note and "\n" not in note for note in notes)


NAMES = st.sampled_from(("numa-nodes", "mig-layout")).map("trainyard.io/{0}".format) | st.text(max_size=70)


@given(st.dictionaries(NAMES, st.text(max_size=70), max_size=6))
def test_whatever_is_read_the_node_has_what_was_written(tmp_path_factory, labels):
    folder = tmp_path_factory.mktemp("features.d")
    good, dummy = file.checked(labels)
    (folder / "trainyard").write_text(rules.render(good, NOW), encoding="utf-8", newline="\n")
    node = labels_reader.read(folder, NOW)
    assert node.labels == good and node.dropped == []


@given(st.text(max_size=90))
def test_a_value_is_made_fit(text):
    assert rules.legal("a.io/x", rules.value(text))


def test_a_file_is_written_in_one_step_and_readable_by_all(tmp_path):
    host = Host(str(tmp_path))
    (tmp_path / "f").mkdir()
    file.write(host, "/f/trainyard", rules.render(LABELS, NOW))
    path = tmp_path / "f" / "trainyard"
    path.chmod(0o600)
    inode = path.stat().st_ino
    assert file.before(host, "/f/trainyard") == path.read_text()
    file.write(host, "/f/trainyard", rules.render(LABELS, NOW + 1))
    assert path.stat().st_mode & 0o7777 == 0o644 and path.stat().st_ino != inode
    assert os.listdir(tmp_path / "f") == ["trainyard"]


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/none/trainyard", "there is no folder /none"),
        ("/f/.trainyard", "reads no such file"),
        ("/f/", "reads no such file"),
        ("/f/theirs", "it is there and is not ours"),
        ("/f/link", "it is there and is not ours"),
        ("/f/folder", "it is there and is not ours"),
    ],
)
def test_where_nothing_may_be_written(tmp_path, path, sentence):
    (tmp_path / "f" / "folder").mkdir(parents=True)
    (tmp_path / "f" / "theirs").write_text("a.io/x=1\n")
    (tmp_path / "f" / "ours").write_text(rules.render({}, NOW))
    (tmp_path / "f" / "link").symlink_to("ours")
    with pytest.raises(NodeError, match=sentence):
        file.before(Host(str(tmp_path)), path)


# vGPUs ------------------------------------------------------------------------------------------------


def configuration(*capabilities, status=0x10):
    """256 bytes with a chain of capabilities, each (number, what follows its first two bytes)."""
    content, at = bytearray(256), 0x40
    content[6], content[0x34] = status, at if capabilities else 0
    for position, (number, rest) in enumerate(capabilities):
        follows = at + 2 + len(rest) if position + 1 < len(capabilities) else 0
        content[at : at + 2 + len(rest)] = bytes([number, follows]) + rest
        at = follows
    return bytes(content)


def record(version=b"460.16", branch=b"r460_00", before=b""):
    body = b"VF" + before + bytes([0, 22]) + version.ljust(10, b"\0") + branch.ljust(10, b"\0")
    return 0x09, bytes([len(body) + 3]) + body


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (configuration(record()), VirtualGpu("460.16", "r460_00")),
        (configuration((0x05, b"\0\0"), (0x11, b"\0"), record()), VirtualGpu("460.16", "r460_00")),
        (configuration(record(before=bytes([7, 4, 1, 1]))), VirtualGpu("460.16", "r460_00")),
        (configuration(record(), status=0), None),
        (configuration(), None),
        (configuration((0x09, b"\x14\x01" + b"\0" * 17)), None),  # of a GPU that is passed through
        (configuration((0x09, b"\x05VF")), VirtualGpu()),
        (configuration((0x09, b"\x08VF\x07\x00\x00")), VirtualGpu()),  # a record that never ends
        (configuration((0x09, b"\x10VF\x00\x16460.16")), VirtualGpu()),  # one that is cut short
        (b"", None),
        (configuration(record())[:64], None),
        (configuration(record(version=b"\xff\n/1", branch=b"")), VirtualGpu("\n/1", None)),
    ],
)
def test_the_record_of_a_vgpu(content, found):
    assert vgpu.parse(content) == found


def test_a_chain_of_capabilities_that_goes_round_ends():
    content = bytearray(configuration((0x05, b"\0")))
    content[0x41] = 0x40
    assert vgpu.parse(bytes(content)) is None


@given(st.binary(max_size=300))
def test_whatever_a_device_says_is_survived(content):
    vgpu.parse(content.ljust(256, b"\x10"))
