# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder ``features.d`` as Node Feature Discovery reads it: its worker (source/local) and its master (validate), of
its version of July 2026. Shares no code with what writes the files."""

from __future__ import annotations

import datetime
import os
import re
import stat
from dataclasses import dataclass, field

LARGEST_BYTES = 65536
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")


@dataclass
class Node:
    """``labels`` of the node; ``dropped``: why what stands in a file is no label; ``doubled``: names that a later file
    had again."""

    labels: dict = field(default_factory=dict)
    dropped: list = field(default_factory=list)
    doubled: list = field(default_factory=list)


def read(folder, now):
    """The node after a look at ``folder`` at ``now``, in seconds since 1970."""
    node = Node()
    for name in sorted(os.listdir(folder), key=os.fsencode):
        path = os.path.join(folder, name)
        if name.startswith("."):
            continue
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            continue
        if found.st_size > LARGEST_BYTES:
            node.dropped.append("{0}: it is larger than {1} bytes".format(name, LARGEST_BYTES))
            continue
        with open(path, "rb") as stream:
            one = _file(stream.read(), now, node.dropped)
        node.doubled += [label for label in one if label in node.labels]
        node.labels.update(one)
    for label, value in list(node.labels.items()):
        why = _refused(label, value)
        if why:
            node.dropped.append("{0}={1}: {2}".format(label, value, why))
            del node.labels[label]
    return node


def _file(content, now, dropped):
    labels, expires, skip = {}, now, False
    for raw in content.split(b"\n"):
        line = raw.decode("utf-8", "replace").strip()
        if line.startswith("# +"):
            directive, equals, value = line[3:].partition("=")
            if directive == "expiry-time" and equals:
                try:
                    expires = _moment(value.strip())
                except ValueError:
                    dropped.append(line)  # what held before holds on
            elif directive == "no-label":
                skip = True
            elif directive != "no-feature":
                dropped.append(line)
        elif line and not line.startswith("#") and expires >= now:
            name, equals, value = line.partition("=")
            if skip:
                labels.pop(name, None)
            else:
                labels[name] = value if equals else "true"
            skip = False
    return labels


def _moment(text):
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", text):
        raise ValueError(text)
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _refused(label, value):
    namespace, slash, name = label.rpartition("/")
    if not slash or not namespace:
        return "it has no namespace"
    if len(namespace) > 253 or not _PREFIX.fullmatch(namespace):
        return "its namespace is no name of a domain"
    if len(name) > 63 or not _NAME.fullmatch(name):
        return "its name cannot be"
    own = ("feature.node.kubernetes.io", "profile.node.kubernetes.io")
    if namespace == "kubernetes.io" or namespace.endswith(".kubernetes.io"):
        if namespace not in own and not namespace.endswith(tuple("." + one for one in own)):
            return "its namespace is not allowed"
    if len(value) > 63 or (value and not _NAME.fullmatch(value)):
        return "its value cannot be"
    return ""
