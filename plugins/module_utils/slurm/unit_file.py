# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How slurmd's unit would start slurmd while it does not run: program, arguments, environment.

It reads the unit files by systemd.unit(5), systemd.exec(5) and systemd.service(5), so it works in an image too.
"""

from __future__ import annotations

import re
import shlex
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..core import machine
from ..core.frozen import frozen
from ..core.host import Host

# In the order of precedence.
_FOLDERS = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
# The units of Slurm and of the distributions read SLURMD_OPTIONS from these files; other kinds of services read them
# too.
_OPTION_FILES = ("/etc/default/slurmd", "/etc/sysconfig/slurmd")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@frozen
class Start:
    """``program`` None: nothing says which."""

    program: Optional[str] = None
    arguments: Tuple[str, ...] = ()
    environment: Mapping[str, str] = {}


def read(host: Host, name: str) -> Start:
    """The start of the unit ``name``; without such a unit the words of SLURMD_OPTIONS alone."""
    lines = list(_settings(host, name))
    environment: Dict[str, str] = {}
    files: List[str] = []
    command = ""
    for key, value in lines:
        if key == "Environment":
            environment.update(_assignments(_words(_specified(value))) if value else {})
            if not value:
                environment.clear()
        elif key == "EnvironmentFile":
            files = [*files, value.lstrip("-")] if value else []
        elif key == "ExecStart":
            command = value
    for path in files if lines else _OPTION_FILES:
        environment.update(_file(host, path))
    if not lines:
        # A value in quotes is one word of the shell and many of slurmd; CycleCloud writes it without any.
        return Start(None, tuple(environment.get("SLURMD_OPTIONS", "").split()), {})
    words = _expanded(_words(_specified(command)), environment)
    program = words[0].lstrip("-@:+!") if words else ""
    return Start(program if program.startswith("/") else None, tuple(words[1:]), environment)


def _settings(host: Host, name: str) -> Iterator[Tuple[str, str]]:
    """The settings of the unit and its drop-ins, in the order in which systemd takes them."""
    main = next((path for path in ("{0}/{1}".format(one, name) for one in _FOLDERS) if host.exists(path)), None)
    if main is None:
        return
    drop_ins: Dict[str, str] = {}
    for folder in reversed(_FOLDERS):
        drop_ins.update(
            {one: "{0}/{1}.d/{2}".format(folder, name, one) for one in host.names(folder + "/" + name + ".d")}
        )
    for path in (main, *(drop_ins[one] for one in sorted(drop_ins) if one.endswith(".conf"))):
        text = re.sub(r"\\\n", " ", host.read(path) or "")
        for line in text.splitlines():
            key, equals, value = line.strip().partition("=")
            if equals and not key.startswith(("#", ";")):
                yield key.strip(), value.strip()


def _file(host: Host, path: str) -> Dict[str, str]:
    """Accepts ``export X=`` too, since a shell may read the same file, and unquoted values with blanks."""
    found: Dict[str, str] = {}
    for line in re.sub(r"\\\n", "", host.read(path) or "").splitlines():
        matched = re.match(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$", line)
        if matched:
            words = _words(matched.group(2))
            found[matched.group(1)] = words[0] if len(words) == 1 else " ".join(words)
    return found


def _assignments(words: Sequence[str]) -> Dict[str, str]:
    pairs = [word.partition("=") for word in words]
    return {name: value for name, equals, value in pairs if equals}


def _words(text: str) -> List[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _specified(text: str) -> str:
    """The specifiers of systemd.unit(5) with which a unit names its host."""
    known = {"%%": "%", "%H": machine.whole_name(), "%l": machine.short_name()}
    return re.sub(r"%[%Hl]", lambda found: known[found.group(0)], text)


def _expanded(words: Sequence[str], environment: Mapping[str, str]) -> List[str]:
    """``$X`` as a word of its own becomes all its words, ``${X}`` stays one."""
    found: List[str] = []
    for word in words:
        if re.fullmatch(r"\$[A-Za-z_][A-Za-z0-9_]*", word):
            found += _words(environment.get(word[1:], ""))
        else:
            found.append(_VARIABLE.sub(lambda one: environment.get(one.group(1), ""), word))
    return found
