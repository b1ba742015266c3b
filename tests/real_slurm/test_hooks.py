# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Python the hooks of slurmd start with, what happens without one, and the modes of the files that they write."""

from __future__ import annotations

import re

import pytest
import slurm_root

REASON = "gpu_node: health: configure: gpunode: no Python 3.8 or newer was found; install one, then run site.yml"
# As Python 3.6 does with the node command. It notes who starts it.
OLD_PYTHON = """#!/bin/sh
echo "$@" >>/run/started
echo "SyntaxError: future feature annotations is not defined" >&2
exit 1
"""
HIDE = "mkdir /root/hidden; mv /usr/bin/python3* /root/hidden/"
SHOW = "mv /root/hidden/* /usr/bin/"
HELD = slurm_root.CONF.replace("SchedulerParameters=nohold_on_prolog_fail\n", "")


def log(node):
    return node.run("cat /var/log/slurm/slurmd.log").stdout


def test_the_hooks_start_with_the_python_that_installed_the_command(node):
    """``python3`` is another one, first in PATH and in /usr/bin."""
    node.write("/usr/local/bin/python3", OLD_PYTHON, 0o755)
    node.run("cp --remove-destination /usr/local/bin/python3 /usr/bin/python3")
    node.write("/etc/slurm/prolog.d/50-site", "#!/bin/sh\npython3 -c pass >>/run/site 2>&1\nexit 0\n", 0o755)
    node.start(conf=slurm_root.WATCHED)
    assert node.srun().stdout == "ran\n"
    node.look()
    node.wait("end of the job", lambda: node.state() == "IDLE")
    assert "SyntaxError" in node.run("cat /run/site").stdout  # a hook of the site gets this one
    assert node.run("sort -u /run/started").stdout == "-c pass\n"
    assert "SyntaxError" not in log(node) and "error: prolog" not in log(node)
    node.sick()
    told = node.look()
    assert node.reason().startswith("gpu_node: health: reboot: GPU 2"), told


@pytest.mark.soak
def test_without_its_python_the_command_runs_with_another_one_and_reports_it(node):
    version = node.run("readlink /usr/bin/python3").stdout.strip()
    node.run("mkdir -p /opt/python/bin; cp /usr/bin/{0} /opt/python/bin/{0}".format(version))
    node.start(conf=slurm_root.WATCHED)
    node.run("rm -r /opt/gpu_node /usr/local/bin/gpunode")
    node.converge("/opt/python/bin/" + version)
    assert node.srun().stdout == "ran\n" and "is missing" not in log(node)
    node.run("rm -r /opt/python")
    assert node.srun().stdout == "ran\n"
    assert "/opt/python/bin/{0}, the Python that installed this command, is missing".format(version) in node.look()
    node.wait("end of the job", lambda: node.state() == "IDLE")
    node.converge()
    assert "is missing" not in node.look()


@pytest.mark.soak
@pytest.mark.parametrize("held", [False, True])
def test_without_any_python_the_node_is_drained_and_the_job_requeued(node, held):
    node.start(conf=slurm_root.WATCHED, base=HELD if held else slurm_root.CONF)
    node.run(HIDE)
    node.look()
    assert node.state() == "IDLE"  # HealthCheckProgram drains nothing: it would drain all nodes at once
    number = node.sbatch("touch /tmp/ran")
    assert node.drained() == REASON
    node.wait("job that waits", lambda: node.job(number).startswith("PENDING"))
    # Slurm's words for a held job, and for one that waits until it is started again.
    assert ("held" in node.job(number)) == held, node.job(number)
    assert "SyntaxError" not in log(node)
    node.run(SHOW + "; [ ! -e /tmp/ran ]")
    for _turn in range(4):
        node.look()
    assert node.state() == "IDLE"
    node.run("scontrol release {0}; scontrol update JobId={0} StartTime=now".format(number))
    node.wait("start of the job", lambda: node.run("[ -e /tmp/ran ]", check=False).returncode == 0)
    assert "DRAIN" not in node.state(), node.reason()


@pytest.mark.soak
def test_a_python_that_disappears_during_a_job_drains_the_node_after_it(node):
    node.start()
    node.sbatch("touch /tmp/ran; sleep 3")
    node.wait("start of the job", lambda: node.run("[ -e /tmp/ran ]", check=False).returncode == 0)
    node.run(HIDE)
    assert node.drained() == REASON
    node.wait("end of the job", lambda: node.state() == "IDLE+DRAIN")
    assert "SyntaxError" not in log(node)


@pytest.mark.soak
def test_the_reason_of_an_administrator_stays_where_no_python_is_left(node):
    node.start()
    node.sbatch("touch /tmp/ran; sleep 3")
    node.wait("start of the job", lambda: node.run("[ -e /tmp/ran ]", check=False).returncode == 0)
    node.run(HIDE + "; scontrol update NodeName=gpu01 State=DRAIN Reason='anna: new fan'")
    node.wait("end of the job", lambda: node.state() == "IDLE+DRAIN")
    assert node.reason() == "anna: new fan"


@pytest.mark.soak
def test_the_modes_of_what_the_hooks_write_do_not_depend_on_the_umask_of_slurmd(layers, suite, tmp_path):
    found = {}
    for umask in ("022", "000", "027", "077"):
        (tmp_path / umask).mkdir()
        with slurm_root.root(layers(suite), tmp_path / umask) as node:
            node.write("/etc/slurm/prolog.d/50-site", "#!/bin/sh\numask >/tmp/umask\n", 0o755)
            node.start(conf=slurm_root.WATCHED, slurmd="umask {0}; slurmd".format(umask))
            assert node.srun().stdout == "ran\n"
            node.sick()
            told = node.look()
            assert node.reason().startswith("gpu_node: health: "), told
            listed = node.run(
                "find /var/lib/gpu_node /run/gpu_node /etc/gpu_node /opt/gpu_node -printf '%m %u:%g %p\\n' | sort -k 3"
            )
            found[umask] = re.sub(r"\d{6,}", "N", listed.stdout)
            assert node.run("cat /tmp/umask").stdout == "0{0}\n".format(umask)  # a hook has the umask of slurmd
    assert "health/history.json" in found["022"] and "gpu_node/jobs" in found["022"]
    assert all(one == found["022"] for one in found.values()), found
