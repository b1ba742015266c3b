# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a remedy: the only place here with effects."""

from __future__ import annotations

import json
import subprocess
from typing import Any, Callable, Mapping, Optional

from ...core import systemd, trust
from ...core.frozen import plain
from ...core.host import Host
from ...core.resource import NodeError
from ...gpus.mig import clients
from ...slurm import drain
from ...slurm.breaker import most
from ...slurm.client import SETTLE_SECONDS, TAKEN, Slurm
from .. import kernel_log
from . import logs
from .observe import World
from .types import (
    ApplyAgain,
    CheckFree,
    Mark,
    Persistence,
    Reboot,
    Redeploy,
    ResetGpus,
    RestartService,
    SaveLogs,
    StartUnits,
    StopUnits,
)

COMMAND = "/usr/local/bin/gpunode"
_SMI_SECONDS = 300.0
_APPLY_SECONDS = 600.0
_MOST_OUTPUT = 2000


class Tripped(NodeError):
    """Too many nodes had a remedy at the same time: the breaker has to be latched."""


class Context:
    """What steps work with. ``pause`` waits; tests hand in one that does not."""

    def __init__(self, host: Host, slurm: Slurm, world: World, tell: Callable[[str], None], pause: Any) -> None:
        self.host = host
        self.slurm = slurm
        self.world = world
        self.tell = tell
        self.pause = pause
        # Of a reset that was carried out, see :class:`..attempts.Attempt`.
        self.log_seconds: Optional[float] = None


def mark(here: Context, step: Mark) -> None:
    """As :meth:`Slurm.drain` does it: nodes that fall ill at once see each other a moment later, and those that were
    not among the first withdraw.

    :raises NodeError: it is no more drained for its health, or slurmctld refuses.
    """
    if not drain.is_for_health(here.slurm.look()):
        raise NodeError("node " + here.slurm.node, TAKEN, "nothing is done to it")
    here.slurm.update("State=DRAIN", "Reason=" + step.reason)
    here.pause(SETTLE_SECONDS)
    prefix = drain.PREFIX + drain.HEALTH + drain.REMEDY
    for one in here.slurm.marked(here.slurm.look(), prefix)[0]:
        if here.slurm.node in one.ours and one.ours.index(here.slurm.node) >= most(one.size, step.percent):
            text = "{0} of {1} nodes of partition {2} have a remedy at the same time, and {3:g} % may"
            reason = text.format(len(one.ours), one.size, one.name, step.percent)
            raise Tripped("breaker", reason, "look at 'sinfo -R'")


def save_logs(here: Context, step: SaveLogs) -> None:
    here.tell("logs are in {0}".format(logs.save(here.host, here.world, step.remedy)))


def stop_units(here: Context, step: StopUnits) -> None:
    systemd.stop(here.host, step.units)


def start_units(here: Context, step: StartUnits) -> None:
    """In turn: one that does not start keeps no other from it."""
    failed = []
    for unit in step.units:
        try:
            systemd.start(here.host, (unit,))
        except NodeError as error:
            failed.append("{0} ({1})".format(unit, error.reason))
    if failed:
        remedy = "run 'systemctl start {0}'".format(" ".join(step.units))
        raise NodeError(", ".join(failed), "stopped for a remedy, and not started again", remedy)


def persistence(here: Context, step: Persistence) -> None:
    """A GPU that does not take it is left for the reset to tell."""
    for gpu in step.gpus:
        try:
            here.host.run(["nvidia-smi", "-i", gpu, "-pm", "1" if step.on else "0"], _SMI_SECONDS)
        except NodeError as error:
            here.tell(str(error))


def check_free(here: Context, step: CheckFree) -> None:
    for label, minor in step.gpus:
        for one in clients.holders(here.host, minor):
            who = "process {0} ({1}{2})".format(one.pid, one.command, ", " + one.owner if one.owner else "")
            remedy = "end it, or declare its unit among health_gate_remedy_units"
            raise NodeError(label, "{0} has it open, so it is not reset".format(who), remedy)


def reset_gpus(here: Context, step: ResetGpus) -> None:
    before = kernel_log.last_seconds(here.host)
    here.host.run(["nvidia-smi", "--gpu-reset", "-i", ",".join(step.gpus)], _SMI_SECONDS)
    here.log_seconds = before


def apply_again(here: Context, dummy: ApplyAgain) -> None:
    """What a GPU forgets with a reset. That it fails is told, and by the next verdict as well."""
    for name in ("mig_layout", "gpu_settings"):
        try:
            here.host.run([COMMAND, "apply", name], _APPLY_SECONDS)
        except NodeError as error:
            here.tell(str(error))


def restart_service(here: Context, step: RestartService) -> None:
    systemd.restart(here.host, step.unit)


def reboot(here: Context, dummy: Reboot) -> None:
    here.slurm.reboot()


def redeploy(here: Context, step: Redeploy) -> None:
    """:raises NodeError: it is not of root alone, fails, or runs past its time."""
    thing = "redeploy command {0}".format(step.argv[0])
    try:
        trust.of_root(here.host.path(step.argv[0]), sudo=False)
    except NodeError as error:
        raise NodeError(thing, error.reason, error.remedy) from error
    state = here.world.state
    document = {
        "node": state.node,
        "findings": [dict(plain(one), check=check) for check, one in state.findings + state.kept],
        "attempts": plain(state.record.attempts),
    }
    argv = [here.host.path(step.argv[0]), *step.argv[1:]]
    try:
        done = subprocess.run(
            argv, input=json.dumps(document).encode(), capture_output=True, timeout=step.seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        reason = "it did not end within {0} s".format(step.seconds)
        raise NodeError(thing, reason, "run it by hand, or raise health_gate_redeploy_seconds") from error
    except OSError as error:
        raise NodeError(thing, "it could not be run ({0})".format(error.strerror), "correct that") from error
    told = (done.stdout + done.stderr)[-_MOST_OUTPUT:].decode("utf-8", "replace")
    if done.returncode != 0:
        last = (told.strip().splitlines() or ["it told nothing"])[-1]
        raise NodeError(thing, "it ended with status {0}: {1}".format(done.returncode, last), "run it by hand")
    here.tell("the redeploy command ended: {0}".format(told.strip() or "it told nothing"))


STEPS: Mapping[type, Callable[[Context, Any], None]] = {
    Mark: mark,
    SaveLogs: save_logs,
    StopUnits: stop_units,
    StartUnits: start_units,
    Persistence: persistence,
    CheckFree: check_free,
    ResetGpus: reset_gpus,
    ApplyAgain: apply_again,
    RestartService: restart_service,
    Reboot: reboot,
    Redeploy: redeploy,
}
