# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Python runs the installed command: real files, started by the kernel, with real interpreters."""

from __future__ import annotations

import importlib
import io
import os
import shutil
import subprocess
import sys
import warnings
import zipfile

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources import node_runtime
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_runtime import bytecode, launcher

# The package has a function of this name.
apply = importlib.import_module(node_runtime.__name__ + ".apply")
ZIPAPP = "opt/gpu_node/gpunode.pyz"
MAIN = b"import sys\nprint(sys.executable, sys.flags.isolated, *sys.argv[1:])\n"
SYSTEM = "/usr/bin/python3"


def controllers_file():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__main__.py", MAIN)
    return buffer.getvalue()


def install(root, python, monkeypatch):
    monkeypatch.setattr(apply, "interpreter", lambda: str(python))
    source = root / "source"
    source.write_bytes(controllers_file())
    desired = node_runtime.Desired(node_runtime.identity(source.read_bytes()))
    outcome = node_runtime.run(Host(str(root)), desired, str(source))
    return desired, outcome


def started(path, **environment):
    done = subprocess.run(
        [str(path), "a word", "b"],
        env=dict({"PATH": "/nowhere"}, **environment),
        capture_output=True,
        text=True,
        check=False,
    )
    return done


@pytest.mark.parametrize("name", ["python3.11", "with a space", "it's", "x" * 200, "$HOME", "ü"])
def test_the_command_starts_with_the_interpreter_that_installed_it_whatever_its_path_is(tmp_path, monkeypatch, name):
    python = tmp_path / name
    python.symlink_to(os.path.realpath(sys.executable))
    (tmp_path / "root").mkdir()
    install(tmp_path / "root", python, monkeypatch)
    done = started(tmp_path / "root" / ZIPAPP)
    assert (done.stdout, done.stderr) == ("{0} 1 a word b\n".format(python), "")


def test_another_python3_in_path_does_not_run_it(tmp_path, monkeypatch):
    """AlmaLinux 8: /usr/bin/python3 is Python 3.6, and Ansible finds python3.12."""
    (tmp_path / "python3").write_text("#!/bin/sh\necho the wrong Python; exit 1\n")
    (tmp_path / "python3").chmod(0o755)
    install(tmp_path, os.path.realpath(sys.executable), monkeypatch)
    done = started(tmp_path / ZIPAPP, PATH="{0}:/usr/bin:/bin".format(tmp_path))
    assert done.returncode == 0 and done.stdout.startswith(os.path.realpath(sys.executable))


@pytest.mark.parametrize("variable", ["HOME", "PYTHONPATH", "PYTHONUSERBASE", "PYTHONSTARTUP"])
def test_no_file_of_the_caller_runs_with_it(tmp_path, monkeypatch, variable):
    home = tmp_path / "home"
    user = home / "lib/python{0}.{1}/site-packages".format(*sys.version_info)
    for place in (home, user, home / ".local" / user.relative_to(home)):
        place.mkdir(parents=True, exist_ok=True)
        for name in ("sitecustomize.py", "usercustomize.py"):
            (place / name).write_text("import sys; print('code of a user'); sys.exit(9)\n")
    install(tmp_path, os.path.realpath(sys.executable), monkeypatch)
    value = home / "sitecustomize.py" if variable == "PYTHONSTARTUP" else home
    done = started(tmp_path / ZIPAPP, **{variable: str(value)})
    assert done.returncode == 0 and "code of a user" not in done.stdout + done.stderr


# bash in POSIX mode from its start does not start with functions of other names.
NAMES = ("echo", "test", "command", "printf", "cat", "true")
WORDS = (*NAMES, "[", "exec", "exit", "continue", "unset", ":", SYSTEM)


@pytest.mark.parametrize("shell", ["dash", "bash"])
@pytest.mark.parametrize("missing", [False, True], ids=["python", "no_python"])
def test_no_shell_function_of_the_caller_runs_with_it(tmp_path, monkeypatch, shell, missing):
    """RHEL: /bin/sh is bash, which imports exported functions also as sh."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip("{0} is not installed".format(shell))
    python = tmp_path / "python3.11"
    python.symlink_to(os.path.realpath(sys.executable))
    install(tmp_path, python, monkeypatch)
    if missing:
        python.unlink()
    body = "() {{ /usr/bin/touch {0}/ran; }}".format(tmp_path)
    for words, more in ((WORDS, {}), (NAMES, {"POSIXLY_CORRECT": "1"})):
        functions = {"BASH_FUNC_{0}%%".format(word): body for word in words}
        done = subprocess.run(
            ["sh", str(tmp_path / ZIPAPP), "a word", "b"],
            executable=program,
            env=dict({"PATH": "/nowhere"}, **functions, **more),
            capture_output=True,
            text=True,
            check=False,
        )
        assert not (tmp_path / "ran").exists()
        assert done.stdout == "{0} 1 a word b\n".format(SYSTEM if missing else python), done.stderr
        assert ("is missing; {0} runs it now".format(SYSTEM) in done.stderr) == missing


def test_a_missing_interpreter_is_reported_and_the_next_converge_repairs_it(tmp_path, monkeypatch):
    python = tmp_path / "python3.11"
    python.symlink_to(os.path.realpath(sys.executable))
    desired, dummy = install(tmp_path, python, monkeypatch)
    host = Host(str(tmp_path))
    assert not node_runtime.run(host, desired).changed
    python.unlink()
    done = started(tmp_path / ZIPAPP)
    told = "gpunode: {0}, the Python that installed this command, is missing".format(python)
    assert done.stderr.startswith(told) and "Run site.yml or 'gpunode converge'" in done.stderr
    assert done.stdout == "{0} 1 a word b\n".format(SYSTEM)  # the node still works
    # From the installed file itself, as the controller's file is not on the node.
    monkeypatch.setattr(apply, "interpreter", lambda: os.path.realpath(sys.executable))
    outcome = node_runtime.run(host, desired)
    assert outcome.changed and outcome.after.interpreter == os.path.realpath(sys.executable)
    assert started(tmp_path / ZIPAPP).stderr == ""
    assert not node_runtime.run(host, desired).changed


def test_without_any_python_the_message_has_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(launcher, "_OTHERS", str(tmp_path / "none"))
    python = tmp_path / "python3.11"
    python.symlink_to(os.path.realpath(sys.executable))
    install(tmp_path, python, monkeypatch)
    python.unlink()
    done = started(tmp_path / ZIPAPP)
    assert done.returncode == launcher.NO_PYTHON
    assert done.stderr.startswith("gpunode: {0}, the Python that installed this command, is missing".format(python))
    assert "install one, such as the package python3.11, then run site.yml" in done.stderr


def test_a_python_that_does_not_start_in_an_empty_environment_installs_nothing(tmp_path, monkeypatch):
    """Such as one of a software collection, which needs LD_LIBRARY_PATH."""
    python = tmp_path / "python3.12"
    python.write_text(
        '#!/bin/sh\n[ -n "$LD_LIBRARY_PATH" ] || { echo "libpython3.12.so.1.0: not found" >&2; exit 127; }\n'
    )
    python.chmod(0o755)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/python/lib")
    with pytest.raises(NodeError) as caught:
        install(tmp_path, python, monkeypatch)
    assert "{0}, which installs it, cannot start it in an empty environment".format(python) in str(caught.value)
    assert "libpython3.12.so.1.0: not found" in str(caught.value)
    assert os.listdir(str(tmp_path / "opt/gpu_node")) == []


def test_an_interpreter_that_stopped_working_is_replaced(tmp_path, monkeypatch):
    python = tmp_path / "python3.11"
    python.symlink_to(os.path.realpath(sys.executable))
    desired, dummy = install(tmp_path, python, monkeypatch)
    python.unlink()
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(apply, "interpreter", lambda: os.path.realpath(sys.executable))
    outcome = node_runtime.run(Host(str(tmp_path)), desired)
    assert outcome.changed and outcome.before.fault and not outcome.after.fault


@pytest.mark.parametrize("words", [["--symlinks"], ["--copies"]])
def test_a_virtual_environment_is_not_named_as_the_interpreter(tmp_path, words):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", *words, str(tmp_path / "venv")], check=True)
    script = "import runpy, sys; print(runpy.run_path(sys.argv[1])['interpreter']())"
    done = subprocess.run(
        [str(tmp_path / "venv/bin/python"), "-B", "-c", script, launcher.__file__],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = done.stdout.strip()
    assert not found.startswith(str(tmp_path)) and os.access(found, os.X_OK)
    version = subprocess.run([found, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert version.split()[1] == "{0}.{1}.{2}".format(*sys.version_info)


def test_an_installed_file_can_be_installed_again_without_a_warning(tmp_path):
    once = bytecode.with_bytecode(controllers_file(), sys.executable)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = bytecode.with_bytecode(once, sys.executable)
    assert again == once and bytecode.identity(once) == bytecode.identity(controllers_file())


def test_a_damaged_installed_file_is_not_recognized():
    once = bytearray(bytecode.with_bytecode(controllers_file(), sys.executable))
    once[-1] ^= 1
    assert bytecode.identity(bytes(once)) != bytecode.identity(controllers_file())
    assert bytecode.source_sha256(bytes(once)) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
@pytest.mark.parametrize("how", ["file", "directory", "mode"])
def test_root_installs_and_starts_no_command_with_an_interpreter_of_another_user(tmp_path, monkeypatch, how):
    """Such as a Python of pyenv in the home directory of the user who ran Ansible with become."""
    (tmp_path / "root").mkdir()
    root = tmp_path / "root"
    theirs = tmp_path / "user/bin/python3"
    theirs.parent.mkdir(parents=True)
    theirs.write_text('#!/bin/sh\ntouch {0}/ran\nexec {1} "$@"\n'.format(tmp_path, os.path.realpath(sys.executable)))
    theirs.chmod(0o755)
    desired, dummy = install(root, theirs, monkeypatch)  # while it is root's
    monkeypatch.setenv("SUDO_UID", "1001")
    if how == "mode":
        theirs.chmod(0o757)
    else:
        os.chown(str(theirs if how == "file" else theirs.parent), 1001, 1001)
    (tmp_path / "ran").unlink()
    reason = "other users can write to it" if how == "mode" else "belongs to user 1001"
    with pytest.raises(NodeError, match="root does not run it with {0}.*{1}".format(theirs, reason)):
        node_runtime.run(Host(str(root)), desired)
    assert not (tmp_path / "ran").exists()
    # An interpreter of root repairs it.
    monkeypatch.setattr(apply, "interpreter", lambda: os.path.realpath(sys.executable))
    assert node_runtime.run(Host(str(root)), desired).changed and not (tmp_path / "ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to a group")
def test_a_system_group_may_write_to_the_directory_of_an_interpreter(tmp_path, monkeypatch):
    """Debian: the group staff may write to /usr/local."""
    python = tmp_path / "local/python3"
    python.parent.mkdir()
    python.symlink_to(os.path.realpath(sys.executable))
    os.chown(str(python.parent), 0, 50)
    python.parent.chmod(0o2775)
    install(tmp_path, python, monkeypatch)
