# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How slurmd's unit would start slurmd while it does not run: program, arguments, environment.

It reads the unit files by systemd.unit(5), systemd.exec(5) and systemd.service(5), so it works in an image too.
"""

from __future__ import annotations

import re
import shlex
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from ..core import machine, systemd
from ..core.frozen import frozen
from ..core.host import Host

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
    lines = list(systemd.settings(host, name))
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
