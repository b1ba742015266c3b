# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the names of GPUs are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.identity import (
    normalise_pci_address,
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
