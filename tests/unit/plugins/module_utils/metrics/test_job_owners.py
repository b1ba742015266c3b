# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_node_job_info: user, account and partition of each job on the GPUs of a node."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.options import of_section
from ansible_collections.trainyard.gpu_node.plugins.module_utils.metrics import jobs, owners
from ansible_collections.trainyard.gpu_node.plugins.module_utils.metrics.settings import Settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.gpu_metrics import texts
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import jobs as notes
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.jobs import Running
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.types import Job

UNPACKED = pathlib.Path(__file__).resolve().parents[5] / ".venv/debian/usr/bin"
FOLDER = "/var/lib/prometheus/node-exporter"
PROM = FOLDER + "/gpu_node_jobs.prom"
SLURMD = {
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_UID": "2000",
    "SLURM_JOB_USER": "anna",
    "SLURM_JOB_ACCOUNT": "physics",
    "SLURM_JOB_PARTITION": "gpu",
}
HOSTILE = ['x"} 1\ngpu_node_gpus 99\n#', "a b", "a\\", "\x1b[31m", "a" * 65, "ü", "a\n", "", " ", "../x", "a,b"]
SAMPLE = 'gpu_node_job_info{{hpc_job="{0}",user="{1}",account="{2}",job_partition="{3}"}} 1'


@pytest.fixture
def host(tmp_path):
    (tmp_path / FOLDER[1:]).mkdir(parents=True)
    return Host(str(tmp_path))


def samples(text):
    return [line for line in text.splitlines() if not line.startswith("#")]


def begin(host, number, *names, gpu=0, uid=2000):
    notes.begin(host, Running(number, uid, **dict(zip(("user", "account", "partition"), names))))
    jobs.keep(host, str(number), [(gpu, None)])


def test_the_environment_of_slurmd_names_the_owner():
    job = Job.from_environment(SLURMD)
    assert (job.user, job.account, job.partition) == ("anna", "physics", "gpu")
    without = Job.from_environment({key: SLURMD[key] for key in ("SLURM_JOB_ID", "SLURM_JOB_UID")})
    assert (without.user, without.account, without.partition) == ("", "", "")


@pytest.mark.parametrize("name", ["anna", "anna@example.org", "a.b-c_d+e", "0", "x" * 64])
def test_names_that_slurm_has_are_shown(name):
    assert Job.from_environment(dict(SLURMD, SLURM_JOB_ACCOUNT=name)).account == name


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_empty_from_the_environment_and_from_a_note(host, name):
    job = Job.from_environment(dict(SLURMD, SLURM_JOB_USER=name, SLURM_JOB_ACCOUNT=name, SLURM_JOB_PARTITION=name))
    assert (job.user, job.account, job.partition) == ("", "", "")
    note = {"uid": 2000, "gpus": [], "user": name, "account": name, "partition": name}
    host.write(notes.path(7), json.dumps(note))
    assert notes.read(host, 7) == Running(7, 2000)


@pytest.mark.parametrize("value", [None, 7, True, ["anna"], {"a": "b"}])
def test_a_note_with_another_type_has_no_name(host, value):
    host.write(notes.path(7), json.dumps({"uid": 2000, "user": value}))
    assert notes.read(host, 7) == Running(7, 2000)


def test_a_note_keeps_the_names_until_the_job_is_over(host):
    note = Running(7, 2000, user="anna", account="physics", partition="gpu")
    notes.begin(host, note)
    assert notes.running(host) == (note,)
    notes.end(host, note, None)
    assert notes.running(host) == () and notes.over(host) == (note,)


def test_each_job_with_a_gpu_has_one_sample():
    running = (Running(8, 2001, user="ben"), Running(7, 2000, user="anna", account="a", partition="p"), Running(9, 1))
    # Two jobs on one GPU (shards, MPS), one job on two GPUs, and one that is only a file left behind.
    text = owners.render({(0, None): ("7", "8"), (1, 2): ("7",), (3, None): ("4711",)}, running)
    assert samples(text) == [SAMPLE.format(7, "anna", "a", "p"), SAMPLE.format(8, "ben", "", "")]
    assert samples(owners.render({}, running)) == [] == samples(owners.render({(0, None): ("7",)}, ()))


def test_a_user_without_a_plain_name_is_the_number():
    assert samples(owners.render({(0, None): ("7",)}, (Running(7, 2000),))) == [SAMPLE.format(7, 2000, "", "")]


NAMES = st.text(max_size=8) | st.sampled_from(("anna", "physics", *HOSTILE))


@given(st.dictionaries(st.integers(1, 4), st.tuples(NAMES, NAMES, NAMES)), st.sets(st.integers(1, 5)))
def test_whatever_users_choose_the_labels_are_whole(running, having):
    environments = (
        (number, dict(zip(("SLURM_JOB_USER", "SLURM_JOB_ACCOUNT", "SLURM_JOB_PARTITION"), names)))
        for number, names in running.items()
    )
    made = [Job.from_environment(dict(SLURMD, **names, SLURM_JOB_ID=str(number))) for number, names in environments]
    noted = [Running(one.id, one.uid, user=one.user, account=one.account, partition=one.partition) for one in made]
    text = owners.render({(0, None): tuple(str(number) for number in sorted(having))}, noted)
    found = [re.fullmatch(SAMPLE.format(*[r"([A-Za-z0-9._@+-]*)"] * 4), line) for line in samples(text)]
    assert all(found) and [int(one.group(1)) for one in found] == sorted(having & set(running))


def test_the_file_follows_the_jobs_and_is_not_rewritten_in_vain(host):
    begin(host, 7, "anna", "physics", "gpu")
    assert owners.keep(host, PROM) is None
    path = host.path(PROM)
    assert samples(host.read(PROM)) == [SAMPLE.format(7, "anna", "physics", "gpu")]
    assert os.stat(path).st_mode & 0o777 == 0o644
    before = os.stat(path).st_ino
    assert owners.keep(host, PROM) is None and os.stat(path).st_ino == before
    notes.end(host, notes.read(host, 7), None)
    assert owners.keep(host, PROM) is None and samples(host.read(PROM)) == []


def test_a_file_of_others_and_a_missing_folder_are_notes(host):
    host.write(PROM, "theirs 1\n")
    assert "is not ours" in owners.keep(host, PROM) and host.read(PROM) == "theirs 1\n"
    assert "there is no such folder" in owners.keep(host, "/srv/gpu_node_jobs.prom")


def test_a_link_in_the_folder_is_not_followed(host, tmp_path):
    (tmp_path / "passwd").write_text("root\n")
    os.symlink(str(tmp_path / "passwd"), host.path(PROM))
    assert "is not ours" in owners.keep(host, PROM) and (tmp_path / "passwd").read_text() == "root\n"


def test_a_hook_sees_the_job_of_another_hook_that_was_before_it(host):
    """A hook that looked before the other one wrote would write that job away."""
    begin(host, 7, "anna")
    with host.lock(jobs.LOCK, 5.0):
        other = threading.Thread(target=owners.keep, args=(host, PROM))
        other.start()
        other.join(0.3)
        assert other.is_alive() and host.read(PROM) is None
        notes.begin(host, Running(8, 2000, user="ben"))
        host.write(jobs.FOLDER + "/1", "8\n")
    other.join(10)
    assert samples(host.read(PROM)) == [SAMPLE.format(7, "anna", "", ""), SAMPLE.format(8, "ben", "", "")]


def test_settings_of_a_wrong_kind_write_nothing():
    assert of_section(Settings, {"owners_textfile": 7}).owners_textfile == ""
    assert of_section(Settings, {"owners_textfile": PROM}).owners_textfile == PROM


# The real programs ------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("systemd-tmpfiles") is None, reason="needs systemd-tmpfiles")
def test_systemd_removes_the_file_at_boot_and_nothing_else(host, tmp_path):
    (wanted,) = texts.of_owners(PROM)
    host.write(wanted.path, wanted.text)
    for name in (PROM, FOLDER + "/other.prom"):
        host.write(name, "x\n")
    words = ["systemd-tmpfiles", "--root=" + str(tmp_path), "--remove", "--create"]
    for more, left in (([], ["gpu_node_jobs.prom", "other.prom"]), (["--boot"], ["other.prom"])):
        done = subprocess.run([*words, *more, tmp_path / wanted.path[1:]], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and not done.stderr, done.stderr
        assert sorted(os.listdir(host.path(FOLDER))) == left


@pytest.fixture
def exported(host):
    """What node exporter shows of the folder now."""
    program = shutil.which("prometheus-node-exporter", path=os.environ["PATH"] + os.pathsep + str(UNPACKED))
    if program is None:
        pytest.skip("prometheus-node-exporter is neither installed nor in {0}".format(UNPACKED))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = "127.0.0.1:{0}".format(free.getsockname()[1])
    words = ["--collector.disable-defaults", "--collector.textfile", "--web.listen-address=" + address]
    words.append("--collector.textfile.directory=" + host.path(FOLDER))
    running = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask():
        for _turn in range(200):
            try:
                with urllib.request.urlopen("http://{0}/metrics".format(address), timeout=10) as answer:
                    return answer.read().decode().splitlines()
            except urllib.error.URLError:
                time.sleep(0.1)
        raise AssertionError("node exporter does not answer")

    yield ask
    running.terminate()
    running.wait(20)


def test_node_exporter_shows_the_owners_and_takes_the_file_without_jobs(host, exported):
    begin(host, 7, "anna@example.org", "physics", "gpu")
    begin(host, 8, gpu=1)
    owners.keep(host, PROM)
    told = exported()
    expected = 'gpu_node_job_info{account="physics",hpc_job="7",job_partition="gpu",user="anna@example.org"} 1'
    assert expected in told and "node_textfile_scrape_error 0" in told
    assert 'gpu_node_job_info{account="",hpc_job="8",job_partition="",user="2000"} 1' in told
    for number in (7, 8):
        notes.end(host, notes.read(host, number), None)
    owners.keep(host, PROM)
    told = exported()
    assert "node_textfile_scrape_error 0" in told and not any("gpu_node_job_info" in line for line in told)
    assert any(line.startswith("node_textfile_mtime_seconds") and "gpu_node_jobs.prom" in line for line in told)
