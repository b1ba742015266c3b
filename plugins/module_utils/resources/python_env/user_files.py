# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written for users: settings of conda, where caches go, and a modulefile for each environment. Pure."""

from __future__ import annotations

from typing import List, Tuple

from ...core.managed_files import MARK, MARKER, Wanted
from ...core.module_systems import LMOD, SUFFIXES, lua_word, tcl_word
from .options import CONDA, Desired
from .resolve import Wish

PROFILE = "/etc/profile.d/gpu_node_python.sh"
CONDARC = "/etc/conda/condarc.d/gpu_node.yml"
_PATHS = ("CONDA_ENVS_PATH", "CONDA_ENVS_DIRS", "CONDA_PKGS_DIRS")
# In place of ~/.cache and the like, by what reads them.
_CACHES: Tuple[Tuple[str, str], ...] = (
    ("XDG_CACHE_HOME", ""),
    ("PIP_CACHE_DIR", "/pip"),
    ("HF_HOME", "/huggingface"),
    ("TORCH_HOME", "/torch"),
)

_PROFILE = """\
{marker} Changes will be lost.
# Caches of Python's programs and environments of conda go to scratch, since homes are small. What is set stays.
gpu_node_own() {{
  # Only a folder of the user's own: where all users may make folders, another may have taken the name.
  [ -d "$1" ] || (umask 077 && mkdir "$1") 2>/dev/null
  [ -d "$1" ] && [ -O "$1" ] && [ ! -h "$1" ]
}}
if [ -n "${{USER:-}}" ] && [ "$(id -u)" -ge 1000 ]; then
{body}fi
unset -f gpu_node_own
"""


def paths() -> List[str]:
    return [PROFILE, CONDARC]


def wanted(desired: Desired) -> List[Wanted]:
    found = []
    if desired.user_folder:
        found += [Wanted(PROFILE, _profile(desired)), Wanted(CONDARC, _condarc(desired))]
    elif desired.unset_conda_paths:
        found.append(Wanted(PROFILE, "{0} Changes will be lost.\n{1}".format(MARKER, _unset(""))))
    return found


def _unset(indent: str) -> str:
    return "{0}unset {1}\n".format(indent, " ".join(_PATHS))


def _profile(desired: Desired) -> str:
    lines = [_unset("  ")] if desired.unset_conda_paths else []
    lines.append('  if gpu_node_own "{0}"; then\n'.format(desired.user_folder))
    for name, below in _CACHES:
        lines.append('    export {0}="${{{0}:-{1}/cache{2}}}"\n'.format(name, desired.user_folder, below))
    extensions = '    export TORCH_EXTENSIONS_DIR="${{TORCH_EXTENSIONS_DIR:-{0}/{1}}}"\n'
    if not desired.extensions_folder:
        lines.append(extensions.format(desired.user_folder, "cache/torch_extensions"))
    lines.append("  fi\n")
    if desired.extensions_folder:
        lines.append('  if gpu_node_own "{0}"; then\n'.format(desired.extensions_folder))
        lines.append(extensions.format(desired.extensions_folder, "torch_extensions"))
        lines.append("  fi\n")
    return _PROFILE.format(marker=MARKER, body="".join(lines))


def _condarc(desired: Desired) -> str:
    return (
        "{0} Changes will be lost.\n"
        "# Of all users; what one has in ~/.condarc goes before it.\n"
        "auto_update_conda: false\n"
        "pkgs_dirs:\n  - {1}/conda/pkgs\n"
        "envs_dirs:\n  - {1}/conda/envs\n"
    ).format(MARKER, desired.user_folder)


def modulefile_path(kind: str, folder: str, desired: Desired, name: str) -> str:
    return "{0}/{1}/{2}{3}".format(folder, desired.module_prefix, name, SUFFIXES[kind])


def modulefile(kind: str, wish: Wish, path: str, desired: Desired) -> str:
    """It names the tree and not the link, so that a job that runs while the link is switched keeps what it has."""
    title = "Python environment {0} ({1})".format(wish.name, wish.kind)
    home = "CONDA_PREFIX" if wish.kind == CONDA else "VIRTUAL_ENV"
    # Packages of a user's home would come before those of a venv.
    settings = [(home, path), ("PYTHONNOUSERSITE", "1")]
    gone = ["PYTHONHOME", "PYTHONPATH", *(_PATHS if desired.unset_conda_paths else ())]
    if kind == LMOD:
        lines = ["-- {0} Changes will be lost.".format(MARK), "whatis({0})".format(lua_word(title))]
        lines.append("conflict({0})".format(lua_word(desired.module_prefix)))
        lines += ["unsetenv({0})".format(lua_word(name)) for name in gone]
        lines += ["setenv({0}, {1})".format(lua_word(name), lua_word(value)) for name, value in settings]
        lines.append('prepend_path("PATH", {0})'.format(lua_word(path + "/bin")))
    else:
        lines = ["#%Module1.0", "# {0} Changes will be lost.".format(MARK), "module-whatis {0}".format(tcl_word(title))]
        lines.append("conflict {0}".format(desired.module_prefix))
        # unsetenv would set an empty value when the module is unloaded.
        lines += ["if {[module-info mode load]} {", *("    unsetenv {0}".format(name) for name in gone), "}"]
        lines += ["setenv {0} {1}".format(name, tcl_word(value)) for name, value in settings]
        lines.append("prepend-path PATH {0}".format(tcl_word(path + "/bin")))
    return "\n".join(lines) + "\n"
