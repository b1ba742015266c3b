# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest without a network converges itself from the offline bundle: blank, again, killed, at a boot with new disks.

The tests build on each other; a failing one ends the rest of them.
"""

from __future__ import annotations

import json
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import slurm_guest
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY))

from tools.bundle import __main__ as bundle

COMMAND = "/opt/gpu_node/gpunode.pyz converge"
DECLARATION = "/etc/gpu_node/declaration.json"
RECORD = "/var/lib/gpu_node/converge.json"
UNIT = "gpu-node-converge.service"
SCRATCH = "/mnt/resource_nvme"
METRICS = "/var/lib/prometheus/node-exporter/gpu_node_gpus.prom"
# Emulated, a run takes minutes.
PATIENCE = 1800
# Each costs half a minute of an emulated node; tests/soak kills and cuts at many more moments.
KILLS = 4
SLURM_CONF = (
    """ClusterName=virtual
SlurmctldHost={name}(127.0.0.1)
"""
    + slurm_guest.DAEMONS
    + """ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
Prolog=/etc/slurm/prolog.d/*
Epilog=/etc/slurm/epilog.d/*
PrologFlags=Alloc
SchedulerParameters=nohold_on_prolog_fail
NodeName={name} NodeAddr=127.0.0.1 CPUs=1 RealMemory=500
PartitionName=all Nodes=ALL Default=YES State=UP
"""
)
SECTIONS = {
    "node_profile": {"name": "virtual", "manage": "known"},
    "nvme_scratch": {},
    "slurm_hooks": {},
    "gpu_settings": {},
    "gpu_metrics": {"interval_seconds": 3600},
    "health": {},
}
KEYS = ("sig=plain-51b7", "sig=other-9c3e")
# A site's files lie in a store that wants a key. Here nothing answers, so the run fails with that URL at hand.
STORE = {
    "hpcx": {"source": "http://127.0.0.1:9/hpcx.tar.gz?" + KEYS[0], "sha256": "0" * 64, "version": "2.25"},
    "enroot": {
        "packages": [
            {
                "name": "enroot",
                "version": "4.1.2-1",
                "sha256": "0" * 64,
                "source": "http://127.0.0.1:9/enroot.deb?" + KEYS[1],
            }
        ]
    },
}
KILLED = """
before=$(sha256sum {2})
setsid {0} >/dev/null 2>&1 </dev/null & pid=$!
for i in $(seq 3000); do
    test "$(sha256sum {2})" != "$before" && break
    sleep 0.1
done
sleep {1}
kill -9 $pid
wait $pid
echo $?
"""


def copy(node, files, folder="/root/bundle"):
    """Unpack a bundle in the guest, as a person would."""
    node.ssh("rm -rf {0}".format(folder))
    done = node.node.ssh("tar -xz -C /root", 600, bundle.tarball(files, "bundle/"))
    assert done.returncode == 0, done.stderr
    return folder + "/converge"


def converge(node, words="", program=COMMAND, timeout=PATIENCE):
    """Status, the last line, and all of it."""
    out = node.ssh("{0} {1} 2>&1".format(program, words), check=False, timeout=timeout)
    lines = out.stdout.strip().splitlines()
    return out.returncode, lines[-1] if lines else "", out.stdout


def status(node):
    return converge(node, "status", "gpunode boot")[:2]


def record(node):
    return json.loads(node.ssh("cat " + RECORD).stdout)


def starts_slurmd(node):
    """Whether the real slurmd starts and registers with the real slurmctld; it is stopped again."""
    if node.ssh("systemctl start slurmd", check=False, timeout=PATIENCE).returncode:
        assert node.ssh("pgrep -x 'slurmd|slurmd-wlm'", check=False).stdout == ""
        assert "not ready: " in node.ssh("journalctl -b -u slurmd -o cat | tail -n 20").stdout
        return False
    slurm_guest.wait_idle(node, PATIENCE)
    node.ssh("systemctl stop slurmd")
    return True


def others_may_write(node):
    units = "/etc/systemd/system/{0} /etc/systemd/system/slurmd.service.d".format(UNIT)
    places = "/opt/gpu_node /etc/gpu_node /var/lib/gpu_node " + units
    return node.ssh("find {0} ! -type l '(' -perm /022 -o ! -uid 0 ')'".format(places)).stdout


@pytest.fixture(scope="module")
def shared_node(own_node):
    return own_node


@pytest.fixture(scope="module")
def story(shared_node, tmp_path_factory):
    """What the tests tell each other; the bundle is what `make bundle` makes, with a declaration and HPC-X."""
    packages = tmp_path_factory.mktemp("bundle") / "packages"
    subprocess.run(
        [sys.executable, str(REPOSITORY / "tests/packages/build.py"), str(packages)], check=True, timeout=120
    )
    given = json.loads((packages / "variables.json").read_text())["packages_hpcx"]
    artefact = packages / Path(given["source"]).name
    sections = dict(SECTIONS, hpcx=dict(given, source="/opt/gpu_node/artefacts/" + artefact.name))
    declaration = packages / "declaration.json"
    declaration.write_text(json.dumps(sections))
    shared_node.node.boot_limit_seconds = PATIENCE
    return {"files": bundle.contents(declaration, [artefact]), "sections": sections, "artefact": artefact.name}


@pytest.fixture(autouse=True)
def in_order(request, story):
    if story.get("failed"):
        pytest.fail("an earlier step failed: {0}".format(story["failed"]))
    yield
    report = getattr(request.node, "rep_call", None)
    if report is not None and report.failed:
        story["failed"] = request.node.name


# What is refused: tests/unit/tools/bundle and tests/unit/plugins/module_utils/node. A check that writes nothing:
# test_scratch_faults.py.
@pytest.mark.soak
def test_what_is_damaged_or_open_to_others_is_refused_and_a_check_leaves_nothing(node, story):
    program = copy(node, story["files"])
    folder = program.rpartition("/")[0]
    before = node.hash_disks()
    for name in ("gpunode.pyz", "version", "declaration.json", "artefacts/" + story["artefact"]):
        spoil = "cd {0} && cp -a {1} /root/kept && printf X | dd of={1} conv=notrunc status=none"
        node.ssh(spoil.format(folder, name))
        code, last, _output = converge(node, "--install", program)
        assert code == 2 and last.startswith("refused: ") and name in last, last
        node.ssh("cd {0} && mv /root/kept {1}".format(folder, name))
    node.ssh("touch {0}/artefacts/extra".format(folder))
    assert "artefacts/extra does not belong to it" in converge(node, "", program)[1]
    node.ssh("rm {0}/artefacts/extra; echo '{{}}' >/root/mine.json; chmod 666 /root/mine.json".format(folder))
    code, last, _output = converge(node, "--install --declaration /root/mine.json", program)
    assert code == 1 and "/root/mine.json: other users can write to it" in last and "root acts by it" in last
    node.ssh("chmod 666 {0}/gpunode.pyz".format(folder))
    code, last, _output = converge(node, "--install", program)
    assert code == 1 and "/gpunode.pyz: other users can write to it" in last
    node.ssh(
        "chmod 644 {0}/gpunode.pyz; rm -r /root/mine.json /opt/gpu_node/artefacts; rmdir /opt/gpu_node".format(folder)
    )
    code, _last, output = converge(node, "--check", program)
    assert "create array gpu_node_scratch" in output and "install the node command" in output, output
    assert node.ssh("ls -d /opt/gpu_node {0} {1}".format(RECORD, DECLARATION), check=False).stdout == ""
    assert "gpu_node_scratch" not in node.ssh("journalctl -b --no-pager -o cat -t gpu-node-converge").stdout
    assert node.hash_disks() == before


def test_one_command_makes_a_blank_node_ready(node, story):
    node.ssh(slurm_guest.PREPARE)
    node.write("/etc/slurm/slurm.conf", SLURM_CONF.format(name=node.name))
    node.write("/etc/slurm/cgroup.conf", slurm_guest.CGROUP_CONF)
    node.ssh('mkdir -p "$(dirname {0})"; systemctl start slurmctld'.format(METRICS), timeout=300)
    program = copy(node, story["files"])
    code, last, output = converge(node, "--install", program)
    assert code == 0 and last == "ready", output[-6000:]
    assert record(node)["status"] == "ready" and record(node)["outcome"] in ("pass", "warn")
    told = status(node)
    assert told[0] == 0 and told[1].startswith("ready: a converge ended at ")
    assert "changed:" in node.ssh("journalctl -b --no-pager -o cat -t gpu-node-converge").stdout
    assert others_may_write(node) == ""
    assert json.loads(node.ssh("cat " + DECLARATION).stdout) == story["sections"]
    assert node.ssh("stat -c %a " + DECLARATION).stdout.strip() == "600"
    assert node.ssh("ls -d /opt/hpcx/*2.24.1*").stdout
    node.ssh("rm -r /root/bundle")


def test_the_second_run_changes_nothing(node, story):
    began = float(node.ssh("cut -d ' ' -f 1 /proc/uptime").stdout)
    code, last, output = converge(node)
    story["seconds"] = float(node.ssh("cut -d ' ' -f 1 /proc/uptime").stdout) - began
    assert code == 0 and last == "ready" and "changed: nothing" in output, output[-6000:]


def test_a_timer_writes_the_metrics_for_node_exporter(node):
    assert node.ssh("systemctl is-active gpu-node-gpu_metrics.timer").stdout.strip() == "active"
    node.ssh("nvml-simulator fault gpu 3 lost; systemctl start gpu-node-gpu_metrics.service")
    written = node.ssh("cat {0}; nvml-simulator clear gpu 3".format(METRICS)).stdout
    assert "gpu_node_gpus 7\n" in written and re.search(r'^gpu_node_gpu_up{gpu="3".* 0$', written, re.M), written


def srun(node, script, options="", check=True):
    words = "cd /tmp && runuser -u trainee -- timeout 120 srun {0} sh -c {1}"
    return node.ssh(words.format(options, shlex.quote(script)), check=check, timeout=PATIENCE).stdout


def test_a_job_has_its_folder_and_without_its_scratch_the_node_is_drained_until_it_is_back(node):
    """By a real slurmctld and slurmd; the node is resumed by us only where we drained it."""
    reason = "gpu_node: scratch {0}: it is not mounted".format(SCRATCH)
    told = "scontrol -o show node | grep -o ' State=[^ ]*\\|Reason=.*' "
    node.ssh("systemctl start slurmd", timeout=PATIENCE)
    slurm_guest.wait_idle(node, PATIENCE)
    folder = "{0}/jobs/$SLURM_JOB_ID".format(SCRATCH)
    assert srun(node, "stat -c '%U %a' {0} && touch {0}/written".format(folder)) == "trainee 700\n"
    slurm_guest.wait_idle(node, PATIENCE)
    assert node.ssh("ls {0}/jobs".format(SCRATCH)).stdout == ""

    node.ssh("umount {0}; rm -f /tmp/ran".format(SCRATCH))
    srun(node, "touch /tmp/ran", "--immediate=20", check=False)
    drained = node.ssh("for n in $(seq 300); do {0} | grep Reason && break; sleep 1; done".format(told)).stdout
    assert reason in drained and "DRAIN" in node.ssh(told).stdout, drained
    node.ssh("test ! -e /tmp/ran; scancel --user=trainee")
    refused = node.ssh("gpunode hook resume", check=False)
    assert refused.returncode == 1 and "it is not mounted" in refused.stderr
    assert reason in node.ssh(told).stdout

    node.ssh("gpunode apply nvme_scratch")
    assert "resumed" in node.ssh("gpunode hook resume").stdout
    slurm_guest.wait_idle(node, PATIENCE)
    node.ssh("scontrol update NodeName={0} State=DRAIN Reason='bad DIMM'".format(node.name))
    assert "left as it is" in node.ssh("gpunode hook resume").stdout
    assert "bad DIMM" in node.ssh(told).stdout
    node.ssh("scontrol update NodeName={0} State=RESUME; systemctl stop slurmd".format(node.name))


def places_of(node, secret):
    """Entries of the journal with all their fields, and files, but those in /etc/gpu_node that root alone may read."""
    entries = node.ssh("journalctl --no-pager -o verbose | grep -F {0}".format(secret), check=False).stdout
    folders = "/var/log /var/lib /var/tmp /tmp /opt /root /run /home"
    files = node.ssh("grep -rlF {0} {1} --exclude-dir=journal".format(secret, folders), check=False).stdout
    readable = "find /etc/gpu_node -type f -perm /044 -exec grep -lF {0} {{}} +".format(secret)
    return entries + files + node.ssh(readable, check=False).stdout


def test_what_a_site_keeps_secret_is_in_no_log_no_record_and_no_journal(node, story):
    node.write(DECLARATION, json.dumps(dict(story["sections"], **STORE)), "0600")
    code, last, output = converge(node)
    assert code == 1 and last.startswith("not ready: "), output[-6000:]
    for name in ("hpcx.tar.gz", "enroot.deb"):
        assert "http://127.0.0.1:9/" + name in last and "cannot be downloaded" in last, output[-6000:]
        assert name in node.ssh("journalctl -b --no-pager -o cat -t gpu-node-converge").stdout
    node.write(DECLARATION, '{{"hpcx": {{"source": "http://x?{0}",\n'.format(KEYS[0]), "0600")
    code, last, broken = converge(node)
    assert code == 1 and DECLARATION + ": it is not valid JSON" in last, broken
    assert [key for key in KEYS if key in output + broken] == []
    assert [places_of(node, key) for key in KEYS] == ["", ""]
    assert not starts_slurmd(node)
    node.write(DECLARATION, json.dumps(story["sections"]), "0600")


@pytest.mark.soak
def test_killed_at_any_moment_a_node_never_looks_ready_and_the_next_run_ends_ready(node, story):
    moments, interrupted = random.Random(20), 0
    for share in [moments.uniform(0, 0.5) for _number in range(KILLS)]:
        before = record(node)["started"]
        node.ssh(KILLED.format(COMMAND, story["seconds"] * share, RECORD), check=False, timeout=PATIENCE)
        code, last = status(node)
        assert record(node)["started"] > before
        if code == 0:  # it had come to its end
            assert record(node)["ended"] is not None
            continue
        interrupted += 1
        assert code == 1 and "interrupted" in last, last
        verdict = json.loads(node.ssh("gpunode health --quick --json", check=False).stdout)
        assert verdict["outcome"] == "fail"
        assert not starts_slurmd(node)
        assert [one["findings"][0]["code"] for one in verdict["results"] if one["id"] == "converge"] == ["interrupted"]
    assert interrupted >= KILLS / 2
    # On a machine that is busy with other guests a check may not end in time, which is an honest "not ready".
    for _number in range(3):
        code, last, output = converge(node)
        if code == 0:
            break
    assert code == 0, output[-6000:]
    assert starts_slurmd(node)


# test_lifecycle.py has the same of a node that Ansible has converged.
@pytest.mark.soak
def test_after_a_deallocation_the_boot_has_converged_the_node(node):
    boot = node.boot_id()
    node.wipe_disks()
    node.ssh("systemctl is-system-running --wait || true", timeout=PATIENCE)
    assert node.boot_id() != boot
    assert node.ssh("systemctl show -p ActiveState --value {0}".format(UNIT)).stdout.strip() == "active"
    code, last = status(node)
    assert code == 0, last
    assert record(node)["boot_id"] == node.boot_id()
    assert node.ssh("findmnt -no FSTYPE " + SCRATCH).stdout.strip() == "xfs"
    # Once, though the unit's own output is the journal.
    journal = node.ssh("journalctl -b --no-pager -o cat -t gpu-node-converge").stdout.splitlines()
    assert journal.count("ready") == 1, journal


def test_what_was_installed_is_removed(node):
    code, last, _output = converge(node, "disable", "gpunode boot")
    assert code == 0 and "'gpunode undo --yes' removes it" in last
    left = "ls -d {0} /etc/systemd/system/{1} /etc/systemd/system/slurmd.service.d".format(RECORD, UNIT)
    assert node.ssh(left, check=False).stdout == ""
    assert node.ssh("systemctl list-unit-files {0} --no-legend".format(UNIT), check=False).stdout == ""
    code, _last, output = converge(node, "--yes", "gpunode undo")
    assert code == 0, output
    assert node.ssh("ls /opt/gpu_node; ls -d {0} /opt/hpcx".format(DECLARATION), check=False).stdout == "artefacts\n"
    assert node.ssh("findmnt {0}; ls {1}".format(SCRATCH, METRICS), check=False).stdout == ""
