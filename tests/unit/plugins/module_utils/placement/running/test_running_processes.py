# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finding and reading processes: under a root of the test, and real ones of this machine."""

from __future__ import annotations

import os
import pathlib
import stat
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.processes import (
    PPID,
    PROCESSOR,
    STIME,
    UTIME,
    ancestors,
    parse_stat,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement.running import choose, observe
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.job_processes import parse_listpids

WAIT = "import sys; print('ready', flush=True); sys.stdin.read()"


@pytest.fixture
def child():
    """Start a Python that waits; the second argument is a word for its command line."""
    started = []

    def start(code=WAIT, *words):
        process = subprocess.Popen([sys.executable, "-c", code, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout.readline() == b"ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


class Proc:
    """A /proc of the test's own."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.host = Host(str(root))

    def write(self, path: str, text: str) -> pathlib.Path:
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def process(self, pid, command="app", parent=1, name="app", threads=(), cpus="0-3", state="S", environ="", ticks=0):
        for tid in (pid, *threads):
            line = "{0} ({1}) {2} {3} {4} {5} {6}\n".format(
                tid,
                name,
                state,
                parent,
                " ".join("0" * 9),
                "{0} 0".format(ticks),
                " ".join(["0"] * 23 + ["2"] + ["0"] * 13),
            )
            self.write("/proc/{0}/task/{1}/stat".format(pid, tid), line)
            self.write(
                "/proc/{0}/task/{1}/status".format(pid, tid), "Name:\tapp\nCpus_allowed_list:\t{0}\n".format(cpus)
            )
        self.write("/proc/{0}/stat".format(pid), line)
        self.write("/proc/{0}/comm".format(pid), name + "\n")
        self.write("/proc/{0}/cmdline".format(pid), command.replace(" ", "\0") + "\0" if command else "")
        self.write("/proc/{0}/environ".format(pid), environ)
        return pid


@pytest.fixture
def proc(tmp_path):
    return Proc(tmp_path)


def no_pause(seconds):
    pass


# /proc ------------------------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=15))
def test_a_name_may_have_any_character(name):
    line = "7 ({0}) R 3 {1} 5 6 {2} 9 {3}\n".format(name, "0 " * 9, "0 " * 23, "0 " * 13)
    found = parse_stat(line)
    assert (found.name, found.state, *map(found.number, (PPID, UTIME, STIME, PROCESSOR))) == (name, "R", 3, 5, 6, 9)


@given(st.text())
def test_no_text_is_a_failure(text):
    parse_stat(text)
    parse_stat("1 (x) " + text)


def test_this_process_reads_as_the_kernel_tells_it_to_itself():
    (found,) = observe(Host(), [os.getpid()], ask_nvml=False, pause=no_pause).processes
    assert found.parent == os.getppid()
    assert set(found.threads[0].allowed) == os.sched_getaffinity(0)
    assert found.threads[0].tid == os.getpid()
    assert ancestors(Host(), os.getpid())[:2] == [os.getpid(), os.getppid()]


def test_a_pinned_child_that_works_is_seen_where_it_works(child):
    cpu = max(os.sched_getaffinity(0))
    code = "import os\nos.sched_setaffinity(0, {" + str(cpu) + "})\nprint('ready', flush=True)\nwhile True: pass"
    worker = child(code)
    (found,) = observe(Host(), [worker.pid], ask_nvml=False).processes
    assert (found.allowed, found.last_cpus) == ((cpu,), (cpu,))
    assert [thread.tid for thread in found.running] == [worker.pid]


def test_threads_are_counted_and_those_that_work_told_apart(child):
    code = (
        # They sleep before the first thread begins to work, so none of them waits for the interpreter's lock.
        "import threading, time\n"
        "for x in range(3): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "time.sleep(0.5)\n"
        "print('ready', flush=True)\nwhile True: pass"
    )
    (found,) = observe(Host(), [child(code).pid], ask_nvml=False).processes
    assert (len(found.threads), len(found.running)) == (4, 1)


def test_a_process_that_ends_while_it_is_looked_at_is_left_out(child):
    stays, goes = child(), child()

    def end(seconds):
        goes.kill()
        goes.wait()

    state = observe(Host(), sorted([stays.pid, goes.pid]), ask_nvml=False, pause=end)
    assert [one.pid for one in state.processes] == [stays.pid] and state.ended == (goes.pid,)
    stays.kill()  # a zombie now, since nobody waited for it yet
    time.sleep(0.05)
    with pytest.raises(NodeError, match=r"process \d+: it ended while it was being looked at; run this while"):
        observe(Host(), [stays.pid], ask_nvml=False, pause=no_pause)


def test_files_that_vanish_at_any_point_break_nothing(proc):
    """Every prefix of what a process's folder holds: as if it ended between any two reads."""
    proc.process(9, threads=(10,))
    files = sorted(path for path in (proc.root / "proc/9").rglob("*") if path.is_file())
    for path in files:
        path.unlink()
        try:
            observe(proc.host, [9], ask_nvml=False, pause=no_pause)
        except NodeError as error:
            assert "it ended while it was being looked at" in str(error)


@pytest.mark.parametrize(
    ("environ", "given"),
    [
        ("", None),
        ("HOME=/root", None),
        ("CUDA_VISIBLE_DEVICES=2,3", ("2", "3")),
        ("CUDA_VISIBLE_DEVICES=", ()),
        ("CUDA_VISIBLE_DEVICES=-1", ()),
        ("CUDA_VISIBLE_DEVICES=NoDevFiles", ()),
        # The example of CUDA's programming guide: what stands behind an index that is none is not shown.
        ("CUDA_VISIBLE_DEVICES=0,2,-1,1", ("0", "2")),
        ("CUDA_VISIBLE_DEVICES=0,-1,1", ("0",)),
        ("CUDA_VISIBLE_DEVICES=0,,1", ("0",)),
        ("NVIDIA_VISIBLE_DEVICES=2,GPU-b66f2ca6", ("2", "GPU-b66f2ca6")),
        ("NVIDIA_VISIBLE_DEVICES=none", ()),
        ("NVIDIA_VISIBLE_DEVICES=all", None),
        ("NVIDIA_VISIBLE_DEVICES=void", None),
        ("NVIDIA_VISIBLE_DEVICES=", None),
        ("NVIDIA_VISIBLE_DEVICES=2,3\0CUDA_VISIBLE_DEVICES=3", ("3",)),
        ("CUDA_VISIBLE_DEVICES=0,1\0SLURM_JOB_GPUS=4,5", ("4", "5")),
        ("SLURM_JOB_GPUS=4,5\0SLURM_STEP_GPUS=5", ("5",)),
        ("CUDA_VISIBLE_DEVICES=GPU-b66f2ca6", ("GPU-b66f2ca6",)),
    ],
)
def test_the_gpus_that_an_application_was_given_stand_in_its_environment(proc, environ, given):
    proc.process(9, environ=environ)
    assert observe(proc.host, [9], ask_nvml=False, pause=no_pause).processes[0].gpus_given == given


# By pattern -------------------------------------------------------------------------------------------


def test_a_pattern_finds_the_command_lines_that_it_matches(proc):
    proc.process(20, "/opt/bin/train --layers 12")
    proc.process(21, "/opt/bin/train --layers 24")
    proc.process(22, "", name="train")  # a thread of the kernel
    assert choose(proc.host, pattern="train --layers") == (20, 21)
    assert choose(proc.host, pattern=r"layers (24|48)$") == (21,)


def test_neither_the_command_itself_nor_what_started_it_matches(proc):
    proc.process(2, "sshd: me", parent=1)
    proc.process(3, "bash -c gpunode pin check train", parent=2)
    proc.process(4, "sudo gpunode pin check train", parent=3)
    proc.process(5, "python3 /usr/local/bin/gpunode pin check train", parent=4)
    proc.process(6, "/opt/bin/train", parent=1)
    assert choose(proc.host, pattern="train", own_pid=5) == (6,)
    with pytest.raises(
        NodeError, match="it matches only this command and what started it; start the application first"
    ):
        choose(proc.host, pattern="gpunode", own_pid=5)


def test_a_shell_that_runs_the_command_does_not_match(tmp_path):
    code = (
        "from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host\n"
        "from ansible_collections.trainyard.gpu_node.plugins.module_utils.placement.running import choose\n"
        "import sys\n"
        "try: print(choose(Host(), pattern=sys.argv[1]))\n"
        "except Exception as error: print(error)\n"
    )
    script = tmp_path / "check.py"
    script.write_text(code)
    word = "only-on-this-line-{0}".format(os.getpid())
    done = subprocess.run(
        ["sh", "-c", "{0} {1} {2}; true".format(sys.executable, script, word)],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path)),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert "it matches only this command and what started it" in done.stdout


@pytest.mark.parametrize(
    ("pattern", "told"),
    [
        ("train", "pattern 'train': no process has it on its command line; start the application first"),
        ("(", "pattern '(': this is no regular expression"),
        ("", "the pattern: it is empty"),
    ],
)
def test_a_pattern_that_finds_nothing_is_one_sentence(proc, pattern, told):
    proc.process(20, "/opt/bin/other")
    with pytest.raises(NodeError) as caught:
        choose(proc.host, pattern=pattern)
    assert str(caught.value).startswith(told) and str(caught.value).count("; ") == 1


@pytest.mark.parametrize("given", [{}, {"pattern": "a", "pids": [1]}, {"pids": [1], "job": "1"}])
def test_one_way_to_name_the_application_is_needed(proc, given):
    with pytest.raises(NodeError, match="it needs one way to find the application"):
        choose(proc.host, **given)


# By number --------------------------------------------------------------------------------------------


def test_numbers_are_taken_as_they_are(proc):
    proc.process(20)
    proc.process(21)
    assert choose(proc.host, pids=[21, 20, 21]) == (20, 21)
    with pytest.raises(NodeError, match=r"process 99: there is no such process \(any more\); look it up"):
        choose(proc.host, pids=[20, 99])


@pytest.mark.parametrize(
    ("tables", "hidden"),
    [(["rw,hidepid=invisible"], True), (["rw,hidepid=2"], True), (["rw,hidepid=off"], False), (["rw,hidepid=0"], False),
     (["rw"], False), (["rw", "rw,hidepid=2"], True), (["rw,hidepid=2", "rw"], False), ([], False)],
)  # fmt: skip
def test_the_topmost_mount_of_proc_decides_whether_processes_are_hidden(proc, monkeypatch, tables, hidden):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    lines = ["{0} 1 0:{0} / /proc rw - proc proc {1}\n".format(number, one) for number, one in enumerate(tables, 20)]
    proc.write("/proc/self/mountinfo", "".join(lines))
    proc.process(20, "other")
    with pytest.raises(NodeError) as error:
        choose(proc.host, pattern="train")
    assert ("you may not look at those of other users" in str(error.value)) is hidden


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_process_of_another_user_that_is_hidden_is_one_sentence(proc):
    """As with /proc mounted with hidepid: the folder is there, its files may not be read."""
    proc.process(20)
    for path in [proc.root, *proc.root.rglob("*"), *(up for up in proc.root.parents if "pytest" in str(up))]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    for path in (proc.root / "proc/20").rglob("*"):
        path.chmod(0)
    answers = []
    for way in ({"pids": [20]}, {"pattern": "train"}):
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.setuid(65534)
            try:
                choose(proc.host, **way)
            except NodeError as error:
                os.write(writing, str(error).encode())
            os._exit(0)
        os.close(writing)
        answers.append(os.read(reading, 4096).decode())
        os.close(reading)
        os.wait()
    assert answers[0] == "process 20: it belongs to another user, and you may not look at it; run this as root."
    assert answers[1].startswith("pattern 'train': none of your own processes matches, and you may not look at those")


# By job -----------------------------------------------------------------------------------------------

V2 = "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_42/"
V1 = "/sys/fs/cgroup/freezer/slurm/uid_1000/job_42/"


@pytest.mark.parametrize(
    "files",
    [
        {
            V2 + "cgroup.procs": "",
            V2 + "step_0/cgroup.procs": "",
            V2 + "step_0/slurm/cgroup.procs": "30\n34\n",
            V2 + "step_0/user/cgroup.procs": "",
            V2 + "step_0/user/task_0/cgroup.procs": "31\n",
            V2 + "step_0/user/task_1/cgroup.procs": "32\n",
            V2 + "step_extern/user/task_special/cgroup.procs": "33\n",
        },
        {V2.replace("slurmstepd", "node7_slurmstepd") + "step_0/user/task_0/cgroup.procs": "31\n32\n"},
        {
            V1 + "step_0/cgroup.procs": "30\n",
            V1 + "step_0/task_0/cgroup.procs": "31\n32\n",
            V1 + "step_extern/task_0/cgroup.procs": "33\n",
        },
        {V1.replace("freezer/slurm", "cpuset/slurm_node7") + "step_batch/cgroup.procs": "30\n31\n32\n"},
    ],
)
def test_a_job_is_found_by_its_cgroup_of_either_version(proc, files):
    for pid, name in ((30, "slurmstepd"), (31, "train"), (32, "train"), (33, "sleep"), (34, "helper")):
        proc.process(pid, name=name)
    for path, text in files.items():
        parent = (proc.root / path.lstrip("/")).parent
        parent.mkdir(parents=True, exist_ok=True)
        for up in (parent, *parent.parents):
            if "job_42" in str(up) and not (up / "cgroup.procs").exists():
                (up / "cgroup.procs").write_text("")
        proc.write(path, text)
    assert choose(proc.host, job="42") == (31, 32)


def test_a_job_without_cgroup_is_asked_of_slurm(proc, tmp_path, monkeypatch):
    tool = tmp_path / "bin" / "scontrol"
    tool.parent.mkdir()
    tool.write_text(
        "#!/bin/sh\n[ \"$*\" = 'listpids 42' ] || { echo 'Job step 7 does not exist on this node.' >&2; exit 1; }\n"
        "echo 'PID      JOBID    STEPID   LOCALID GLOBALID'\n"
        "echo '31       42       0        0       0'\necho '32       42       0        1       1'\n"
        "echo '-1       42       extern   -       -'\n"
    )
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=os.pathsep)
    assert choose(proc.host, job="42") == (31, 32)
    with pytest.raises(
        NodeError, match=r"Slurm job 7: Slurm tells no process of it on this node \(Job step 7 does not"
    ):
        choose(proc.host, job="7")


def test_without_slurm_the_sentence_says_what_else_works(proc, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(NodeError, match="this node has no cgroup of it, and scontrol is not installed"):
        choose(proc.host, job="42")
    with pytest.raises(NodeError, match="job '42_1': this is no Slurm job number"):
        choose(proc.host, job="42_1")


@given(st.text())
def test_whatever_slurm_writes_is_read_without_failure(text):
    parse_listpids(text)
