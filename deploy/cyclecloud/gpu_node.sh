#!/bin/sh
# Makes this node ready for training with the bundle of this project. jetpack runs it before slurmd is started, and a node on
# which it fails does not join. The last line of what it says is the reason.
set -eu
umask 022

fail() {
    echo "gpu_node: $*" >&2
    exit 1
}

files=${CYCLECLOUD_SPEC_PATH:?is set by jetpack, which runs this}/files
version=$(cat "$files/version")
bundle=gpu-node-bundle-$version.tar.gz
site=/etc/gpu_node/declaration.json
# Of specs.py, so of any version of this project.
ours='comment": "Written by cluster-init of the CycleCloud project gpu_node. '

# A script of another version that an earlier download left here: the one of this version does its work.
[ "${0##*/}" = "10-gpu_node-$version.sh" ] || exit 0

if systemctl --quiet is-active slurmd.service && [ ! -e /etc/systemd/system/slurmd.service.d/50-gpu_node_converge.conf ]; then
    echo "gpu_node: slurmd runs already, so jobs may come before this node is ready, and though it is not."
fi

# On the system disk: /mnt and, with CycleCloud 8.8, /tmp are disks that a deallocation takes away.
work=$(mktemp -d /var/tmp/gpu_node.XXXXXX)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cd "$work"

jetpack download "$bundle" ||
    fail "$bundle: jetpack cannot download it; upload it with 'cyclecloud project upload'."
# The sum came with this script. A blob of the same name in the locker, a user's own even, is not taken for this one.
sha256sum --check --status "$files/$bundle.sha256" ||
    fail "$bundle: it is not the file that this project was made with; run 'cyclecloud project upload' again."

# Its comment tells whose the declaration is; an empty file is what a power cut left of one.
if { [ ! -s "$site" ] && [ ! -L "$site" ]; } || grep -qF -e "$ours" "$site"; then
    mkdir -p "${site%/*}"
    install -m 0600 "$files/declaration.json" "$site.new"
    sync "$site.new"
    mv "$site.new" "$site"
    sync "${site%/*}"
else
    echo "gpu_node: $site is the site's own and is used as it is; that of this spec is not."
fi

tar --no-same-owner -xzf "$bundle"

# After a deallocation systemd has booted before CycleCloud made /nvme anew: what failed for that gets its second chance here.
if systemctl --quiet is-failed gpu-node-nvme_scratch.service; then systemctl restart gpu-node-nvme_scratch.service || true; fi
if systemctl --quiet is-failed gpu-node-converge.service; then systemctl reset-failed gpu-node-converge.service || true; fi

# 75: the unit of the boot is at it. It ends by itself; half an hour is far more than it takes.
for try in 1 2 3 4 5 6 7 8 9 10; do
    status=0
    sh "${bundle%.tar.gz}/converge" --install || status=$?
    [ "$status" -eq 75 ] || exit "$status"
    [ "$try" -eq 10 ] || sleep 180
done
fail "another converge has been running for half an hour; see 'journalctl -t gpu-node-converge'."
