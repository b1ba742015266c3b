# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What zsh offers at the end of a line: an interactive zsh on a terminal, whose Tab writes its matches into a file."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from pathlib import Path

# compadd is what every completion function of zsh ends in; with -O it puts the matches into an array.
# ^X begins other keys: zsh waits KEYTIMEOUT for a second one, by default 0.4 s.
SETUP = """
PS1='ready> '; KEYTIMEOUT=1; unsetopt beep; fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -d {folder}/dump
compadd() {{
    if [[ ${{@[1,(i)(-|--)]}} != *-(O|A|D)* ]]; then
        local -a found; builtin compadd -O found "$@"; print -rl -- $found >>{folder}/found
    fi
    builtin compadd "$@"
}}
zle -C offered complete-word _main_complete
finish() {{ zle offered; print -r -- DONE >>{folder}/found; BUFFER=; zle redisplay }}
zle -N finish; bindkey '^X' finish
"""


def offers(script: str, folder: Path, lines: "list[str]", timeout: float = 60) -> "dict[str, list[str]]":
    """The words that are offered after each of these lines, sorted."""
    folder.mkdir(exist_ok=True)
    (folder / "_gpunode").write_text(script, encoding="utf-8")
    (folder / "setup").write_text(SETUP.format(folder=folder), encoding="utf-8")
    found = folder / "found"
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["zsh", "-f", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=dict(os.environ, TERM="xterm", HOME=str(folder)),
        start_new_session=True,
    )
    os.close(theirs)
    answer = {}
    try:
        os.write(ours, ". {0}/setup\n".format(folder).encode())
        for line in lines:
            found.write_text("")
            os.write(ours, line.encode() + b"\x18")
            deadline = time.monotonic() + timeout
            while "DONE\n" not in found.read_text():
                if select.select([ours], [], [], 0.02)[0]:
                    os.read(ours, 65536)
                assert time.monotonic() < deadline, "zsh offered nothing after {0!r}".format(line)
            words = found.read_text().split("DONE\n")[0].splitlines()
            answer[line] = sorted({word for word in words if word})
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return answer
