# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first lines of the node command, which choose the Python that runs it.

They are a shell script and not a line ``#!/usr/bin/python3.12 -I``, because Slurm, systemd and users all start the
command, and a kernel that does not find the interpreter of a file only says that the file does not exist. A shell also
accepts a path that is longer than 127 bytes or has a space in it. Python ignores all bytes before a zip archive.
"""

from __future__ import annotations

import os
import sys
from typing import Optional

#: Exit status of a command that no Python here can run; a shell uses it for a program that it does not find.
NO_PYTHON = 127
# Only directories that root alone writes to: a user may have set PATH.
_OTHERS = " ".join(
    "{0}/{1}".format(directory, name)
    for directory in ("/usr/bin", "/usr/local/bin")
    for name in ("python3", "python3.[1-9][0-9]", "python3.[89]")
)
_TEXT = """#!/bin/sh
# A Python zipapp follows these lines. The Python that installed it runs it, isolated (-I): the variables and the home
# directory of a user choose no code. bash imports functions of its caller, and none of them replaces unset or exec.
unset -f [ echo
python={0}
if [ -x "$python" ]; then
    exec "$python" -I "$0" "$@"
fi
for other in {1}; do
    (exec "$other" -I -c 'import sys; sys.exit(sys.version_info < (3, 8))') 2>/dev/null || continue
    if [ -n "$python" ]; then
        echo "gpunode: $python, the Python that installed this command, is missing; $other runs it now." \\
            "Run site.yml or 'gpunode converge' to install it for that one." >&2
    fi
    exec "$other" -I "$0" "$@"
done
echo "gpunode: ${{python:+$python, the Python that installed this command, is missing, and }}no Python" \\
    "3.8 or newer was found in /usr/bin and /usr/local/bin; install one, such as the package python3.11," \\
    "then run site.yml or 'gpunode converge'." >&2
exit {2}
"""


def launcher(python: Optional[str]) -> bytes:
    """``python``: the interpreter; None: any suitable one, for a file that is not installed yet. Pure."""
    quoted = "'{0}'".format((python or "").replace("'", "'\\''"))
    return os.fsencode(_TEXT.format(quoted, _OTHERS, NO_PYTHON))


def interpreter() -> str:
    """The Python that runs this, without links. In a virtual environment, which may be deleted sooner than the node
    command, it is the environment's base Python."""
    running = os.path.realpath(sys.executable or "/proc/self/exe")
    if sys.prefix == sys.base_prefix:
        return running
    name = "python{0}.{1}".format(*sys.version_info[:2])
    own = os.path.realpath(sys.prefix) + os.sep
    for path in (running, os.path.join(sys.base_prefix, "bin", name)):
        real = os.path.realpath(path)
        if not real.startswith(own) and os.access(real, os.X_OK):
            return real
    return running
