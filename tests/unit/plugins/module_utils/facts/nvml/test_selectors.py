# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What users, Slurm and CUDA write to name GPUs, and which GPUs it means; no other module parses it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import Misuse, NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.identity import Identity
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.selectors import (
    container_gpus,
    cuda_gpus,
    parse,
    parse_one,
    select,
    slurm_gpus,
)

LIBRARY = Path(__file__).resolve().parents[6] / "plugins" / "module_utils"
GPUS = (
    Identity(0, uuid="GPU-aaaa", pci_address="0001:00:00.0"),
    Identity(1, uuid="GPU-bbbb", pci_address="000e:00:00.0"),
    Identity(2),
)


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
    with pytest.raises(NodeError, match="compare with 'nvidia-smi -L'"):
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


# What is written ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given_, found",
    [
        (None, ("all",)),
        ("all", ("all",)),
        (["all"], ("all",)),
        (0, ("0",)),
        ("0, 1", ("0", "1")),
        (["0,1", " GPU-aaaa"], ("0", "1", "GPU-aaaa")),
        ([0, "0001:00:00.0"], ("0", "0001:00:00.0")),
    ],
)
def test_an_option_and_the_command_line_have_the_same_forms(given_, found):
    assert parse(given_, "option gpus") == found


@pytest.mark.parametrize(
    "given_, told",
    [
        ([], "option gpus: the list is empty; name GPUs, or use all."),
        ("0,", "option gpus: '0,' names no GPU; use an index, a UUID or a PCI address."),
        ([True], "option gpus: True names no GPU; "),
        ([None], "option gpus: None names no GPU; "),
        (["x" * 65], "names no GPU"),
        (["all", 0], "option gpus: all stands beside single GPUs; use all alone, or name GPUs."),
    ],
)
def test_what_names_no_gpu_is_one_sentence(given_, told):
    with pytest.raises(Misuse) as caught:
        parse(given_, "option gpus")
    assert told in str(caught.value)


@pytest.mark.parametrize("given_", [None, "all", "0,1", [0, 1]])
def test_what_must_be_one_gpu(given_):
    assert parse_one(0, "option gpu") == "0"
    with pytest.raises(Misuse, match="option gpu: .* is not one GPU; name the GPU by index, UUID or PCI address"):
        parse_one(given_, "option gpu")


@pytest.mark.parametrize(
    "text, slurm, cuda, container",
    [
        ("0,2", ("0", "2"), ("0", "2"), ("0", "2")),
        ("0-2,5", ("0", "1", "2", "5"), (), ()),
        ("0,2,-1,1", ("0", "2", "-1", "1"), ("0", "2"), ("0", "2")),
        ("NoDevFiles", (), (), ()),
        ("GPU-aa,MIG-bb", ("GPU-aa", "MIG-bb"), ("GPU-aa", "MIG-bb"), ("GPU-aa", "MIG-bb")),
        ("all", ("all",), (), None),
        ("", (), (), None),
        ("none", ("none",), (), ()),
    ],
)
def test_each_variable_of_a_job_has_its_own_rules(text, slurm, cuda, container):
    assert (slurm_gpus(text), cuda_gpus(text), container_gpus(text)) == (slurm, cuda, container)


# One place ---------------------------------------------------------------------------------------------

# A test of the names that a user wrote, a comparison of a UUID without its case, and the sentences.
_SECOND = r"no such GPU\b|\.uuid\b[^\n]{0,20}\.lower\(\) *==|names? no GPU\b|list is empty\", \"name GPUs|NoDevFiles"


def second_parsers(library):
    for path in sorted(library.rglob("*.py")):
        name = path.relative_to(library).as_posix()
        code = "\n".join(line for line in path.read_text(encoding="utf-8").split("\n") if ":raises" not in line)
        if name != "facts/nvml/selectors.py":
            yield from ("{0}: {1}".format(name, one.group()) for one in re.finditer(_SECOND, code))


def test_no_other_module_parses_the_names_of_gpus():
    # NVML's own error of that name, and the UUIDs in a list of slurmd, which are no selectors.
    allowed = ("facts/nvml/call.py: no such GPU", "slurm/gpus.py: ")
    assert [one for one in second_parsers(LIBRARY) if not one.startswith(allowed)] == []


def test_a_second_parser_is_found(tmp_path):
    (tmp_path / "one.py").write_text('Refusal(gpu, "there is no such GPU on this node", "look")\n')
    (tmp_path / "two.py").write_text("if (gpu.uuid or '').lower() == text.lower(): pass\n")
    assert len(list(second_parsers(tmp_path))) == 2


def test_the_environment_of_a_process_costs_no_memory_and_no_time():
    text = ",".join(["0-9999"] * 18000)
    assert slurm_gpus(text) == tuple(str(number) for number in range(32))
    assert slurm_gpus("\u0663") == ("\u0663",), "only ASCII digits are an index"
