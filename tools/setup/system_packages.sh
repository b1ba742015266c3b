# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash
#
# Finds the system packages that are missing, says why each is needed, and asks for sudo once to install them all.
# What is looked for is the thing itself (a program, a file), not the package, so another way to have it is as good.

# Debian keeps mkfs.ext4 and losetup where an ordinary user's PATH does not reach.
PATH="$PATH:/usr/sbin:/sbin"

# A Python that ansible-core 2.19 or newer runs on, with venv: 3.11 or newer.
usable_python() {
    local candidate
    for candidate in python3.11 python3.12 python3.13 python3.14 python3 \
        /usr/bin/python3.1[1-9] "$HOME"/.pyenv/versions/3.1[1-9].*/bin/python3; do
        # A pyenv shim exists for versions that are not chosen, and fails; so each one is run, not only looked up.
        # An activated environment is none to make environments of.
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11) or sys.prefix != sys.base_prefix)' \
            2>/dev/null; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

have_program() { command -v "$1" >/dev/null 2>&1; }
have_file() { [ -e "$1" ]; }

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
program|qemu-system-x86_64|qemu-system-x86|the virtual node
program|qemu-img|qemu-utils|its disks
program|mmdebstrap|mmdebstrap|builds its image from Debian packages
program|mkfs.ext4|e2fsprogs|makes the file system of that image
program|lstopo-no-graphics|hwloc-nox|a second opinion on this machine's topology, for a test
file|/usr/share/keyrings/debian-archive-keyring.gpg|debian-archive-keyring|proves that those packages are Debian's
TABLE
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
