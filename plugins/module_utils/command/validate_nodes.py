# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module validate_nodes: tests between the nodes of a fleet, started from the node that this runs on."""

from __future__ import annotations

import json
from typing import Any, Dict, Mapping, Optional

from ..core import declaration
from ..core.host import Host
from ..health.fleet import launch, validate
from ..health.fleet.search_types import Settings


def desired(given: Mapping[str, Any], floor: Optional[float] = None) -> validate.Desired:
    command, cancel = {
        "slurm": (launch.SLURM, launch.SLURM_CANCEL),
        "mpirun": (launch.MPIRUN, ()),
        "command": (given["command"], given["cancel"]),
    }[given["launcher"]]
    return validate.Desired(
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
        floor=floor,
    )


def result(host: Host, given: Mapping[str, Any], check_mode: bool) -> Dict[str, Any]:
    """:raises NodeError: an option that is wrong."""

    def record(state: Any) -> None:
        if given["record"]:
            host.write(given["record"], json.dumps(state.to_dict(), indent=1) + "\n")

    wanted = desired(given, validate.floor_of(declaration.read(host)))
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
