# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line."""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import shlex
import signal
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence

from . import faults, image, places, remote
from .node import Node
from .progress import VirtualNodeError, set_quiet
from .settings import SUITES, Settings, check_name, parse_settings


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="virtual_node", description="Virtual GPU nodes in QEMU. See docs/virtual_node.md."
    )
    top.add_argument("-q", "--quiet", action="store_true", help="no progress on standard error")
    top.add_argument(
        "--run",
        default=os.environ.get("VIRTUAL_NODE_RUN", "default"),
        help="group of nodes; runs do not see each other",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, text: str, names: str = "one") -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        if names == "one":
            sub.add_argument("name", help="name of the node")
        elif names != "none":
            sub.add_argument("names", nargs=names, metavar="NAME", help="names of nodes")
        return sub

    sub = add("image", "build the guest image where it is missing or its recipe changed", "none")
    sub.add_argument("--suite", choices=SUITES, action="append")
    sub.add_argument("--refresh", action="store_true", help="build it anew, with the newest packages")
    sub = add("up", "create and start nodes; wait until they are ready", "+")
    sub.add_argument("--suite", choices=SUITES)
    sub.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings")
    _owner(sub)
    sub = add("down", "end nodes and forget them", "*")
    sub.add_argument("--all", action="store_true", help="all nodes of this run")
    sub = add("reset", "blank disks and a pristine root disk, then start again")
    sub.add_argument("--disks-only", action="store_true", help="keep the root disk")
    _owner(sub)
    add("reboot", "reboot the guest; disks are kept")
    sub = add("ssh", "sign in as root, or run a command")
    sub.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    sub = add("status", "what is there", "*")
    sub.add_argument("--json", action="store_true")
    sub = add("inventory", "an Ansible inventory of these nodes (all nodes of the run when none is named)", "*")
    sub.add_argument("--json", action="store_true")
    sub = add("fault", "make something go wrong")
    sub.add_argument("fault", choices=sorted(faults.WITHOUT_ARGUMENT) + sorted(faults.WITH_SERIAL))
    sub.add_argument("serial", nargs="?", help="for detach-disk and attach-disk")
    _owner(sub)
    sub = add("console", "the serial console so far")
    sub.add_argument("-f", "--follow", action="store_true")
    add("settings", "the settings and their defaults", "none")
    return top


def _owner(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--owner-pid", type=int, default=0, metavar="PID", help="the node ends when this process ends")


def all_nodes(run: str) -> List[Node]:
    folder = places.nodes(run)
    names = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    return [Node(run, name) for name in names]


def _side_by_side(nodes: Sequence[Node], work: Callable[[Node], object]) -> None:
    """Work on several nodes at once; every one is finished before the first failure is told."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, len(nodes))) as pool:
        pending = [pool.submit(work, node) for node in nodes]
    for outcome in pending:
        outcome.result()


def _up(args: argparse.Namespace) -> int:
    given = list(args.settings) + (["suite=" + args.suite] if args.suite else [])
    settings = parse_settings(given, places.MACHINES)
    nodes = [Node(args.run, name) for name in dict.fromkeys(args.names)]
    image.ensure(settings.suite)
    _side_by_side(nodes, lambda node: node.up(settings, args.owner_pid, given=bool(given)))
    return 0


def _down(args: argparse.Namespace) -> int:
    if not args.names and not args.all:
        raise VirtualNodeError("down: no node named; name nodes, or say --all.")
    nodes = all_nodes(args.run) if args.all else [Node(args.run, name) for name in args.names]
    for node in nodes:
        if not node.exists:
            print(
                "{0}: there is none in run '{1}' (--run chooses another)".format(node.name, args.run), file=sys.stderr
            )
    _side_by_side(nodes, lambda node: node.down())
    return 0


def _ssh(args: argparse.Namespace) -> int:
    node = Node(args.run, args.name)
    state = node.need_up()
    words = args.words[1:] if args.words[:1] == ["--"] else args.words
    terminal = not words and sys.stdin.isatty()
    remote.replace_this_process(
        remote.ssh_command(node.folder, node.name, state.port, ["--"] + words if words else [], terminal=terminal)
    )
    return 255


def _status(args: argparse.Namespace) -> int:
    nodes = [Node(args.run, name) for name in args.names] if args.names else all_nodes(args.run)
    out: Dict[str, Dict[str, Any]] = {}
    for node in nodes:
        if not node.exists:
            out[node.name] = {"exists": False, "up": False}
            continue
        state = node.state
        out[node.name] = {
            "exists": True,
            "up": node.is_up,
            "port": state.port,
            "accelerator": state.accelerator,
            "folder": str(node.folder),
            "kernel_crashes": node.kernel_crashes(),
            "settings": state.settings.to_dict(),
            "disks": [
                {"serial": disk.serial, "numa_node": disk.numa_node, "attached": disk.attached} for disk in state.disks
            ],
        }
    if args.json:
        print(json.dumps(out, indent=2))
        return 0
    for name, facts in out.items():
        if not facts["exists"]:
            print("{0}: does not exist".format(name))
        else:
            settings = facts["settings"]
            text = "{0}: {1}, {2}, port {3}, {4}, {5} CPUs, {6} of {7} disks attached"
            attached = sum(disk["attached"] for disk in facts["disks"])
            print(
                text.format(
                    name,
                    "up" if facts["up"] else "off",
                    settings["suite"],
                    facts["port"],
                    facts["accelerator"] or "-",
                    settings["cpus"],
                    attached,
                    len(facts["disks"]),
                )
            )
            for crash in facts["kernel_crashes"]:
                print("  its kernel crashed: {0}".format(crash))
    if not out:
        print("no node in run '{0}'".format(args.run))
    return 0


def _inventory(args: argparse.Namespace) -> int:
    nodes = [Node(args.run, name) for name in args.names] if args.names else all_nodes(args.run)
    hosts = {node.name: node.inventory() for node in nodes}
    if args.json:
        print(json.dumps({"gpu_nodes": {"hosts": list(hosts)}, "_meta": {"hostvars": hosts}}, indent=2))
        return 0
    print("[gpu_nodes]")
    for name, variables in hosts.items():
        print(name + "".join(" {0}={1}".format(key, shlex.quote(str(value))) for key, value in variables.items()))
    return 0


def _fault(args: argparse.Namespace) -> int:
    node = Node(args.run, args.name)
    node.state  # noqa: B018  tells at once when there is no such node
    if args.fault in faults.WITH_SERIAL:
        if not args.serial:
            raise VirtualNodeError(
                "fault {0}: no disk named; give its serial, as in `{0} TYSCRATCH0`.".format(args.fault)
            )
        faults.WITH_SERIAL[args.fault](node, args.serial)
    elif args.fault == "wipe-disks":
        faults.wipe_disks(node, args.owner_pid)
    else:
        faults.WITHOUT_ARGUMENT[args.fault](node)
    return 0


def _console(args: argparse.Namespace) -> int:
    node = Node(args.run, args.name)
    node.state  # noqa: B018
    log = node.folder / "console.log"
    if args.follow:
        remote.replace_this_process(["tail", "-n", "+1", "-f", str(log)])
    sys.stdout.write(log.read_text(errors="replace") if log.exists() else "")
    return 0


def _settings(args: argparse.Namespace) -> int:
    defaults = Settings().to_dict()
    for name, meaning in Settings.meanings().items():
        value = defaults[name]
        print("{0:<12} {1:<12} {2}".format(name, "(empty)" if value == "" else value, meaning))
    return 0


def _image(args: argparse.Namespace) -> int:
    for suite in args.suite or SUITES[:1]:
        print(image.ensure(suite, args.refresh).folder)
    return 0


def run(arguments: Optional[Sequence[str]] = None) -> int:
    args = parser().parse_args(arguments)
    set_quiet(args.quiet)
    check_name(args.run)
    if args.command == "reset":
        Node(args.run, args.name).reset(args.disks_only, args.owner_pid)
        return 0
    if args.command == "reboot":
        Node(args.run, args.name).reboot()
        return 0
    handlers = {
        "image": _image,
        "up": _up,
        "down": _down,
        "ssh": _ssh,
        "status": _status,
        "inventory": _inventory,
        "fault": _fault,
        "console": _console,
        "settings": _settings,
    }
    return handlers[args.command](args)


def _end(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def main() -> int:
    signal.signal(signal.SIGTERM, _end)  # a build or a start that is told to end cleans up after itself
    try:
        return run()
    except VirtualNodeError as error:
        sys.stderr.write("virtual_node: {0}\n".format(error))
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nvirtual_node: interrupted\n")
        return 130
