# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Slurm node this is: by slurmd's own rules. Reads only; a test fails if another module finds it out.

The NodeName (slurmd.c: ``_log_setup``; tests/real_slurm compares it with slurmd 22.05 and 24.11): ``-N``; for a dynamic
node (``-Z``) the full host name; for a dynamic future node (``-F``) the node that slurmctld chose, and only slurmctld
knows which; for other nodes the slurm.conf node whose NodeHostname is the short host name, the full host name, another
name of this host by the resolver, or localhost.
"""

from __future__ import annotations

import os
from typing import Iterator, Optional

from ..core import machine
from ..core.frozen import frozen
from ..core.host import Host
from ..core.resource import NodeError
from . import commands, slurm_conf, syntax
from .places import Place, find

_RESOLVER_SECONDS = 5.0


@frozen
class Here:
    """This node: where slurmd has its files, the text of its slurm.conf, and its NodeName. ``certain``: the name comes
    from slurmd, slurm.conf or slurmctld and is not a guess from the host name."""

    place: Place
    text: Optional[syntax.Text]
    node_name: str
    certain: bool = False

    @property
    def certain_name(self) -> str:
        """The NodeName, or "" if it is a guess."""
        return self.node_name if self.certain else ""


def here(host: Host, given: Optional[str] = None) -> Here:
    """``given``: as in :func:`find`."""
    place = find(host, given)
    text = syntax.read(place.path, host.read) if place.path else None
    known = _known(host, place, text)
    return Here(place, text, known or machine.short_name(), known is not None)


def node_name(place: Place, text: Optional[syntax.Text], host: Optional[Host] = None) -> str:
    """The NodeName of this node by a slurm.conf that the caller has; the short host name where ``text`` has no node for
    this host, or there is none."""
    return _known(host or Host(), place, text) or machine.short_name()


def _known(host: Host, place: Place, text: Optional[syntax.Text]) -> Optional[str]:
    """The variables that slurmd itself sets for a hook come first."""
    told = os.environ.get("SLURMD_NODENAME", "")
    if told:
        return told
    if place.future:
        return _chosen(host)
    if place.node_name:
        return place.node_name
    whole = machine.whole_name()
    if place.dynamic:
        return whole
    if text is not None and slurm_conf.has_nodes(text):
        names = dict.fromkeys((machine.short_name(), whole))
        for name in (*names, *_other_names(host, whole)):
            found = slurm_conf.node_name(text, name)
            if found is not None:
                return found
    return None


def _chosen(host: Host) -> Optional[str]:
    """The node whose NodeHostName is this host; None: slurmctld does not answer, or not with one node."""
    try:
        told = commands.Commands(host).run("sinfo", "-h", "--local", "-a", "-N", "-o", "%N %n")
    except NodeError:
        return None
    rows = [line.split() for line in told.splitlines()]
    names = {row[0] for row in rows if row[1:] == [machine.short_name()]}
    return names.pop() if len(names) == 1 else None


def _other_names(host: Host, whole: str) -> Iterator[str]:
    """The canonical name and the aliases of this host, then localhost. Lazy: a resolver may take its time."""
    if host.root == "/":
        try:
            told = host.run(["getent", "hosts", whole], _RESOLVER_SECONDS, accept=tuple(range(256))).stdout
        except NodeError:
            told = ""
    else:
        lines = [line.partition("#")[0] for line in (host.read("/etc/hosts") or "").splitlines()]
        told = "\n".join(line for line in lines if whole in line.split()[1:])
    for line in told.splitlines():
        yield from line.split()[1:]
    yield "localhost"
