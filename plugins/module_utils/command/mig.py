# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``gpunode mig``: how the GPUs are divided into instances, what they could be divided into, and what a wish would do.

The resource mig_layout looks and plans; here it is told. Nothing is changed.
"""

# pylint: disable=ansible-bad-function  # gpunode is a program, and its answers go to standard output
from __future__ import annotations

import argparse
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..core import declaration, options
from ..core.host import Host
from ..core.resource import NodeError
from ..facts.nvml.session import CALL_TIMEOUT_SECONDS
from ..gpus.mig.choose import chosen_gpus
from ..gpus.mig.in_use import for_change
from ..gpus.mig.observe import observe
from ..gpus.mig.options import SECTION, Layout
from ..gpus.mig.place import ENGINES, Profile, room
from ..gpus.mig.plan import one_gpu
from ..gpus.mig.types import Client, Gpu
from ..gpus.mig.wishes import line
from ..resources import mig_layout
from . import by_gpu, mig_lines, mig_plan
from .arguments import add_gpu, gpu_selectors
from .exit_status import DONE, NOT_DONE
from .mig_plan import EMPTY, OFF
from .output import print_json

CHANGE = """Nothing is changed here. What is wanted is declared for mig_layout (role
mig_layout, or /etc/gpu_node/declaration.json), and 'gpunode converge --only
mig_layout' makes it.
"""

EXAMPLES = """examples:
  gpunode mig list                 instances, who uses them, what is declared
  gpunode mig profiles --gpu 0     what GPU 0 can be divided into
  gpunode mig plan 3g+2x2g         what would be done for this, on all GPUs
  gpunode mig plan 2x1g --around   beside what is there
"""

LIST = """A GPU is drawn by its memory slices; * is an instance that a process uses. Below
are its GPU instances with their compute instances, whose UUIDs programs take in
CUDA_VISIBLE_DEVICES. With MIG on this is told to root only, and NVML tells no
utilisation, neither of the GPU nor of an instance.

exit status:
  0  all GPUs answered, and are as declared where something is declared
  1  a GPU did not answer, or is not as declared
"""

PROFILES = """SLICES are compute + memory slices, STARTS the memory slices at which it may
begin, FREE how many more could be made beside what is there now.
"""

PLAN = """The wish is what the GPUs are to have: profiles with +, as the GPU names them or
without the memory, with 2x for two of a kind.

  3g+2x2g           on an A100 of 40 GB: 3g.20gb + 2 x 2g.10gb
  1g.10gb+me+3g@4   a start: 3g at memory slice 4
  3g:1c,2c          compute instances in it
  empty             MIG on, no instance
  off               MIG off: a whole GPU

exit status:
  0  it could be done, or is so already
  1  refused: the sentence has what would work, or who is in the way
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Show how GPUs are divided into instances (MIG), and what could be."
    parser.epilog = EXAMPLES + "\n" + CHANGE
    commands = parser.add_subparsers(dest="what", metavar="ACTION", required=True)
    for name, summary, epilog in (
        ("list", "instances of each GPU, who uses them, what is declared", LIST),
        ("profiles", "what each GPU can be divided into, and how many more fit", PROFILES),
        ("plan", "what would be done for a wish; nothing is changed", PLAN + "\n" + CHANGE),
    ):
        one = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".", epilog=epilog)
        if name == "profiles":
            one.add_argument("which", nargs="*", metavar="GPU", help="only these GPUs, as with --gpu")
        if name == "plan":
            one.add_argument("wish", nargs="+", metavar="WISH", help="instances, such as 3g+2x2g; empty; off")
            how = one.add_mutually_exclusive_group()
            how.add_argument("--exact", action="store_true", help="what nobody asked for goes (the default)")
            how.add_argument("--around", action="store_true", help="what nobody asked for stays")
        add_gpu(one)


def run(host: Host, arguments: argparse.Namespace) -> int:
    return {"list": _show, "profiles": _profiles, "plan": _plan}[arguments.what](host, arguments)


def _show(host: Host, arguments: argparse.Namespace) -> int:
    """Status 1 when a GPU does not answer or is not as declared, so that scripts notice."""
    declared, wrong = _declared(host)
    state = observe(host, CALL_TIMEOUT_SECONDS, False, () if declared is None else declared.stop_units)
    gpus, failed = by_gpu.selected(state.gpus, state.failed, gpu_selectors(arguments.gpu))
    layouts: Dict[str, Layout] = {}
    if declared is not None:
        pairs, refusals = chosen_gpus(state, declared)
        layouts = {gpu.uuid: layout for gpu, layout in pairs}
        wrong += [str(refusal) for refusal in refusals]
    rows = [
        _row(gpu, for_change(gpu, state), declared, layouts.get(gpu.uuid))
        for gpu in sorted(gpus, key=lambda one: one.index)
    ]
    if arguments.json:
        print_json(
            {
                "gpus": rows,
                "failed_gpus": by_gpu.plain_failed(failed),
                "declaration": wrong,
                "message": state.absent,
            }
        )
    else:
        mig_lines.show(mig_lines.listed(rows, state.absent, wrong))
        by_gpu.print_failed(failed)
    differs = any(one["declared"] is not None and not one["declared"]["as_declared"] for one in rows)
    return NOT_DONE if failed or wrong or differs else DONE


def _profiles(host: Host, arguments: argparse.Namespace) -> int:
    """Status 1 when a GPU does not answer."""
    state = observe(host, CALL_TIMEOUT_SECONDS, False)
    selectors = gpu_selectors([*(arguments.gpu or ()), *arguments.which])
    gpus, failed = by_gpu.selected(state.gpus, state.failed, selectors)
    rows = [
        {
            "index": gpu.index,
            "uuid": gpu.uuid,
            "pci_address": gpu.pci_address,
            "name": gpu.name,
            "mig": gpu.mode,
            "compute_slices": gpu.part.compute_slices,
            "memory_slices": gpu.part.memory_slices,
            "multiprocessors": gpu.part.multiprocessors or None,
            "profiles": [_profile(gpu, one) for one in _widest_first(gpu.part.profiles)],
        }
        for gpu in sorted(gpus, key=lambda one: one.index)
    ]
    if arguments.json:
        print_json({"gpus": rows, "failed_gpus": by_gpu.plain_failed(failed), "message": state.absent})
    else:
        mig_lines.show(mig_lines.of_profiles(rows, state.absent))
        by_gpu.print_failed(failed)
    return NOT_DONE if failed else DONE


def _plan(host: Host, arguments: argparse.Namespace) -> int:
    declared, dummy = _declared(host)
    return mig_plan.run(host, arguments, () if declared is None else declared.stop_units)


def _declared(host: Host) -> Tuple[Optional[mig_layout.Desired], List[str]]:
    """What is in force on this node, and what is wrong with it."""
    section = declaration.read(host).get(SECTION)
    if section is None:
        return None, []
    try:
        return options.of(mig_layout.Desired, section), []
    except NodeError as error:
        return None, [str(error)]


def _row(gpu: Gpu, free: Gpu, declared: Optional[mig_layout.Desired], layout: Optional[Layout]) -> Dict[str, Any]:
    """As the module tells it, with who uses what and what is declared."""
    row = mig_layout.row(gpu)
    memory = {one.gi: one for one in gpu.memory}
    for one in row["instances"]:
        told = memory.get(one["gi"])
        one["memory_total_bytes"] = one["memory_mib"] << 20 if told is None else told.total_bytes
        one["memory_used_bytes"] = None if told is None else told.used_bytes
        one["engines"] = _engines(gpu.part.by_id(one["profile_id"]))
        own = [client for client in gpu.clients if client.gi == one["gi"]]
        for compute in one["compute"]:
            compute["clients"] = [_client(client) for client in own if client.ci == compute["ci"]]
        known = [compute["ci"] for compute in one["compute"]]
        # Of a process that NVML places in the GPU instance alone.
        one["clients"] = [_client(client) for client in own if client.ci not in known]
    gis = [one["gi"] for one in row["instances"]]
    held = not gpu.reset_told and bool(gpu.resetless or gpu.clients)
    waits = None if gpu.mode == gpu.pending else "clients" if held else "gpu_reset"
    return dict(
        row,
        waits_for=waits,
        compute_slices=gpu.part.compute_slices,
        memory_slices=gpu.part.memory_slices,
        multiprocessors=gpu.part.multiprocessors or None,
        clients=[_client(client) for client in gpu.clients if client.gi not in gis],
        declared=None if declared is None or layout is None else _comparison(free, declared, layout),
    )


def _comparison(gpu: Gpu, declared: mig_layout.Desired, layout: Layout) -> Dict[str, Any]:
    """What is declared of a GPU, and what a run would do."""
    steps, refusals, notes = one_gpu(gpu, layout.mig, layout.instances, declared.exact)
    return {
        "mig": layout.mig,
        "wish": (line(layout.instances) or EMPTY) if layout.mig else OFF,
        "as_declared": not steps and not refusals and gpu.mode in (layout.mig, None),
        "differences": [by_gpu.labelled(step.describe())[1] for step in steps],
        "refusals": [by_gpu.labelled(str(refusal))[1] for refusal in refusals],
        "notes": [by_gpu.labelled(note)[1] for note in notes],
    }


def _client(client: Client) -> Dict[str, Any]:
    return {
        "pid": client.pid,
        "command": _valid(client.command),
        "owner": _valid(client.owner),
        "unit": _valid(client.unit),
        "told": _valid(client.told()),
    }


def _valid(text: str) -> str:
    """Without the stand-ins for bytes that are no UTF-8, which strict readers of JSON refuse."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _profile(gpu: Gpu, profile: Profile) -> Dict[str, Any]:
    placed = [instance.placed for instance in gpu.instances]
    return {
        "id": profile.id,
        "name": profile.name,
        "compute_slices": profile.compute_slices,
        "memory_slices": profile.memory_slices,
        "memory_mib": profile.memory_mib,
        "multiprocessors": profile.multiprocessors,
        "engines": _engines(profile),
        "starts": list(profile.starts),
        "most": profile.most,
        "free": room(gpu.part, placed, profile) if gpu.mode else None,
    }


def _engines(profile: Optional[Profile]) -> Mapping[str, int]:
    return {} if profile is None else dict(zip(ENGINES, profile.engines))


def _widest_first(found: Sequence[Profile]) -> List[Profile]:
    return sorted(found, key=lambda one: (-one.compute_slices, -one.memory_slices, one.name))
