# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All state files of the library go through core/state_file.py, and none of them is misread."""

from __future__ import annotations

import ast
import importlib
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core import environments, lease
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.converge_record import Record as Converge
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.state_file import StateFile
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.scratch import record as scratch
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig import record as mig
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.mig import types as mig_types
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings import record as settings
from ansible_collections.trainyard.gpu_node.plugins.module_utils.gpus.settings import types as settings_types
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health import attempts, journal
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.events import memory
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.gate import history, kept
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.journal_events import Event
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.parts import Part
from ansible_collections.trainyard.gpu_node.plugins.module_utils.health.types import Cost, Finding, Outcome, Remedy
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.hpcx.observe import Mark as Hpcx
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.beeond.rules import Instance
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.jobs import Running

LIBRARY = Path(__file__).resolve().parents[4] / "plugins" / "module_utils"
PACKAGE = "ansible_collections.trainyard.gpu_node.plugins.module_utils"
INVALID = (None, "its content is invalid")
FAULT = history.Fault("gpu_ecc", "dbe", "reset_gpu")
CLOCK = lease.Clock(3.0, 2.0, "b")
FINDING = Finding(Outcome.FAIL, "GPU 0", "it is slow", "reset it", Remedy.RESET_GPU, key="0000:01:00.0", code="slow")
LAYOUT = mig_types.Standing(True, (mig_types.Piece(9, 0, (0, 1)),))
HEX = "a" * 32
#: By the name in the schema: a content with a value in each field.
CONTENT = {
    "active": kept.Active("m", "b", (kept.Kept(sorted(kept.ACTIVE)[0], 5.0, FINDING),)),
    "baseline": {"counters": [{"name": "n", "key": "k", "points": [[1.0, 2.0], [3.0, 4.0]]}]},
    "beeond": Instance(0, ("n1", "n2"), 3, "/beeond", "/data", "1", 7.0, (4, 5), "why"),
    "checkpoint_copy": {"destination": "https://x/y", "files": [["a", 1]]},
    "cloud_events": memory.Memory(
        machine="m",
        name="vm",
        known=(memory.Known("id", memory.TYPES[0], 4.0, True, "b", 2.0),),
        drained=("id",),
        boot="b",
        struck=True,
        over=memory.OVER,
        another=True,
        proved="b",
        tries=2,
        tried=3.0,
        why="w",
        notes=(memory.Note(1.0, "text"),),
    ),
    "converge": Converge("ready", "r", 1.0, 2.0, "b", "0.1.0", "pass", True),
    "gpu_settings": settings._Record(
        {
            "GPU-a": settings_types.Entry(
                "boot", True, ("clocks",), settings_types.ClockClaim("locked", "fixed", 1, 2, True, False), True
            )
        }
    ),
    "history": history.History(
        entries=(
            history.Entry(
                1.0, Cost.ACTIVE, Outcome.FAIL, "f", "drain", (FAULT,), ("p",), ("v",), "reboot", ("missing",)
            ),
        ),
        drained=True,
        asked=5.0,
        machine="m",
        boot="b",
        kept=True,
        debt=history.Debt((FAULT,), "f", ("p",), ("v",), 2, 4.0, ("missing",)),
        serving=True,
        up="u",
    ),
    "hpcx": Hpcx("/opt/hpcx-2.18", "2.18", "0" * 64, 5),
    "job": Running(0, 1000, ("0000:01:00.0",), "/scratch/7", "s", ((1, 2),), (3, 4), "user", "account", "partition"),
    "journal": journal.Journal(
        (Event(journal.FAULT, Part("gpu", "GPU-a"), 1.0, 2.0, "b", "c", "d", "reboot", "u", 3.0, 2, "n"),),
        "m",
        "b",
        ("gpu-a",),
    ),
    "mig_layout": mig._Record({"GPU-a": mig_types.Entry(LAYOUT, LAYOUT, LAYOUT)}, "m", ("a.service",)),
    "mig_resets": mig._Resets(("GPU-a",)),
    "node_lease": lease.Memory("m", 1.0, 2.0, (7, 3), "res", lease.Phase.ENDED, "w", CLOCK, CLOCK, 4.0, 5.0),
    "nvme_scratch": scratch.Record(
        (scratch.Build(HEX, HEX, "xfs", ("S0",), True),), "/mnt/scratch", ("/mnt/scratch",), True, "dmi:1"
    ),
    "python_env": environments.Mark("/envs/x", "x", "d", 3, "m", "s"),
    "remedies": attempts.Record(
        (attempts.Attempt("reboot", "node", 1.0, "b", "f", ("u",), ("p",), 2.0, "o", False, 3.0, ("g",)),),
        "why",
        2.0,
        "by",
        "m",
    ),
}


def state_files():
    """Each :class:`StateFile` of the library, by the module that defines it."""
    found = []
    for path in sorted(LIBRARY.rglob("*.py")):
        if re.search(r"= StateFile\(|: StateFile\(", path.read_text(encoding="utf-8")):
            name = ".".join(path.relative_to(LIBRARY).with_suffix("").parts)
            module = importlib.import_module("{0}.{1}".format(PACKAGE, name))
            for value in vars(module).values():
                for one in value.values() if isinstance(value, dict) else [value]:
                    if isinstance(one, StateFile):
                        found.append((name, one))
    return found


FILES = {one.name + " " + one.path: one for dummy, one in state_files()}
EACH = pytest.mark.parametrize("path", FILES)
VALUES = [
    None,
    True,
    False,
    0,
    -1,
    1.5,
    10**30,
    1e308,
    "",
    "x",
    "x" * 5000,
    [],
    [[]],
    [1, 2],
    {},
    {"x": 1},
    [{}],
    [None],
]


def document(file):
    return json.loads(file.text(CONTENT[file.name]))


def test_each_state_file_has_a_content_here_and_a_path_and_a_name_for_itself():
    assert {one.name for one in FILES.values()} == set(CONTENT) and len(FILES) == len(state_files())
    assert len(FILES) == len(CONTENT) + 1  # a job has two files of one form


@EACH
def test_what_is_written_is_read(path):
    file = FILES[path]
    found, damage = file.parse(file.text(CONTENT[file.name]))
    assert damage == "" and document(file) == json.loads(file.text(found))
    assert document(file)["schema"] == "trainyard.gpu_node/{0}/1".format(file.name)


@EACH
def test_the_file_of_an_earlier_release_is_read(path):
    """Not each of them had a key for the number of its form, and some named it otherwise."""
    file = FILES[path]
    content = document(file)
    del content["schema"]
    same = file.parse(file.text(CONTENT[file.name]))
    assert file.parse(json.dumps(content)) == same
    if "version" not in content:
        assert file.parse(json.dumps(dict(content, version=1))) == same
        assert file.parse(json.dumps(dict(content, version=2)))[1] == "a newer release wrote it"


@EACH
def test_another_form_is_damage(path):
    file = FILES[path]
    for schema, reason in (
        ("trainyard.gpu_node/{0}/2".format(file.name), "a newer release wrote it"),
        ("trainyard.gpu_node/other/1", "it is a file of another kind"),
        ("trainyard.gpu_node/{0}/0".format(file.name), INVALID[1]),
    ):
        assert file.parse(json.dumps(dict(document(file), schema=schema))) == (None, reason)
    if file.name != "checkpoint_copy":  # its content has no form
        assert file.parse("{}") == INVALID


@EACH
def test_a_file_cut_at_any_byte_is_damage(path):
    file = FILES[path]
    text = file.text(CONTENT[file.name])
    for length in range(len(text) - 1):
        assert file.parse(text[:length]) == INVALID


@EACH
def test_no_value_in_any_place_is_misread(path):
    """What is read can be written, and is then read as the same."""
    file = FILES[path]
    for changed in _changed(document(file)):
        found, damage = file.parse(json.dumps(changed))
        assert (found is None) == bool(damage)
        if found is not None:
            assert file.parse(file.text(found))[0] == found


def _changed(content):
    """Copies of a document with another value in one place, or without it."""
    if isinstance(content, dict):
        for name, value in content.items():
            if name != "schema":
                yield {key: one for key, one in content.items() if key != name}
                for other in (*VALUES, *_changed(value)):
                    yield dict(content, **{name: other})
    elif isinstance(content, list):
        for place, value in enumerate(content):
            for other in (*VALUES, *_changed(value)):
                yield [*content[:place], other, *content[place + 1 :]]


@given(st.sampled_from(sorted(FILES)), st.binary(max_size=100))
def test_random_bytes_are_damage(path, content):
    assert FILES[path].parse(content.decode("utf-8", "surrogateescape"))[0] is None


# The guard ----------------------------------------------------------------------------------------------------

_REACHES = {"read", "read_or_fail", "read_line", "read_text", "open", "load"}
_WRITES = {"write", "_write", "write_text", "replace", "write_beside"}
_PATH = re.compile(r"/(?:var/lib|run)/gpu_node/\S*\.json")
DECLARATION, NAMED, EXPORT, FOREIGN, NO_FILE = (
    "the declaration in /etc, which people edit",
    "a file that a person named",
    "a file for other programs",
    "a file or an answer of another program",
    "no file of a node: a pipe, an archive, an object in a cluster or a store",
)
#: Modules with JSON that is no state of this node.
OTHERS = {
    "checkpoints/whole.py": NO_FILE,
    "command/diagnose.py": NO_FILE,
    "command/image.py": NAMED,
    "command/module.py": NO_FILE,
    "core/declaration.py": DECLARATION,
    "facts/image/look.py": FOREIGN,
    "facts/image/read_cuda.py": FOREIGN,
    "facts/image/read_jobs.py": DECLARATION,
    "front/node_command.py": NO_FILE,
    "health/events/ask.py": FOREIGN,
    "health/gate/record.py": EXPORT,
    "kubernetes/kubectl.py": FOREIGN,
    "node/diagnose/gather.py": DECLARATION,
    "node/diagnose/read.py": NO_FILE,
    "node/wish.py": DECLARATION,
    "resources/kubernetes_gpu/marks.py": NO_FILE,
    "resources/node_runtime/bytecode.py": NO_FILE,
    "resources/python_env/build.py": FOREIGN,
    "resources/python_env/observe.py": FOREIGN,
}


def _function(call):
    """(what it belongs to, its name)."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.value.id if isinstance(function.value, ast.Name) else "", function.attr
    return "", function.id if isinstance(function, ast.Name) else ""


def _comes_from(nodes, known, is_source, depth=3):
    """Whether the value of an expression, or of the variables in it, comes from such a call."""
    for node in (one for top in nodes for one in ast.walk(top)):
        if isinstance(node, ast.Call) and is_source(*_function(node)):
            return True
        if depth and isinstance(node, ast.Name) and _comes_from(known.get(node.id, ()), known, is_source, depth - 1):
            return True
    return False


def codecs(text):
    """Why this module looks like one that reads or writes a state file by itself."""
    if "json." not in text:
        return
    tree = ast.parse(text)
    used = {_function(node) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    if {("json", "loads"), ("json", "load")} & used and {("json", "dumps"), ("json", "dump")} & used:
        yield "it has a form of JSON that it writes and reads"
    strings = [one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    if any(owner == "json" for owner, dummy in used) and any(_PATH.fullmatch(one) for one in strings):
        yield "it has JSON and the path of a state file"
    if ("json", "load") in used:
        yield "it reads JSON from a file"
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        known = {}
        for node in ast.walk(function):
            for target in node.targets if isinstance(node, ast.Assign) else ():
                for name in (one for one in ast.walk(target) if isinstance(one, ast.Name)):
                    known.setdefault(name.id, []).append(node.value)
        for call in (one for one in ast.walk(function) if isinstance(one, ast.Call)):
            given_ = [*call.args, *(one.value for one in call.keywords)]
            owner, name = _function(call)
            if (owner, name) == ("json", "loads"):
                if _comes_from(given_, known, lambda owner, name: owner != "json" and name in _REACHES):
                    yield "{0} parses a file as JSON".format(function.name)
            elif name in _WRITES and _comes_from(given_, known, lambda *found: found == ("json", "dumps")):
                yield "{0} writes JSON into a file".format(function.name)


def test_no_other_module_reads_or_writes_a_state_file():
    found = {}
    for path in LIBRARY.rglob("*.py"):
        name = path.relative_to(LIBRARY).as_posix()
        reasons = list(codecs(path.read_text(encoding="utf-8")))
        if reasons and name != "core/state_file.py":
            found[name] = reasons
    more = {name: reasons for name, reasons in found.items() if name not in OTHERS}
    assert not more, "use core/state_file.py"
    assert set(OTHERS) == set(found), "take it out of OTHERS"


@pytest.mark.parametrize(
    "code",
    [
        "def read(host):\n    return json.loads(host.read(PATH) or '')",
        "def read(host):\n    text = host.read(PATH)\n    return json.loads(text) if text else None",
        "def read(host):\n    text, why = safe_files.load(PATH)\n    text = text.strip()\n    return json.loads(text)",
        "def read():\n    with open(PATH) as stream:\n        return json.load(stream)",
        "def write(host, content):\n    host.write(PATH, json.dumps(content) + '\\n', mode=0o600)",
        "def write(host, content):\n    text = json.dumps(content)\n    host.write(PATH, text=text)",
        "def dump(content):\n    return json.dumps(content)\ndef parse(text):\n    return json.loads(text)",
        "PATH = '/run/gpu_node/jobs/{0}.json'\ndef parse(text):\n    return json.loads(text)",
    ],
)
def test_the_guard_detects_a_codec(code):
    assert list(codecs("import json\n" + code))
