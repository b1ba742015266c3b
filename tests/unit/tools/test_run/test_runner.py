# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runner of the tests: real commands in real process groups."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterator, List

import pytest

from ansible_collections.trainyard.gpu_node.tools.test_run import nodes, parts, run
from ansible_collections.trainyard.gpu_node.tools.test_run.parts import Part
from ansible_collections.trainyard.gpu_node.tools.test_run.results import Count

PASSING_JUNIT = (
    '<testsuite><testcase classname="a" name="b"/><testcase name="c"><skipped message="no GPU"/></testcase></testsuite>'
)


@pytest.fixture(name="clone")
def clone_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that stands for a clone which was set up with the Python that runs this test."""
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    for module in (parts, run, nodes):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(parts, "LOGS", tmp_path / "build" / "test")
    monkeypatch.setattr(nodes, "TOOL", tmp_path / "no-such-tool")
    yield tmp_path


def part(name: str, code: str, lane: str = "unit", **fields: Any) -> Part:
    fields.setdefault("timeout_seconds", 60)
    # The braces of the code are not names to fill in.
    return Part(
        name, "group", lane, (sys.executable, "-c", code.replace("{", "{{").replace("}", "}}"), "{junit}"), **fields
    )


def run_all(chosen: List[Part], jobs: int = 2) -> Count:
    return run.Runner(chosen, jobs, heartbeat_seconds=0.3).run()


def is_running(pid: int) -> bool:
    """True while the process does something; a zombie that nobody has waited for does not."""
    try:
        state = Path("/proc/{0}/stat".format(pid)).read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until(condition: Any, seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_a_command_without_junit_counts_as_one_test(clone: Path) -> None:
    count = run_all([part("good", "pass"), part("bad", "raise SystemExit(3)")])
    assert (count.passed, count.failed) == (1, ("bad",))


@pytest.mark.parametrize("room", [0, 2**80])
def test_temporary_files_are_in_memory_where_it_has_room_and_go_with_the_part(
    clone: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    memory = clone / "memory"
    memory.mkdir()
    monkeypatch.setattr(parts, "MEMORY", memory)
    monkeypatch.setattr(parts, "MEMORY_BYTES", room)
    code = "import tempfile; print(tempfile.mkdtemp())"
    run_all([part("wants", code, in_memory=True), part("does_not", code)])
    made = {
        name: (clone / "build/test" / (name + ".log")).read_text(encoding="utf-8") for name in ("wants", "does_not")
    }
    assert (str(memory) in made["wants"]) == (room == 0) and str(memory) not in made["does_not"], made
    assert list(memory.iterdir()) == []


def test_the_end_of_a_failing_log_is_shown_and_the_whole_is_kept(
    clone: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run_all([part("bad", "for i in range(500): print('line', i)\nraise SystemExit(1)")])
    shown = capfd.readouterr().out
    assert "FAILED   bad" in shown and "| line 499" in shown and "line 100\n" not in shown
    assert "line 0\n" in (clone / "build" / "test" / "bad.log").read_text(encoding="utf-8")


def test_tests_are_counted_from_junit_files_with_the_reasons_of_skips(clone: Path) -> None:
    code = "import sys; open(sys.argv[1], 'w').write({0!r})".format(PASSING_JUNIT)
    count = run_all([part("tests", code, junit=True)])
    assert count == Count(1, (), (("c", "no GPU"),))


def test_a_part_that_should_run_tests_and_runs_none_has_failed(clone: Path) -> None:
    assert run_all([part("tests", "pass", junit=True)]).failed == ("tests: ended well but ran no test",)


def test_a_crash_after_good_tests_is_a_failure(clone: Path) -> None:
    code = "import sys; open(sys.argv[1], 'w').write({0!r}); sys.exit(2)".format(PASSING_JUNIT)
    count = run_all([part("tests", code, junit=True)])
    assert (count.passed, count.failed) == (1, ("tests: ended with status 2",))


def test_a_result_of_an_earlier_run_is_not_counted(clone: Path) -> None:
    folder = clone / "build" / "test" / "tests"
    folder.mkdir(parents=True)
    (folder / "junit.xml").write_text(PASSING_JUNIT, encoding="utf-8")
    assert run_all([part("tests", "pass", junit=True)]).passed == 0


def test_a_command_that_does_not_exist_is_a_failure_with_a_reason(clone: Path) -> None:
    missing = dataclasses.replace(part("lost", "pass"), command=("no-such-command-anywhere",))
    assert run_all([missing]).failed == ("lost",)
    assert "cannot be started" in (clone / "build" / "test" / "lost.log").read_text(encoding="utf-8")


def test_lanes_run_side_by_side_and_parts_of_a_lane_one_after_the_other(clone: Path) -> None:
    meet = (
        "import os, sys, time\nopen({0!r}, 'w').close()\n"
        "end = time.monotonic() + 20\nwhile not os.path.exists({1!r}):\n"
        "    time.sleep(0.02)\n    assert time.monotonic() < end, 'the other lane does not run'\n"
    )
    one, two, after = str(clone / "one"), str(clone / "two"), "import os; assert os.path.exists({0!r})"
    count = run_all(
        [
            part("first", meet.format(one, two), lane="scratch"),
            part("second", meet.format(two, one) + "time.sleep(0.3); open({0!r}, 'w').close()".format(two + "-done")),
            part("third", after.format(two + "-done")),
        ]
    )
    assert (count.passed, count.failed) == (3, ())


def test_with_one_slot_lanes_wait_for_each_other(clone: Path) -> None:
    code = "import os, time; f = {0!r}; open(f, 'x').close(); time.sleep(0.3); os.unlink(f)".format(
        str(clone / "alone")
    )
    assert (
        run_all([part("a", code, lane="scratch"), part("b", code), part("c", code, lane="trixie")], jobs=1).passed == 3
    )


def test_a_part_that_takes_too_long_is_ended_with_its_children(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "GRACE_SECONDS", 0.5)
    pid_file = clone / "pid"
    code = (
        "import signal, subprocess, sys, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open({0!r}, 'w').write(str(child.pid))\ntime.sleep(600)"
    ).format(str(pid_file))
    assert run_all([part("slow", code, timeout_seconds=2)]).failed == ("slow",)
    assert "longer than 2 seconds" in (clone / "build" / "test" / "slow.log").read_text(encoding="utf-8")
    assert wait_until(lambda: not is_running(int(pid_file.read_text(encoding="ascii"))))


def test_what_a_command_leaves_running_is_ended(clone: Path) -> None:
    pid_file = clone / "pid"
    code = (
        "import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open({0!r}, 'w').write(str(child.pid))"
    ).format(str(pid_file))
    assert run_all([part("careless", code)]).passed == 1
    assert wait_until(lambda: not is_running(int(pid_file.read_text(encoding="ascii"))))


def test_an_interrupt_lets_the_command_clean_up(clone: Path) -> None:
    code = (
        "import time\ntry:\n    open({0!r}, 'w').close(); time.sleep(600)\n"
        "except KeyboardInterrupt:\n    open({1!r}, 'w').close()"
    ).format(str(clone / "started"), str(clone / "cleaned"))
    runner = run.Runner([part("long", code)], jobs=1)
    thread = threading.Thread(target=runner.work)
    thread.start()
    assert wait_until((clone / "started").exists)
    runner.stopping.set()
    thread.join(20)
    assert not thread.is_alive() and (clone / "cleaned").exists()


def test_the_running_test_is_told_now_and_then(clone: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run_all([part("slow", "import time; print('tests/x.py::test_seven', flush=True); time.sleep(1.2)")])
    assert "running  slow" in capfd.readouterr().out.partition("tests/x.py::test_seven")[0]


def test_a_part_without_its_environment_is_skipped_with_the_reason_or_falls_back(clone: Path) -> None:
    newest = part("newest", "pass", environment=parts.NEWEST)
    count = run_all([newest, dataclasses.replace(newest, name="guest", fallback=parts.MAIN)])
    assert (count.passed, count.skipped) == (1, (("newest", parts.NO_NEWEST),))


def test_a_part_whose_files_are_not_there_is_skipped_with_the_reason(clone: Path) -> None:
    assert run_all([part("x", "pass", needs="tests/none")]).skipped == (("x", "tests/none does not exist"),)


def test_settings_of_the_user_do_not_reach_a_part(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSIBLE_ROLES_PATH", "/elsewhere")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    code = "import os; assert 'ANSIBLE_ROLES_PATH' not in os.environ and 'PYTHONPATH' not in os.environ"
    check = "assert os.environ['PATH'].split(':')[0] == {0!r}".format(str(clone / ".venv" / "bin"))
    assert run_all([part("x", code + "; " + check)]).passed == 1


def test_virtual_nodes_of_a_part_are_taken_down_with_its_name(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = clone / "tool"
    tool.write_text('#!/bin/sh\necho "$VIRTUAL_NODE_RUN $*" >> {0}\n'.format(clone / "calls"), encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setattr(nodes, "TOOL", tool)
    run_all([part("guest", "raise SystemExit(1)", nodes=True), part("other", "pass")])
    assert (clone / "calls").read_text(encoding="utf-8") == "guest-{0} down --all\n".format(os.getpid())


def test_a_terminated_run_ends_its_commands_and_says_so(tmp_path: Path) -> None:
    """The whole program, as a process of its own: SIGTERM, as from a CI system."""
    script = (
        "import sys, pathlib\n"
        "from ansible_collections.trainyard.gpu_node.tools.test_run import __main__ as program, parts, run\n"
        "root = pathlib.Path(sys.argv[1]); parts.ROOT = run.ROOT = root; parts.LOGS = program.LOGS = root / 'build'\n"
        "code = 'import os, time; open({0!r}, \"w\").write(str(os.getpid())); time.sleep(600)'\n"
        "code = code.format(str(root / 'pid'))\n"
        "chosen = parts.Part('long', 'lint', 'lint', (sys.executable, '-c', code), 600)\n"
        "program.select = lambda words: [chosen]\n"
        "sys.argv[1:] = []\nsys.exit(program.main())\n"
    )
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    program = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    pid_file = tmp_path / "pid"
    assert wait_until(lambda: pid_file.exists() and pid_file.read_text(encoding="ascii"))
    program.send_signal(signal.SIGTERM)
    output = program.communicate(timeout=30)[0].decode()
    assert program.returncode == 130 and "nothing of it runs any more" in output
    assert not is_running(int(pid_file.read_text(encoding="ascii")))


CRASH = "(the kernel of node-a had crashed: Oops) assert 1"
# The first run writes two files' results, in one of which a kernel crashed; the second runs that file alone.
TWO_RUNS = """
import pathlib, sys
junit, files = sys.argv[1], [word for word in sys.argv[2:] if word.endswith(".py")]
first = "tests/e2e/test_a.py" in files
case = '<testcase classname="tests.e2e.test_%s" name="%s">%s</testcase>'
bad = '<failure message="%s"/>'
if first:
    cases = [("a", "x", ""), ("b", "y", bad % {0!r}), ("b", "z", bad % "assert 2"), ("a", "w", bad % {1!r})]
else:
    assert files == ["tests/e2e/test_b.py"], files
    cases = [("b", "y", ""), ("b", "z", bad % "assert 2")]
cases = "".join(case % one for one in cases)
pathlib.Path(junit).write_text("<testsuites><testsuite>" + cases + "</testsuite></testsuites>")
sys.exit(1)
"""


@pytest.mark.parametrize("other", ["assert 3", "see (the kernel of a guest)"])
def test_a_file_in_which_a_kernel_crashed_runs_again_and_the_others_do_not(clone: Path, other: str) -> None:
    code = TWO_RUNS.format(CRASH, other)
    guests = part("guests", code, nodes=True, junit=True)
    files = ("tests/e2e/test_a.py", "tests/e2e/test_b.py")
    count = run_all([dataclasses.replace(guests, command=guests.command + files)])
    assert count.passed == 2  # x of the first run, y of the second
    assert set(count.failed) == {"tests.e2e.test_a::w: " + other, "tests.e2e.test_b::z: assert 2"}


def test_a_part_in_which_no_kernel_crashed_runs_once(clone: Path) -> None:
    guests = part("guests", TWO_RUNS.format("assert 1", "assert 2"), nodes=True, junit=True)
    files = ("tests/e2e/test_a.py", "tests/e2e/test_b.py")
    count = run_all([dataclasses.replace(guests, command=guests.command + files)])
    assert (count.passed, len(count.failed)) == (1, 3)
