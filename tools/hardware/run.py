# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a machine with GPUs and write one archive: NVML, nvidia-smi beside it, commands, active checks and their cost.

It changes no setting of a GPU and no file but the archive, loads no GPU that is in use, and ends within five minutes.
"""

# pylint: disable=ansible-bad-function
from __future__ import annotations

import argparse
import functools
import json
import os
import re
import shutil
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import declaration, given_file
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.child import collect
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import kernel_log
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.active import apart, checks
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.diagnose import archive
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.diagnose.processes import unnamed, without_names
from ansible_collections.trainyard.gpu_node.plugins.module_utils.node.diagnose.secrets import Filter

from . import commands, compare, cost, machine
from .mask import Mask

TOTAL_SECONDS = 285.0
ACTIVE_SECONDS = 150.0
ROOM_BYTES = 4 * 2**20
# What is left of the total must hold the archive.
_RESERVE_SECONDS = 5.0
_NVML_SECONDS, _CALL_SECONDS = 30.0, 5.0
_DRIVER = re.compile(
    r"NVRM|nvidia|NVSwitch|nvlink|nvswitch|\bXid\b|mlx5_core.*(fatal|health)|pcieport.*AER", re.IGNORECASE
)
_UNKNOWN_COLUMN = re.compile(r'Field "([\w.]+)" is not a valid field to query')
_SETTINGS = (
    "settings",
    "power.limit_watts",
    "clocks.application_graphics_mhz",
    "clocks.application_memory_mhz",
    "ecc.pending",
)


class Run:
    """What the steps have found. ``texts`` are the files of the archive, not yet masked."""

    def __init__(self, folder: str, install: Callable[[], str]) -> None:
        self.folder, self._install = folder, install
        self.texts: Dict[str, str] = {}
        self.differences: List[str] = []
        self.notes: List[str] = []
        self.document: Dict[str, Any] = {}
        self._deadline = time.monotonic() + TOTAL_SECONDS

    @functools.cached_property
    def command(self) -> str:
        """The path of the node command."""
        return self._install()

    @property
    def argv(self) -> Tuple[str, ...]:
        """The node command, which begins with a shell script, to run also where its directory is mounted noexec."""
        return ("/bin/sh", self.command)

    def left(self, seconds: float) -> float:
        """So long a step may take that wants ``seconds``."""
        return max(1.0, min(seconds, self._deadline - _RESERVE_SECONDS - time.monotonic()))

    def program(self, argv: Sequence[str], seconds: float) -> apart.Ended:
        """:raises NodeError: it cannot be started, or does not end in time."""
        return apart.run(argv, self.left(seconds), apart.environment())


def main(argv: Sequence[str], folder: str, install: Callable[[], str]) -> int:
    """``folder``: for temporary files. ``install`` makes the node command there, and returns its path."""
    parser = argparse.ArgumentParser(prog="gpu-node-hardware", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", metavar="FILE", default="gpu-node-hardware.tar.gz", help="the archive")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        choices=list(STEPS),
        metavar="STEP",
        help=", ".join(STEPS) + "; repeatable",
    )
    options = parser.parse_args(argv)
    output = os.path.abspath(options.output)
    run = Run(folder, install)
    try:
        given_file.check(output)
        _room(output)
        run.document = _gpus()
        _steps(run, [name for name in STEPS if name not in options.without])
        size = _written(run, output)
    except NodeError as error:
        print("gpu-node-hardware: {0}".format(error), file=sys.stderr)
        return 1
    print(_ending(run, output, size))
    return 3 if run.differences else 0


def _room(output: str) -> None:
    """Before anything is measured.

    :raises NodeError: the disk is full.
    """
    found = os.statvfs(os.path.dirname(output))
    if found.f_bavail * found.f_frsize < ROOM_BYTES:
        remedy = "free some, or name a file on another file system with -o"
        raise NodeError(output, "its file system has less than {0} MiB left".format(ROOM_BYTES // 2**20), remedy)


def _steps(run: Run, names: Sequence[str]) -> None:
    before = _settings(run.document)
    chosen = [STEPS[name] for name in names]
    for number, (title, step) in enumerate(chosen, 1):
        print("[{0}/{1}] {2}".format(number, len(chosen), title), flush=True)
        try:
            step(run)
        except NodeError as error:  # a step that fails costs itself
            run.notes.append("{0}: {1}".format(title, error))
    try:
        after = _settings(_gpus())
    except NodeError as error:
        run.notes.append("settings of the GPUs after the run: {0}".format(error))
        return
    for index, (one, other) in enumerate(zip(before, after)):
        if one != other:
            run.differences.append("GPU {0}: settings before {1}, after {2}".format(index, one, other))


def _gpus() -> Dict[str, Any]:
    """What the library knows of all GPUs.

    :raises NodeError: there is none that answers.
    """
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts import gpu_info

    found = gpu_info.gather(gpu_info.Options(call_timeout_seconds=_CALL_SECONDS), Host()).to_dict()
    if not found["gpus"]:
        remedy = "run this on a node with an NVIDIA GPU whose driver is loaded ('nvidia-smi' shows the GPUs)"
        raise NodeError("NVIDIA GPUs", "none answers here: " + str(found["message"]).rstrip("."), remedy)
    return dict(found)


def _settings(document: Dict[str, Any]) -> List[Dict[str, Any]]:
    return [{path: compare.value(gpu, path) for path in _SETTINGS} for gpu in document["gpus"]]


def _record(run: Run) -> None:
    """One recording for each product."""
    from ansible_collections.trainyard.gpu_node.tools.nvml_answers.record import record

    products: Dict[str, int] = {}
    for gpu in run.document["gpus"]:
        products.setdefault(str(gpu["name"]), int(gpu["index"]))
    for name, index in products.items():

        def task(report: Callable[..., None], index: int = index) -> Iterator[Dict[str, Any]]:
            import pynvml

            report("NVML of GPU {0}".format(index), run.left(_NVML_SECONDS))
            yield record(pynvml, index)

        try:
            found = collect(task, run.left(_NVML_SECONDS))
        except Exception as error:  # of the binding, by any name
            raise NodeError("NVML of GPU {0}".format(index), str(error), "look at the kernel log") from error
        if not found.items:
            raise NodeError("NVML of GPU {0}".format(index), "a call did not return", "look at the kernel log")
        file = re.sub(r"\W+", "_", "nvml_{0}_{1}".format(name, run.document["driver_version"])).lower() + ".json"
        run.texts[file] = json.dumps(found.items[0], indent=1) + "\n"
    run.texts["gpus.json"] = json.dumps(unnamed(run.document), indent=1, sort_keys=True) + "\n"


def _nvidia_smi(run: Run) -> None:
    program = shutil.which("nvidia-smi")
    if program is None:
        raise NodeError("nvidia-smi", "it is not in PATH, so nothing was compared", "install it with the driver")
    columns = list(compare.COLUMNS)
    unknown: List[str] = []
    done = _query(run, program, columns)
    while done.returncode != 0:  # an older one does not know each column, and names the first of them
        named = _UNKNOWN_COLUMN.search(done.stdout + done.stderr)
        left = [one for one in columns if named is not None and one.name != named.group(1)]
        if named is None or not left or len(left) == len(columns):
            raise NodeError("nvidia-smi", done.words, "run 'nvidia-smi' by hand")
        unknown.append(named.group(1))
        columns, done = left, _query(run, program, left)
    if unknown:
        run.notes.append("columns that this nvidia-smi does not know: " + ", ".join(unknown))
    document = _gpus()  # of this moment
    found = compare.differences(compare.rows(done.stdout, columns), document)
    run.differences += [str(one) for one in found]
    head = ", ".join(one.name for one in columns)
    run.texts["nvidia_smi_columns.csv"] = head + "\n" + done.stdout
    for name, words in (
        ("q", ["-q"]),
        ("topo", ["topo", "-m"]),
        ("nvlink", ["nvlink", "-s"]),
        ("mig", ["mig", "-lgip"]),
    ):
        ended = run.program([program, *words], 20.0)
        run.texts["nvidia_smi_{0}.txt".format(name)] = without_names(ended.stdout + ended.stderr)


def _query(run: Run, program: str, columns: Sequence[compare.Column]) -> apart.Ended:
    words = "--query-gpu=" + ",".join(one.name for one in columns)
    return run.program([program, words, "--format=csv,noheader,nounits"], 20.0)


def _commands(run: Run) -> None:
    for words, seconds in commands.READ_ONLY:
        _command(run, words, seconds)


def _active(run: Run) -> None:
    text = _command(run, commands.ACTIVE, ACTIVE_SECONDS)
    try:
        results = json.loads(text)["results"]
    except (ValueError, KeyError, TypeError):
        return
    active = {one.id for one in checks.CHECKS}
    findings = [(one["id"], finding) for one in results if one["id"] in active for finding in one["findings"]]
    run.notes += [
        "{0}: {1}: {2}: {3}".format(name, one["outcome"], one["thing"], one["reason"]) for name, one in findings
    ]


def _command(run: Run, words: str, seconds: float) -> str:
    name = re.sub(r"\W+", "_", words).strip("_")
    began = time.monotonic()
    try:
        ended = run.program([*run.argv, *words.split()], seconds)
    except NodeError as error:
        run.differences.append("gpunode {0}: {1}".format(words, error.reason))
        return ""
    text = ended.stdout + ("\n==> errors <==\n" + ended.stderr if ended.stderr else "")
    head = "# gpunode {0}: status {1}, {2:.1f} s\n".format(words, ended.returncode, time.monotonic() - began)
    run.texts["gpunode/{0}.txt".format(name)] = head + without_names(text)
    if "Traceback" in text or "report this as a bug" in text or ended.returncode not in (0, 1, 3, 4):
        run.differences.append("gpunode {0}: status {1}: {2}".format(words, ended.returncode, ended.words))
    return ended.stdout


def _cost(run: Run) -> None:
    import zipfile

    place = os.path.join(run.folder, "binding")
    os.makedirs(place, exist_ok=True)
    with zipfile.ZipFile(run.command) as own, open(os.path.join(place, "pynvml.py"), "wb") as stream:
        stream.write(own.read("pynvml.py"))
    found = cost.measured(lambda argv: run.program(argv, 30.0), run.argv, cost.rival(place), 3)
    run.texts["cost.txt"] = "\n".join(map(str, found)) + "\n"
    run.differences += ["cost: {0}".format(one) for one in cost.over(found)]


def _kernel(run: Run) -> None:
    log = kernel_log.read(Host())
    lines = [
        "[{0:.6f}] {1}".format(one.seconds, without_names(" ".join(one.text.split("\n"))))
        for one in log.lines
        if one.facility in (None, 0) and _DRIVER.search(one.text)
    ]
    run.texts["kernel.txt"] = "\n".join(lines[-2000:]) + "\n"


def _system(run: Run) -> None:
    run.texts["system.txt"] = machine.description()


def _written(run: Run, output: str) -> int:
    """The size of the archive in bytes. What names the machine, and secrets, are not in it."""
    lines = ["differences: {0}".format(len(run.differences)), *run.differences, "", "notes:", *run.notes]
    run.texts["summary.txt"] = "\n".join(lines) + "\n"
    users = machine.owners(run.texts.values())
    known = {**machine.known(run.document["gpus"], users), **machine.of_site(run.texts.values(), declaration.PATH)}
    mask, secrets = Mask(known), Filter()
    files = {name: mask.text(secrets.text(text)) for name, text in sorted(run.texts.items())}
    return archive.write(output, "gpu-node-hardware", files, time.time())


def _ending(run: Run, output: str, size: int) -> str:
    lines = ["", "{0}: {1:.0f} KiB, {2} files".format(output, size / 1024, len(run.texts))]
    lines += ["differs  " + one for one in run.differences] or ["nothing differs"]
    lines += ["note     " + one for one in run.notes]
    lines += [
        "Names of the host and of users that it saw, addresses, UUIDs and serial numbers are masked.",
        "Look through the archive, then attach it to an issue of trainyard.gpu_node, with the GPU in its title.",
    ]
    return "\n".join(lines)


#: Title and function of each step, by the name that --without takes.
STEPS: Dict[str, Tuple[str, Callable[[Run], None]]] = {
    "nvml": ("NVML: every answer of each product", _record),
    "nvidia-smi": ("nvidia-smi: column by column", _nvidia_smi),
    "commands": ("{0} commands of gpunode that only read".format(len(commands.READ_ONLY)), _commands),
    "cost": ("cost of whole commands", _cost),
    "active": ("active checks", _active),
    "kernel": ("kernel lines of the driver", _kernel),
    "system": ("driver and system", _system),
}
