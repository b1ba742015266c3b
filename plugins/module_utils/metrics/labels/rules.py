# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the name and the value of a label may be (Kubernetes, "Labels and Selectors"), and the text of a file of them
for the local source of Node Feature Discovery (its customization guide, "Input format"). Pure."""

from __future__ import annotations

import re
from typing import Mapping

from ...core.managed_files import MARKER
from ...core.moment import moment

NAMESPACE = "trainyard.io"
LONGEST = 63
#: How many intervals labels hold: a run may be late, or take its time.
VALID_INTERVALS = 2.5
_WORD = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_ENDS = "_.-"


def value(text: str) -> str:
    """The nearest legal value; it may be empty."""
    return fit(re.sub(r"[^A-Za-z0-9_.-]+", "_", text))


def fit(text: str, tail: str = "") -> str:
    """A text of legal characters as a legal value; ``tail`` stays whole after it."""
    return text.strip(_ENDS)[: LONGEST - len(tail)].strip(_ENDS) + tail


def legal(name: str, content: str) -> bool:
    """Whether ``prefix/name`` with this value is a label."""
    prefix, dummy, word = name.partition("/")
    if re.fullmatch(r"[a-z0-9.-]{1,253}", prefix) is None or _WORD.fullmatch(word) is None:
        return False
    return content == "" or _WORD.fullmatch(content) is not None


def render(labels: Mapping[str, str], expires: float) -> str:
    """``namespace/name=value`` a line, after the directive of their expiry: when nobody writes them any more, they go.

    Nothing in it changes while the labels stay the same but that time, so nodes are not patched at each run.
    """
    head = [
        MARKER + " Labels of this node for Node Feature Discovery; they expire by themselves.",
        "# +expiry-time={0}".format(moment(expires)),
    ]
    return "\n".join([*head, *("{0}={1}".format(name, labels[name]) for name in sorted(labels))]) + "\n"
