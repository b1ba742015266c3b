# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The declaration of a node: what is wanted of it, one section for each resource.

    {"node_profile": {}, "nvme_scratch": {"mount_point": "/scratch"}, "pyxis": {"state": "absent"}, "health": {}}

A resource without a section is not managed. The names and the values are those of the resource's options; what is left
out is at its default, or what the profile of the machine says. It lies in :data:`PATH` on the node. ``$comment`` is a
text for people, and for programs that write declarations: by it they know theirs again. ``$schema`` tells editors
where the JSON schema is; nobody else reads it.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..core import declaration, registry
from ..core.host import Host
from ..core.nearest import nearest
from ..core.options import described, of, option, options
from ..core.resource import NodeError, apart, together

PATH = declaration.WISH
HEALTH = "health"
COMMENT = "$comment"
#: No sections, but texts.
TEXTS = ("$schema", COMMENT)
#: By name; of a text itself, of all others a mapping.
Sections = Mapping[str, Any]


@options
class Verdict:
    """What is asked of the verdict at the end."""

    fail_on: str = option(
        "never",
        (
            "From which verdict on the converge counts as failed.",
            "A node that converges itself takes jobs by the same limit: by V(unknown) where none is given, and with the"
            " verdict V(fail) never.",
        ),
        choices=("fail", "unknown", "warn", "never"),
    )
    without: Tuple[str, ...] = option((), "Checks that are left out, by id or pattern such as V(gpu_*).")

    def __post_init__(self) -> None:
        if self.without:
            from ..health.registry import known  # with all checks, and few declarations leave some out

            known(self.without)


def read(host: Host) -> Optional[Sections]:
    """The declaration of this node; None: it has none.

    :raises NodeError: it is none that can be used.
    """
    text = host.read(PATH)
    return None if text is None else lasting(parse(text, PATH))


def write(host: Host, told: str) -> None:
    """Readable for root alone, as it may have access keys.

    :raises NodeError: it cannot be written.
    """
    host.write(PATH, told, mode=0o600)


def stands(host: Host, told: str) -> bool:
    """Whether this is what lies there, readable for root alone."""
    try:
        return host.read(PATH) == told and not os.stat(host.path(PATH)).st_mode & 0o077
    except OSError:
        return False


def parse(text: str, where: str) -> Sections:
    """:raises NodeError: this is no declaration; ``where`` it came from."""
    try:
        content = json.loads(text, object_pairs_hook=_once)
    except ValueError as error:
        raise NodeError(where, "it is not valid JSON ({0})".format(error), "correct it") from error
    return checked(content, where)


def _once(pairs: Sequence[Tuple[str, Any]]) -> Dict[str, Any]:
    """A mapping in which no name stands twice: of two sections JSON's reader would drop the first."""
    found: Dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError("{0!r} stands in it twice".format(name))
        found[name] = value
    return found


def checked(content: Any, where: str) -> Sections:
    """:raises NodeError: of each section, that there is none of that name, or that it is no mapping; of a text, that it
    is none."""
    if not isinstance(content, Mapping):
        raise NodeError(where, "it is no mapping of sections", "write it as docs/declaration.md shows")
    wrong = list(_wrong(content, where))
    if wrong:
        raise together(wrong)
    return {name: section if name in TEXTS else dict(section or {}) for name, section in content.items()}


def _wrong(content: Mapping[str, Any], where: str) -> Iterator[NodeError]:
    known = [*registry.NAMES, HEALTH]
    for name, section in content.items():
        if name in TEXTS:
            if not isinstance(section, str):
                thing = "{0} of {1}".format(name, where)
                yield NodeError(thing, "it is no text", "write it as a text, or leave it out")
        elif name in registry.OF_CLUSTER:
            remedy = "leave it out; playbooks/sharing.yml and playbooks/kubernetes.yml are for what is of a cluster"
            yield NodeError("section {0} of {1}".format(name, where), "it is of a cluster, and of no node", remedy)
        elif name not in known:
            remedy = "{0}use some of {1}".format(nearest(str(name), known), ", ".join(known))
            yield NodeError("section {0!r} of {1}".format(name, where), "there is no such resource", remedy)
        elif section is not None and not isinstance(section, Mapping):
            remedy = 'write it as {"option": value}, or {} for its defaults'
            yield NodeError("section {0} of {1}".format(name, where), "it is no mapping of options", remedy)


def desired(sections: Sections, profile: Mapping[str, Any]) -> Dict[str, Any]:
    """The options of each resource that has a section, with the figures of the machine's profile.

    :raises Refused: for all sections together, what cannot be.
    """
    found: Dict[str, Any] = {}
    wrong: List[NodeError] = []
    for name in (*registry.NAMES, HEALTH):
        if name in sections or name == HEALTH:
            cls = Verdict if name == HEALTH else registry.resource(name).options
            try:
                found[name] = of(cls, sections.get(name, {}), profile)
            except NodeError as error:
                wrong += [NodeError("{0}, {1}".format(name, one.thing), one.reason, one.remedy) for one in apart(error)]
    if wrong:
        raise together(wrong)
    return found


def absent(sections: Sections) -> Sections:
    """The same with all resources taken away."""
    return {
        name: dict(section, state=described(registry.resource(name).options)["state"].choices[1])
        for name, section in sections.items()
        if name in registry.NAMES
    }


#: Options that are otherwise in the run of a boot: slurmd waits for it and reads all of its files when it starts, so
#: slurmctld is not asked to have all nodes read them.
_AT_BOOT: Sections = {"slurm_hooks": {"reconfigure": False}}


def at_boot(sections: Sections) -> Sections:
    return {**sections, **{name: dict(sections[name], **more) for name, more in _AT_BOOT.items() if name in sections}}


def lasting(sections: Sections) -> Sections:
    """Without the options that count only for the run in which they are given: no boot repeats consent to a loss."""

    def kept(name: str) -> Any:
        if name not in registry.NAMES:
            return sections[name]
        known = described(registry.resource(name).options)
        return {key: value for key, value in sections[name].items() if key not in known or not known[key].once}

    return {name: kept(name) for name in sections}


def text(sections: Sections) -> str:
    return json.dumps(lasting(sections), indent=2, sort_keys=True) + "\n"
