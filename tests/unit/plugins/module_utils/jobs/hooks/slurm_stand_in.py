# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster that is one file: scontrol and sinfo as a node runs them, with the words of Slurm 22.05.

The forms of the answers were taken from a real slurmctld; tests/e2e/test_slurm_cloud.py asks one.
"""

from __future__ import annotations

import json
import sys

SCRIPT = r"""#!{python}
import datetime, fcntl, json, os, sys, time
folder = os.path.dirname(os.path.abspath(__file__))
program, words = os.path.basename(sys.argv[0]), sys.argv[1:]
lock = open(folder + "/lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
with open(folder + "/calls", "a") as stream:
    stream.write(" ".join([program, *words]) + "\n")
if os.path.exists(folder + "/hang"):
    time.sleep(60)
if os.path.exists(folder + "/down"):
    sys.exit("slurm_load_node error: Unable to contact slurm controller (connect failure)")
cluster = json.load(open(folder + "/cluster.json"))
nodes = cluster["nodes"]


def short(state):
    # IDLE+CLOUD+DRAIN+POWERED_DOWN is drained~ for sinfo's %T.
    flags = state.split("+")
    base = "drained" if "DRAIN" in flags else flags[0].lower()
    return base + ("~" if "POWERED_DOWN" in flags else "%" if "POWERING_DOWN" in flags else "")


def option(name):
    return words[words.index(name) + 1]


if program in ("sinfo", "squeue"):
    assert "--local" in words  # in a federation they would tell of the other clusters too
if program == "sinfo" and "-O" in words:
    columns = [one.split(":") for one in option("-O").split(",")]
    for name, told in nodes.items():
        for partition in told["partitions"] if "-n" not in words or option("-n") == name else ():
            cells = {{
                "PartitionName": partition,
                "NodeList": name,
                "StateComplete": told["state"].lower(),
                "Reason": told["reason"] or "none",
            }}
            print("".join(cells[key][: int(width)].ljust(int(width)) for key, width in columns))
elif program == "sinfo":
    wanted = option("-p").split(",")
    members = [(one, name, told) for one in wanted for name, told in nodes.items() if one in told["partitions"]]
    if "-N" in words:
        assert (option("-t"), option("-o")) == ("drain", "%R|%N|%H|%T|%E")
        for one, name, told in members:
            if "DRAIN" in told["state"]:
                print("|".join((one, name, told["since"] or "Unknown", short(told["state"]), told["reason"] or "none")))
    else:
        assert option("-o") == "%R|%D|%T"
        counts = {{}}
        for one, dummy, told in members:
            counts[one, short(told["state"])] = counts.get((one, short(told["state"])), 0) + 1
        for (one, state), count in counts.items():
            print("{{}}|{{}}|{{}}".format(one, count, state))
elif words[1:2] == ["reservation"] or words[-2:-1] == ["reservation"] or words[1].startswith("ReservationName="):
    # The words of 22.05 and 24.11, which are the same.
    known = cluster.setdefault("reservations", {{}})
    given = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    name = given.get("ReservationName", words[-1])
    start = int(given.get("StartTime", "uts0")[3:])
    if "StartTime" in given and start < time.time() - 60:
        sys.exit("Error creating the reservation: Invalid time specified")
    if words[0] == "create":
        if name in known:
            sys.exit("Error creating the reservation: Duplicate reservation name")
        known[name] = {{"start": start, "nodes": given["Nodes"], "flags": given["Flags"] + ",SPEC_NODES"}}
    elif words[0] == "update":
        known[name]["start"] = start
    elif words[0] == "delete":
        if name not in known:
            sys.exit("delete_reservation ReservationName=" + name + ": Requested reservation is invalid")
        del known[name]
    elif not known:
        print("No reservations in the system")
    elif name not in known:
        sys.exit("Reservation " + name + " not found")
    else:
        assert os.environ["SLURM_TIME_FORMAT"] == "%s"
        text = "ReservationName={{}} StartTime={{start}} EndTime=1 Duration=365-00:00:00 Nodes={{nodes}} Flags="
        text += "{{flags}} State=INACTIVE"
        print(text.format(name, **known[name]))
elif words[0] == "update" and words[1].startswith("SuspendExcNodes"):
    sign, name = words[1][len("SuspendExcNodes"):].split("=")
    kept = set(cluster["kept"])
    cluster["kept"] = sorted(kept | {{name}} if sign == "+" else kept - {{name}})
elif words[0] == "update":
    given = dict(word.split("=", 1) for word in words[1:])
    for name in given["NodeName"].split(","):
        node = nodes[name]
        flags = [one for one in node["state"].split("+") if one != "DRAIN"]
        # With accounting_storage/none 23.11 to 25.11 leave the reason, others clear it with the drain.
        after = given.get("Reason", node["reason"]) if cluster.get("keeps_reasons") else ""
        if "State" not in given:
            node.update(reason=given["Reason"])
        elif given["State"] == "DRAIN":
            now = datetime.datetime.now().strftime("%Y-%m-%dT%H:%M:%S")
            node.update(state="+".join([*flags, "DRAIN"]), reason=given["Reason"], since=now)
        elif given["State"] == "UNDRAIN":
            node.update(state="+".join(flags), reason=after, since="")
        elif given["State"] == "RESUME":  # as slurmctld: a node that is down is idle then
            node.update(state="+".join(one if one != "DOWN" else "IDLE" for one in flags), reason=after, since="")
        else:
            sys.exit("Invalid node state specified")
elif program == "squeue":
    name = [word for word in words if word.startswith("--nodelist=")][0].partition("=")[2]
    users = cluster.get("users", {{}})
    told = [(str(one), users.get(str(one), 0)) for one in cluster.get("on", {{}}).get(name, [])]
    print("\n".join("{{}}|{{}}".format(*one) if "%A|%U" in words else one[0] for one in told))
elif words[:2] == ["show", "config"]:
    print("RebootProgram           = " + cluster.get("reboots", "(null)"))
    print("ResumeTimeout           = {{}} sec".format(cluster.get("resume_timeout", 60)))
elif words[0] == "reboot":
    # As 22.05 does it: with ASAP or nextstate= the boot would take the drain away.
    assert len(words) == 2
    told = nodes[words[1]]
    told["state"] = "DOWN+" + "+".join(one for one in told["state"].split("+") if one != "IDLE") + "+REBOOT_ISSUED"
    told["reason"] += " : reboot issued"
elif words[:2] == ["show", "job"]:
    if words[2] not in cluster["jobs"]:
        sys.exit("slurm_load_jobs error: Invalid job id specified")
    print("JobId={{0}} JobName=x\n   JobState={{1}} Reason=None".format(words[2], cluster["jobs"][words[2]]))
elif "show" in words:
    for name, told in nodes.items():
        if words[-1] in (name, "node", "nodes"):
            print("NodeName={{0}} Arch=x86_64\n   State={{1}} ThreadsPerCore=1".format(name, told["state"]))
            print("   Partitions={{0}} ".format(",".join(told["partitions"])))
            if told["reason"]:
                print("   Reason={{0}} [root@{{1}}]".format(told["reason"], told["since"]))
            print()
else:
    sys.exit("{{0}}: {{1}}: that is not known here".format(program, words))
with open(folder + "/cluster.new", "w") as stream:
    json.dump(cluster, stream)
os.rename(folder + "/cluster.new", folder + "/cluster.json")
"""


class Cluster:
    """Nodes of one partition at first; ``folder`` holds the programs."""

    def __init__(self, folder, names, partition="gpu"):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for program in ("scontrol", "sinfo", "squeue"):
            (folder / program).write_text(SCRIPT.format(python=sys.executable + " -IS"))
            (folder / program).chmod(0o755)
        nodes = {name: {"state": "IDLE", "reason": "", "since": "", "partitions": [partition]} for name in names}
        self._write({"nodes": nodes, "kept": [], "jobs": {}})

    def _read(self):
        return json.loads((self.folder / "cluster.json").read_text())

    def _write(self, cluster):
        (self.folder / "cluster.json").write_text(json.dumps(cluster))

    def set(self, name, state, reason="", since="2026-01-31T12:00:00", **more):
        cluster = self._read()
        cluster["nodes"][name].update(state=state, reason=reason, since=since if reason else "", **more)
        self._write(cluster)

    def drains(self, name, reason):
        """As slurmctld does by itself (_drain_node): a reason that is there stays."""
        state, old = self.node(name)
        self.set(name, state + "+DRAIN", reason if not old or old.startswith("Not responding") else old)

    def registers(self, name, too_little=""):
        """As 23.02 and newer take it: the drain and its new reason outlive INVALID_REG (validate_node_specs)."""
        state, old = self.node(name)
        flags = [one for one in state.split("+") if one != "INVALID_REG" and (one != "DRAIN" or not too_little)]
        self.set(name, "+".join([*flags, *(["DRAIN", "INVALID_REG"] if too_little else [])]), too_little or old)

    def job(self, number, state):
        cluster = self._read()
        cluster["jobs"][str(number)] = state
        self._write(cluster)

    def node(self, name):
        """(state, reason)"""
        told = self._read()["nodes"][name]
        return told["state"], told["reason"]

    def change(self, **more):
        """``on``: jobs by node, for squeue, ``users``: whose they are, by job; ``reboots``: RebootProgram;
        ``resume_timeout``; ``keeps_reasons``: of nodes whose drain ends."""
        self._write(dict(self._read(), **more))

    @property
    def names(self):
        return list(self._read()["nodes"])

    @property
    def drained(self):
        return sorted(name for name, told in self._read()["nodes"].items() if "DRAIN" in told["state"])

    @property
    def kept(self):
        return self._read()["kept"]

    @property
    def reservations(self):
        return self._read().get("reservations", {})

    @property
    def calls(self):
        """What was asked since the last look here."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.write_text("")
        return lines

    def down(self, is_down=True):
        (self.folder / "down").touch() if is_down else (self.folder / "down").unlink()

    def hang(self):
        (self.folder / "hang").touch()
