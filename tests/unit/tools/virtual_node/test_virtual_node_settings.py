# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
from virtual_machine.progress import VirtualNodeError
from virtual_machine.settings import Settings, check_name, parse_settings, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("512M", 512 << 20), ("1G", 1 << 30), ("2GiB", 2 << 30), ("64k", 64 << 10), ("123", 123), ("1T", 1 << 40)],
)
def test_sizes_are_read_in_binary_units(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "G", "1.5G", "-1G", "1GG", "ten"])
def test_what_is_not_a_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(VirtualNodeError, match="write a number with K, M, G or T"):
        parse_size(text)


def test_given_settings_replace_defaults_and_the_rest_stays(tmp_path: Path) -> None:
    settings = parse_settings(["nvme_count=3", "nvme_size=64M", "suite=trixie"], tmp_path)
    assert (settings.nvme_count, settings.nvme_size, settings.suite) == (3, 64 << 20, "trixie")
    assert settings.cpus == Settings().cpus
    assert Settings.from_dict(settings.to_dict()) == settings


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("nvme_cuont=3", "unknown; the settings are"),
        ("nvme_count", "unknown; the settings are"),
        ("nvme_count=17", "setting nvme_count: 17 is out of range; give 0 to 16"),
        ("nvme_count=many", "setting nvme_count: 'many' is not a whole number"),
        ("cpus=1", "setting cpus: 1 is out of range; give 2 to 32"),
        ("memory=256M", "setting memory: 256 is out of range; give 512M or more"),
        ("suite=sid", "setting suite: 'sid' is unknown; give bookworm or trixie"),
        ("nvme_model=a,b", "is not a model string"),
        ("initramfs=none", "give quick or debian"),
        ("lan=192.168.77.1", "is no private address with its network"),
        ("lan=192.168.77.0/24", "is no private address with its network"),
        ("lan=8.8.8.8/24", "is no private address with its network"),
        ("lan=10.0.2.7/24", "is no private address with its network"),
        ("lan=there", "is no private address with its network"),
        ("machine=cray", "setting machine: 'cray' is unknown; give none or one"),
    ],
)
def test_a_wrong_setting_is_one_clear_sentence(tmp_path: Path, word: str, complaint: str) -> None:
    (tmp_path / "one.conf").write_text("")
    with pytest.raises(VirtualNodeError) as caught:
        parse_settings(["machine=one", word], tmp_path)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "9a", "a b", "../a", "a/b", "A", "-a"])
def test_a_name_that_is_no_host_name_is_refused(name: str) -> None:
    with pytest.raises(VirtualNodeError, match="not usable as a host name"):
        check_name(name)
