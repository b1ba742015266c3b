# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode mig`` over simulated GPUs: what there is, what could be and would be done, and that nothing changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig import record
from ansible_collections.trainyard.gpu_node.tests.unit import forked
from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.command import gpunode_on

pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
A100, H100 = "nd96asr_v4", "nd96isr_h100_v5"
JOB = "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n"


class Node:
    def __init__(self, simulator, root):
        self.simulator, self.control, self.root = simulator, simulator.control, root

    def run(self, *words, widest=80, **environment):
        done = forked.run(
            [sys.executable, gpunode_on.__file__, str(self.root), "--", "mig", *words],
            env=self.simulator.environment(**environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if "--json" in words:
            assert done.stderr == ""
        else:
            assert all(len(line) <= widest for line in done.stdout.splitlines()), done.stdout
        return done

    def told(self, *words, status=0, **environment):
        """The lines; the status is asserted."""
        done = self.run(*words, **environment)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout.splitlines()

    def flat(self, *words, status=0):
        """All of it as one line."""
        return " ".join(" ".join(self.told(*words, status=status)).split())

    def json(self, *words, status=0, **environment):
        done = self.run(*words, "--json", **environment)
        assert done.returncode == status, done.stdout + done.stderr
        return json.loads(done.stdout)

    def instances(self, gpu, *made):
        """Each made is (gi, profile number, start, compute profiles)."""
        for gi, number, start, *compute in made:
            self.control("set", "gpu.{0}.gi.{1}".format(gpu, gi), "{0} {1}".format(number, start))
            for ci, profile in enumerate(compute):
                self.control("set", "gpu.{0}.ci.{1}.{2}".format(gpu, gi, ci), "{0} {1}".format(profile, ci))

    def process(self, pid, name="python3", cgroup=JOB):
        folder = self.root / "proc" / str(pid)
        folder.mkdir(parents=True)
        (folder / "comm").write_bytes(name.encode("utf-8", "surrogateescape") + b"\n")
        (folder / "cgroup").write_text(cgroup)

    def declare(self, *layouts, **options):
        path = self.root / "etc/gpu_node/node.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"mig_layout": dict({"layouts": list(layouts)}, **options)}))

    def state(self):
        """All that the driver knows, to see that nothing changed."""
        return {path.name: path.read_bytes() for path in sorted(self.simulator.state.iterdir()) if path.is_file()}


@pytest.fixture
def node(nvml_simulator, tmp_path):
    def make(name=A100, *settings, count=2):
        return Node(nvml_simulator(name, "gpu.count={0}".format(count), *settings), tmp_path)

    return make


@pytest.fixture
def divided(node):
    """GPU 0: 2g at 0, 1g at 2 without a compute instance, 3g at 4 in two; GPU 1 whole."""
    machine = node(A100, "gpu.0.mig_mode=1")
    machine.instances(0, (3, 1, 0, 1), (9, 0, 2), (2, 2, 4, 0, 1))
    return machine


# list ---------------------------------------------------------------------------------------------------


def test_instances_are_drawn_and_listed_with_their_devices(divided):
    divided.process(4294901)
    divided.control("process", "add", "0", "4294901", "3072", "2", "1")
    found = divided.json("list")
    first, second = found["gpus"]
    uuids = [compute["uuid"] for one in first["instances"] for compute in one["compute"]]
    assert divided.told("list") == [
        "GPU 0 (0001:00:00.0): NVIDIA A100-SXM4-40GB, MIG on",
        "   0        1        2        3        4        5        6        7",
        "  |2g.10gb          |1g.5gb  |        |3g.20gb*                           |",
        "  84 of 108 multiprocessors are in instances: 77.78 %",
        "  GI  PROFILE  SLICES  SMs  MEMORY",
        "  3   2g.10gb  0-1     28   0.0/9.6 GiB",
        "      CI 0  2c  " + uuids[0],
        "  9   1g.5gb   2       14   -/4.8 GiB",
        "      no compute instance: no program can use it",
        "  2   3g.20gb  4-7     42   3.0/19.5 GiB",
        "      CI 0  1c  " + uuids[1],
        "      CI 1  2c  " + uuids[2],
        "        process 4294901 (python3 of job 4711)",
        "GPU 1 (0002:00:00.0): NVIDIA A100-SXM4-40GB, MIG off",
    ]
    assert all(uuid.startswith("MIG-") and len(uuid) == 40 for uuid in uuids) and len(set(uuids)) == 3
    third = first["instances"][2]
    assert (third["gi"], third["start"], third["size"], third["multiprocessors"]) == (2, 4, 4, 42)
    assert (third["memory_used_bytes"], third["memory_total_bytes"]) == (3 << 30, 19968 << 20)
    assert third["engines"] == {"copy": 3, "decoder": 2, "encoder": 0, "jpeg": 0, "ofa": 0}
    (client,) = third["compute"][1]["clients"]
    assert (client["pid"], client["command"], client["owner"]) == (4294901, "python3", "job 4711")
    assert third["compute"][0]["clients"] == [] == third["clients"] and third["compute"][1]["in_use"]
    assert first["instances"][1]["memory_used_bytes"] is None  # only a MIG device tells it
    assert (second["mig"], second["instances"], second["declared"], second["waits_for"]) == (False, [], None, None)
    assert (first["memory_slices"], first["compute_slices"], first["multiprocessors"]) == (8, 7, 108)


def test_who_uses_a_gpu_and_no_compute_instance_of_it_is_told_too(divided):
    for pid, name, cgroup in (
        (4294901, "dcgm", "0::/system.slice/nvidia-dcgm.service\n"),
        (4294902, "serve", "0::/kubepods.slice/kubepods-podb6c6f0f4_1111_2222_3333_444455556666.slice/x\n"),
    ):
        divided.process(pid, name, cgroup)
    divided.control("process", "add", "0", "4294901", "10")
    divided.control("process", "add", "0", "4294902", "10", "3", "0")
    divided.process(4294903, "cuda-gdb", "0::/user.slice/session-1.scope\n")
    divided.control("process", "add", "0", "4294903", "10", "9", "5")  # in no compute instance that is told
    lines = divided.told("list", "--gpu", "0")
    place = lines.index("      no compute instance: no program can use it")
    assert lines[place + 1] == "        process 4294903 (cuda-gdb of session-1.scope)"
    assert "  on the whole GPU: process 4294901 (dcgm of nvidia-dcgm.service)" in lines
    assert "        process 4294902 (serve of pod b6c6f0f4-1111-2222-3333-444455556666)" in lines
    assert "  |2g.10gb*         |1g.5gb* |        |3g.20gb                            |" in lines
    assert len([line for line in lines if line.startswith("GPU ")]) == 1


def test_names_that_users_give_do_not_reach_the_terminal_raw(divided):
    evil = "\033]0;x\007\r\udcff"
    divided.process(4294901, evil, "0::/user.slice/\033[2J" + "y" * 300 + ".scope\n")
    divided.control("process", "add", "0", "4294901", "10", "3", "0")
    lines = divided.told("list")
    assert all(letter.isprintable() for line in lines for letter in line)
    (told,) = [line for line in lines if "4294901" in line]
    assert told.startswith("        process 4294901 (?]0;x??") and len(told) == 80
    text = divided.run("list", "--json").stdout
    text.encode("ascii")
    assert "\\udc" not in text
    refused = divided.run("plan", "4g", widest=400)  # a long word is not broken
    assert refused.returncode == 1 and "process 4294901" in refused.stdout
    assert all(letter.isprintable() for letter in refused.stdout.replace("\n", ""))


@pytest.mark.parametrize(
    "machine, words",
    [(A100, "on after a reset of the GPU: reboot the node"), (H100, "on when no process has the GPU")],
)
def test_a_mode_that_waits_says_for_what(node, machine, words):
    waiting = node(machine, "gpu.0.mig_mode=1")
    waiting.control("set", "gpu.0.latched.mig_mode", "0")
    assert waiting.flat("list", "--gpu", "0").endswith("MIG off, " + words)
    (gpu,) = waiting.json("list", "--gpu", "0")["gpus"]
    assert (gpu["mig"], gpu["mig_pending"], gpu["needs"]) == (False, True, "gpu_reset")
    assert gpu["waits_for"] == ("gpu_reset" if machine == A100 else "clients")


def test_mig_without_instances_and_a_machine_without_mig(node):
    assert "  no instances" in node(A100, "gpu.mig_mode=1", count=1).told("list")
    laptop = node("laptop", count=1)
    assert laptop.told("list") == ["GPU 0 (0000:01:00.0): NVIDIA GeForce RTX 3070 Laptop GPU, no MIG"]
    assert laptop.told("profiles") == ["GPU 0: NVIDIA GeForce RTX 3070 Laptop GPU, no MIG"]
    assert "no GPU of it can be divided (no MIG)" in laptop.flat("plan", "3g", status=1)
    assert "it cannot be divided (no MIG)" in laptop.flat("plan", "3g", "--gpu", "0", status=1)


def test_a_lost_gpu_costs_itself_and_the_status(divided):
    divided.control("fault", "gpu", "1", "lost")
    for words in (("list",), ("profiles",)):
        done = divided.run(*words)
        assert done.returncode == 1 and "GPU 0" in done.stdout and "GPU_IS_LOST" in done.stderr
    found = divided.json("list", status=1)
    assert [gpu["index"] for gpu in found["gpus"]] == [0] and len(found["failed_gpus"]) == 1
    assert divided.json("list", "--gpu", "0")["failed_gpus"] == []
    planned = divided.run("plan", "3g+2g")
    assert planned.returncode == 1 and "GPU_IS_LOST" in planned.stderr and "GPU 0: end 1g.5gb at 2" in planned.stdout


def test_a_mode_that_cannot_be_read_is_not_told_as_no_mig(divided):
    divided.control("fault", "call", "nvmlDeviceGetMigMode", "gpu", "1", "return", "UNKNOWN")
    done = divided.run("list")
    assert done.returncode == 1 and "no MIG" not in done.stdout
    assert "GPU 1: whether MIG is on cannot be read: " in " ".join(done.stderr.split())


def test_without_root_it_is_said_that_only_root_is_told(divided):
    done = divided.run("list", NVML_SIMULATOR_UID="1000")
    told = " ".join(done.stderr.split())
    remedy = ", and this root may not; run it on the node itself" if os.geteuid() == 0 else "; run it as root"
    assert done.returncode == 1 and "is told to root only" + remedy in told
    # A GPU that is whole tells everybody.
    assert "GPU 1 (0002:00:00.0): NVIDIA A100-SXM4-40GB, MIG off" in done.stdout


def test_what_is_declared_stands_beside_what_is(divided):
    wish = {
        "gpus": ["0"],
        "instances": [{"profile": "2g"}, {"profile": "1g"}, {"profile": "3g", "compute": ["1c", "2c"]}],
    }
    divided.declare(wish)
    lines = divided.told("list", status=1)
    assert lines[-4:-1] == [
        "  declared: 2g + 1g + 3g:1c,2c, which it is not:",
        "    make 1c in 1g.5gb",
        "    make the device files of its instances",
    ]
    divided.control("set", "gpu.0.ci.9.0", "0 0")
    assert "  declared: 2g + 1g + 3g:1c,2c, as it is" in divided.told("list")
    divided.declare(dict(wish, gpus=["0", "1"]))
    found = divided.json("list", status=1)
    assert [gpu["declared"]["as_declared"] for gpu in found["gpus"]] == [True, False]
    assert found["gpus"][1]["declared"]["differences"] == ["switch MIG on"]
    # The mode waits for a reset: nothing can be done now, and it is not as declared.
    divided.control("set", "gpu.1.mig_mode", "1")
    divided.control("set", "gpu.1.latched.mig_mode", "0")
    assert divided.json("list", status=1)["gpus"][1]["declared"]["differences"] == ["switch MIG on"]
    record.note_resets(Host(str(divided.root)), {found["gpus"][1]["uuid"]: True})
    assert "waits for a reset of the GPU" in divided.flat("list", status=1)
    # What is declared cannot be had any more.
    divided.declare({"gpus": ["0"], "instances": [{"profile": "4g", "count": 2}]})
    assert "would fit" in divided.flat("list", status=1)
    divided.declare({"gpus": ["5"], "instances": []})
    assert "this machine has no such GPU" in divided.flat("list", status=1)
    divided.declare({"gpus": ["0"], "instances": [{"profile": "3g", "count": 0}]})
    assert "count" in divided.flat("list", status=1)


# profiles -----------------------------------------------------------------------------------------------


def test_profiles_with_starts_and_how_many_more_fit(divided):
    assert divided.told("profiles", "0") == [
        "GPU 0: NVIDIA A100-SXM4-40GB, 7 compute slices, 8 memory slices, 108 SMs",
        "ID  PROFILE    SLICES  MEMORY    SMs  CE/DEC/ENC/JPG/OFA  STARTS   FREE",
        "0   7g.40gb    7+8     39.2 GiB  98   7/5/0/1/1           0        0 of 1",
        "5   4g.20gb    4+4     19.5 GiB  56   4/2/0/0/0           0        0 of 1",
        "9   3g.20gb    3+4     19.5 GiB  42   3/2/0/0/0           0,4      0 of 2",
        "14  2g.10gb    2+2     9.6 GiB   28   2/1/0/0/0           0,2,4    0 of 3",
        "15  1g.10gb    1+2     9.6 GiB   14   1/1/0/0/0           0,2,4,6  0 of 4",
        "19  1g.5gb     1+1     4.8 GiB   14   1/0/0/0/0           0-6      1 of 7",
        "20  1g.5gb+me  1+1     4.8 GiB   14   1/1/0/1/1           0-6      1 of 1",
    ]
    # As many as the driver itself would make.
    code = (
        "import json, pynvml as n; n.nvmlInit(); d = n.nvmlDeviceGetHandleByIndex(0)\n"
        "print(json.dumps({i: n.nvmlDeviceGetGpuInstanceRemainingCapacity(d, i) for i in (0, 5, 9, 14, 15, 19, 20)}))"
    )
    driver = divided.simulator.python(code)
    (gpu,) = divided.json("profiles", "--gpu", "0")["gpus"]
    assert {str(one["id"]): one["free"] for one in gpu["profiles"]} == driver
    assert gpu["profiles"][5]["starts"] == [0, 1, 2, 3, 4, 5, 6] and gpu["profiles"][5]["most"] == 7


def test_gpus_alike_are_told_once_and_mig_off_has_no_room(node):
    machine = node(H100, count=4)
    lines = machine.told("profiles")
    assert lines[0] == "GPU 0-3: NVIDIA H100 80GB HBM3, 7 compute slices, 8 memory slices, 132 SMs"
    assert len(lines) == 10 and lines[-1] == "MIG is off: none can be made before it is on"
    assert all(line.split()[-1] == "-" for line in lines[2:-1])
    assert all(one["free"] is None for one in machine.json("profiles", "3")["gpus"][0]["profiles"])


# plan ---------------------------------------------------------------------------------------------------


def test_a_plan_tells_steps_and_the_drawing_and_changes_nothing(divided):
    before = divided.state()
    lines = divided.told("plan", "3g+2x2g", "--gpu", "0")
    assert lines == [
        "GPU 0: end compute instance(s) 0, 1 of 3g.20gb",
        "GPU 0: end 1g.5gb at 2",
        "GPU 0: make 2g.10gb at 2",
        "GPU 0: make 3c in 3g.20gb",
        "GPU 0: make the device files of its instances",
        "GPU 0 then",
        "   0        1        2        3        4        5        6        7",
        "  |2g.10gb          |2g.10gb          |3g.20gb                            |",
        "note: GPU 0: the layout uses 98 of 108 multiprocessors; 9.26 % of the GPU stay",
        "  unused",
        "nothing was changed; declare it for mig_layout, and run 'gpunode converge --only",
        "  mig_layout'",
    ]
    found = divided.json("plan", "3g+2x2g", "--gpu", "0")
    assert found["wish"] == "3g + 2 x 2g" and found["exact"] and found["refusals"] == []
    assert [one["start"] for one in found["gpus"][0]["after"]] == [0, 2, 4]
    assert round(found["gpus"][0]["usable_percent"], 2) == 90.74
    assert divided.state() == before and not (divided.root / "var").exists()


def test_a_plan_is_what_a_converge_does(divided):
    """The same planner: what is planned here is what the module's check mode tells."""
    from ansible_collections.trainyard.gpu_node.tests.unit.plugins.module_utils.gpus.mig import drive_mig

    layout = {"gpus": ["0"], "instances": [{"profile": "3g"}, {"profile": "2g", "count": 2}]}
    job = {"root": str(divided.root), "options": {"layouts": [layout], "boot_unit": False}, "check": True}
    done = forked.run(
        [sys.executable, drive_mig.__file__],
        env=divided.simulator.environment(),
        input=json.dumps(job),
        capture_output=True,
        text=True,
        check=True,
    )
    described = [one["description"] for one in divided.json("plan", "3g+2x2g", "--gpu", "0")["actions"]]
    assert [one for one in json.loads(done.stdout)["described"] if "note that" in one or one.startswith("GPU")] == [
        one for one in described if "note that" in one or one.startswith("GPU")
    ]


def test_around_keeps_what_nobody_asked_for(divided):
    lines = divided.told("plan", "1g", "--gpu", "0", "--around")
    assert lines[:2] == ["GPU 0: make 1c in 1g.5gb", "GPU 0: make the device files of its instances"]
    assert "end" not in " ".join(lines[:2])
    assert divided.told("plan", "1g", "--gpu", "0", "--exact")[0].startswith("GPU 0: end 2g.10gb at 0")
    assert "4g.20gb beside 3g.20gb + 2g.10gb + 1g.5gb need" in divided.flat(
        "plan", "4g", "--gpu", "0", "--around", status=1
    )
    both = divided.run("plan", "4g", "--around", "--exact")
    assert both.returncode == 2


def test_an_impossible_wish_is_answered_with_one_that_works(divided):
    assert divided.flat("plan", "2x3g+1g", "--gpu", "0", status=1) == (
        "GPU 0: refused: 2 x 3g.20gb + 1g.5gb need 7 compute slices and 9 memory slices, and 7 of 7 and 8 of 8 are"
        " there; 3g.20gb + 2g.10gb + 1g.5gb would fit."
    )
    # The answer is given back as it stands.
    assert divided.json("plan", "3g.20gb", "+", "2g.10gb", "+", "1g.5gb", "--gpu", "0")["refusals"] == []
    (told,) = divided.json("plan", "2x3g+1g", "--gpu", "0", status=1)["refusals"]
    assert told["thing"] == "GPU 0 (0001:00:00.0)" and told["remedy"] == "3g.20gb + 2g.10gb + 1g.5gb would fit"


def test_what_is_in_use_is_in_the_way_with_its_name(divided):
    divided.process(4294901)
    divided.control("process", "add", "0", "4294901", "10", "2", "1")
    assert "end process 4294901 (python3 of job 4711)" in divided.flat("plan", "7g", "--gpu", "0", status=1)
    # So is a service, also one that may be stopped, as this one does not run under systemd.
    (divided.root / "proc/4294901/cgroup").write_text("0::/system.slice/nvidia-dcgm.service\n")
    divided.declare({"gpus": ["0"], "instances": [{"profile": "7g"}]}, stop_units=["nvidia-dcgm.service"])
    assert "(python3 of nvidia-dcgm.service)" in divided.flat("plan", "7g", "--gpu", "0", status=1)
    (declared,) = [gpu["declared"] for gpu in divided.json("list", "--gpu", "0", status=1)["gpus"]]
    assert len(declared["refusals"]) == 1 and declared["differences"] == []


def test_what_is_so_already_is_no_step(divided):
    lines = divided.told("plan", "off", "--gpu", "1")
    assert lines == ["GPU 1: as wished already, nothing to do"]
    divided.control("set", "gpu.0.ci.9.0", "0 0")
    assert divided.json("plan", "2g", "+", "1g", "+", "3g:1c,2c", "--gpu", "0")["actions"] == []


def test_a_mode_that_needs_a_reset_is_planned_to_its_end(node):
    machine = node(A100)
    lines = machine.told("plan", "4g+3g")
    assert lines[:5] == [
        "GPU 0-1: switch MIG on",
        "GPU 0-1: after a reset of the GPU: make 4g.20gb at 0",
        "GPU 0-1: after a reset of the GPU: make 3g.20gb at 4",
        "GPU 0-1: after a reset of the GPU: make the device files of its instances",
        "GPU 0-1 then",
    ]
    assert machine.told("plan", "empty")[0] == "GPU 0-1: switch MIG on"
    at_once = node(H100).told("plan", "4g+3g", "--gpu", "1")
    assert at_once[:3] == ["GPU 1: switch MIG on", "GPU 1: make 4g.40gb at 0", "GPU 1: make 3g.40gb at 4"]


def test_a_driver_that_tells_profiles_in_mig_mode_only(node):
    machine = node(A100, count=1)
    for name in ("nvmlDeviceGetGpuInstanceProfileInfo", "nvmlDeviceGetGpuInstanceProfileInfoV"):
        machine.control("fault", "call", name, "return", "NOT_SUPPORTED")
    lines = machine.told("plan", "3g")
    assert lines[0] == "GPU 0: switch MIG on" and "then" not in lines
    assert "note: GPU 0: the driver tells what it can be divided into when MIG is on" in lines
    assert machine.told("profiles")[-1] == "the driver tells more when MIG is on"


@pytest.mark.parametrize(
    "words, said",
    [
        (("plan", "3h"), "gpunode mig plan 3h: '3h' is no GPU instance; write it as 3g+2x2g"),
        (("plan", "20x1g"), "gpunode mig plan 20x1g: '20x1g', its count: 20 is out of range; give 1 to 14."),
        (("plan", "3g", "--gpu", "9"), "GPU '9': this machine has no such GPU; choose among 0 = 0001:00:00.0"),
        (("list", "--gpu", "9"), "GPU '9': this machine has no such GPU"),
        (("profiles", "GPU-x"), "GPU 'GPU-x': this machine has no such GPU"),
        (("plan",), "gpunode mig plan: an argument is missing; give WISH"),
        (("lst",), "did you mean 'list'?"),
        ((), "it takes one of its commands, and none was given; choose among list, profiles, plan"),
    ],
)
def test_wrong_use_is_a_sentence(node, words, said):
    done = node(A100).run(*words)
    assert (done.returncode, done.stdout) == (2, "") and said in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_profile_that_the_gpu_lacks_is_refused_with_those_that_it_has(divided):
    told = divided.flat("plan", "5g", "--gpu", "0", status=1)
    assert "this GPU has no profile 5g; it has 7g.40gb, 4g.20gb" in told


def test_another_owner_of_the_layout_is_in_the_way(divided):
    folder = divided.root / "etc/systemd/system/multi-user.target.wants"
    folder.mkdir(parents=True)
    (folder / "nvidia-mig-manager.service").write_text("")
    assert "nvidia-mig-manager.service" in divided.flat("plan", "7g", "--gpu", "0", status=1)


def test_without_a_gpu_there_is_nothing_to_tell(tmp_path):
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path for path in sys.path if path))
    for words in (("list",), ("profiles",), ("plan", "3g")):
        done = forked.run(
            [sys.executable, gpunode_on.__file__, str(tmp_path), "--", "mig", *words],
            env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0 and "GPU" in done.stdout, done.stderr
