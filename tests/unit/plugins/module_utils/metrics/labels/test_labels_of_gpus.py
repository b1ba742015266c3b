# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The labels of GPU feature discovery. The cases are those that its own tests have (internal/lm, internal/vgpu), and
those of products and layouts that they leave out."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.frozen import replaced
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.kubernetes.sharing_configs import Config
from ansible_collections.trainyard.gpu_node.plugins.module_utils.metrics.labels import file, gfd, rules, sharing
from ansible_collections.trainyard.gpu_node.plugins.module_utils.metrics.labels.types import (
    Device,
    Facts,
    MigDevice,
    VirtualGpu,
)

ALONE = sharing.read({})
SLICED = sharing.read({"time_slicing": {"nvidia.com/gpu": 2}})
RENAMED = sharing.read({"time_slicing": {"nvidia.com/gpu": 2}, "rename": True})
MPS = sharing.read({"mps": {"nvidia.com/gpu": 2}})
OF_MIG = sharing.read({"time_slicing": {"nvidia.com/mig-1g.10gb": 3}})
WHOLE = Device(0, "BOARD X", 300, (8, 0), pci_class=0x030200)
NAMES = ("memory", "multiprocessors", "slices.gi", "slices.ci")
ENGINES = ("engines.copy", "engines.decoder", "engines.encoder", "engines.jpeg", "engines.ofa")


def part(profile="1g.10gb", first=12):
    return MigDevice(profile, {name: first + number for number, name in enumerate((*NAMES, *ENGINES))})


def divided(*parts, index=0):
    """As in those tests it tells no compute capability, so that what comes from whom can be seen."""
    return replaced(WHOLE, index=index, capability=None, mig_capable=True, mig_enabled=True, mig=tuple(parts))


def told(*devices, strategy="none", shared=ALONE):
    facts = Facts(devices=devices, driver_version="400.300", cuda_version="8.0", machine="M")
    found, notes = gfd.labels(facts, strategy, shared, 0)
    return {name[len("nvidia.com/") :]: text for name, text in found.items()}, notes


def of(resource, found):
    return {name[len(resource) + 1 :]: text for name, text in found.items() if name.startswith(resource + ".")}


def gpu(*devices, **how):
    """The labels of nvidia.com/gpu but for the machine and the mode, which are of the node."""
    found = of("gpu", told(*devices, **how)[0])
    assert found.pop("machine") == "M" and found.pop("mode") in ("compute", "graphics", "unknown")
    return found


AMPERE = {"family": "ampere", "compute.major": "8", "compute.minor": "0"}


def base(count=1, replicas=1, way="none", product="BOARD-X", memory=300, **more):
    words = {"count": count, "replicas": replicas, "sharing-strategy": way, "memory": memory, "product": product}
    return dict({name: str(value) for name, value in words.items()}, **more)


@pytest.mark.parametrize("strategy", ["none", "single", "mixed"])
@pytest.mark.parametrize(
    ("devices", "shared", "expected"),
    [
        ([WHOLE], ALONE, base(**AMPERE)),
        ([WHOLE], SLICED, base(1, 2, "time-slicing", "BOARD-X-SHARED", **AMPERE)),
        ([WHOLE], MPS, base(1, 2, "mps", "BOARD-X-SHARED", **AMPERE)),
        ([WHOLE], RENAMED, base(1, 2, "time-slicing", **AMPERE)),
        ([WHOLE], OF_MIG, base(**AMPERE)),  # of another resource
        ([WHOLE, replaced(WHOLE, index=1)], SLICED, base(2, 2, "time-slicing", "BOARD-X-SHARED", **AMPERE)),
    ],
)
def test_whole_gpus_alone_and_shared(strategy, devices, shared, expected):
    assert gpu(*devices, strategy=strategy, shared=shared) == expected
    found, notes = told(*devices, strategy=strategy, shared=shared)
    assert found.get("mig.strategy", "none") == strategy and found["mig.capable"] == "false" and notes == ()
    assert found["mps.capable"] == ("true" if shared is MPS else "false")


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ([divided()], base(1, 0)),
        ([divided(), divided(index=1)], base(2, 0)),
        # Whole GPUs beside them are shared, and what they tell comes last.
        ([divided(), WHOLE], base(2, 2, "time-slicing", "BOARD-X-SHARED", **AMPERE)),
        ([WHOLE, divided(index=1)], base(2, 2, "time-slicing", "BOARD-X-SHARED", **AMPERE)),
    ],
)
def test_gpus_in_mig_mode_are_not_shared_as_whole_ones(devices, expected):
    assert gpu(*devices, shared=SLICED) == expected
    assert told(*devices)[0]["mig.capable"] == "true"


ATTRIBUTES = {name: str(12 + number) for number, name in enumerate((*NAMES, *ENGINES))}


@pytest.mark.parametrize(
    ("devices", "count"), [([divided(part())], 1), ([divided(part()), divided(part(), part(), index=1)], 3)]
)
def test_strategy_single_offers_instances_as_gpus(devices, count):
    product = "BOARD-X-MIG-1g.10gb"
    assert gpu(*devices, strategy="single") == base(count, product=product, **ATTRIBUTES)
    shared = gpu(*devices, strategy="single", shared=SLICED)
    assert (shared["product"], shared["replicas"]) == (product + "-SHARED", "2")
    assert shared["sharing-strategy"] == "time-slicing"
    assert gpu(*devices, strategy="single", shared=RENAMED)["product"] == product
    # A real GPU tells its family in MIG mode too.
    real = [replaced(one, capability=(9, 0)) for one in devices]
    assert gpu(*real, strategy="single")["family"] == "hopper"


INVALID = {"count": "0", "replicas": "0", "sharing-strategy": "", "memory": "0", "product": "BOARD-X-MIG-INVALID"}


@pytest.mark.parametrize(
    ("devices", "why"),
    [
        ([divided()], "a GPU in MIG mode has no instance"),
        ([divided(part()), divided(index=1)], "a GPU in MIG mode has no instance"),
        ([divided(part("1g.10gb"), part("3g.40gb"))], "several kinds (1g.10gb, 3g.40gb)"),
        ([divided(part("1g.10gb")), divided(part("1g.10gb+me"), index=1)], "several kinds (1g.10gb, 1g.10gb.me)"),
        ([divided(part()), WHOLE], "some GPUs are divided and others are whole"),
        ([divided(part()), WHOLE, divided(index=2)], "a GPU in MIG mode has no instance"),
    ],
)
def test_strategy_single_with_unequal_gpus_is_invalid(devices, why):
    family = AMPERE if WHOLE in devices else {}
    assert gpu(*devices, strategy="single") == dict(INVALID, **family)
    notes = told(*devices, strategy="single")[1]
    assert len(notes) == 1 and why in notes[0] and "use the strategy mixed" in notes[0]
    # Of what is shared no word: nothing is offered.
    assert gpu(*devices, strategy="single", shared=SLICED) == dict(INVALID, **family)


def test_strategy_mixed_has_each_kind_of_instance_beside_the_gpus():
    devices = [divided(part("1g.10gb"), part("1g.10gb", 50), part("3g.40gb", 30)), divided(index=1), WHOLE]
    found, notes = told(*devices, strategy="mixed", shared=OF_MIG)
    assert notes == () and found["mig.strategy"] == "mixed"
    assert of("gpu", found)["count"] == "3" and of("gpu", found)["product"] == "BOARD-X"
    assert of("mig-1g.10gb", found) == dict(
        {"count": "2", "replicas": "3", "sharing-strategy": "time-slicing"},
        product="BOARD-X-MIG-1g.10gb-SHARED",
        **ATTRIBUTES,
    )
    big = of("mig-3g.40gb", found)
    assert (big["count"], big["replicas"], big["sharing-strategy"], big["memory"]) == ("1", "1", "none", "30")
    assert big["product"] == "BOARD-X-MIG-3g.40gb"
    # Instances on only some of the GPUs are no fault under this strategy, and without any there is nothing to tell.
    bare = told(divided(), strategy="mixed")[0]
    assert not any(name.startswith("mig-") for name in bare) and bare["mig.strategy"] == "mixed"


def test_names_of_instances_are_those_of_the_device_plugin():
    found = told(divided(part("1g.5gb+me"), part("1c.3g.20gb"), part("1g.24gb-me")), strategy="mixed")[0]
    kinds = {name.rsplit(".product", 1)[0]: text for name, text in found.items() if name.startswith("mig-")}
    assert kinds["mig-1g.5gb.me"] == "BOARD-X-MIG-1g.5gb.me"
    assert found["mig-1c.3g.20gb.count"] == "1" and found["mig-1g.24gb-me.product"] == "BOARD-X-MIG-1g.24gb-me"


def test_instances_that_were_not_told_are_no_instances_that_are_not_there():
    dark = replaced(divided(), mig=None)
    single, why = told(dark, strategy="single")
    assert set(of("gpu", single)) == {"machine", "mode"} and "were not told" in why[0]
    mixed, why = told(dark, strategy="mixed")
    assert of("gpu", mixed)["count"] == "1" and "mig-*" in why[0]
    assert told(dark)[1] == ()


def test_mps_is_not_for_gpus_in_mig_mode():
    found, notes = told(divided(part()), WHOLE, shared=MPS)
    assert "mps.capable" not in found and set(of("gpu", found)) == {"machine"} and "MPS shares whole" in notes[0]
    assert found["cuda.driver.major"] == "400"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("words with blanks", "words-with-blanks"),
        ("odd(signs)here", "oddsignshere"),
        ("odd ( signs )here", "odd-signs-here"),
        ("NVIDIA TITAN X (Pascal)", "NVIDIA-TITAN-X-Pascal"),
        ("  blanks   at the  ends  ", "blanks-at-the-ends"),
        ("a [ / b / ]c", "a-b-c"),
        ("a / b /c", "a-b-c"),
        ("kept-as.it_is", "kept-as.it_is"),
        ("line\nbreak\tand\rmore", "linebreakandmore"),
        ("\u00e4\u4e2d\u0661 x\u00a0y", "xy"),
        ("\x00\ud800", ""),
    ],
)
def test_names_are_made_fit_as_there(text, expected):
    assert gfd.sanitised(text) == expected


@pytest.mark.parametrize(
    ("name", "product"),
    [
        ("NVIDIA A100-SXM4-80GB MIG 1g.5gb+me", "NVIDIA-A100-SXM4-80GB-MIG-1g.5gbme"),
        ("X" * 80, "X" * 63),
        ("X" * 62 + " Y", "X" * 62),  # it may not end with a dash
        ("-_.lead and trail.-", "lead-and-trail"),
        ("H100\nnvidia.com/gpu.count=99", "H100nvidia.comgpu.count99"),
        ("# +expiry-time=2000-01-01", "expiry-time2000-01-01"),
    ],
)
def test_a_product_that_no_label_takes_is_cut(name, product):
    assert told(replaced(WHOLE, name=name))[0]["gpu.product"] == product


def test_what_follows_a_long_product_stays():
    found = told(replaced(divided(part("1g.10gb+me")), name="X" * 80), strategy="mixed")[0]
    assert found["mig-1g.10gb.me.product"] == "X" * 48 + "-MIG-1g.10gb.me" and len("X" * 48 + "-MIG-1g.10gb.me") == 63
    long = replaced(WHOLE, name="X" * 70)
    assert told(long, shared=SLICED)[0]["gpu.product"] == "X" * 56 + "-SHARED"
    invalid = told(replaced(divided(), name="X" * 70), strategy="single")[0]
    assert invalid["gpu.product"] == "X" * 51 + "-MIG-INVALID"
    assert "gpu.product" not in told(replaced(WHOLE, name="\u4e2d"))[0]


@pytest.mark.parametrize(
    ("major", "minor", "name"),
    [
        (1, 3, "tesla"),
        (2, 0, "fermi"),
        (3, 7, "kepler"),
        (4, 0, "undefined"),
        (5, 2, "maxwell"),
        (6, 1, "pascal"),
        (7, 0, "volta"),
        (7, 2, "volta"),
        (7, 5, "turing"),
        (8, 0, "ampere"),
        (8, 7, "ampere"),
        (8, 9, "ada-lovelace"),
        (9, 0, "hopper"),
        (10, 3, "blackwell"),
        (11, 0, "undefined"),
        (12, 0, "blackwell"),
        (13, 0, "rubin"),
        (14, 0, "undefined"),
    ],
)
def test_families_by_compute_capability(major, minor, name):
    assert gfd.family(major, minor) == name


@pytest.mark.parametrize(
    ("classes", "mode"),
    [
        ([0x030000], "graphics"),
        ([0x030200], "compute"),
        ([0x030200, 0x030200], "compute"),
        ([0x030200, 0x030000], "unknown"),
        ([0x030200, None], "unknown"),
        ([0x068000], "unknown"),
    ],
)
def test_the_mode_is_the_class_of_all_gpus(classes, mode):
    assert told(*(replaced(WHOLE, index=n, pci_class=one) for n, one in enumerate(classes)))[0]["gpu.mode"] == mode


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("550.54.15", ("550", "54", "15", "550.54.15")),
        ("400.300", ("400", "300", "", "400.300")),
        ("580.95.05", ("580", "95", "05", "580.95.05")),
        ("1", None),
        ("1.2.3.4", None),
        ("550.54\n", None),
        ("550.x", None),
        ("", None),
        (None, None),
    ],
)
def test_versions_in_both_spellings(version, expected):
    found, notes = gfd.labels(Facts(devices=(WHOLE,), driver_version=version, cuda_version="12.4"), "none", ALONE, 0)
    words = ("major", "minor", "revision", "full")
    new = tuple(found.get("nvidia.com/cuda.driver-version." + word) for word in words)
    old = tuple(found.get("nvidia.com/cuda.driver." + word) for word in ("major", "minor", "rev"))
    if expected is None:
        assert set(new) == set(old) == {None} and "cuda.driver.*" in notes[0]
    else:
        assert new == expected and old == expected[:3] and not notes
    assert found["nvidia.com/cuda.runtime.major"] == found["nvidia.com/cuda.runtime-version.major"] == "12"
    assert found["nvidia.com/cuda.runtime-version.full"] == "12.4"


def test_several_products_have_the_labels_of_the_one_that_most_are():
    a, b = replaced(WHOLE, name="A"), replaced(WHOLE, name="B", memory_mib=7)
    found, notes = told(b, a, replaced(a, index=2))
    assert (found["gpu.product"], found["gpu.count"], found["gpu.memory"]) == ("A", "2", "300")
    assert "the node also has B" in notes[0]
    assert told(b, a)[0]["gpu.product"] == "B"


def test_what_a_gpu_does_not_tell_has_no_label():
    found = told(replaced(WHOLE, memory_mib=None, capability=None))[0]
    assert not {"gpu.memory", "gpu.family", "gpu.compute.major"} & set(found) and found["gpu.count"] == "1"
    # One that is lost: the count would be a lie.
    facts = Facts(devices=(WHOLE,), complete=False, driver_version="550.1", cuda_version="12.4", virtual_gpus=())
    found = gfd.labels(facts, "mixed", ALONE, 0)[0]
    assert not any(name.startswith(("nvidia.com/gpu.count", "nvidia.com/mig")) for name in found)
    assert found["nvidia.com/cuda.driver.major"] == "550" and found["nvidia.com/gpu.machine"] == "unknown"


def test_a_machine_without_gpus_says_that_it_has_no_vgpu():
    assert gfd.labels(Facts(virtual_gpus=(), machine="M"), "mixed", MPS, 7)[0] == {
        "nvidia.com/gfd.timestamp": "7",
        "nvidia.com/vgpu.present": "false",
    }


def test_cliques():
    one, other = ("a-b", 7), ("a-b", 8)
    assert told(replaced(WHOLE, clique=one), WHOLE)[0]["gpu.clique"] == "a-b.7"
    found, notes = told(replaced(WHOLE, clique=one), replaced(WHOLE, clique=other))
    assert "gpu.clique" not in found and "several NVLink domains" in notes[0]


def test_vgpus():
    facts = Facts(virtual_gpus=(VirtualGpu("460.16", "r460_00"), VirtualGpu()))
    found = gfd.labels(facts, "none", ALONE, 0)[0]
    assert found["nvidia.com/vgpu.present"] == "true"
    assert found["nvidia.com/vgpu.host-driver-version"] == "460.16"
    assert found["nvidia.com/vgpu.host-driver-branch"] == "r460_00"


# How it is shared -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"time_slicing": {"nvidia.com/gpu": 4}},
        {"mps": {"nvidia.com/gpu": 2}, "rename": True},
        {"time_slicing": {"nvidia.com/gpu": 4, "nvidia.com/mig-1g.10gb.me": 3}},
    ],
)
def test_what_an_option_says_is_said_by_the_words_of_the_command(content):
    class Arguments:
        words = sharing.words(sharing.read(content))
        sharing = [word for word in words if word not in ("--sharing", "--renamed")]
        renamed = "--renamed" in words

    assert isinstance(sharing.read(content), Config)
    assert sharing.of_words(Arguments) == sharing.read(content) == sharing.read(sharing.plain(sharing.read(content)))
    assert all(re.fullmatch("[A-Za-z0-9./:=-]+", word) for word in Arguments.words)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"mps": {"nvidia.com/mig-1g.10gb": 2}}, "which MPS does not share"),
        ({"time_slicing": {"nvidia.com/gpu": 1}}, "give 2 or more, or leave it out"),
        ({"time_slicing": {"nvidia.com/gpu": 2}, "mps": {"nvidia.com/gpu": 2}}, "both time_slicing and mps"),
        ({"time_slicing": {"cpu": 2}}, "cpu cannot be shared"),
        ({"replicas": 2}, "means nothing"),
    ],
)
def test_what_the_plugin_would_refuse_is_refused(content, sentence):
    with pytest.raises(NodeError, match=sentence) as refused:
        sharing.read(content)
    assert refused.value.thing == "option sharing" and not refused.value.reason.startswith("sharing")


# Whatever is read -------------------------------------------------------------------------------------

TEXTS = st.text(max_size=90)
PARTS = st.builds(
    MigDevice,
    profile=st.sampled_from(("1g.10gb", "1g.10gb+me", "1c.3g.40gb", "2g.48gb+me.all")),
    attributes=st.dictionaries(st.sampled_from((*NAMES, *ENGINES)), st.integers(0, 2**31)),
)
DEVICES = st.builds(
    Device,
    index=st.integers(0, 15),
    name=TEXTS,
    memory_mib=st.none() | st.integers(0, 2**40),
    capability=st.none() | st.tuples(st.integers(0, 20), st.integers(0, 20)),
    mig_capable=st.booleans(),
    mig_enabled=st.booleans(),
    mig=st.none() | st.lists(PARTS, max_size=8).map(tuple),
    clique=st.none() | st.tuples(TEXTS, st.integers(0, 9)),
    pci_class=st.none() | st.integers(0, 2**24),
)


@given(
    st.builds(
        Facts,
        complete=st.booleans(),
        devices=st.lists(DEVICES, max_size=5).map(tuple),
        driver_version=st.none() | TEXTS,
        cuda_version=st.none() | TEXTS,
        machine=st.none() | TEXTS,
        virtual_gpus=st.none() | st.lists(st.builds(VirtualGpu, TEXTS, st.none() | TEXTS), max_size=2).map(tuple),
    ),
    st.sampled_from(("none", "single", "mixed")),
    st.sampled_from((ALONE, SLICED, RENAMED, MPS, OF_MIG)),
)
def test_every_label_is_legal_and_every_note_is_a_line(facts, strategy, shared):
    found, notes = gfd.labels(facts, strategy, shared, 1728992460)
    assert file.checked(found) == (found, ())
    assert all("\n" not in note for note in notes)
    assert len(rules.render(found, 0).encode()) < 65536
    again, dummy = gfd.labels(facts, strategy, shared, 1728992460)
    assert again == found
