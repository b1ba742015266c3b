# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The man page and the completions of gpunode: the real shells complete, the real formatters format."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main
from ansible_collections.trainyard.gpu_node.tests.unit.tools.docs import zsh_offers
from ansible_collections.trainyard.gpu_node.tools.docs import (
    command,
    completion_bash,
    completion_fish,
    completion_zsh,
    man_page,
)

ROOT = Path(__file__).resolve().parents[4]
DATA = ROOT / "plugins" / "module_utils" / "command" / "data"


@pytest.fixture(scope="module")
def described() -> command.Command:
    return command.load(ROOT)


def complete(script: str, line: str) -> "list[str]":
    """What bash offers at the end of this line."""
    words = line.split(" ")
    code = (
        'source /dev/stdin <<< "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        '_gpunode 2>/dev/null; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", code, "bash", script, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
        timeout=20,
    )
    assert done.stderr == ""
    return [word for word in done.stdout.splitlines() if word]


@pytest.fixture(scope="module")
def offers(described: command.Command) -> "object":
    script = completion_bash.script(described)
    return lambda line: complete(script, line)


# The completion ---------------------------------------------------------------------------------------


def test_commands_come_first_and_options_after_a_hyphen(offers) -> None:
    assert {"info", "topo", "clocks", "pin"} <= set(offers("gpunode "))
    assert offers("gpunode cl") == ["cleanup", "clocks"]
    assert offers("gpunode clocks ") == ["list", "max", "reset", "set"]
    assert offers("gpunode clocks re") == ["reset"]
    assert "--gpu" in offers("gpunode clocks max ") and "--graphics" not in offers("gpunode clocks max ")
    assert offers("gpunode clocks set --gr") == ["--graphics"]
    assert offers("gpunode apply --check n") == ["nvme_scratch"]
    assert offers("gpunode pin ch") == ["check"]
    assert "--pid" in offers("gpunode pin check -")


def test_values_are_offered_where_they_are_known_and_nothing_where_they_are_not(offers, tmp_path, monkeypatch) -> None:
    assert offers("gpunode pin --bind ") == ["core", "numa"]
    assert offers("gpunode clocks set --graphics ") == []
    (tmp_path / "node.svg").write_text("")
    monkeypatch.chdir(tmp_path)
    assert offers("gpunode topo --svg no") == ["node.svg"]
    # The name of the file may be left out.
    assert offers("gpunode topo --svg --j") == ["--json"]


# The same words from all three shells, after the same lines.
UUIDS = ("GPU-b66f2ca6-2264-0595-ea0f-c279078346cb", "GPU-09792ca6-2265-0595-3906-c279078246cb")
OFFERED = {
    "gpunode cl": ["cleanup", "clocks"],
    "gpunode clocks ": ["list", "max", "reset", "set"],
    "gpunode --json clocks re": ["reset"],
    "gpunode clocks set --gr": ["--graphics"],
    "gpunode apply --check n": ["nvme_scratch"],
    "gpunode pin ch": ["check"],
    "gpunode pin --ranks 8 --sha": ["--share-cores"],
    "gpunode pin check --p": ["--pid"],
    "gpunode pin --bind ": ["core", "numa"],
    "gpunode pin --launcher s": ["srun"],
    "gpunode pin --gpus ": ["each", "none"],
    "gpunode health --only gpu_los": ["gpu_lost"],
    "gpunode health --format pro": ["prometheus"],
    "gpunode help cl": ["cleanup", "clocks"],
    "gpunode clocks set --graphics ": [],
    "gpunode info --gpu ": sorted(["0", "1", "2", *UUIDS]),
    "gpunode clocks max --gpu 0": ["0"],
    "gpunode clocks max --gpu GPU-b": [UUIDS[0]],
    "gpunode topo --svg no": ["node.svg"],
}


@pytest.fixture
def driver(tmp_path):
    """What the driver shows of three GPUs in /proc; the last was not opened yet, so it has no UUID to tell."""
    unopened = "GPU-????????-????-????-????-????????????"
    for address, uuid in zip(("0001:00:00.0", "0002:00:00.0", "000e:00:00.0"), (*UUIDS, unopened)):
        folder = tmp_path / "gpus" / address
        folder.mkdir(parents=True)
        lines = ("Model: \t\t NVIDIA A100-SXM4-40GB", "IRQ:   \t\t 24", "GPU UUID: \t " + uuid, "Device Minor: \t 0")
        (folder / "information").write_text("\n".join(lines) + "\n")
    return tmp_path / "gpus"


def placed(script: str, driver: Path) -> str:
    assert script.count("/proc/driver/nvidia/gpus") == 1
    return script.replace("/proc/driver/nvidia/gpus", str(driver))


def with_bash(described, driver, lines):
    script = placed(completion_bash.script(described), driver)
    return {line: sorted(complete(script, line)) for line in lines}


def with_zsh(described, driver, lines):
    return zsh_offers.offers(placed(completion_zsh.script(described), driver), driver.parent / "zsh", lines)


def with_fish(described, driver, lines):
    path = driver.parent / "gpunode.fish"
    path.write_text(placed(completion_fish.script(described), driver))
    found = {}
    for line in lines:
        command = ["fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", str(path), line]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert done.stderr == ""
        found[line] = sorted(word.partition("\t")[0] for word in done.stdout.splitlines())
    return found


SHELLS = {"bash": with_bash, "zsh": with_zsh, "fish": with_fish}


@pytest.fixture(params=SHELLS)
def shell(request):
    if shutil.which(request.param) is None:
        pytest.skip("{0} is not installed".format(request.param))
    return SHELLS[request.param]


def test_every_shell_offers_the_same(described, shell, driver, tmp_path, monkeypatch) -> None:
    (tmp_path / "node.svg").write_text("")
    monkeypatch.chdir(tmp_path)
    assert shell(described, driver, list(OFFERED)) == OFFERED


def test_a_list_of_gpus_is_completed_after_its_comma(described, shell, driver) -> None:
    (words,) = shell(described, driver, ["gpunode info --gpu 0,"]).values()
    assert {"1", "0,1"} & set(words), words


def test_a_node_without_a_driver_has_no_gpu_to_offer(described, shell, driver) -> None:
    missing = driver.parent / "nothing"
    assert shell(described, missing, ["gpunode info --gpu "]) == {"gpunode info --gpu ": []}


def test_every_option_of_every_command_is_offered(described: command.Command, shell, driver) -> None:
    lines = {" ".join(("gpunode",) + one.words) + " --": one for one in described.every()}
    for line, words in shell(described, driver, list(lines)).items():
        wanted = {flag for argument in lines[line].arguments for flag in argument.flags if flag.startswith("--")}
        assert wanted == set(words), line


def test_every_check_and_launcher_can_be_completed(described: command.Command) -> None:
    by_words = {
        one.words: {flag: argument for argument in one.options for flag in argument.flags} for one in described.every()
    }
    checks = by_words[("health",)]["--only"].choices
    assert {"gpu_lost", "gpu_count", "memory_swap"} <= set(checks) == set(by_words[("health",)]["--without"].choices)
    assert "openmpi" in by_words[("pin",)]["--launcher"].choices
    assert "clocks" in [one for one in described.every() if one.words == ("help",)][0].positional[0].choices


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_the_completion_is_clean_shell(described: command.Command, tmp_path: Path) -> None:
    path = tmp_path / "gpunode.bash"
    path.write_text(completion_bash.script(described), encoding="utf-8")
    done = subprocess.run(["shellcheck", str(path)], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stdout


# The man page -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "formatter",
    [("mandoc", "-W", "error", "-T", "ascii"), ("groff", "-ww", "-man", "-T", "ascii"), ("nroff", "-ww", "-man")],
    ids=lambda words: words[0],
)
def test_formatters_take_it_without_a_word(described: command.Command, formatter: "tuple[str, ...]") -> None:
    if shutil.which(formatter[0]) is None:
        pytest.skip(formatter[0] + " is not installed")
    done = subprocess.run(
        [*formatter],
        input=man_page.page(described, "1.2.3"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "1.2.3" in done.stdout


def test_it_tells_every_command_option_and_exit_status(described: command.Command) -> None:
    text = man_page.page(described, "1.2.3").replace("\\-", "-").replace("\\ ", " ")
    for one in described.every():
        assert " ".join(("gpunode",) + one.words) in text
        for argument in one.arguments:
            for flag in argument.flags:
                assert flag in text or flag in ("-h", "--help")
    for heading in (
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "OPTIONS",
        "COMMANDS",
        "EXAMPLES",
        "EXIT STATUS",
        "FILES",
        "SEE ALSO",
    ):
        assert "\n.SH {0}\n".format(heading) in text
    assert "[--gpu GPU]..." in text and "[--svg [FILE]]" in text


@given(st.text())
def test_no_text_becomes_a_request(text: str) -> None:
    for made in (man_page.escaped(text), man_page.paragraph(text)):
        for line in made.split("\n"):
            assert not line.startswith((".", "'"))
            assert "\\" not in line.replace("\\-", "").replace("\\e", "").replace("\\&", "")


# The description --------------------------------------------------------------------------------------


def test_arguments_are_read_as_a_user_writes_them() -> None:
    parser = argparse.ArgumentParser(prog="gpunode")
    parser.add_argument("--one", required=True, metavar="MHZ", type=int)
    parser.add_argument("--many", action="append")
    parser.add_argument("--switch", action="store_true")
    parser.add_argument("--how", choices=("a", "b"), default="a", help="how, by default %(default)s")
    parser.add_argument("--file", nargs="?", const="-", metavar="FILE")
    parser.add_argument("what", choices=("x", "y"))
    parser.add_argument("rest", nargs="?", metavar="PATTERN")
    found = command.describe(parser)
    assert [one.form for one in found.arguments[1:]] == [
        *("--one MHZ", "[--many MANY]...", "[--switch]", "[--how a|b]", "[--file [FILE]]", "x|y", "[PATTERN]")
    ]
    assert found.arguments[4].help == "how, by default a" and found.runs


def test_the_clone_has_what_an_installed_collection_puts_on_a_node() -> None:
    assert (DATA / "gpunode.1").read_text(encoding="utf-8").startswith('.\\" Copyright')
    assert "complete -F _gpunode gpunode" in (DATA / "gpunode.bash").read_text(encoding="utf-8")
    assert (DATA / "gpunode.zsh").read_text(encoding="utf-8").startswith("#compdef gpunode\n")
    assert "complete -c gpunode -f" in (DATA / "gpunode.fish").read_text(encoding="utf-8")


def test_the_page_has_a_row_for_every_command() -> None:
    lines = (ROOT / "docs" / "gpunode.md").read_text(encoding="utf-8").splitlines()
    rows = [line.split(" | ")[0] for line in lines if line.startswith("| `gpunode ")]
    missing = []
    for one in main.every(main.parser()):
        words = one.prog.split()[1:]
        choices = [action.choices for action in one._actions if not action.option_strings and action.choices]
        if not words or words == ["module"]:
            continue
        wanted = [[*words, choice] for choice in (choices[0] if choices else ())] or [words]
        missing += [
            " ".join(each)
            for each in wanted
            if not any(
                re.search(r"gpunode {0}\b".format(each[0]), row) and {*each} <= {*re.findall(r"\w+", row)}
                for row in rows
            )
        ]
    assert missing == []
