# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command ``fleet``."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time

from . import supervisor
from .places import TOOL, Places
from .settings import FleetError, Settings, numbers


def main() -> int:
    arguments = _parser().parse_args()
    try:
        return int(arguments.work(arguments) or 0)
    except FleetError as error:
        print(error, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fleet", description="Hundreds of simulated GPU nodes on this machine.")
    parser.add_argument("--run", default=os.environ.get("FLEET_RUN", "default"), help="name of the fleet (FLEET_RUN)")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (
        ("up", "start a fleet in the background, and print its inventory"),
        ("serve", "the same, until standard input ends"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("count", type=int, help="how many nodes")
        for kind, meaning in (
            ("unreachable", "nodes that nobody answers for"),
            ("failing", "nodes with a read-only /opt"),
            ("slow", "nodes that wait before each command"),
        ):
            command.add_argument("--" + kind, default="", metavar="1-3,7", help=meaning)
        command.add_argument("--delay", type=float, default=2.0, metavar="SECONDS", help="how long slow nodes wait")
        command.add_argument("--machine", default="nd96asr_v4", help="GPUs: a machine of tools/nvml_simulator")
        command.add_argument("--tree", default="ndv4", help="/sys: a tree of tests/unit/data/topology")
        command.set_defaults(work=_up if name == "up" else _serve)
    serve = commands.choices["serve"]
    serve.add_argument("--background", action="store_true", help=argparse.SUPPRESS)
    commands.add_parser("down", help="end a fleet; nothing of it is left").set_defaults(work=_down)
    commands.add_parser("inventory", help="print where the inventory is").set_defaults(work=_inventory)
    ssh = commands.add_parser("ssh", help="run a command on a node")
    ssh.add_argument("node", type=int, help="its number, from 1")
    ssh.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    ssh.set_defaults(work=_ssh)
    return parser


def _settings(arguments: argparse.Namespace) -> Settings:
    return Settings(
        arguments.count,
        numbers(arguments.unreachable),
        numbers(arguments.failing),
        numbers(arguments.slow),
        arguments.delay,
        arguments.machine,
        arguments.tree,
    )


def _serve(arguments: argparse.Namespace) -> None:
    supervisor.serve(Places(arguments.run), _settings(arguments), not arguments.background)


def _up(arguments: argparse.Namespace) -> int:
    _settings(arguments)
    words = [word for word in sys.argv[1:]]
    words[words.index("up")] = "serve"
    process = subprocess.Popen(
        [sys.executable, str(TOOL / "fleet"), *words, "--background"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    told = process.stdout.readline() if process.stdout else ""
    print(told, end="")
    return 0 if told else process.wait()


def _down(arguments: argparse.Namespace) -> None:
    places = Places(arguments.run)
    process = places.process()
    if process:
        os.kill(process, signal.SIGTERM)
    until = time.monotonic() + 60
    while places.process():
        if time.monotonic() > until:
            raise FleetError("fleet: process {0} did not end in 60 s; look at it.".format(process))
        time.sleep(0.05)
    places.remove()


def _inventory(arguments: argparse.Namespace) -> None:
    print(_up_fleet(arguments).inventory)


def _ssh(arguments: argparse.Namespace) -> None:
    import json

    places = _up_fleet(arguments)
    group = json.loads(places.inventory.read_text())["gpu_nodes"]
    host = group["hosts"].get("gpu{0:04d}".format(arguments.node))
    if host is None:
        raise FleetError("{0}: there is no such node; there are 1 to {1}.".format(arguments.node, len(group["hosts"])))
    command = ["ssh", *places.ssh_options(), "-i", str(places.key), "-p", str(group["vars"]["ansible_port"])]
    os.execvp("ssh", command + ["root@" + host["ansible_host"], *arguments.words])  # noqa: S606


def _up_fleet(arguments: argparse.Namespace) -> Places:
    places = Places(arguments.run)
    if not places.process():
        raise FleetError("fleet: none of the name {0} is up; start one by 'fleet up 10'.".format(arguments.run))
    return places
