# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be asked of the gate on a node."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Tuple

from ...core import program_words, systemd
from ...core.managed_files import Wanted
from ...core.options import option, options, state
from ...core.resource import NodeError
from ...health import overrules, registry, thresholds
from ...health.gate.settings import FILE, REDEPLOY, REMEDY_UNIT, Settings
from ...health.settings import check
from ...health.silences import ENFORCED, Entry, check_of, parse
from ...health.types import Cost
from . import texts
from .inner import Checks, Overrule, Silence
from .types import PROGRAM, PROOF, UNIT

JOURNAL_FOLDER = "journal_folder"


def _given(value: Any) -> Any:
    """Without what a module's arguments name and nobody gave."""
    if isinstance(value, (list, tuple)):
        return [_given(one) for one in value]
    if isinstance(value, Mapping):
        return {name: _given(one) for name, one in value.items() if one is not None}
    return value


def _silences(given: Any) -> Tuple[Entry, ...]:
    return tuple(parse(_given(one)) for one in given)


def _overrules(given: Any) -> Tuple[Entry, ...]:
    return tuple(overrules.parse(_given(one)) for one in given)


@options
class Desired(Settings):
    """:raises NodeError: something of it cannot be."""

    _for_absent = ("program", "textfile", "labels_file")

    present: bool = state(
        [
            "V(absent) removes the gate's files, its sections of the declaration and what checks have found.",
            "A node that is drained stays drained; a note tells of it.",
        ]
    )
    silences: Tuple[Entry, ...] = option(
        (),
        "Known faults that do not count until a date. One that has ended is told.",
        inner=Silence,
        read=_silences,
    )
    thresholds: Mapping[str, Any] = option(
        {},
        [
            "Limits of measured figures in place of those of the profile and of the checks.",
            "By the name of the figure, with C(better) (C(higher) or C(lower)), C(warn) and C(fail).",
        ],
    )
    without: Tuple[str, ...] = option((), "Ids of checks, or patterns of them, that are not run on this node.")
    observe: Tuple[str, ...] = option(
        (),
        [
            "Checks that are only observed. What they find is told as C(observed), drains nothing, and changes neither "
            "the outcome of the node nor an exit status.",
            "Ids of checks, or patterns of them, V(ib_*), or names of findings as in O(silences), V(gpu_xid/xid_94/*). "
            "V(*) observes all of them. A pattern behind V(!) counts whatever the others say, V(!gpu_lost); a list of "
            "nothing but these observes no check and is refused.",
            "For a check that the site does not act on yet. For a known fault use O(silences), which has an owner and "
            "a date.",
        ],
    )
    settings: Mapping[str, Any] = option({}, "Settings of single checks.", inner=Checks, read=_given)
    overrules: Tuple[Entry, ...] = option(
        (),
        "Nodes that come back without that proof until a date. Each is told in every verdict while it holds.",
        inner=Overrule,
        read=_overrules,
    )
    program: str = option(
        PROGRAM,
        "The script for C(HealthCheckProgram=) of slurm.conf, written where slurmd is installed. Empty for none.",
        form=FILE,
    )
    timer: bool = option(True, "Have a systemd timer run the passive checks.")
    by_timer: bool = option(
        False,
        "Let the timer drain and resume too, where C(HealthCheckProgram=) of the cluster is somebody else's.",
    )

    def __post_init__(self) -> None:
        if not self.present:
            return
        if self.textfile and not self.textfile.endswith(".prom"):
            raise NodeError(
                "option textfile",
                "{0!r} does not end with .prom".format(self.textfile),
                "give one that does, as node exporter reads no other",
            )
        if REDEPLOY in self.remedies and not self.redeploy_command:
            raise NodeError(
                "option remedies", "redeploy has no command", "give redeploy_command, or leave redeploy out"
            )
        program_words.check("option redeploy_command", self.redeploy_command)
        check(self.settings)
        thresholds.declared(self.thresholds)
        # On the node a name that means nothing would leave the gate without any check.
        registry.chosen(Cost.ACTIVE, (), self.without)
        # One that means no check would count, though somebody believes that it is only observed.
        registry.known([check_of(one) for one in self.observe])
        # One that means no check would silence nothing. "*" alone may cover the "/" after the name of the check.
        named = [one.finding for one in self.silences if "/" in one.finding or "*" not in one.finding]
        registry.known([one.partition("/")[0] for one in named])
        if self.observe and all(one.startswith(ENFORCED) for one in self.observe):
            reason = "all of its entries begin with {0!r}, so no check is observed".format(ENFORCED)
            raise NodeError("option observe", reason, "add '*' to observe all but these, or leave it out")
        try:
            json.dumps([self.settings, self.thresholds], allow_nan=False)
        except (TypeError, ValueError) as error:
            raise NodeError(
                "option settings", "it is no JSON ({0})".format(error), "use texts, numbers, lists"
            ) from error

    def wanted(self, slurmd: bool) -> Tuple[Wanted, ...]:
        """The whole files. The script is there for Slurm only."""
        files: List[Wanted] = []
        if self.timer:
            files += UNIT.wanted(texts.service(self.by_timer), texts.timer(self.interval_seconds))
        if self.proof and slurmd:
            files.append(Wanted(systemd.path(PROOF), texts.proof()))
        if self.remedies and slurmd:
            files.append(Wanted(systemd.path(REMEDY_UNIT), texts.remedy(self.redeploy_seconds)))
        if self.program and slurmd:
            files.append(Wanted(self.program, texts.PROGRAM, 0o755))
        return tuple(files)

    @property
    def outputs(self) -> Tuple[str, ...]:
        """What a run of checks writes for other programs, with our mark."""
        return tuple(path for path in (self.textfile, self.labels_file) if path)

    @property
    def folders(self) -> Tuple[Tuple[str, str], ...]:
        """(option, folder) of those that have to be there."""
        if not self.present:
            return ()
        files = (("textfile", self.textfile), ("labels_file", self.labels_file))
        found = [(name, os.path.dirname(path)) for name, path in files if path]
        return (*found, *([(JOURNAL_FOLDER, self.journal_folder)] if self.journal_folder else []))

    def health_section(self) -> Dict[str, Any]:
        content = dict(self.settings)
        if self.silences:
            content["silences"] = [one.to_dict() for one in self.silences]
        if self.overrules:
            content[overrules.NAME] = [overrules.to_dict(one) for one in self.overrules]
        if self.thresholds:
            content["thresholds"] = dict(self.thresholds)
        if self.without:
            content["without"] = list(self.without)
        if self.observe:
            content["observe"] = list(self.observe)
        return content
