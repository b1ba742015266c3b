# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all commands of ``gpunode`` have in common: lines of at most 80 columns, --json, colour on a terminal only."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main
from ansible_collections.trainyard.gpu_node.plugins.module_utils.command.output import painter, wanted, wrapped
from ansible_collections.trainyard.gpu_node.tests.unit import forked
from ansible_collections.trainyard.gpu_node.tests.unit.data.topology.unpack import names, unpack
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.command import gpunode_on

# With its exit status on a healthy node that has nothing declared.
COMMANDS = (
    ("info",),
    ("topo",),
    ("topo", "--draw"),
    ("clocks", "list"),
    ("clocks", "max", "--check"),
    ("clocks", "set", "--graphics", "1005", "--snap", "--check"),
    ("mig", "list"),
    ("mig", "profiles"),
    ("scratch", "status"),
    ("apply", "--check"),
)
# What argparse itself loads differs between versions of Python.
ARGPARSE = set(
    subprocess.run(
        [sys.executable, "-c", "import argparse, sys, re, tempfile, subprocess; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
)
MACHINES = ("nd40rs_v2", "nd96asr_v4", "nd96isr_h100_v5", "laptop")


def gpunode(environment, root, *words):
    return forked.run(
        [sys.executable, gpunode_on.__file__, str(root), "--", *words],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("machine", MACHINES)
def test_commands_over_simulated_gpus_fit_80_columns(nvml_simulator, tmp_path, machine):
    environment = nvml_simulator(machine).environment()
    for words in COMMANDS:
        done = gpunode(environment, tmp_path, *words)
        assert (done.returncode, done.stderr) == (0, ""), (words, done.stderr)
        # The sentences of these two go into the journal as well, where one line each is what is wanted.
        if words[0] not in ("scratch", "apply"):
            assert max(len(line) for line in done.stdout.splitlines()) <= 80, (words, done.stdout)
        assert "\033" not in done.stdout


@pytest.mark.parametrize("name", names())
def test_topo_over_captured_machines_fits_80_columns(tmp_path, name):
    """Without a driver, so with the sentence that tells why NVML told nothing."""
    root = unpack(name, tmp_path / name)
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    for words in (("topo",), ("topo", "--draw")):
        done = gpunode(environment, root, *words)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        assert max(len(line) for line in done.stdout.splitlines()) <= 80, done.stdout


def test_json_is_one_document_everywhere(nvml_simulator, tmp_path):
    environment = nvml_simulator().environment()
    for words in COMMANDS:
        done = gpunode(environment, tmp_path, *words, "--json")
        assert isinstance(json.loads(done.stdout), dict), words
    for one in main.every(main.parser()):
        assert "--json" in one.format_help()


def test_help_fits_80_columns_and_has_examples(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for one in main.every(main.parser()):
        lines = one.format_help().splitlines()
        if not one.prog.startswith("gpunode pin"):
            assert max(len(line) for line in lines) <= 80, one.prog
    for words in ((), ("clocks",), ("mig",), ("pin",), ("pin", "check")):
        parser = next(one for one in main.every(main.parser()) if one.prog.split()[1:] == list(words))
        assert "examples:" in parser.format_help(), words


def test_help_tells_every_exit_status():
    help_text = main.parser().format_help()
    for status in range(4):
        assert re.search(r"^  {0}  \S".format(status), help_text, re.MULTILINE), status


# Of command/, what each start loads.
FRAME = {"main", "parser", "exit_status", "version"}
STARTS = {
    ("--version",): FRAME,
    ("--help",): FRAME,
    ("clcks",): FRAME,
    ("help", "clocks"): FRAME | {"help", "output"},
    ("hook", "prolog"): FRAME | {"hook", "output"},
    ("health", "--quick"): FRAME | {"health", "arguments", "output"},
    ("--json", "clocks", "max"): FRAME | {"clocks", "clocks_lines", "by_gpu", "arguments", "output"},
}
# Commands that share more with another one than its neighbours.
SHARED = {"converge": {"declaration"}, "undo": {"converge", "declaration"}, "module": {"converge", "declaration"}}
SHARED["history"] = {"remedy"}
# A process for each start, which all begin with the same modules.
LOADED = """
import contextlib, io, json, os, sys
before = set(sys.modules)
from {0} import main
for words in json.load(sys.stdin):
    if os.fork() == 0:
        with contextlib.suppress(SystemExit, Exception), contextlib.redirect_stdout(io.StringIO()):
            main._parsed(words)
        sys.__stdout__.write(" ".join(sorted(set(sys.modules) - before)) + "\\n")
        sys.__stdout__.flush()
        os._exit(0)
    os.wait()
"""


def loaded_by(*starts):
    """The modules that each start loads before it does anything. A hook before each job pays for all of them."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(main.__package__)],
        input=json.dumps(starts),
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = [set(line.split()) for line in done.stdout.splitlines()]
    assert len(found) == len(starts)
    return found


def of_command(modules):
    start = main.__package__ + "."
    return {name[len(start) :] for name in modules if name.startswith(start)}


def test_a_start_loads_one_command():
    found = [of_command(modules) for modules in loaded_by(*STARTS)]
    assert dict(zip(STARTS, found)) == STARTS


def test_no_command_loads_another_one():
    names = list(main.COMMANDS)
    for name, modules in zip(names, loaded_by(*([name] for name in names))):
        assert of_command(modules) & set(names) == {name} | SHARED.get(name, set())


def test_a_hook_loads_nothing_that_only_people_need():
    for modules in loaded_by(["hook", "prolog"], ["health", "--quick"]):
        assert not modules & ({"difflib", "pwd", "dataclasses", "inspect", "textwrap"} - ARGPARSE)


# Colour -----------------------------------------------------------------------------------------------


def on_terminal(environment, root, *words):
    """What the command writes when its output is a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, gpunode_on.__file__, str(root), "--", *words], env=environment, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    text = b""
    while select.select([ours], [], [], 60)[0]:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # the other side was closed
            break
        if not chunk:
            break
        text += chunk
    os.close(ours)
    assert process.wait(60) == 0, text
    return text.decode()


def test_colour_is_for_terminals_that_did_not_decline_it(nvml_simulator, tmp_path):
    environment = dict(nvml_simulator().environment(), TERM="xterm")
    environment.pop("NO_COLOR", None)
    plain = gpunode(environment, tmp_path, "clocks", "list").stdout
    colored = on_terminal(environment, tmp_path, "clocks", "list")
    assert "\033[1mGPU" in colored and "\033" not in plain
    # Colour carries nothing alone: without it, the same text is left.
    assert re.sub(r"\033\[[0-9;]*m", "", colored).replace("\r\n", "\n") == plain
    for refusal in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\033" not in on_terminal(dict(environment, **refusal), tmp_path, "clocks", "list")
    assert "\033" not in on_terminal(environment, tmp_path, "clocks", "list", "--json")


def test_no_color_counts_when_it_is_not_empty():
    class Terminal:
        def isatty(self):
            return True

    assert wanted(Terminal(), {"NO_COLOR": "", "TERM": "xterm"}) is True
    assert wanted(Terminal(), {"NO_COLOR": "0", "TERM": "xterm"}) is False
    assert painter(Terminal(), {"TERM": "xterm"})("x", "bad") == "\033[31mx\033[0m"
    assert painter(Terminal(), {"TERM": "dumb"})("x", "bad") == "x"


def test_sentences_are_wrapped_and_long_words_stay_whole():
    text = wrapped("GPU 0: " + "word " * 30 + "GPU-b66f2ca6-2264-0595-ea0f-c279078346cb")
    assert all(len(line) <= 80 for line in text.splitlines()) and "GPU-b66f2ca6-2264-0595-ea0f-c279078346cb" in text


@pytest.mark.parametrize(
    "words", ["--json pin check x", "pin --json check x", "pin check --json x", "pin --ranks 8 --json", "topo --json"]
)
def test_json_may_be_asked_for_at_any_place(words):
    assert main.parser().parse_args(words.split()).json is True
    assert main.parser().parse_args([word for word in words.split() if word != "--json"]).json is False
