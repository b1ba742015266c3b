# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module in forks gives what it gives in two interpreters, and a fork is a process like any other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest

from ansible_collections.trainyard.gpu_node.tests.unit import forked
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.modules.module_run import process


def run(words, **rest):
    return forked.run([sys.executable, *words], capture_output=True, text=True, **rest)


SAID = "import os, sys; print(sys.argv[1:], os.getcwd(), sorted(os.environ.items()), sys.stdin.read()); "


@pytest.mark.parametrize("arguments", [{}, {"extra": ["`x`"]}, {"no_such_option": 1}])
def test_forks_and_interpreters_give_the_same_result(tmp_path, arguments):
    results = []
    for name in ("real", "forked"):
        root = tmp_path / name
        (root / "etc").mkdir(parents=True)
        (root / "sys").mkdir()
        done = process("nccl", arguments, root, real=name == "real")
        told = json.loads(done.stdout)
        assert told.pop("invocation")["module_args"]  # with the name of the node command's temporary folder
        files = sorted(str(path.relative_to(root)) for path in root.rglob("*"))
        results.append((done.returncode, told, done.stderr, files))
    assert results[0] == results[1]


@pytest.mark.parametrize("end", ["", "sys.exit()", "sys.exit(7)", "sys.exit('no')", "os.kill(os.getpid(), 9)", "1 / 0"])
def test_a_fork_has_its_own_arguments_environment_input_and_status(end, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words, environment = ["-c", SAID + end, "one", "two"], {"LC_ALL": "C.UTF-8", "A": "b"}
    made = run(words, input="text", env=environment)
    real = subprocess.run(
        [sys.executable, *words], input="text", env=environment, capture_output=True, text=True, check=False
    )
    assert (made.returncode, made.stdout) == (real.returncode, real.stdout)
    assert made.stderr.splitlines()[-1:] == real.stderr.splitlines()[-1:]


def test_nothing_of_a_run_is_left_in_the_next():
    code = "import json, os; print(getattr(json, 'mark', 0)); json.mark = 1; os.environ['X'] = 'x'; os.umask(0)"
    for _run in range(2):
        assert run(["-c", code + "; os.chdir('/')"]).stdout == "0\n"
    assert run(["-c", "import os; print(os.environ.get('X'), os.getcwd())"]).stdout == "None {0}\n".format(os.getcwd())


def test_one_that_hangs_is_ended_and_others_go_on():
    told = []
    thread = threading.Thread(target=lambda: told.append(run(["-c", "import time; time.sleep(1); print(1)"])))
    thread.start()
    with pytest.raises(subprocess.TimeoutExpired):
        run(["-c", "import time; time.sleep(60)"], timeout=0.5)
    assert run(["-c", "print(2)"]).stdout == "2\n"
    thread.join()
    assert told[0].stdout == "1\n"
