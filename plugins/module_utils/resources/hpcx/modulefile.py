# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of a modulefile, in Lua for Lmod and in Tcl for Environment Modules.

It depends on nothing but the folder and the settings: which parts this HPC-X has (HCOLL and the plugins come and go
with its versions) is seen when the module is loaded, so check mode can tell the text before anything is unpacked. When
it is unloaded everything is taken back, also when the folder has gone in the meantime.
"""

from __future__ import annotations

from typing import List, Tuple

from ...core.managed_files import MARK
from ...core.module_systems import LMOD, lua_word, lua_words, tcl_word
from .options import Desired

# The variables that hpcx-init.sh sets, by the folder that they name.
_VARIABLES: Tuple[Tuple[str, str], ...] = (
    ("HPCX_UCX_DIR", "ucx"),
    ("HPCX_UCC_DIR", "ucc"),
    ("HPCX_SHARP_DIR", "sharp"),
    ("HPCX_HCOLL_DIR", "hcoll"),
    ("HPCX_NCCL_RDMA_SHARP_PLUGIN_DIR", "nccl_rdma_sharp_plugin"),
    ("HPCX_CLUSTERKIT_DIR", "clusterkit"),
    ("HPCX_MPI_DIR", "ompi"),
    ("HPCX_OSHMEM_DIR", "ompi"),
    ("HPCX_MPI_TESTS_DIR", "ompi/tests"),
    ("OMPI_HOME", "ompi"),
    ("MPI_HOME", "ompi"),
    ("OSHMEM_HOME", "ompi"),
    ("SHMEM_HOME", "ompi"),
    ("OPAL_PREFIX", "ompi"),
    ("PMIX_INSTALL_PREFIX", "ompi"),
)
# In the order of prepending: the last one is found first.
_LISTS: Tuple[Tuple[str, Tuple[str, ...]], ...] = (
    ("PATH", ("ucx/bin", "ucc/bin", "hcoll/bin", "sharp/bin", "ompi/tests/imb", "clusterkit/bin", "ompi/bin")),
    (
        "LD_LIBRARY_PATH",
        ("ucx/lib", "ucx/lib/ucx", "ucc/lib", "ucc/lib/ucc", "hcoll/lib", "sharp/lib", "PLUGIN", "ompi/lib"),
    ),
    ("LIBRARY_PATH", ("ucx/lib", "ucc/lib", "hcoll/lib", "sharp/lib", "PLUGIN", "ompi/lib")),
    ("CPATH", ("hcoll/include", "sharp/include", "ucx/include", "ucc/include", "ompi/include")),
    (
        "PKG_CONFIG_PATH",
        ("hcoll/lib/pkgconfig", "sharp/lib/pkgconfig", "ucx/lib/pkgconfig", "ompi/lib/pkgconfig"),
    ),
    ("MANPATH", ("ompi/share/man",)),
)
_PLUGIN = "nccl_rdma_sharp_plugin/lib"
# Where Azure's images have it, for trees that lack their own.
_PLUGIN_OF_IMAGES = "/usr/local/nccl-rdma-sharp-plugins/lib"


def text(kind: str, root: str, version: str, desired: Desired) -> str:
    return (_lua if kind == LMOD else _tcl)(root, version, desired)


def _conflicts(desired: Desired) -> List[str]:
    return list(dict.fromkeys((desired.module_name.split("/")[0],) + desired.conflicts))


def _path_lists(desired: Desired) -> List[Tuple[str, List[str]]]:
    plugin = [_PLUGIN] if desired.sharp_plugin else []
    return [
        (name, [one for folder in folders for one in (plugin if folder == "PLUGIN" else [folder])])
        for name, folders in _LISTS
    ]


def _tcl(root: str, version: str, desired: Desired) -> str:
    lines = [
        "#%Module1.0",
        "# {0} Changes will be lost.".format(MARK),
        "module-whatis {{NVIDIA HPC-X {0}: Open MPI, UCX, UCC, SHARP}}".format(version),
        "proc ModulesHelp {} {",
        "    puts stderr {{NVIDIA HPC-X {0} in {1}.}}".format(version, root),
        "}",
        "conflict {0}".format(" ".join(_conflicts(desired))),
        "",
        "set root {0}".format(root),
        "# Parts come and go with the versions; unloading takes everything back.",
        "proc there {folder} { expr {[module-info mode unload] || [file isdirectory $folder]} }",
        "setenv HPCX_DIR $root",
        "setenv HPCX_HOME $root",
        "foreach {variable part} {",
    ]
    lines += ["    {0} {1}".format(name, folder) for name, folder in _VARIABLES]
    lines += [
        "} {",
        "    if {[there $root/$part]} { setenv $variable $root/$part }",
        "}",
        "# The OSU benchmarks have their version in the name of their folder, or not.",
        "foreach folder [lsort [glob -nocomplain -type d $root/ompi/tests/osu-micro-benchmarks*]] {",
        "    setenv [expr {[string match *-cuda $folder] ? {HPCX_OSU_CUDA_DIR} : {HPCX_OSU_DIR}}] $folder",
        "}",
        "if {[module-info mode unload]} { setenv HPCX_OSU_DIR {}; setenv HPCX_OSU_CUDA_DIR {} }",
    ]
    for name, folders in _path_lists(desired):
        lines.append("foreach part {{{0}}} {{".format(" ".join(folders)))
        lines.append("    if {{[there $root/$part]}} {{ prepend-path {0} $root/$part }}".format(name))
        lines.append("}")
    lines += [
        "# An empty entry keeps the manual pages of the system.",
        "append-path MANPATH {}",
    ]
    if desired.sharp_plugin:
        lines += [
            "if {{[module-info mode unload] || ![file isdirectory $root/{0}]}} {{".format(_PLUGIN),
            "    if {{[there {0}]}} {{ prepend-path LD_LIBRARY_PATH {0} }}".format(_PLUGIN_OF_IMAGES),
            "}",
        ]
    lines += ["setenv {0} {1}".format(name, tcl_word(value)) for name, value in desired.variables.items()]
    return "\n".join(lines) + "\n"


def _lua(root: str, version: str, desired: Desired) -> str:
    lines = [
        "-- {0} Changes will be lost.".format(MARK),
        "whatis({0})".format(lua_word("NVIDIA HPC-X {0}: Open MPI, UCX, UCC, SHARP".format(version))),
        "help({0})".format(lua_word("NVIDIA HPC-X {0} in {1}.".format(version, root))),
        "conflict({0})".format(", ".join(map(lua_word, _conflicts(desired)))),
        "",
        "local root = {0}".format(lua_word(root)),
        'local unloading = mode() == "unload"',
        "-- Parts come and go with the versions; unloading takes everything back.",
        "local function there(folder) return unloading or isDir(folder) end",
        'setenv("HPCX_DIR", root)',
        'setenv("HPCX_HOME", root)',
        "for _, one in ipairs({",
    ]
    lines += ["  {{{0}, {1}}},".format(*map(lua_word, pair)) for pair in _VARIABLES]
    lines += [
        "}) do",
        '  if there(root .. "/" .. one[2]) then setenv(one[1], root .. "/" .. one[2]) end',
        "end",
        "-- The OSU benchmarks have their version in the name of their folder, or not.",
        'local tests, osu = root .. "/ompi/tests", {}',
        "if isDir(tests) then",
        "  for name in lfs.dir(tests) do",
        '    if name:find("^osu%-micro%-benchmarks") and isDir(tests .. "/" .. name) then osu[#osu + 1] = name end',
        "  end",
        "end",
        "table.sort(osu)",
        "for _, name in ipairs(osu) do",
        '  setenv(name:find("%-cuda$") and "HPCX_OSU_CUDA_DIR" or "HPCX_OSU_DIR", tests .. "/" .. name)',
        "end",
        'if unloading then setenv("HPCX_OSU_DIR", ""); setenv("HPCX_OSU_CUDA_DIR", "") end',
    ]
    for name, folders in _path_lists(desired):
        lines.append("for _, part in ipairs({{{0}}}) do".format(lua_words(folders)))
        lines.append(
            '  if there(root .. "/" .. part) then prepend_path({0}, root .. "/" .. part) end'.format(lua_word(name))
        )
        lines.append("end")
    lines += [
        "-- An empty entry keeps the manual pages of the system.",
        'append_path("MANPATH", "")',
    ]
    if desired.sharp_plugin:
        lines += [
            'if unloading or not isDir(root .. "/{0}") then'.format(_PLUGIN),
            '  if there("{0}") then prepend_path("LD_LIBRARY_PATH", "{0}") end'.format(_PLUGIN_OF_IMAGES),
            "end",
        ]
    lines += ["setenv({0}, {1})".format(*map(lua_word, pair)) for pair in desired.variables.items()]
    return "\n".join(lines) + "\n"
