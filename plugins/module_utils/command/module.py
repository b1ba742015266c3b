# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode module NAME``: what Ansible's module of that name does on this node. The arguments come on standard input,
the result goes to standard output, both JSON; front/node_command.py is the other side."""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Any, Callable, Dict, Mapping

from ..core import declaration, registry
from ..core.host import Host
from ..core.resource import Misuse, NodeError
from ..node import own
from ..node.converge import Part, Request, runtime, single
from ..node.summary import lines
from ..node.wish import checked
from ..slurm import this_node
from .converge import running_zipapp
from .exit_status import DONE
from .version import VERSION

Given = Mapping[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Do the work of one of Ansible's modules; the modules run this."
    parser.add_argument("name", metavar="NAME", help="the module; its arguments come on standard input, as JSON")


def run(host: Host, arguments: argparse.Namespace) -> int:
    if arguments.name not in NAMES:
        raise Misuse(arguments.name, "there is no such module", "use some of " + ", ".join(NAMES))
    try:
        asked = json.loads(sys.stdin.read())
        given, check_mode, profile = asked["arguments"], asked["check_mode"], asked["profile"]
    except (ValueError, KeyError, TypeError) as error:
        remedy = "Ansible's modules run this; a person runs 'gpunode converge'"
        raise Misuse("gpunode module", "its standard input has no arguments of a module", remedy) from error
    print(json.dumps(result(host, arguments.name, given, check_mode, profile)))
    return DONE


def result(host: Host, name: str, given: Given, check_mode: bool, profile: Any = None) -> Part:
    """The result of the module. ``profile``: what a controller knows of this machine's profile, where the node has
    none declared."""
    if given.get("root"):  # what looks at a captured tree says so in its options
        host = Host(os.path.normpath(given["root"]))
    try:
        if name in registry.NAMES or name in registry.OF_CLUSTER:
            return single(host, name, given, check_mode, profile, running_zipapp())
        return _OTHERS[name](host, given, check_mode)
    except NodeError as error:
        return {"failed": True, "msg": str(error)}


def _node(host: Host, given: Given, check_mode: bool) -> Part:
    undo = given["state"] == "absent"
    sections = checked(given["declaration"], "the declaration")
    request = Request(sections, tuple(given["only"]), tuple(given["without"]), check_mode, undo, running_zipapp())
    if undo and not check_mode:
        from ..node import reset  # a converge does not need it

        reset.refuse_in_use(host, request)
    report = own.run(host, request, VERSION)
    told = dict(report.to_dict(), summary=lines(report))
    told["diff"] = [part["diff"] for part in told["resources"].values() if part.get("diff")]
    if told["profile"]:
        told["ansible_facts"] = {"gpu_node_profile": told["profile"]}
    return told


def _node_runtime(host: Host, given: Given, check_mode: bool) -> Part:
    return runtime(host, None if given["state"] == "absent" else running_zipapp() or "", check_mode)


def _gpu_info(dummy: Host, given: Given, check_mode: bool) -> Part:
    from ..facts import gpu_info

    found = gpu_info.gather(gpu_info.Options.from_mapping(given))
    warnings = [] if found.status in ("ok", "no_gpu") else [found.message]
    return dict(found.to_dict(), changed=False, warnings=warnings)


def _topology_info(host: Host, given: Given, check_mode: bool) -> Part:
    from ..facts import topology

    limit = given["call_timeout"]
    if not 0 < limit <= 600:
        remedy = "give more than 0 and at most 600 seconds"
        raise NodeError("call_timeout {0:g}".format(limit), "it is out of range", remedy)
    if not host.exists("/sys"):
        remedy = "give the top of a captured tree"
        raise NodeError("root {0}".format(host.root), "there is no folder sys in it", remedy)
    ask_nvml = host.root == "/" if given["gpus"] is None else given["gpus"]
    return dict(topology.to_dict(topology.look(host, ask_nvml, limit)), changed=False)


def _image_facts(host: Host, given: Given, check_mode: bool) -> Part:
    from ..facts.image import answer

    if not os.path.isdir(host.root):
        raise NodeError("root {0}".format(host.root), "there is no such folder", "give the top of an image")
    found = answer.look(host)
    return dict(answer.to_dict(found, answer.judge(found)), changed=False)


def _health_check(host: Host, given: Given, check_mode: bool) -> Part:
    from .. import health
    from ..health import types
    from ..health.gate import owing, record

    node, level, without = this_node.here(host).node_name, types.Cost(given["level"]), given["without"]
    owed = owing.checks(host, node, time.time()) if given["proof"] and not check_mode else ()
    if owed and level is not types.Cost.ACTIVE:
        level, without = types.Cost.ACTIVE, [*without, *owing.others(owed)]
    seconds = given.get("seconds") if level is types.Cost.ACTIVE else None
    options = health.Options(level, given["only"], without, given["call_timeout"], given["profile"], seconds=seconds)
    verdict = health.examine(host, node, options)
    damaged = owing.tell(host, verdict) if owed else ""
    told: Dict[str, Any] = {
        "changed": given["record"],
        "warnings": ([damaged] if damaged else [])
        + list(record.keep(host, verdict) if given["record"] and not check_mode else ()),
        "verdict": health.to_dict(verdict),
        "outcome": verdict.outcome.value,
        "findings": [str(finding) for dummy, finding in verdict.findings],
        "owes": owing.held(host, node, time.time()).reason if given["proof"] and not check_mode else "",
    }
    if health.reached(verdict.outcome, given["fail_on"]):
        told.update(failed=True, msg=verdict.in_one_line())
    return told


def _kubernetes_gpu_info(host: Host, given: Given, check_mode: bool) -> Part:
    from ..kubernetes import read_back

    found = read_back.gather(host, given)
    return dict(found, changed=False, warnings=found["findings"])


def _validate_nodes(host: Host, given: Given, check_mode: bool) -> Part:
    from ..health.fleet import launch, validate
    from ..health.fleet.search_types import Settings

    command, cancel = {
        "slurm": (launch.SLURM, launch.SLURM_CANCEL),
        "mpirun": (launch.MPIRUN, ()),
        "command": (given["command"], given["cancel"]),
    }[given["launcher"]]
    wanted = validate.Desired(
        nodes=tuple(given["nodes"]),
        launcher=launch.Launcher(
            command=tuple(command),
            cancel=tuple(cancel),
            script=given["script"] or "",
            folder=given["folder"],
            seconds=given["seconds_per_test"],
        ),
        settings=Settings(pairwise=given["pairwise"], runs=given["runs"], rounds_max=given["rounds_max"]),
        busbw_min=given["busbw_min"],
        parallel=given["parallel"],
        floor=validate.floor_of(declaration.read(host)),
    )

    def record(state: Any) -> None:
        if given["record"]:
            host.write(given["record"], json.dumps(state.to_dict(), indent=1) + "\n")

    state = validate.standing(wanted, []) if check_mode else validate.validate(wanted, record)
    told = state.to_dict()
    found = told["conclusion"]
    return {
        "changed": False,
        "outcome": "unknown" if check_mode else state.outcome,
        "lines": [] if check_mode else validate.lines(state),
        "bad_nodes": found["nodes"],
        "bad_pairs": found["pairs"],
        "proven": found["proven"],
        "busbw_limit_gigabytes_per_second": state.limit,
        "next_tests": state.due,
        "rounds": told["rounds"],
    }


_OTHERS: Mapping[str, Callable[[Host, Given, bool], Part]] = {
    "node": _node,
    "node_runtime": _node_runtime,
    "gpu_info": _gpu_info,
    "topology_info": _topology_info,
    "image_facts": _image_facts,
    "health_check": _health_check,
    "kubernetes_gpu_info": _kubernetes_gpu_info,
    "validate_nodes": _validate_nodes,
}
#: The modules that are the node command's work.
NAMES = (*_OTHERS, *registry.NAMES, *registry.OF_CLUSTER)
