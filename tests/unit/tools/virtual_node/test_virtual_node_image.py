# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import fnmatch
import shutil
from pathlib import Path

import pytest
from virtual_machine import image, places


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "recipe"
    shutil.copytree(str(places.RECIPE), str(copy))
    monkeypatch.setattr(places, "RECIPE", copy)
    return copy


def test_the_recipe_names_what_the_collection_needs_in_both_suites() -> None:
    for suite in ("bookworm", "trixie"):
        assert {"mdadm", "xfsprogs", "linux-image-amd64", "openssh-server", "python3"} <= set(image.packages(suite))


def test_a_package_can_be_for_one_suite_only(recipe: Path) -> None:
    with open(str(recipe / "packages"), "a") as handle:
        handle.write("only-there trixie  # a remark\n")
    assert "only-there" in image.packages("trixie")
    assert "only-there" not in image.packages("bookworm")


def test_any_change_of_the_recipe_means_another_image(recipe: Path) -> None:
    before = {suite: image.recipe_hash(suite) for suite in ("bookworm", "trixie")}
    assert before["bookworm"] != before["trixie"]
    (recipe / "files" / "etc" / "one-more").write_text("x")
    assert image.recipe_hash("bookworm") != before["bookworm"]


def test_the_mirror_setting_wins_and_brings_no_other_host_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTUAL_NODE_MIRROR", "http://mirror.example/debian")
    lines = image.sources("bookworm")
    assert all("http://mirror.example/debian" in line for line in lines)


def test_mirrors_of_the_host_are_used_when_it_is_debian(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIRTUAL_NODE_MIRROR", raising=False)
    lines = image.sources("trixie", {"main": "http://near/debian", "security": "http://near/debian-security"})
    assert [line.split("] ")[-1].replace("deb ", "") for line in lines] == [
        "http://near/debian trixie main",
        "http://near/debian trixie-updates main",
        "http://near/debian-security trixie-security main",
    ]


def test_a_host_without_debian_sources_uses_debians_own_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIRTUAL_NODE_MIRROR", raising=False)
    assert any("http://deb.debian.org/debian bookworm main" in line for line in image.sources("bookworm", {}))


@pytest.mark.parametrize("top", ["", "/usr"])
def test_the_modules_of_a_guests_hardware_are_in_the_image_and_those_of_other_hardware_are_not(top: str) -> None:
    """dpkg matches its patterns as fnmatch(3) does: an asterisk takes slashes, too."""
    folder = top + "/lib/modules/6.1.0-1-amd64/kernel/"

    def left_out(name: str) -> bool:
        return any(fnmatch.fnmatchcase(folder + name, pattern) for pattern in image.UNPACKED_MODULES)

    kept = ["net/virtio_net", "nvme/host/nvme", "nvme/target/nvmet-tcp", "md/raid0", "infiniband/sw/rxe/rdma_rxe"]
    kept += ["infiniband/ulp/ipoib/ib_ipoib", "block/loop", "virtio/virtio_pci"]
    assert [name for name in kept if left_out("drivers/{0}.ko".format(name))] == []
    assert [name for name in ("fs/xfs/xfs.ko", "net/core/failover.ko") if left_out(name)] == []
    others = ["sound/soundcore.ko", "drivers/gpu/drm/drm.ko.xz", "drivers/net/ethernet/intel/e1000/e1000.ko"]
    assert [name for name in others if not left_out(name)] == []
