# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scheduled Events in a guest: a stand-in with Azure's documented answers on the guest's own loopback, real Slurm, the
real service.

The address of Azure is the guest's own here. Beside it stands a route that refuses it, so that no request ever leaves
the guest should the address be missing.
"""

from __future__ import annotations

import json
import time
import uuid
from email.utils import formatdate

import pytest
import slurm_guest

pytestmark = pytest.mark.soak

SLURM_CONF = (
    slurm_guest.SEVERAL_CONF
    + """ReturnToService={returns}
NodeName=gpu[1-3] NodeHostname={name} NodeAddr=127.0.0.1 Port=[17001-17003] CPUs=1 RealMemory=100
PartitionName=all Nodes=ALL Default=YES State=UP
"""
)
ALIAS = """
set -e
ip route replace prohibit 169.254.169.254/32
ip addr replace 169.254.169.254/32 dev lo
"""
# Answers as documented for api-version 2020-07-01, with what /run/azure/events.json has; "mode" makes it unkind.
STAND_IN = r"""
import http.server, json, os, time

FOLDER = "/run/azure/"

class Azure(http.server.BaseHTTPRequestHandler):
    def log_message(self, *words):
        pass

    def told(self):
        with open(FOLDER + "events.json") as stream:
            return json.load(stream)

    def reply(self, body, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        told = self.told()
        with open(FOLDER + "requests", "a") as stream:
            stream.write("GET {0}\n".format(self.path))
        if self.headers.get("Metadata", "").lower() != "true":
            return self.reply(b"", 400)
        if self.path.startswith("/metadata/instance/compute"):
            return self.reply(json.dumps({"name": "guest_0"}).encode())
        if told["mode"] == "slow":
            time.sleep(20)
        if told["mode"] == "garbage":
            return self.reply(b"<html>no</html>")
        if told["mode"] == "error":
            return self.reply(b"", 500)
        document = {"DocumentIncarnation": told["incarnation"], "Events": told["events"]}
        self.reply(json.dumps(document).encode())

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with open(FOLDER + "approved", "a") as stream:
            stream.writelines(one["EventId"] + "\n" for one in body["StartRequests"])
        self.reply(b"")

http.server.ThreadingHTTPServer(("169.254.169.254", 80), Azure).serve_forever()
"""
# A guest has no number in its firmware, so the kernel shows no file for one.
TOLD = """
set -e
boot=/proc/sys/kernel/random/boot_id dmi=/sys/devices/virtual/dmi/id
mountpoint -q $boot || mount --bind /run/told/boot_id $boot
if ! mountpoint -q $dmi; then
    for file in $dmi/*; do [ ! -f $file ] || cp --no-clobber $file /run/told/dmi/ || true; done
    mount --bind /run/told/dmi $dmi
fi
"""
PLAY = """
- hosts: all
  gather_facts: false
  tasks:
    - trainyard.gpu_node.node_runtime:
    - trainyard.gpu_node.gpu_settings: {persistenced: false, clocks: default, boot_unit: false}
    - trainyard.gpu_node.health_gate:
        without: [profile, clock_synchronised, service_running]
        timer: false
        proof: false  # it is not what this file tests
        drained_percent: 50
"""
SERVICE = "gpu-node-cloud_events.service"
LAST = {"interval_seconds": 1, "provider": "azure", "slurm_node": "gpu1"}


def event(kind, name=None, status="Scheduled", seconds=900, resources=("guest_0",)):
    return {
        "EventId": name or str(uuid.uuid4()),
        "EventType": kind,
        "ResourceType": "VirtualMachine",
        "Resources": list(resources),
        "EventStatus": status,
        "NotBefore": "" if status == "Started" else formatdate(time.time() + seconds, usegmt=True),
        "Description": "Host server is undergoing maintenance.",
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }


class Guest:
    def __init__(self, node):
        self.node, self.ssh, self.incarnation = node, node.ssh, 0

    def configure(self, returns=2):
        self.node.write("/etc/slurm/slurm.conf", SLURM_CONF.format(name=self.node.name, returns=returns))

    def azure(self, *events, mode="kind"):
        self.incarnation += 1
        told = {"mode": mode, "incarnation": self.incarnation, "events": list(events)}
        self.node.write("/run/azure/new.json", json.dumps(told))
        self.ssh("mv /run/azure/new.json /run/azure/events.json")

    def machine(self, new=False):
        """Another start of the machine, or of a new one, with the service as that start has it."""
        self.ssh("systemctl stop {0} 2>/dev/null || true".format(SERVICE))
        self.node.write("/run/told/boot_id", str(uuid.uuid4()) + "\n")
        if new:
            self.node.write("/run/told/dmi/product_uuid", str(uuid.uuid4()) + "\n")
        self.ssh(TOLD)

    def start(self):
        self.ssh("systemctl start " + SERVICE)

    def declare(self, **more):
        return self.node.module("cloud_events", **dict(LAST, **more))

    def state(self, name="gpu1"):
        words = self.ssh("sinfo -h -N -n {0} -O StateComplete:200,Reason:300".format(name)).stdout
        return set(words[:200].strip().split("+")), words[200:].strip()

    def wait(self, condition, seconds=120):
        deadline = time.monotonic() + seconds
        while not condition(*self.state()):
            told = self.ssh("journalctl -u {0} -n 30 --no-pager; gpunode events".format(SERVICE), check=False)
            assert time.monotonic() < deadline, "{0}\n{1}".format(self.state(), told.stdout)
            time.sleep(1)

    def drained(self, words):
        self.wait(lambda flags, reason: "drain" in flags and reason.startswith("gpu_node: event: " + words))

    def in_service(self, seconds=240):
        self.wait(lambda flags, dummy: flags == {"idle"}, seconds)

    def log(self):
        """Not of this boot alone, whose id is one that a test made."""
        return self.ssh("journalctl -u {0} -o cat --no-pager".format(SERVICE)).stdout

    def seconds(self, command):
        begin = self.ssh("date +%s.%N").stdout
        done = self.ssh(command, check=False)
        end = self.ssh("date +%s.%N").stdout
        return float(end) - float(begin), done


@pytest.fixture(scope="module")
def guest(node_factory, tmp_path_factory):
    node = node_factory("events", cpus=2, nvme_count=0)
    node.ssh(ALIAS)
    assert " lo " in node.ssh("ip route get 169.254.169.254").stdout
    node.ssh(slurm_guest.PREPARE + slurm_guest.DEVICES + "mkdir -p /run/azure /run/told/dmi")
    found = Guest(node)
    found.configure()
    found.azure()
    node.write("/run/azure/azure.py", STAND_IN)
    node.ssh("systemd-run --quiet --unit=azure python3 /run/azure/azure.py")
    play = tmp_path_factory.mktemp("events") / "play.yml"
    play.write_text(PLAY)
    node.ansible(play)
    found.machine(new=True)
    node.ssh("systemctl start slurmctld", timeout=300)
    for name in ("gpu1", "gpu2", "gpu3"):
        node.ssh(
            "systemd-run --quiet --collect --unit=slurmd-{0} --property=Delegate=yes slurmd -D -N {0}".format(name)
        )
    found.in_service()
    yield found
    node.node.down()


@pytest.fixture(autouse=True)
def kind(guest):
    """Each test begins with a node in service, the service running and a kind cloud without events."""
    guest.azure()
    guest.ssh("systemctl is-active -q azure || systemd-run --quiet --unit=azure python3 /run/azure/azure.py")
    guest.declare()
    guest.in_service()
    guest.ssh("rm -f /run/azure/approved /run/azure/requests")
    yield
    guest.ssh("nvml-simulator clear; scontrol update NodeName=gpu1 State=RESUME 2>/dev/null || true")


def test_the_service_runs_and_a_second_run_changes_nothing(guest):
    assert not guest.declare()["changed"]
    assert guest.ssh("systemctl is-active " + SERVICE).stdout.strip() == "active"
    assert guest.ssh("gpunode events").stdout.strip().startswith("no event is pending")


def test_a_freeze_is_told_and_jobs_go_on(guest):
    one = event("Freeze")
    guest.azure(one)
    time.sleep(5)
    assert guest.state()[0] == {"idle"} and "event Freeze {0}".format(one["EventId"]) in guest.log()


@pytest.mark.parametrize("returns", [2, 1])
def test_a_reboot_drains_before_and_comes_back_proved(guest, returns):
    guest.configure(returns)
    guest.ssh("scontrol reconfigure")
    one = event("Reboot")
    guest.azure(one)
    guest.drained("Reboot {0} at ".format(one["EventId"]))
    guest.azure(dict(one, EventStatus="Started", NotBefore=""))
    guest.ssh("systemctl stop slurmd-gpu1")
    guest.machine()
    guest.ssh("systemd-run --quiet --collect --unit=slurmd-gpu1 --property=Delegate=yes slurmd -D -b -N gpu1")
    guest.start()
    time.sleep(5)
    assert "drain" in guest.state()[0]
    guest.azure()
    guest.in_service()
    guest.configure()
    guest.ssh("scontrol reconfigure")


def test_another_machine_after_a_redeploy_is_told_apart(guest):
    one = event("Redeploy")
    guest.azure(one)
    guest.drained("Redeploy " + one["EventId"])
    guest.machine(new=True)
    guest.start()
    guest.azure()
    guest.in_service()
    assert "this is another machine" in guest.log()
    assert any(
        "another machine" in note["text"] for note in json.loads(guest.ssh("gpunode events --json").stdout)["history"]
    )


def test_a_sick_node_does_not_come_back(guest):
    one = event("Redeploy")
    guest.azure(one)
    guest.drained("Redeploy")
    guest.ssh("nvml-simulator fault gpu 3 lost")
    guest.machine()
    guest.start()
    guest.azure()
    guest.drained("Redeploy {0} is over, not resumed: GPU 3".format(one["EventId"]))
    guest.ssh("nvml-simulator clear")
    guest.in_service(300)


def test_a_preempt_drains_within_its_thirty_seconds(guest):
    guest.azure(event("Preempt", seconds=30))
    guest.wait(lambda flags, reason: "drain" in flags and "event: Preempt" in reason, 15)


def test_two_at_once_keep_it_drained_until_both_are_over(guest):
    first, second = event("Reboot", seconds=600), event("Redeploy", seconds=1200)
    guest.azure(first, second)
    guest.drained("Reboot " + first["EventId"])
    guest.azure(second)
    guest.drained("Redeploy " + second["EventId"])
    guest.azure()
    guest.in_service()


def test_a_persons_drain_and_resume_are_theirs(guest):
    guest.ssh("scontrol update NodeName=gpu1 State=DRAIN Reason='anna: new memory'")
    guest.azure(event("Reboot"))
    time.sleep(20)
    guest.azure()
    time.sleep(20)
    assert guest.state()[1] == "anna: new memory"
    guest.ssh("scontrol update NodeName=gpu1 State=UNDRAIN")
    guest.azure(event("Reboot"))
    guest.drained("Reboot")
    guest.ssh("scontrol update NodeName=gpu1 State=UNDRAIN")
    time.sleep(40)
    assert "drain" not in guest.state()[0]


def test_a_job_that_runs_is_waited_for_before_an_approval(guest):
    guest.declare(approve=True)
    guest.ssh("cd /tmp && runuser -u trainee -- sbatch -w gpu1 -o /dev/null --wrap 'sleep 40'")
    guest.wait(lambda flags, dummy: bool(flags & {"allocated", "mixed"}))
    one, shared = event("Reboot"), event("Redeploy", resources=["guest_0", "guest_1"])
    guest.azure(one, shared)
    guest.wait(lambda flags, reason: "drain" in flags and "event: " in reason)
    assert guest.ssh("cat /run/azure/approved", check=False).stdout == ""
    guest.wait(lambda flags, dummy: "idle" in flags)
    deadline = time.monotonic() + 60
    while one["EventId"] not in guest.ssh("cat /run/azure/approved", check=False).stdout:
        assert time.monotonic() < deadline
        time.sleep(1)
    assert shared["EventId"] not in guest.ssh("cat /run/azure/approved").stdout
    guest.azure()
    guest.in_service()


@pytest.mark.parametrize("mode", ["slow", "garbage", "error", "gone"])
def test_a_cloud_that_does_not_answer_ends_no_event_and_costs_under_a_second(guest, mode):
    one = event("Reboot")
    guest.azure(one)
    guest.drained("Reboot")
    begin, dummy = guest.seconds("gpunode events")  # with a kind cloud: what the command itself costs
    guest.azure(mode=mode)
    if mode == "gone":
        guest.ssh("systemctl stop azure")
    took, done = guest.seconds("gpunode events")
    assert done.returncode == 1 and done.stdout.startswith("no answer: 169.254.169.254") and took - begin < 1.0
    time.sleep(15)
    assert "drain" in guest.state()[0]


def test_proxies_are_not_asked(guest):
    done = guest.ssh("http_proxy=http://127.0.0.1:1 all_proxy=http://127.0.0.1:1 gpunode events")
    assert done.stdout.startswith("no event is pending")


def test_a_service_that_is_killed_goes_on(guest):
    one = event("Redeploy")
    guest.azure(one)
    guest.drained("Redeploy")
    guest.ssh("systemctl kill -s KILL {0}".format(SERVICE))
    guest.azure()
    guest.in_service()


def test_absent_takes_all_of_it(guest):
    guest.ssh("systemctl is-active " + SERVICE)
    guest.node.module("cloud_events", state="absent")
    assert guest.ssh("systemctl is-active " + SERVICE, check=False).stdout.strip() != "active"
    assert guest.ssh(
        "ls /etc/systemd/system/{0} /var/lib/gpu_node/cloud_events.json".format(SERVICE), check=False
    ).returncode
    assert not guest.node.module("cloud_events", state="absent")["changed"]
