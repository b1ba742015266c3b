# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs ansible-test on a real copy of the collection: `python -m tools.test_run.ansible_test KIND FOLDER`.

KIND is `units`, `sanity` (what runs on nodes and controllers) or `sanity_all` (all that a user installs, so the unit
tests too).

ansible-test wants its (real) working directory to be .../ansible_collections/<namespace>/<name>, and links do not
satisfy it. So the files that git tracks, or would track, are copied there; only what changed is copied again.
"""

from __future__ import annotations

import fnmatch
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Dict, List, Set

import yaml

ROOT = Path(__file__).resolve().parents[2]
# What is in the copy without being in the clone: ansible-test's own output, and what make_repository() makes.
KEEP = ("tests/output", ".git")
# sitecustomize.py of this folder keeps the bytecode of what Ansible compiles in each process.
BYTECODE = "tests/unit/kept_bytecode"


def files_of_the_clone() -> List[str]:
    """Paths of all files that git tracks or does not ignore and that exist."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=str(ROOT), stdout=subprocess.PIPE, check=True,
    ).stdout  # fmt: skip
    names = sorted(set(os.fsdecode(name) for name in listing.split(b"\0") if name))
    return [name for name in names if os.path.lexists(str(ROOT / name))]


def packed(names: List[str], patterns: List[str]) -> List[str]:
    """Those of the files that `ansible-galaxy collection build` packs: it leaves out what fits one of the patterns."""

    def left_out(path: PurePosixPath) -> bool:
        # The last parent is the folder of all of them.
        parts = [str(path)] + [str(parent) for parent in list(path.parents)[:-1]]
        return any(fnmatch.fnmatch(part, pattern) for part in parts for pattern in patterns)

    return [name for name in names if not left_out(PurePosixPath(name))]


def files_for(kind: str) -> List[str]:
    """The sanity tests judge what a user installs; the unit tests also need what they test under tools/.

    The unit tests themselves take pylint longer than the library does, and `make soak` has the time.
    """
    names = files_of_the_clone()
    if kind == "units":
        return names
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))
    left_out = [*galaxy["build_ignore"], *(["tests"] if kind == "sanity" else [])]
    return packed(names, left_out) + ["galaxy.yml"]


def synchronise(names: List[str], target: Path) -> int:
    """Make the target hold these files and nothing else. Returns how many were copied or removed."""
    changed = 0
    for name in names:
        changed += copy_if_different(ROOT / name, target / name)
    wanted = set(names)
    for path in existing_files(target):
        if path not in wanted:
            (target / path).unlink()
            changed += 1
    return changed


def copy_if_different(source: Path, target: Path) -> bool:
    """Copy a file with its mode and time; same size, time and mode count as the same file."""
    if source.is_symlink() or not source.is_file():
        raise SystemExit("{0}: not a plain file; ansible-test does not accept it in a collection".format(source))
    before = source.stat()
    if target.is_file():
        after = target.stat()
        if (before.st_size, before.st_mtime_ns, before.st_mode) == (after.st_size, after.st_mtime_ns, after.st_mode):
            return False
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(str(source), str(target))
    return True


def existing_files(target: Path) -> Set[str]:
    found: Set[str] = set()
    for folder, folders, names in os.walk(str(target)):
        relative = Path(folder).relative_to(target)
        folders[:] = [name for name in folders if (relative / name).as_posix() not in KEEP]
        found.update((relative / name).as_posix() for name in names)
    return found


def make_repository(target: Path) -> None:
    """Make the copy a repository of its own, without commits.

    ansible-test asks git for the files. It finds the clone's .git above the copy, and there the copy is ignored.
    """
    if not (target / ".git").is_dir():
        subprocess.run(["git", "init", "--quiet", str(target)], env=without_git(), check=True)


def without_git() -> Dict[str, str]:
    """The environment without what would lead git (started by a hook, say) or Ansible to another place."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "GIT_"))}


def make_home() -> Path:
    """A home folder for ansible-test in the user's cache, where its environments and downloads stay between runs.

    The user's own ~/.ansible is left alone; the settings and the cache of pip are still the user's.
    """
    user = Path.home()
    home = Path(os.environ.get("XDG_CACHE_HOME") or str(user / ".cache")) / "trainyard-gpu-node" / "ansible_test"
    home.mkdir(parents=True, exist_ok=True)
    for name in (".cache", ".config", ".pip"):
        link = home / name
        if (user / name).exists() and not os.path.lexists(str(link)):
            link.symlink_to(user / name)
    return home


def provide_get_pip(home: Path) -> None:
    """Let ansible-test put pip into its own environments without a download.

    It fetches a get-pip file from a test host of the Ansible project, which a machine that reaches only a package
    index cannot; a file of that name in its cache is taken as it is. Python's own ensurepip does the same work. The
    packages that the sanity tests need still come from the package index, once.
    """
    folder = importlib.util.find_spec("ansible_test")
    if folder is None or not folder.submodule_search_locations:
        raise SystemExit("ansible-test: it is not installed in {0}; run make setup".format(sys.prefix))
    package = Path(folder.submodule_search_locations[0])
    source = (package / "_internal" / "python_requirements.py").read_text(encoding="utf-8")
    for version in set(re.findall(r"pip='([0-9.]+)'", source)):
        script = home / ".ansible" / "test" / "cache" / "get_pip_{0}.py".format(version.replace(".", "_"))
        if not script.exists():
            script.parent.mkdir(parents=True, exist_ok=True)
            script.write_text("import ensurepip\n\nensurepip.bootstrap(upgrade=True)\n", encoding="utf-8")


def environments(home: Path, version: str) -> List[Path]:
    """Where Python finds packages in the environments of the import test; one that needs none uses `sanity`."""
    made = home / ".ansible" / "test" / "venv"
    inside = "{0}/*/lib/python{0}/site-packages".format(version)
    return [path for name in ("sanity", "sanity.import", "sanity.import.plugin") for path in (made / name).glob(inside)]


def keep_bytecode(home: Path, version: str) -> None:
    """Let the import test keep bytecode: it compiles the library anew for each file of it, most of its time.

    Its environments, which ansible-test makes once, get a file that Python imports when it starts.
    """
    for folder in environments(home, version):
        shutil.copy2(str(ROOT / BYTECODE / "sitecustomize.py"), str(folder / "sitecustomize.py"))
        line = "import os; os.environ.setdefault('KEPT_BYTECODE', {0!r})\n".format(str(home / "bytecode"))
        (folder / "kept_bytecode.pth").write_text(line, encoding="utf-8")


# What imports Ansible; the others, and the modules, which run as commands, are the parts unit_library and unit_tools.
ANSIBLE_SIDE = ("callback", "filter", "inventory", "plugin_utils")
# On a second ansible-core only what depends on it is tested again: the library imports nothing of Ansible, and style is
# judged once. The plays of e2e_trixie run the modules of site.yml on that core; here are the tests of those that
# have most to do with Ansible: arguments and results, what an action plugin sends, what is kept out of the log.
SECOND_MODULES = ("gpu_info", "gpu_settings", "health_check", "nvme_scratch", "topology_info")
FIRST = {
    "units": ["tests/unit/plugins/{0}/".format(name) for name in ANSIBLE_SIDE],
    "sanity": [],
}
SECOND = {
    "units": [
        *("tests/unit/plugins/modules/test_{0}.py".format(name) for name in SECOND_MODULES),
        "tests/unit/plugins/module_utils/front/test_access_keys.py",
        "tests/unit/plugins/module_utils/resources/node_runtime/",
    ],
    "sanity": ["--skip-test=" + name for name in ("pylint", "pep8", "yamllint", "shellcheck", "changelog")],
}


def run(kind: str, target: Path, home: Path, second: bool) -> int:
    """Run it with the Python of this environment."""
    version = "{0}.{1}".format(*sys.version_info[:2])
    word = "units" if kind == "units" else "sanity"
    command = [str(Path(sys.executable).parent / "ansible-test"), word, "--python", version, "-v", "--color", "no"]
    environment = dict(without_git(), HOME=str(home))

    def ended(*options: str) -> int:
        words = [*command, *options]
        return subprocess.run(words, cwd=str(target), env=environment, stdin=subprocess.DEVNULL, check=False).returncode

    if word == "sanity":
        if not environments(home, version):
            ended("--test=import", "--prime-venvs")
        keep_bytecode(home, version)
        command.append("--junit")
    return ended(*(SECOND if second else FIRST)[word])


def main() -> int:
    kind, results = sys.argv[1], Path(sys.argv[2])
    label = Path(sys.prefix).name.lstrip(".")
    place = "{0}-{1}".format(kind, label)
    target = ROOT / "build" / "ansible_test" / place / "ansible_collections" / "trainyard" / "gpu_node"
    changed = synchronise(files_for(kind), target)
    print("{0}: {1} files changed".format(target.relative_to(ROOT), changed), flush=True)
    make_repository(target)
    home = make_home()
    provide_get_pip(home)
    junit = target / "tests" / "output" / "junit"
    shutil.rmtree(str(junit), ignore_errors=True)
    status = run(kind, target, home, label == "venv-newest")
    for path in sorted(junit.glob("*.xml")):
        shutil.copy2(str(path), str(results / path.name))
    return status


if __name__ == "__main__":
    sys.exit(main())
