# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How an image is read: links below its root, libraries as ld.so finds them, databases of packages, versions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.image import (
    elf,
    loader,
    packages,
    software,
    version,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.image.files import Files
from ansible_collections.trainyard.gpu_node.tests.unit.data.image import binaries
from ansible_collections.trainyard.gpu_node.tests.unit.data.image.images import Root

# Links ------------------------------------------------------------------------------------------------


def test_links_stay_below_the_root(tmp_path):
    root = Root(tmp_path / "root")
    root.file("/opt/tool/bin/run", "inside")
    root.link("/opt/link", "/opt/tool")
    root.link("/opt/out", "../../../../../../../opt/tool")
    root.link("/opt/passwd", "/etc/passwd")
    root.link("/opt/circle", "/opt/circle")
    root.link("/opt/one", "two")
    root.link("/opt/two", "/opt/one")
    files = Files(Host(str(tmp_path / "root")))
    assert files.real("/opt/link/bin/run") == "/opt/tool/bin/run"
    assert files.real("/opt/out/bin") == "/opt/tool/bin"
    assert files.read("/opt/link/bin/run") == "inside"
    for path in ("/opt/passwd", "/opt/circle", "/opt/one", "/opt/two", "/opt/two/bin"):
        assert files.real(path) is None, path
    assert [path for path in files.glob("/opt/*") if files.dangles(path)] == [
        "/opt/circle",
        "/opt/one",
        "/opt/passwd",
        "/opt/two",
    ]


def test_nothing_but_files_is_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    files = Files(Host(str(tmp_path)))
    assert files.read("/pipe") is None and files.read("/") is None
    assert elf.read(str(tmp_path / "pipe")) is None


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["a", "/b", "../c", "a/b", ".", "/"])), max_size=5))
def test_links_lead_where_the_kernel_says(tmp_path_factory, links):
    """Against realpath, with relative links only where an absolute one would leave the root."""
    folder = tmp_path_factory.mktemp("links")
    for name, target in links:
        path = folder / name
        if not os.path.lexists(path):
            path.symlink_to(str(folder) + target if target.startswith("/") else target)
    files = Files(Host("/"))
    for name in "abc":
        path = str(folder / name)
        real = os.path.realpath(path)
        expected = real if os.path.exists(path) else None
        assert files.real(path) == expected


# Libraries ----------------------------------------------------------------------------------------------


@pytest.mark.skipif(not os.path.exists("/etc/ld.so.cache"), reason="this machine has no cache of ld.so")
def test_the_cache_is_read_as_ldconfig_prints_it():
    program = shutil.which("ldconfig") or "/usr/sbin/ldconfig"
    printed = subprocess.run([program, "-p"], capture_output=True, text=True, check=True).stdout
    with open("/etc/ld.so.cache", "rb") as stream:
        found = loader.parse(stream.read())
    known = {}
    for name, about, path in re.findall(r"^\t(\S+) \((.*?)\) => (\S+)$", printed, re.MULTILINE):
        if ("x86-64" in about or "AArch64" in about) and "hwcap" not in about:
            known.setdefault(name, path)
    assert found and {name: found[name] for name in known} == known


def test_needed_libraries_are_those_of_ldd():
    """Of real programs, whole."""
    known = loader.Loader(Files(Host("/")))
    compared = 0
    for program in ("/bin/ls", "/usr/bin/ssh", "/usr/bin/git", "/usr/bin/python3", sys.executable, "/usr/bin/orterun"):
        if not os.path.exists(program):
            continue
        done = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
        if done.returncode:
            continue
        compared += 1
        assert loader.names(known.missing(program)) == set(
            re.findall(r"^\t(\S+) => not found", done.stdout, re.MULTILINE)
        )
        for name, path in re.findall(r"^\t(\S+) => (/\S+) \(", done.stdout, re.MULTILINE):
            read = known.elf(program)
            where = known.find(name, [one for one in read.runpath + read.rpath if "$" not in one])
            if where is not None:
                assert os.path.realpath(where) == os.path.realpath(path), (program, name)
    assert compared


def test_a_library_is_looked_for_in_the_order_of_ld_so(tmp_path):
    root = Root(tmp_path)
    for folder in ("/opt/a", "/opt/b", "/usr/lib64"):
        root.file(folder + "/libx.so.1", binaries.elf(soname="libx.so.1"))
    root.file(
        "/etc/ld.so.cache", binaries.cache({"libx.so.1": "/opt/a/libx.so.1", "libgone.so.1": "/opt/a/libgone.so.1"})
    )
    known = loader.Loader(Files(Host(str(tmp_path))))
    assert known.find("libx.so.1") == "/opt/a/libx.so.1"
    assert known.find("libx.so.1", ["/opt/b"]) == "/opt/b/libx.so.1"
    assert known.find("libgone.so.1") is None
    root.remove("/opt/a/libx.so.1")
    assert loader.Loader(Files(Host(str(tmp_path)))).find("libx.so.1") == "/usr/lib64/libx.so.1"


def test_of_several_libraries_of_a_name_it_is_that_of_64_bits_for_any_processor():
    """glibc-hwcaps/x86-64-v3 comes first in a cache, and 32 bits last."""
    content = binaries.cache_of(
        [
            ("liba.so.1", "/usr/lib/i386-linux-gnu/liba.so.1", 0x0003, 0),
            ("liba.so.1", "/usr/lib64/glibc-hwcaps/x86-64-v3/liba.so.1", 0x0303, 1 << 62),
            ("liba.so.1", "/usr/lib64/liba.so.1", 0x0303, 0),
            ("libb.so.1", "/usr/lib/aarch64-linux-gnu/libb.so.1", 0x0A03, 0),
            ("libc.so.1", "/usr/lib/i386-linux-gnu/libc.so.1", 0x0003, 0),
        ]
    )
    assert loader.parse(content) == {
        "liba.so.1": "/usr/lib64/liba.so.1",
        "libb.so.1": "/usr/lib/aarch64-linux-gnu/libb.so.1",
    }


def test_rpath_is_inherited_and_runpath_is_not(tmp_path):
    root = Root(tmp_path)
    root.file("/opt/lib/libdeep.so.1", binaries.elf(soname="libdeep.so.1"))
    root.file("/usr/lib64/libmid.so.1", binaries.elf(("libdeep.so.1",), "libmid.so.1"))
    root.file("/opt/bin/rpath", binaries.elf(("libmid.so.1",), rpath="$ORIGIN/../lib"))
    root.file("/opt/bin/runpath", binaries.elf(("libmid.so.1",), runpath="${ORIGIN}/../lib"))
    root.file("/etc/ld.so.cache", binaries.cache({}, old_part=False))
    known = loader.Loader(Files(Host(str(tmp_path))))
    assert known.missing("/opt/bin/rpath") == ()
    assert known.missing("/opt/bin/runpath") == (loader.Missing("libdeep.so.1", "/usr/lib64/libmid.so.1"),)


@given(st.binary(max_size=400))
def test_no_content_ends_the_reading_of_an_elf_file(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("elf") / "file"
    good = bytearray(binaries.elf(("liba.so",), "libb.so", sections={".rodata": b"x"}))
    for place, byte in enumerate(content):
        good[(place * 7 + byte) % len(good)] = byte
    path.write_bytes(bytes(good))
    elf.read(str(path))
    elf.section(str(path), ".rodata", 100)
    loader.parse(b"glibc-ld.so.cache1.1" + content)
    packages.header(content)


# Packages -----------------------------------------------------------------------------------------------


def test_packages_of_dpkg_are_those_that_dpkg_query_prints():
    if not os.path.exists(packages.DPKG) or shutil.which("dpkg-query") is None:
        pytest.skip("this machine has no dpkg")
    printed = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package}\t${db:Status-Status}\t${Version}\n"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    known = {}
    for line in printed.splitlines():
        name, status, told = line.split("\t")
        if status == "installed":
            known[name] = told.partition(":")[2] if ":" in told else told
    with open(packages.DPKG, "rb") as stream:
        assert packages.dpkg(stream.read(), r"[^\n]+") == known


def test_a_package_that_was_removed_is_none(tmp_path):
    root = Root(tmp_path)
    root.dpkg({"fabric-535": "535.9-1", "fabric-550": "1:550.10-1", "fabric-9": "9.1"}, removed=("fabric-999", "gone"))
    found = packages.Packages(Files(Host(str(tmp_path))), (r"fabric-\d+", "gone"))
    assert found.version(r"fabric-\d+") == "550.10-1" and found.version("gone") is None
    assert found.version("fabric-999", "fabric-535") == "535.9-1"


def test_a_database_of_rpm_in_use_is_read_and_left_alone(tmp_path):
    path = tmp_path / "var/lib/rpm/rpmdb.sqlite"
    binaries.rpmdb(path, {"libnccl": "2.25.1-1+cuda12.8", "bash": "5.1.8-9.el9"})
    before = (path.read_bytes(), sorted(os.listdir(path.parent)))
    found = packages.Packages(Files(Host(str(tmp_path))), ("libnccl2?",))
    assert found.version("libnccl2", "libnccl") == "2.25.1-1+cuda12.8" and found.version("bash") is None
    assert (path.read_bytes(), sorted(os.listdir(path.parent))) == before


# Versions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, fits, others",
    [
        (">=535,<600", ["535", "535.161.08", "599.9"], ["534.99", "600", "600.1"]),
        (">=2.20", ["2.20", "2.20.5", "3", "2.100"], ["2.19.9", "2.2", "1"]),
        ("==12.4", ["12.4", "12.4.1"], ["12.5", "12"]),
        ("!=535.129", ["535.128", "536"], ["535.129", "535.129.03"]),
        (">12", ["13"], ["12", "12.9"]),
        ("<=12", ["12.9", "11"], ["13"]),
        (" >= 4.1 , < 5 ", ["4.1.2rc3", "v4.9"], ["5.0", "4.0"]),
    ],
)
def test_what_a_requirement_allows(text, fits, others):
    found = version.constraint(text)
    assert [one for one in fits if not found.allows(one)] == [] and [one for one in others if found.allows(one)] == []


@pytest.mark.parametrize("text", ["", "535", "=535", ">=", ">=a", ">=1,", "~=2", ">=1 <2", None, 535, [">=1"]])
def test_what_is_no_requirement(text):
    assert version.constraint(text) is None


_NUMBERS = st.lists(st.integers(0, 999), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))


@given(_NUMBERS, _NUMBERS)
def test_operators_agree_with_each_other(one, other):
    def allows(operator):
        return version.Constraint(((operator, other),)).allows(one)

    assert [allows("<"), allows("=="), allows(">")].count(True) == 1
    assert allows(">=") == (not allows("<")) and allows("<=") == (not allows(">")) and allows("!=") != allows("==")


def test_requirements_are_checked_in_a_sentence():
    for given_, words in (
        ({"drver": ">=535"}, "did you mean 'driver'"),
        ({"driver": "535"}, "no requirement on a version"),
        ({"driver": {"version": ">=535", "outcome": "bad"}}, "no requirement"),
        ({"driver": {"outcome": "warn"}}, "no requirement on a version"),
        ([">=535"], "no mapping"),
    ):
        with pytest.raises(NodeError, match=words):
            software.of_mapping(given_, "software")


def test_what_is_required_and_not_there_is_told():
    wanted = software.of_mapping(
        {"driver": ">=535,<600", "cuda": ">=12", "nccl": {"version": ">=2.20", "outcome": "warn"}, "hpcx": ">=2.18"},
        "x",
    )
    found = {"driver": "525.60.13", "nccl": "2.19.3", "hpcx": "2.16, 2.18"}
    told = list(software.unmet(found, wanted, "the profile"))
    assert [(one.key, one.outcome) for one in told] == [("driver", "fail"), ("cuda", "fail"), ("nccl", "warn")]
    assert "the profile requires >=535,<600, and this is 525.60.13" in str(told[0])
    assert "none is found" in str(told[1])
    assert (
        list(
            software.unmet(
                {"ofed": "MLNX_OFED_LINUX-24.01-0.3.3.1"}, software.of_mapping({"ofed": ">=24.01"}, "x"), "x"
            )
        )
        == []
    )


def test_changes_against_a_baseline():
    told = software.changes(
        {"driver": "535.161.08", "cuda": "12.2"}, {"driver": "535.183.01", "cuda": "12.2", "nccl": "2.19"}
    )
    assert [str(one) for one in told] == [
        "driver: 535.161.08 in the baseline, 535.183.01 here",
        "nccl: none in the baseline, 2.19 here",
    ]
