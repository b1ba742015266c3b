# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of GPUs: how they are written, and what selects them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.identity import (
    Identity,
    normalise_pci_address,
    select,
)

GPUS = (
    Identity(0, uuid="GPU-aaaa", pci_address="0001:00:00.0"),
    Identity(1, uuid="GPU-bbbb", pci_address="000e:00:00.0"),
    Identity(2),
)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("00000001:00:00.0", "0001:00:00.0"),  # NVML
        ("00000000:3B:00.0", "0000:3b:00.0"),  # nvidia-smi
        ("3b:00.0", "0000:3b:00.0"),  # lspci
        ("0001:00:00", "0001:00:00.0"),
        ("00010000:E1:00.0", "10000:e1:00.0"),  # sysfs writes Intel VMD's domains with five digits
        ("ffff:ff:1f.7", "ffff:ff:1f.7"),
    ],
)
def test_every_way_to_write_a_pci_address_ends_as_sysfs_writes_it(written, meant):
    assert normalise_pci_address(written) == meant


@pytest.mark.parametrize("text", ["", "0", "GPU-aaaa", "0001:00:00.8", "0001:00:20.0", "0001:00", "x001:00:00.0"])
def test_what_is_no_pci_address_is_none(text):
    assert normalise_pci_address(text) is None


@given(
    some.integers(0, 0xFFFFFFFF), some.integers(0, 0xFF), some.integers(0, 0x1F), some.integers(0, 7), some.booleans()
)
def test_a_normalised_address_stays_as_it_is(domain, bus, device, function, capitals):
    text = "{0:08x}:{1:02x}:{2:02x}.{3}".format(domain, bus, device, function)
    once = normalise_pci_address(text.upper() if capitals else text)
    assert once is not None
    assert normalise_pci_address(once) == once
    assert int(once.split(":")[0], 16) == domain


@pytest.mark.parametrize(
    ("selectors", "indices"),
    [
        (["all"], [0, 1, 2]),
        (["1"], [1]),
        (["gpu-AAAA"], [0]),
        (["0000000E:00:00.0"], [1]),
        (["1", "GPU-bbbb", "0"], [0, 1]),  # each once, in the order of the machine
        (["2"], [2]),  # a lost GPU has its index at least
    ],
)
def test_selection(selectors, indices):
    assert [identity.index for identity in select(GPUS, selectors)] == indices


@pytest.mark.parametrize("selector", ["7", "GPU-cccc", "0002:00:00.0"])
def test_an_unknown_gpu_is_a_sentence_that_names_what_there_is(selector):
    with pytest.raises(NodeError) as caught:
        select(GPUS[:2], ["0", selector])
    assert str(caught.value) == (
        "GPU {0!r}: this machine has no such GPU; "
        "choose among 0 = 0001:00:00.0 = GPU-aaaa, 1 = 000e:00:00.0 = GPU-bbbb.".format(selector)
    )


def test_a_gpu_that_told_no_name_may_be_the_one_that_is_looked_for():
    with pytest.raises(NodeError, match="GPU 2 did not tell its own"):
        select(GPUS, ["GPU-cccc"])


def test_a_selector_that_is_no_name_at_all_is_told_so():
    with pytest.raises(NodeError, match="no GPU index, no UUID"):
        select(GPUS, ["A100"])


def test_a_machine_without_gpus():
    with pytest.raises(NodeError, match="there is no GPU at all"):
        select((), ["0"])
    assert select((), ["all"]) == ()


@given(some.lists(some.text(max_size=20), max_size=4))
def test_any_text_selects_or_is_refused(selectors):
    try:
        chosen = select(GPUS, selectors)
    except NodeError as error:
        assert str(error)
    else:
        assert set(chosen) <= set(GPUS)
