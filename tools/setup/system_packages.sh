# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash
#
# Finds the system packages that are missing, says why each is needed, and asks for sudo once to install them all.
# What is looked for is the thing itself (a program, a file), not the package, so another way to have it is as good.

# Debian keeps mkfs.ext4 and losetup where an ordinary user's PATH does not reach.
PATH="$PATH:/usr/sbin:/sbin"

# A Python with venv of at least version 3.$1. ansible-core 2.19 runs on 3.11 and newer.
usable_python() {
    local candidate minor="${1:-11}"
    for candidate in python3.11 python3.12 python3.13 python3.14 python3 \
        /usr/bin/python3.1[1-9] "$HOME"/.pyenv/versions/3.1[1-9].*/bin/python3; do
        # A pyenv shim exists for versions that are not chosen, and fails; so each one is run, not only looked up.
        # An activated environment is none to make environments of.
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, '"$minor"') or sys.prefix != sys.base_prefix)' \
            2>/dev/null; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

have_program() { command -v "$1" >/dev/null 2>&1; }
have_file() { [ -e "$1" ]; }
# Ubuntu has Chromium as a snap only, which sees neither /tmp nor a hidden folder: there the tests of the report's page
# are skipped unless the machine has one of the others.
have_browser() {
    have_program chromium-headless-shell || have_program chromium || have_program google-chrome ||
        grep -qs '^ID=ubuntu' /etc/os-release
}

# Prints the package that brings a Python of at least 3.11: the distribution's own one where that is new enough.
python_package() {
    local version
    version="$(apt-cache show --no-all-versions python3 2>/dev/null | sed -n 's/^Version: 3\.\([0-9]*\).*/\1/p' | head -n 1)"
    # Ubuntu 22.04: python3 is 3.10, and 3.11 lies beside it.
    if [ -n "$version" ] && [ "$version" -lt 11 ]; then echo "python3.11-venv"; else echo "python3-venv"; fi
}

# Prints "package<TAB>reason" for each thing that is not there.
missing_packages() {
    usable_python >/dev/null || printf '%s\t%s\n' "$(python_package)" "the Python environments of the controller"
    local test subject package reason
    while IFS='|' read -r test subject package reason; do
        "have_$test" "$subject" || printf '%s\t%s\n' "$package" "$reason"
    done <<'TABLE'
program|git|git|the tests copy what git knows
program|cc|gcc|compiles the simulated NVML library
file|/usr/include/stdlib.h|libc6-dev|compiles the simulated NVML library
program|make|make|runs these targets
program|shellcheck|shellcheck|checks the shell files
program|ssh|openssh-client|reaches the virtual node
program|kubectl|kubernetes-client|shares GPUs in a stand-in for a cluster, in a test
program|qemu-system-x86_64|qemu-system-x86|the virtual node
program|qemu-img|qemu-utils|its disks
program|mmdebstrap|mmdebstrap|builds its image from Debian packages
program|mkfs.ext4|e2fsprogs|makes the file system of that image
program|mkfs.xfs|xfsprogs|file systems on loop devices in a test
program|fio|fio|measures a disk in a test
program|ib_write_bw|perftest|measures InfiniBand; a test reads its messages
program|mpirun|openmpi-bin|runs the job scripts with two ranks in a test
program|tclsh|tcl|runs Environment Modules, which is unpacked into .venv and not installed
program|lua5.3|lua5.3 lua-filesystem lua-json lua-posix lua-term|runs Lmod, which is unpacked into .venv and not installed
program|mandoc|mandoc|checks the man page
program|groff|groff-base|checks the man page
program|zsh|zsh|completes the command in a test
program|fish|fish|completes the command in a test
browser||chromium-headless-shell|opens the health report in a test
program|lstopo-no-graphics|hwloc-nox|a second opinion on this machine's topology, for a test
file|/usr/share/keyrings/debian-archive-keyring.gpg|debian-archive-keyring|proves that those packages are Debian's
TABLE
    # Debian 12 and Ubuntu 22.04 have no Python for the newest ansible-core: Debian 13's is unpacked into the cache.
    have_program patchelf || usable_python 12 >/dev/null ||
        printf '%s\t%s\n' patchelf "adapts the Python of Debian 13, which is unpacked and not installed"
    # An ordinary user builds the image in a user namespace, which needs a range of ids.
    if [ "$(id -u)" != 0 ]; then
        have_program newuidmap || printf '%s\t%s\n' uidmap "builds the image without being root"
    fi
}

install_missing_packages() {
    local missing packages command
    missing="$(missing_packages)"
    [ -n "$missing" ] || return 0
    packages="$(cut -f 1 <<<"$missing" | sort -u | tr '\n' ' ')"
    echo "These system packages are missing:"
    awk -F '\t' '{ printf "    %s (%s)\n", $1, $2 }' <<<"$missing"
    if ! have_program apt-get; then
        echo "setup: system packages: this is not a Debian or Ubuntu machine; install what is listed by your own package manager and run it again." >&2
        return 1
    fi
    command="DEBIAN_FRONTEND=noninteractive apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $packages"
    if [ "$(id -u)" = 0 ]; then
        echo "Installing them:"
        sh -c "$command" || packages_failed "$packages"
    elif have_program sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        echo "Installing them needs root, this once: sudo apt-get install $packages"
        sudo sh -c "$command" || packages_failed "$packages"
    else
        echo "setup: system packages: they need root, and sudo cannot ask here; run as root: apt-get install $packages" >&2
        return 1
    fi
}

packages_failed() {
    echo "setup: system packages: apt-get failed (its words are above); check the network and the package sources, or install by hand: $1" >&2
    return 1
}
