# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Slurm node this is, and where Slurm's files are, by slurmd's rules; and that nothing else answers that."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import machine
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Completed, Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm import places, this_node
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.node.run import named

COLLECTION = Path(__file__).resolve().parents[5]
ETC = "/etc/slurm/slurm.conf"


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in ("SLURMD_NODENAME", "SLURM_CONF"):
        monkeypatch.delenv(name, raising=False)


def called(monkeypatch, name):
    monkeypatch.setattr(machine, "whole_name", lambda: name)


def tree(tmp_path, files, running=None, environment=""):
    """``running``: the command line of a slurmd that runs."""
    files = dict(files)
    if running is not None:
        files.update({"/proc/77/comm": "slurmd\n", "/proc/77/cmdline": running.replace(" ", "\0") + "\0"})
        files["/proc/77/environ"] = environment
    for name, text in files.items():
        path = tmp_path / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(text, bytes):
            path.write_bytes(text)
        else:
            path.write_text(text)
        path.chmod(0o755)
    return Host(str(tmp_path))


LINES = "NodeName=DEFAULT CPUs=8 Gres=gpu:8\n"


@pytest.mark.parametrize(
    "host_name, conf, hosts_file, expected",
    [
        ("gpu01", "NodeName=gpu[01-04]\n", "", "gpu01"),
        ("gpu01.hpc.example.org", "NodeName=gpu[01-04]\n", "", "gpu01"),
        (
            "gpu01.hpc.example.org",
            "NodeName=gpu01.hpc.example.org,gpu02.hpc.example.org\n",
            "",
            "gpu01.hpc.example.org",
        ),
        ("gpu02.hpc.example.org", "NodeName=gpu[01-04].hpc.example.org\n", "", "gpu02.hpc.example.org"),
        # The short host name comes first, as with slurmd.
        ("gpu01.hpc.example.org", "NodeName=gpu01.hpc.example.org\nNodeName=gpu01\n", "", "gpu01"),
        ("host7", "NodeName=gpu[01-02] NodeHostname=host[7-8]\n", "", "gpu01"),
        ("host8.rack", "NodeName=gpu[01-02] NodeHostname=host[7-8].rack\n", "", "gpu02"),
        ("gpu01", "NodeName=gpu01.x.org\n", "10.0.0.1 gpu01.x.org gpu01 # ours\n", "gpu01.x.org"),
        ("gpu01", "NodeName=ib01\n", "10.0.0.1 gpu01.x.org gpu01 ib01\n", "ib01"),
        ("box", "NodeName=only NodeHostname=localhost\n", "", "only"),
        # NodeAddr is no name, the node of another host is not ours, and DEFAULT is no node.
        ("gpu09", "NodeName=other NodeAddr=gpu09\n", "10.0.0.2 other\n", "gpu09"),
        ("DEFAULT", "NodeName=gpu01\n", "", "DEFAULT"),
        ("gpu07.x.org", "", "", "gpu07"),
    ],
)
def test_the_node_name_comes_from_the_host_name_as_slurmd_takes_it(
    tmp_path, monkeypatch, host_name, conf, hosts_file, expected
):
    called(monkeypatch, host_name)
    host = tree(
        tmp_path, {ETC: "Include nodes.conf\n", "/etc/slurm/nodes.conf": LINES + conf, "/etc/hosts": hosts_file}
    )
    assert this_node.here(host).node_name == expected


def test_a_running_slurmd_gives_its_node_name(tmp_path, monkeypatch):
    called(monkeypatch, "host7.x.org")
    conf = {ETC: "NodeName=host7\nNodeName=gpu0[1-4]\n", "/etc/default/slurmd": "SLURMD_OPTIONS=-N gpu03\n"}
    assert this_node.here(tree(tmp_path / "one", conf)).node_name == "gpu03"  # it does not run yet
    assert this_node.here(tree(tmp_path / "two", conf, "/usr/sbin/slurmd -DsN gpu04")).node_name == "gpu04"
    assert this_node.here(tree(tmp_path / "three", conf, "/usr/sbin/slurmd -D")).node_name == "host7"
    # A dynamic node has the whole host name, with -N that name.
    assert (
        this_node.here(tree(tmp_path / "four", conf, "/usr/sbin/slurmd -DZ --conf Gres=gpu:8")).node_name
        == "host7.x.org"
    )
    assert this_node.here(tree(tmp_path / "five", conf, "/usr/sbin/slurmd -Z -Ndyn1")).node_name == "dyn1"
    monkeypatch.setenv("SLURMD_NODENAME", "gpu02")  # in a hook
    assert this_node.here(tree(tmp_path / "two", conf)).node_name == "gpu02"


def library(path):
    return b"\0/tmp\0/run/slurm/conf/slurm.conf\0" + path.encode() + b"\0%s/slurm.conf\0"


CONF = "ClusterName=x\nNodeName=x\n"


@pytest.mark.parametrize(
    "files, running, environment, path, configless",
    [
        (
            {"/opt/slurm/sbin/slurmd": "", "/opt/slurm/etc/slurm.conf": CONF},
            None,
            "",
            "/opt/slurm/etc/slurm.conf",
            False,
        ),
        ({"/opt/slurm/sbin/slurmd": "", ETC: CONF}, None, "", ETC, False),  # built with --sysconfdir=/etc/slurm
        # Both are there: the library says which one is read.
        (
            {
                "/opt/slurm/sbin/slurmd": "",
                "/opt/slurm/etc/slurm.conf": CONF,
                ETC: CONF,
                "/opt/slurm/lib/slurm/libslurmfull.so": library(ETC),
            },
            None,
            "",
            ETC,
            False,
        ),
        (
            {
                "/cm/slurm/23.11/lib64/slurm/libslurmfull.so": library("/cm/slurm/etc/slurm.conf"),
                "/cm/slurm/etc/slurm.conf": CONF,
                ETC: CONF,
            },
            "/cm/slurm/23.11/sbin/slurmd -D",
            "",
            "/cm/slurm/etc/slurm.conf",
            False,
        ),
        ({ETC: CONF, "/srv/slurm.conf": CONF}, "slurmd -f /srv/slurm.conf", "", "/srv/slurm.conf", False),
        ({ETC: CONF, "/srv/slurm.conf": CONF}, "slurmd", "A=b\0SLURM_CONF=/srv/slurm.conf\0", "/srv/slurm.conf", False),
        (
            {ETC: CONF, "/data/conf-cache/slurm.conf": CONF},
            "slurmd",
            "SLURMD_RECONF_CONF_CACHE=/data/conf-cache\0",
            "/data/conf-cache/slurm.conf",
            True,
        ),
        (
            {ETC: CONF, "/run/slurm/conf/slurm.conf": CONF},
            "slurmd --conf-server=ctl",
            "",
            "/run/slurm/conf/slurm.conf",
            True,
        ),
        (
            {ETC: CONF, "/run/slurm/conf/slurm.conf": CONF},
            "slurmd",
            "SLURM_CONF_SERVER=ctl\0",
            ETC,
            False,
        ),
        ({"/var/lib/slurm/slurmd/conf-cache/slurm.conf": CONF}, "slurmd", "", places.CACHES[3], True),
    ],
)
def test_the_files_of_slurm_are_the_ones_that_slurmd_reads(tmp_path, files, running, environment, path, configless):
    place = places.find(tree(tmp_path, files, running, environment))
    assert (place.path, place.configless) == (path, configless)


@pytest.mark.parametrize(
    "files, path, configless",
    [
        ({ETC: CONF, "/run/slurm/conf/slurm.conf": CONF}, ETC, False),
        ({"/run/slurm/conf/slurm.conf": CONF}, "/run/slurm/conf/slurm.conf", True),
        ({}, None, True),
    ],
)
def test_a_local_file_has_priority_over_the_server_of_the_environment(tmp_path, files, path, configless):
    place = places.find(tree(tmp_path, files, "slurmd", "SLURM_CONF_SERVER=ctl\0"))
    assert (place.path, place.configless) == (path, configless)
    other = places.find(tree(tmp_path, files, "slurmd --conf-server ctl"))
    assert other.configless and other.path != ETC


FUTURE = "NodeName=d[001-100] State=FUTURE\nNodeName=gpu01\n"


@pytest.mark.parametrize(
    "answer, name, certain",
    [
        ("d016 other\nd017 gpu01\nd017 gpu01\n", "d017", True),
        ("d017 gpu010\nd018 (null)\n\n", "gpu01", False),
        ("d017 gpu01\nd018 gpu01\n", "gpu01", False),
        (None, "gpu01", False),
    ],
)
def test_slurmctld_names_a_dynamic_future_node(tmp_path, monkeypatch, answer, name, certain):
    called(monkeypatch, "gpu01.x.org")
    asked = []

    def run(host, argv, *dummy, **options):
        asked.append([os.path.basename(argv[argv.index("-h") - 1]), *argv[argv.index("-h") :]])
        if answer is None:
            raise NodeError("sinfo", "it did not exit within 10 s", "look")
        return Completed(tuple(argv), 0, answer, "")

    monkeypatch.setattr(Host, "run", run)
    here = this_node.here(tree(tmp_path, {ETC: FUTURE, "/usr/bin/sinfo": ""}, "slurmd -D -Fh100"))
    assert (here.node_name, here.certain) == (name, certain)
    assert asked == [["sinfo", "-h", "--local", "-a", "-N", "-o", "%N %n"]]
    # slurmd gives its hooks the name, and any other slurmd needs no answer.
    monkeypatch.setenv("SLURMD_NODENAME", "d018")
    assert this_node.here(Host(str(tmp_path))).certain_name == "d018"
    monkeypatch.delenv("SLURMD_NODENAME")
    assert this_node.here(tree(tmp_path, {ETC: FUTURE}, "slurmd -D")).certain_name == "gpu01"
    assert len(asked) == 1


DROP_IN = "[Service]\nExecStart=\nExecStart=-/opt/x/sbin/slurmd -N %H\n"
UNIT = (
    "[Service]\nEnvironmentFile=-/etc/sysconfig/slurmd\nExecStart=/opt/slurm/sbin/slurmd -D \\\n -s $SLURMD_OPTIONS\n"
)


@pytest.mark.parametrize(
    "files, name, path",
    [
        ({"/etc/sysconfig/slurmd": "SLURMD_OPTIONS='-N gpu01 -f /srv/a.conf'\n"}, "gpu01", "/srv/a.conf"),
        ({"/etc/sysconfig/slurmd": "SLURMD_OPTIONS=-b -N gpu01\n"}, "gpu01", "/opt/slurm/etc/slurm.conf"),
        (
            {"/etc/default/slurmd": "SLURMD_OPTIONS=-N other\n"},
            None,
            "/opt/slurm/etc/slurm.conf",
        ),  # it reads another file
        (
            {"/etc/systemd/system/slurmd.service.d/9.conf": DROP_IN},
            "gpu01.x.org",
            None,
        ),
        (
            {"/run/systemd/system/slurmd.service.d/n.conf": '[Service]\nEnvironment="SLURMD_OPTIONS=-N %l" A=b\n'},
            "gpu01",
            "/opt/slurm/etc/slurm.conf",
        ),
        (
            {"/etc/systemd/system/slurmd.service.d/n.conf": "[Service]\nEnvironment=SLURM_CONF=/srv/a.conf\n"},
            None,
            "/srv/a.conf",
        ),
    ],
)
def test_a_slurmd_that_does_not_run_yet_will_be_started_by_its_unit(tmp_path, monkeypatch, files, name, path):
    called(monkeypatch, "gpu01.x.org")
    basis = {
        "/usr/lib/systemd/system/slurmd.service": UNIT,
        "/opt/slurm/sbin/slurmd": "",
        "/opt/slurm/etc/slurm.conf": CONF,
        "/srv/a.conf": CONF,
    }
    place = places.find(tree(tmp_path, {**basis, **files}))
    assert (place.node_name, place.path) == (name, path)


def test_commands_of_slurm_read_what_slurmd_reads(tmp_path, monkeypatch):
    files = {ETC: CONF, "/srv/slurm.conf": CONF, "/run/slurm/conf/slurm.conf": CONF}
    for number, (running, expected) in enumerate(
        (
            ("slurmd", ["scontrol", "ping"]),
            ("slurmd -f /srv/slurm.conf", ["env", "SLURM_CONF=/srv/slurm.conf", "scontrol", "ping"]),
            ("slurmd --conf-server ctl", ["env", "SLURM_CONF=/run/slurm/conf/slurm.conf", "scontrol", "ping"]),
        )
    ):
        host = tree(tmp_path / str(number), files, running)
        assert places.command(host, ["scontrol", "ping"]) == expected
    monkeypatch.setenv("SLURM_CONF", "/x")  # slurmd sets it for its hooks
    assert places.command(host, ["scontrol", "ping"]) == ["scontrol", "ping"]


SCONTROL = """#!/bin/sh
case "$3" in gpu0?) echo "NodeName=$3 State=IDLE"; exit 0;; esac
echo "Node $3 not found" >&2; exit 1
"""


@pytest.mark.parametrize(
    "inventory_name, expected",
    [
        ("gpu01", "gpu01.x.org"),
        ("gpu01.x.org", "gpu01.x.org"),
        ("GPU01.other", "gpu01.x.org"),
        ("", "gpu01.x.org"),
        ("10.0.0.5", "gpu01.x.org"),  # addresses and aliases are names of no node
        ("rack3-left", "gpu01.x.org"),
        ("gpu02", "gpu02"),  # its address leads to the wrong machine, which the host of that node shows
    ],
)
def test_the_node_of_a_name_in_the_inventory(tmp_path, monkeypatch, inventory_name, expected):
    called(monkeypatch, "gpu01.x.org")
    host = tree(tmp_path, {ETC: "NodeName=gpu01.x.org,gpu02\n", "/bin/scontrol": SCONTROL})
    monkeypatch.setenv("PATH", "{0}/bin:{1}".format(tmp_path, os.environ["PATH"]))
    assert named(host, "", inventory_name) == expected
    assert named(host, "given", inventory_name) == "given"


def test_no_other_module_finds_the_node_name_or_the_files_of_slurm():
    """A second mechanism would be right on the machine of its author and wrong on the next one."""
    allowed = {
        r"uname\(\)\.nodename|gethostname|platform\.node\(|getfqdn|/etc/hostname": {"core/machine.py"},
        r"\[?[\"']SLURMD_NODENAME[\"']": {"slurm/this_node.py", "slurm/types.py", "command/hook.py"},
        r"[\"'][^\"' ]*/slurm\.conf[\"']|conf-cache|/run/slurm/conf": {"slurm/places.py"},
        r"[\"'](?:/[^\"' ]*)?/(?:gres|plugstack|cgroup)\.conf[\"']": {
            "slurm/gpus.py",
            "resources/pyxis/types.py",  # the default on a node without slurm.conf
            "resources/slurm_hooks/options.py",  # the documented default of an option
            "resources/slurm_hooks/observe.py",
        },
        r"this_node\.node_name\(": {"resources/slurm_hooks/observe.py"},
    }
    found = []
    for path in sorted((COLLECTION / "plugins").rglob("*.py")):
        name = path.relative_to(COLLECTION / "plugins").as_posix()
        if name.startswith("modules/") and name != "modules/slurm_node.py":
            continue  # their documentation alone
        text = path.read_text(encoding="utf-8")
        for pattern, places_of_it in allowed.items():
            if name.partition("module_utils/")[2] not in places_of_it:
                found += ["{0}: {1}".format(name, one.group(0)) for one in re.finditer(pattern, text)]
    assert found == []


def test_the_library_of_slurm_is_read_once_in_a_run_and_again_when_it_changes(tmp_path, monkeypatch):
    """A drain runs about ten commands of Slurm, and the library has megabytes."""
    called(monkeypatch, "gpu01")
    path = "/usr/lib64/slurm/libslurmfull.so"
    host = tree(tmp_path, {path: library("/opt/site/slurm.conf"), "/opt/site/slurm.conf": CONF})
    read = []

    class Counted:
        def finditer(self, letters):
            read.append(len(letters))
            return pattern.finditer(letters)

    pattern = places._LIBRARY_LETTERS
    monkeypatch.setattr(places, "_LIBRARY_LETTERS", Counted())
    for shown in ("config", "node", "job", "reservation"):
        places.command(host, ["scontrol", "show", shown])
    assert places.built_in(host) == "/opt/site/slurm.conf"
    assert len(read) == 1
    # Slurm was upgraded while a service of ours runs.
    tree(tmp_path, {path: library("/opt/other/slurm.conf"), "/opt/other/slurm.conf": CONF})
    assert places.built_in(host) == "/opt/other/slurm.conf"
    assert len(read) == 2


@pytest.mark.parametrize("slurmd", [True, False])
def test_a_command_of_slurm_costs_one_look_at_the_processes(tmp_path, monkeypatch, slurmd):
    (tmp_path / "proc/77").mkdir(parents=True)
    (tmp_path / "proc/77/comm").write_text("slurmd\n" if slurmd else "sshd\n")
    (tmp_path / "proc/77/cmdline").write_text("slurmd\0")
    looked = []
    names = Host.names
    monkeypatch.setattr(Host, "names", lambda self, path: looked.append(path) or names(self, path))
    monkeypatch.delenv("SLURM_CONF", raising=False)
    assert places.command(Host(str(tmp_path)), ["sinfo"]) == ["sinfo"]
    assert looked.count("/proc") == 1


@pytest.mark.parametrize("words", [("-L/log/ZFN",), ("-L", "/log/ZFN"), ("-d/x/ZFN",), ("-n-10",)])
def test_the_value_of_an_option_is_no_option(words):
    assert places.options((*words, "-N", "gpu01")) == places.Options(name="gpu01")
