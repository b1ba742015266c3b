# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of a module that runs once for all hosts of a play: its list with an entry for each host (``per_host``) is
made of variables that each host has. ``nodes: [{name: gpu01, config: slice-4}]`` is ``gpu_sharing_config`` of gpu01."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from .frozen import replaced
from .options import REQUIRED, Option, described


def flat(known: Mapping[str, Option]) -> Dict[str, Option]:
    """The options as a role has them: those of one host in place of the list of all. None of these is required, as
    the role knows the name of a host."""
    found: Dict[str, Option] = {}
    for name, one in known.items():
        if one.per_host and one.inner is not None:
            inner = described(one.inner).items()
            found.update(
                (key, replaced(each, default=None) if each.default is REQUIRED else each) for key, each in inner
            )
        else:
            found[name] = one
    return found


def gathered(known: Mapping[str, Option], given: Mapping[str, Any], host: str) -> Dict[str, Any]:
    """What a module would be given for this host alone, of options as :func:`flat` has them."""
    found = {name: value for name, value in given.items() if name in known}
    for name, one in known.items():
        if one.per_host and one.inner is not None:
            inner = described(one.inner)
            entry = {key: value for key, value in given.items() if key in inner}
            first = next(iter(inner))  # the name of the host
            found[name] = [dict(entry, **{first: entry.get(first) or host})]
    return found


def thing_of_host(known: Mapping[str, Option], thing: str) -> str:
    """What an error is about, in the words of the only host: ``option config`` of ``option nodes[0].config``."""
    for name, one in known.items():
        place = "option {0}[0].".format(name)
        if one.per_host and thing.startswith(place):
            return "option " + thing[len(place) :]
    return thing
