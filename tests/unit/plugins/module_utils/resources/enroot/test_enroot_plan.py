# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""enroot's planner: golden plans for a blank node and for each thing that can be in its way, and properties."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files import MARKER, Files, Seen
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.managed_files.plan import named
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.node_packages import (
    FetchPackage,
    Installed,
    Package,
    Packages,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.node_packages.types import records
from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.resource import NodeError
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.enroot import settings, texts
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.enroot.options import Desired
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.enroot.plan import after, plan
from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.enroot.types import (
    EXTRA_HOOKS,
    MOUNTS_FILE,
    PATHS,
    PROFILE_FILE,
    SETTINGS_FILE,
    SYSCTL_FILE,
    Kernel,
    Link,
    MakeLink,
    RemoveLink,
    State,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.slurm.user_folders import of_user

ENROOT = Package("enroot", "4.1.2-1", "https://mirror.example/enroot_4.1.2-1_amd64.deb", "ab" * 32)
FINE = {"user.max_user_namespaces": "514000", "user.max_mnt_namespaces": "514000"}
BLANK = State(
    files=Files(missing_folders=("/etc/enroot", "/etc/enroot/enroot.conf.d", "/etc/enroot/mounts.d")),
    packages=Packages("dpkg"),
    links=tuple(Link(name, source_exists=False) for name in EXTRA_HOOKS.values()),
    kernel=Kernel(values=FINE, profile_loaded=False, parser="/usr/sbin/apparmor_parser"),
    scratch="/mnt/resource_nvme",
    slurmd=True,
    hooks_declared=True,
    gpus=8,
    mellanox=8,
    nvidia_container_cli="/usr/bin/nvidia-container-cli",
)
READY = dataclasses.replace(
    BLANK,
    installed=True,
    files=Files(),
    packages=Packages("dpkg", (Installed("enroot", "4.1.2-1"),)),
    links=tuple(Link(name) for name in EXTRA_HOOKS.values()),
)
DESIRED = Desired()
WITH_PACKAGE = Desired(packages=(ENROOT,))
ABSENT = Desired(present=False)


def described(result):
    return [action.describe() for action in result.actions]


def applied(state, desired):
    return after(state, plan(state, desired).actions)


def test_a_blank_node_gets_all_of_it_and_then_nothing():
    result = plan(BLANK, WITH_PACKAGE)
    assert described(result) == [
        "fetch enroot 4.1.2-1 from https://mirror.example/enroot_4.1.2-1_amd64.deb",
        "declare section enroot in /etc/gpu_node/node.json",
        "install enroot 4.1.2-1 with dpkg",
        "make the folder /etc/enroot",
        "make the folder /etc/enroot/enroot.conf.d",
        "make the folder /etc/enroot/mounts.d",
        "write /etc/enroot/enroot.conf.d/50-gpu_node.conf",
        "write /etc/enroot/mounts.d/50-gpu_node.fstab",
        "link /etc/enroot/hooks.d/50-slurm-pmi.sh to /usr/share/enroot/hooks.d/50-slurm-pmi.sh",
        "link /etc/enroot/hooks.d/50-slurm-pytorch.sh to /usr/share/enroot/hooks.d/50-slurm-pytorch.sh",
    ]
    assert result.notes == ()
    assert plan(applied(READY, DESIRED), DESIRED).actions == ()


def test_each_machine_gets_its_own_packages():
    arm = Package("enroot", "4.1.2-1", "https://mirror.example/enroot_4.1.2-1_arm64.deb", "cd" * 32, "arm64")
    intel = Package("enroot", "4.1.2-1", "https://mirror.example/enroot_4.1.2-1_amd64.deb", "ab" * 32, "amd64")
    for machine, package in (("x86_64", intel), ("aarch64", arm)):
        state = dataclasses.replace(BLANK, machine=machine)
        result = plan(state, Desired(packages=(arm, intel)))
        assert [one.package for one in result.actions if isinstance(one, FetchPackage)] == [package]
    with pytest.raises(NodeError, match="no file is given for the architecture x86_64 of this node"):
        plan(dataclasses.replace(BLANK, machine="x86_64"), Desired(packages=(arm,)))


def test_without_enroot_and_without_packages_it_is_skipped():
    assert "not installed" in plan(BLANK, DESIRED).skipped


def test_absent_takes_back_what_was_made_and_no_more():
    made = applied(dataclasses.replace(BLANK, links=READY.links), WITH_PACKAGE)
    result = plan(made, ABSENT)
    assert described(result) == [
        "remove /etc/enroot/enroot.conf.d/50-gpu_node.conf",
        "remove /etc/enroot/mounts.d/50-gpu_node.fstab",
        "remove the link /etc/enroot/hooks.d/50-slurm-pmi.sh",
        "remove the link /etc/enroot/hooks.d/50-slurm-pytorch.sh",
        "remove the package(s) enroot with dpkg",
        "remove the folder /etc/enroot/mounts.d, if it is empty",
        "remove the folder /etc/enroot/enroot.conf.d, if it is empty",
        "remove the folder /etc/enroot, if it is empty",
        "remove the folder /run/enroot, if it is empty",
        "remove the folder /mnt/resource_nvme/enroot/cache, if it is empty",
        "remove the folder /mnt/resource_nvme/enroot/data, if it is empty",
        "remove the folder /mnt/resource_nvme/enroot/temp, if it is empty",
        "remove the folder /mnt/resource_nvme/enroot, if it is empty",
        "take section enroot out of /etc/gpu_node/node.json",
    ]
    assert plan(after(made, result.actions), ABSENT).actions == ()


def test_the_settings_of_a_full_node():
    lines = texts.wanted(READY, DESIRED, {}, False)[0].text.splitlines()
    assert lines[0].startswith(MARKER)
    assert [line for line in lines if not line.startswith("#")] == [
        "ENROOT_CACHE_PATH /mnt/resource_nvme/enroot/cache/$(id -u)",
        "ENROOT_DATA_PATH /mnt/resource_nvme/enroot/data/$(id -u)",
        "ENROOT_MOUNT_HOME no",
        "ENROOT_RESTRICT_DEV yes",
        "ENROOT_ROOTFS_WRITABLE yes",
        "ENROOT_RUNTIME_PATH /run/enroot/user-$(id -u)",
        "ENROOT_SQUASH_OPTIONS -noI -noD -noF -noX -no-duplicates",
        "ENROOT_TEMP_PATH /mnt/resource_nvme/enroot/temp/$(id -u)",
        "MELLANOX_VISIBLE_DEVICES all",
    ]


def test_a_login_node_gets_no_folders_that_nobody_makes_and_no_devices_it_lacks():
    login = dataclasses.replace(READY, slurmd=False, gpus=0, mellanox=0, nvidia_container_cli=None)
    values = texts.values(login, DESIRED)
    assert not [key for key in values if key.endswith("_PATH") or key.startswith("MELLANOX")]
    notes = plan(login, DESIRED).notes
    assert notes == ("there is no slurmd here, so nobody makes folders of users, and enroot uses their home folders",)
    assert "ENROOT_DATA_PATH" in texts.values(login, Desired(user_folders="always"))


def test_without_scratch_the_fallback_is_used_and_told():
    state = dataclasses.replace(READY, scratch=None)
    assert texts.values(state, DESIRED)["ENROOT_DATA_PATH"] == "/var/lib/enroot/data/$(id -u)"
    assert plan(state, DESIRED).notes == (
        "no scratch is declared for this node, so the containers of users lie in /var/lib/enroot",
    )
    assert texts.values(state, Desired(scratch="/mnt/"))["ENROOT_DATA_PATH"] == "/mnt/enroot/data/$(id -u)"


def test_a_hook_that_is_not_wanted_is_told_to_do_nothing_and_a_link_of_ours_goes():
    bare = Desired(hooks=())
    values = texts.values(READY, bare)
    assert values["NVIDIA_VISIBLE_DEVICES"] == values["MELLANOX_VISIBLE_DEVICES"] == "void"
    made = applied(READY, DESIRED)
    assert "remove the link /etc/enroot/hooks.d/50-slurm-pmi.sh" in described(plan(made, bare))
    assert plan(after(made, plan(made, bare).actions), bare).actions == ()


def test_links_and_files_of_somebody_else_stay():
    foreign = dataclasses.replace(READY, links=(Link("50-slurm-pmi.sh", "foreign"), Link("50-sharp.sh", "ours")))
    result = plan(foreign, DESIRED)
    assert not [one for one in result.actions if isinstance(one, (MakeLink, RemoveLink))]
    assert "/etc/enroot/hooks.d/50-slurm-pmi.sh is not ours and is left as it is" in result.notes
    assert "/etc/enroot/hooks.d/50-sharp.sh is on by a link of somebody else, and stays" in result.notes
    made = after(foreign, result.actions)
    assert not [one for one in plan(made, ABSENT).actions if isinstance(one, RemoveLink)]
    taken = dataclasses.replace(READY, files=Files(((SETTINGS_FILE, Seen("file", "ENROOT_X y\n", 0o644)),)))
    assert "50-gpu_node.conf: it is there and is not ours; move it away" in str(plan(taken, DESIRED).refusals[0])


def test_a_hook_that_this_enroot_lacks_is_told():
    old = dataclasses.replace(READY, links=(Link("50-sharp.sh", source_exists=False),))
    desired = Desired(hooks=("sharp",))
    made = applied(old, desired)
    assert plan(made, desired).actions == ()
    assert "this enroot has no hook 50-sharp.sh, so it is not switched on" in plan(made, desired).notes


# As cyclecloud-slurm 4.0.9 writes it on each node.
CYCLECLOUD = settings.values_of(
    """ENROOT_SCRATCH_PATH /nvme/enroot
ENROOT_RUNTIME_PATH /nvme/enroot/enroot-run/user-$(id -u)
ENROOT_CACHE_PATH /nvme/enroot/enroot-cache/group-$(id -g)
ENROOT_DATA_PATH /nvme/enroot/enroot-data/user-$(id -u)
ENROOT_TEMP_PATH /nvme/enroot/enroot-temp
ENROOT_SQUASH_OPTIONS -noI -noD -noF -noX -no-duplicates
ENROOT_MOUNT_HOME y
ENROOT_RESTRICT_DEV y
ENROOT_ROOTFS_WRITABLE y
"""
)


def test_what_enroot_reads_before_our_file_wins_and_is_told():
    state = dataclasses.replace(READY, earlier=(("/etc/enroot/enroot.conf", {"ENROOT_DATA_PATH": "/d", "X": "y"}),))
    assert plan(state, DESIRED).notes == (
        "/etc/enroot/enroot.conf is read before ours and wins with ENROOT_DATA_PATH /d; to have ours, take that out "
        "there; the containers in its folders are not removed after a job",
    )
    lines = texts.wanted(state, DESIRED, {}, False)[0].text
    assert "ENROOT_DATA_PATH" not in lines and "ENROOT_CACHE_PATH" in lines
    assert [one.purpose for one in texts.folders(state, DESIRED)] == ["runtime", "cache", "temp"]


def test_the_settings_of_cyclecloud_are_used_as_they_are():
    state = dataclasses.replace(
        READY,
        earlier=(("/etc/enroot/enroot.conf", CYCLECLOUD),),
        links=(Link("50-slurm-pmi.sh", "copy"), Link("50-slurm-pytorch.sh", "copy")),
    )
    # No prolog makes or removes a folder there, and our file has only what theirs has not.
    assert texts.folders(state, DESIRED) == ()
    lines = [one for one in texts.wanted(state, DESIRED, {}, False)[0].text.splitlines() if not one.startswith("#")]
    assert lines == ["MELLANOX_VISIBLE_DEVICES all"]
    # One sentence; "y" for "yes" is none of its business, nor is a copy of a hook of the package.
    (note,) = plan(state, DESIRED).notes
    assert "ENROOT_MOUNT_HOME y" in note and "ENROOT_RESTRICT_DEV" not in note and "SQUASH" not in note
    assert "/nvme/enroot/enroot-data/user-$(id -u)" in note
    made = applied(state, DESIRED)
    assert plan(made, DESIRED).actions == ()
    # Taken out there, ours count, and the prolog has the folders again.
    assert len(texts.folders(dataclasses.replace(made, earlier=()), DESIRED)) == 4


@pytest.mark.parametrize(
    "text, values",
    [
        ("ENROOT_DATA_PATH /a\nENROOT_DATA_PATH /b\n", {"ENROOT_DATA_PATH": "/a"}),
        (" \tENROOT_DATA_PATH=\t/a b \n", {"ENROOT_DATA_PATH": "/a b"}),
        ("ENROOT_DATA_PATH\n#ENROOT_TEMP_PATH /a\nPATH /b\n", {}),
        ("NVIDIA_VISIBLE_DEVICES void\nENROOT_NEW_KEY 1\n", {"NVIDIA_VISIBLE_DEVICES": "void", "ENROOT_NEW_KEY": "1"}),
    ],
)
def test_files_are_read_as_enroot_reads_them(text, values):
    assert settings.values_of(text) == values


@pytest.mark.parametrize(
    "one, other, same",
    [("y", "yes", True), ("no", "N", True), ("0", "no", False), ("yes", "no", False), ("-noI", "-noI", True)],
)
def test_words_for_yes_and_no(one, other, same):
    assert settings.same(one, other) is same


def test_a_missing_nvidia_container_cli_is_told_before_the_first_job():
    state = dataclasses.replace(READY, nvidia_container_cli=None)
    assert "install libnvidia-container-tools" in plan(state, DESIRED).notes[0]
    assert plan(dataclasses.replace(state, gpus=0), DESIRED).notes == ()


# The kernel -------------------------------------------------------------------------------------------


def test_user_namespaces_are_switched_on_and_returned():
    values = dict(FINE, **{"user.max_user_namespaces": "0", "kernel.unprivileged_userns_clone": "0"})
    state = dataclasses.replace(READY, kernel=dataclasses.replace(READY.kernel, values=values))
    result = plan(state, DESIRED)
    assert described(result)[-2:] == [
        "set user.max_user_namespaces to 65536",
        "set kernel.unprivileged_userns_clone to 1",
    ]
    made = after(state, result.actions)
    assert made.files.seen(SYSCTL_FILE).text.splitlines()[2:] == [
        "kernel.unprivileged_userns_clone = 1",
        "user.max_user_namespaces = 65536",
    ]
    assert plan(made, DESIRED).actions == ()
    gone = plan(made, ABSENT)
    assert {"set user.max_user_namespaces to 0", "set kernel.unprivileged_userns_clone to 0"} < set(described(gone))
    assert dict(after(made, gone.actions).kernel.values) == values
    site = after(made, [dataclasses.replace(result.actions[-2], value="99999")])
    assert "set user.max_user_namespaces to 0" not in described(plan(site, ABSENT))


def test_values_that_are_enough_are_left_alone():
    assert not [one for one in described(plan(READY, DESIRED)) if "sysctl" in one or one.startswith("set ")]


def test_what_overrides_us_and_a_kernel_without_namespaces_are_told():
    key = "user.max_user_namespaces"
    small = dataclasses.replace(READY.kernel, values={key: "0"}, overridden=((key, "/etc/sysctl.conf"),))
    assert any("/etc/sysctl.conf sets" in one for one in plan(dataclasses.replace(READY, kernel=small), DESIRED).notes)
    bare = dataclasses.replace(READY, kernel=Kernel())
    assert "CONFIG_USER_NS" in plan(bare, DESIRED).notes[0]


def test_ubuntus_restriction_gets_a_profile_and_stays_on():
    restricted = dataclasses.replace(READY, kernel=dataclasses.replace(READY.kernel, restricted=True))
    result = plan(restricted, DESIRED)
    assert "write " + PROFILE_FILE in described(result)
    assert "load the AppArmor profile gpu_node_enroot" in described(result)
    assert not any("apparmor_restrict" in one for one in described(result))
    made = after(restricted, result.actions)
    assert plan(made, DESIRED).actions == ()
    rebooted = dataclasses.replace(made, kernel=dataclasses.replace(made.kernel, profile_loaded=False))
    assert described(plan(rebooted, DESIRED)) == ["load the AppArmor profile gpu_node_enroot"]
    # enroot 4 brings its own: ours goes, out of the kernel first.
    newer = dataclasses.replace(made, kernel=dataclasses.replace(made.kernel, packaged_profile=True))
    assert described(plan(newer, DESIRED)) == [
        "unload the AppArmor profile gpu_node_enroot",
        "remove /etc/apparmor.d/gpu_node_enroot",
    ]
    assert described(plan(made, ABSENT))[0] == "unload the AppArmor profile gpu_node_enroot"


# Properties -------------------------------------------------------------------------------------------

SEEN = st.sampled_from(
    [
        Seen(),
        Seen("file", MARKER + " old\n", 0o644),
        Seen("file", "theirs\n", 0o644),
        Seen("link", MARKER),
        Seen("other"),
    ]
)
LINKS = st.builds(
    Link,
    st.sampled_from(sorted(EXTRA_HOOKS.values())),
    st.sampled_from(["missing", "ours", "copy", "foreign"]),
    st.booleans(),
)
KERNELS = st.builds(
    Kernel,
    values=st.dictionaries(
        st.sampled_from(["user.max_user_namespaces", "user.max_mnt_namespaces", "kernel.unprivileged_userns_clone"]),
        st.sampled_from(["0", "1", "65536", "514000", "", "x"]),
    ),
    restricted=st.booleans(),
    packaged_profile=st.booleans(),
    profile_loaded=st.sampled_from([None, True, False]),
    parser=st.sampled_from([None, "/usr/sbin/apparmor_parser"]),
)
SECTIONS = st.sampled_from(
    [
        {},
        {"files": list(PATHS), "made_folders": ["/etc/enroot"], "links": ["/etc/enroot/hooks.d/50-sharp.sh"]},
        {
            "kernel_before": {"user.max_user_namespaces": "0", "x": "1"},
            "user_folders": [{"path": "/a/b/{uid}", "top": "/a/b"}, 7],
        },
        {"packages": {"enroot": {"version": "4.1.2-1", "before": ""}}, "files": ["/etc/old", 7], "links": 7},
    ]
)
STATES = st.builds(
    lambda seen, links, declared, packages, kernel, **others: State(
        files=Files(tuple(zip(PATHS, seen)), (), *named(declared)),
        links=tuple({one.name: one for one in links}.values()),
        declared=declared,
        packages=Packages("dpkg", packages, (), records(declared)),
        kernel=kernel,
        **others,
    ),
    seen=st.lists(SEEN, min_size=len(PATHS), max_size=len(PATHS)),
    links=st.lists(LINKS, max_size=4),
    declared=SECTIONS,
    packages=st.sampled_from([(), (Installed("enroot", "4.1.2-1"),), (Installed("enroot", "3.5.0-1"),)]),
    kernel=KERNELS,
    installed=st.booleans(),
    scratch=st.sampled_from([None, "/mnt/resource_nvme"]),
    slurmd=st.booleans(),
    gpus=st.sampled_from([0, 8]),
    mellanox=st.sampled_from([0, 8]),
)
WISHES = st.sampled_from(
    [
        DESIRED,
        WITH_PACKAGE,
        ABSENT,
        Desired(hooks=("sharp",), mounts=(), user_namespaces=False),
        Desired(keep_cache=True),
    ]
)


@given(STATES, WISHES)
def test_every_state_has_a_plan_that_ends_and_touches_nothing_foreign(state, desired):
    result = plan(state, desired)
    for action in result.actions:
        assert not state.files.seen(getattr(action, "path", "")).foreign
        if isinstance(action, (MakeLink, RemoveLink)):
            assert state.link(action.path.rsplit("/", 1)[1]).kind != "foreign"
    if not result.refusals:
        made = after(state, result.actions)
        assert described(plan(made, desired)) == []


@given(STATES, WISHES)
def test_absent_after_anything_ends_with_nothing_of_ours(state, desired):
    if plan(state, desired).refusals:
        return
    made = applied(state, desired)
    gone = after(made, plan(made, ABSENT).actions)
    assert plan(gone, ABSENT).actions == ()
    if made.declared:
        assert not [path for path in PATHS if gone.files.seen(path).ours]


def test_the_prolog_reads_what_was_declared():
    made = applied(READY, Desired(keep_cache=True))
    assert [(one.path, one.parent, one.remove) for one in of_user(made.declared, 1000)] == [
        ("/run/enroot/user-1000", "/run/enroot", True),
        ("/mnt/resource_nvme/enroot/cache/1000", "/mnt/resource_nvme/enroot/cache", False),
        ("/mnt/resource_nvme/enroot/data/1000", "/mnt/resource_nvme/enroot/data", True),
        ("/mnt/resource_nvme/enroot/temp/1000", "/mnt/resource_nvme/enroot/temp", True),
    ]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.integers(),
)
def test_a_declaration_that_somebody_edited_names_no_place_it_should_not(value, uid):
    for section in ({"user_folders": value}, {"user_folders": [value, {"path": value, "top": value}]}):
        for folder in of_user(section, uid):
            assert folder.path.startswith("/") and ".." not in folder.path and str(uid) in folder.path


@pytest.mark.parametrize(
    "path",
    [
        "/{uid}/..",
        "/a/../{uid}",
        "/a//{uid}",
        "a/{uid}",
        "/{uid}",
        "/a/{uid}/b",
        "/a/x",
        "/a/{uid}{uid}",
        "/a b/{uid}",
        "/a/\n/{uid}",
    ],
)
def test_templates_that_could_mean_something_else_are_passed_over(path):
    assert of_user({"user_folders": [{"path": path, "top": "/a"}]}, 1000) == ()
    assert of_user({"user_folders": [{"path": path, "top": path.rsplit("/", 1)[0]}]}, 1000) == ()


def test_root_has_no_folders():
    section = {"user_folders": [{"path": "/a/b/{uid}", "top": "/a/b"}]}
    assert of_user(section, 0) == () and len(of_user(section, 1)) == 1
    for top in ("", "/", "/a", "/a/bc", "/a/b/c", "a/b"):
        assert of_user({"user_folders": [{"path": "/a/b/{uid}", "top": top}]}, 1000) == ()


# Options ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, told",
    [
        ({"settings": {"ENROOT_DATA_PAHT": "/x"}}, "enroot knows no such key"),
        ({"settings": {"PATH": "/x"}}, "enroot knows no such key"),
        ({"settings": {"ENROOT_DATA_PATH": "/x; reboot"}}, "would take it for more than text"),
        ({"settings": {"ENROOT_DATA_PATH": "$(reboot)"}}, "would take it for more than text"),
        ({"settings": {"ENROOT_DATA_PATH": "`reboot`"}}, "would take it for more than text"),
        ({"settings": {"ENROOT_DATA_PATH": "/x\nENROOT_ALLOW_SUPERUSER yes"}}, "would take it for more than text"),
        ({"settings": {"ENROOT_ZSTD_OPTIONS": "-n"}}, "would take it for more than text"),
        ({"environment": {"A B": "x"}}, "nothing that a container can be given"),
        ({"environment": {"ENROOT_X": "x"}}, "nothing that a container can be given"),
        ({"environment": {"A": "x\ny"}}, "nothing that a container can be given"),
        ({"hooks": ("98-nvidia.sh",)}, "'98-nvidia.sh' is not known here; use one of nvidia, mellanox, slurm-pmi"),
        ({"mounts": ("nccl.conf",)}, "no absolute path"),
        ({"scratch": "/mnt/../etc"}, "no absolute path"),
        ({"fallback": ""}, "no absolute path"),
        ({"user_folders": "yes"}, "use one of auto, always, never"),
    ],
)  # fmt: skip
def test_wrong_options_are_one_sentence(options, told):
    with pytest.raises(NodeError, match=told):
        Desired(**options)


def test_files_for_mounts_are_only_there_when_something_is_mounted():
    assert MOUNTS_FILE not in [one.path for one in texts.wanted(READY, Desired(mounts=()), {}, False)]


# Jobs and containers that read the configuration ------------------------------------------------------

BUSY = ("job 4711", "job 4712")


def test_a_running_job_keeps_the_configuration_that_it_began_with():
    result = plan(dataclasses.replace(READY, users=BUSY), DESIRED)
    assert (result.actions, result.refusals) == ((), ())
    (told,) = result.notes
    assert told.startswith("enroot: not changed yet: job 4711 and 1 more would read the change (write " + SETTINGS_FILE)
    assert "run playbooks/rolling.yml" in told


@pytest.mark.parametrize(
    "options",
    [
        {"scratch": "/mnt/other"},
        {"settings": {"ENROOT_MOUNT_HOME": "yes"}},
        {"environment": {"A": "1"}},
        {"mounts": ("/etc/nccl.conf",)},
        {"hooks": ("nvidia",)},
    ],
)
def test_a_change_waits_until_running_jobs_have_ended(options):
    made = applied(READY, DESIRED)
    busy = plan(dataclasses.replace(made, users=BUSY), Desired(**options))
    assert not busy.actions and len(busy.notes) == 1
    assert plan(made, Desired(**options)).actions


def test_running_jobs_do_not_delay_a_change_that_no_container_reads():
    made = applied(READY, DESIRED)
    assert plan(dataclasses.replace(made, users=BUSY), DESIRED) == plan(made, DESIRED)
    small = dataclasses.replace(made, users=BUSY, kernel=Kernel(values={**FINE, "user.max_user_namespaces": "0"}))
    assert "set user.max_user_namespaces to 65536" in described(plan(small, DESIRED))
    kept = plan(dataclasses.replace(made, users=BUSY), Desired(keep_cache=True))
    assert described(kept) == ["declare section enroot in /etc/gpu_node/node.json"]
    # An earlier version of this collection wrote other comments and another word for yes.
    text = made.files.seen(SETTINGS_FILE).text.replace("# enroot keeps", "# It keeps").replace("DEV yes", "DEV y")
    older = dataclasses.replace(made.files, found=((SETTINGS_FILE, Seen("file", text, 0o644)), *made.files.found[1:]))
    assert made.files.found[0][0] == SETTINGS_FILE
    rewritten = plan(dataclasses.replace(made, users=BUSY, files=older), DESIRED)
    assert described(rewritten) == ["write " + SETTINGS_FILE]


def test_an_upgrade_and_a_removal_wait_for_running_jobs():
    made = applied(dataclasses.replace(BLANK, links=READY.links), WITH_PACKAGE)
    newer = dataclasses.replace(ENROOT, version="4.2.0-1")
    held = plan(dataclasses.replace(made, users=BUSY), Desired(packages=(newer,)))
    assert not held.actions and "install enroot 4.2.0-1" in held.notes[0]
    (refusal,) = plan(dataclasses.replace(made, users=BUSY), ABSENT).refusals
    assert "job 4711 and 1 more" in str(refusal)
    assert plan(dataclasses.replace(READY, users=BUSY), ABSENT).refusals == ()


# RDMA devices of other vendors ------------------------------------------------------------------------


def test_devices_that_no_hook_brings_are_in_the_container():
    efa = dataclasses.replace(READY, mellanox=0, other_rdma=("rdmap16s27", "rdmap32s27"))
    assert texts.values(efa, DESIRED)["ENROOT_RESTRICT_DEV"] == "no"
    assert "containers get all of /dev" in plan(efa, DESIRED).notes[0] and "rdmap16s27" in plan(efa, DESIRED).notes[0]
    site = Desired(settings={"ENROOT_RESTRICT_DEV": "yes"})
    assert texts.values(efa, site)["ENROOT_RESTRICT_DEV"] == "yes"
    assert "do not get rdmap16s27, rdmap32s27" in plan(efa, site).notes[0]
    theirs = dataclasses.replace(efa, earlier=(("/etc/enroot/enroot.conf", {"ENROOT_RESTRICT_DEV": "y"}),))
    assert "ENROOT_RESTRICT_DEV is y" in plan(theirs, DESIRED).notes[0]


def test_a_node_with_mellanox_adapters_alone_stays_restricted():
    assert texts.values(READY, DESIRED)["ENROOT_RESTRICT_DEV"] == "yes"
    assert plan(READY, DESIRED).notes == ()


def test_a_job_that_begins_while_packages_are_installed_finds_one_answer_to_where_its_directories_are():
    newer = dataclasses.replace(ENROOT, version="4.2.0-1")
    made = applied(dataclasses.replace(BLANK, links=READY.links), WITH_PACKAGE)
    moved = dataclasses.replace(made, scratch="/scratch")
    actions = plan(moved, Desired(packages=(newer,))).actions
    looked_at = next(number for number, one in enumerate(actions) if one.then_look())  # core/run.py looks again here
    half = dataclasses.replace(after(moved, actions[: looked_at + 1]), users=("job 7",))
    held = plan(half, Desired(packages=(newer,)))
    assert held.actions == () and "job 7 would read the change" in held.notes[0]
    for state, place in ((half, "/mnt/resource_nvme/"), (applied(moved, Desired(packages=(newer,))), "/scratch/")):
        folders = [one["path"] for one in state.declared["user_folders"]]
        assert any(path.startswith(place + "enroot/data/") for path in folders)
        assert "ENROOT_DATA_PATH {0}enroot/data/".format(place) in state.files.seen(SETTINGS_FILE).text
