# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NVIDIA's assembler accepts each PTX text of the library for each GPU that the text is for."""

from __future__ import annotations

import pathlib
import re
import subprocess
from typing import List

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active import ptx
from ansible_collections.trainyard.gpu_node.tools.setup import cached

# Threads that a multiprocessor of each generation has at once, by which 64 Ki registers are divided:
# CUDA C++ programming guide, "Technical specifications per compute capability".
THREADS = {70: 2048, 75: 1024, 80: 2048, 86: 1536, 89: 1536, 90: 2048, 100: 2048, 103: 2048, 120: 1536}
MODULES = [
    pytest.param(one, target, id="{0}-sm_{1}".format(one.name, target)) for one in ptx.every() for target in one.targets
]


@pytest.fixture(scope="module")
def ptxas() -> pathlib.Path:
    try:
        environment = cached.programs("ptxas").parent
    except cached.CachedError as error:
        pytest.skip(str(error))
    (program,) = environment.glob("lib/python*/site-packages/nvidia/cuda_nvcc/bin/ptxas")
    return program


def assembled(ptxas: pathlib.Path, text: str, target: int, folder: pathlib.Path) -> "subprocess.CompletedProcess[str]":
    (folder / "text.ptx").write_text(text, encoding="ascii")
    command = [str(ptxas), "-v", "-arch=sm_{0}".format(target), "-o", str(folder / "code"), str(folder / "text.ptx")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def spilled(log: str) -> List[str]:
    """The lines that report registers in memory."""
    lines = [line for line in log.splitlines() if "stack frame" in line]
    return [line for line in lines if not re.search(r" 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill", line)]


@pytest.mark.parametrize(("module", "target"), MODULES)
def test_a_text_assembles_for_each_of_its_targets(ptxas, module, target, tmp_path):
    done = assembled(ptxas, module.text, target, tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(re.findall(r"Compiling entry function '(\w+)'", done.stderr)) == sorted(module.kernels)
    assert done.stderr.count("stack frame") == len(module.kernels) and spilled(done.stderr) == []
    registers = [int(count) for count in re.findall(r"Used (\d+) registers", done.stderr)]
    if module.name.startswith("arithmetic"):
        assert all(64 < count <= 128 for count in registers), "not exactly one block fits on a multiprocessor"
    if module.name == "memory":
        assert max(registers) <= 65536 // THREADS[target], "fewer loads are under way than the memory needs"


def test_the_assembler_refuses_an_error_and_reports_spills(ptxas, tmp_path):
    text = ptx.every()[0].text
    assert assembled(ptxas, text.replace("mad.wide.u32", "mad.wide.u16"), 70, tmp_path).returncode != 0
    limited = text.replace(".param .u32 next_mask)\n{", ".param .u32 next_mask) .maxnreg 16\n{")
    assert limited != text and spilled(assembled(ptxas, limited, 90, tmp_path).stderr) != []


def test_texts_have_names_of_their_own_and_the_lowest_version_that_they_need():
    texts = ptx.every()
    assert len({one.name for one in texts}) == len(texts)
    for one in texts:
        assert one.text.isascii() and set(one.targets) <= set(ptx.ALL_TARGETS)
        assert ".target sm_{0}\n".format(min(one.targets)) in one.text
