# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keeps bytecode that Ansible compiles in each process, in the folder that KEPT_BYTECODE names.

A play compiles 500 files of the collection (Ansible's loader of collections reads no bytecode), and each module that it
runs compiles its part of ansible.module_utils (a zip file without bytecode): most of the time of a short play. Python
imports this file in each process that has its folder in PYTHONPATH.
"""

import os
import sys


class Patch:
    """Finder that finds nothing. It patches Ansible's loader of collections after the import."""

    NAME = "ansible.utils.collection_loader._collection_finder"

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != cls.NAME:
            return None
        sys.meta_path.remove(cls)
        import importlib.util

        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            module._AnsibleCollectionPkgLoaderBase.get_code = get_code

        spec.loader.exec_module = exec_module
        return spec


def get_code(self, fullname):
    """As Ansible's own method, with kept bytecode."""
    if not self._compiled_code:
        path, source = self.get_filename(fullname) or "<string>", self.get_source(fullname)
        if source is not None:
            self._compiled_code = compiled(path, source.encode() if isinstance(source, str) else source)
    return self._compiled_code


def compiled(path, source):
    """The code of a source text, of a process before or compiled here."""
    import _imp
    import marshal

    # The size makes an accidental match of two files even less likely.
    name = "{0}-{1}-{2}".format(sys.implementation.cache_tag, _imp.source_hash(0, source).hex(), len(source))
    file = os.path.join(os.environ["KEPT_BYTECODE"], name)
    try:
        with open(file, "rb") as stream:
            code = marshal.load(stream)
    except (OSError, EOFError, ValueError, TypeError):
        code = compile(source, path, "exec", dont_inherit=True)
        keep(file, marshal.dumps(code))
    else:
        _imp._fix_co_filename(code, path)
    return code


def keep(file, content):
    fresh = "{0}.{1}".format(file, os.getpid())
    try:
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(fresh, "wb") as stream:
            stream.write(content)
        os.replace(fresh, file)
    except OSError:  # another user's process may not write there
        pass


if os.environ.get("KEPT_BYTECODE"):
    import zipimport

    sys.meta_path.insert(0, Patch)
    if hasattr(zipimport, "_compile_source"):
        normal = zipimport._normalize_line_endings
        zipimport._compile_source = lambda path, source: compiled(path, normal(source))
