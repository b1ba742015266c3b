#!/bin/sh
# Runs as root on the machine that an image is made of: image.sh FOLDER, with the bundle, its .sha256 and image.json in it.
set -eu
umask 022
kept=/etc/gpu_node/declaration.json

# Another user has put the files there; from here on they are root's.
chown -R root:root "$1"
chmod -R go-w "$1"
cd "$1"
sha256sum --check --quiet gpu-node-bundle-*.tar.gz.sha256
tar --no-same-owner -xzf gpu-node-bundle-*.tar.gz

# The unit of each boot reads the same file, so the declaration of the image must not stay in it.
if [ -e "$kept" ]; then
    echo "image.sh: $kept: it is there already; put the declaration of your nodes into the image after this." >&2
    exit 1
fi
# Whether this machine is well is no matter for the image; that everything was installed is.
sh gpu-node-bundle-*/converge --install --declaration "$PWD/image.json" ||
    grep -q '"reason": "the verdict on it is ' /var/lib/gpu_node/converge.json
rm "$kept"

# A node of this image is nothing without its own declaration: until somebody has written it, the unit waits for the next boot.
mkdir -p /etc/systemd/system/gpu-node-converge.service.d
printf '[Unit]\nConditionPathExists=%s\n' "$kept" >/etc/systemd/system/gpu-node-converge.service.d/image.conf

# What was seen of this machine belongs to no other.
rm -rf /var/lib/gpu_node/converge.json /var/lib/gpu_node/health
cd /
rm -rf "$1"
