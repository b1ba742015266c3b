#!/bin/sh
# Runs as root on the machine that an image is made of: image.sh FOLDER, with the bundle, its .sha256 and image.yml in it.
set -eu
umask 022
site=/etc/gpu_node/site.yml

# Another user has put the files there; from here on they are root's.
chown -R root:root "$1"
chmod -R go-w "$1"
cd "$1"
sha256sum --check --quiet gpu-node-bundle-*.tar.gz.sha256
tar --no-same-owner -xzf gpu-node-bundle-*.tar.gz

# The unit of each boot reads the same file, so the variables of the image must not stay in it.
if [ -e "$site" ]; then
    echo "image.sh: $site: it is there already; put the variables of your nodes into the image after this." >&2
    exit 1
fi
mkdir -p "${site%/*}"
cp image.yml "$site"
# Whether this machine is well is no matter for the image; that everything was installed is.
sh gpu-node-bundle-*/converge --install || grep -q '"outcome": "fail"' /var/lib/gpu_node/converge.json
rm "$site"

# A node of this image is nothing without its own variables: until somebody has written them, the unit waits for the next boot.
mkdir -p /etc/systemd/system/gpu-node-converge.service.d
printf '[Unit]\nConditionPathExists=%s\n' "$site" >/etc/systemd/system/gpu-node-converge.service.d/image.conf

# What was seen of this machine belongs to no other.
rm -rf /var/lib/gpu_node/converge.json /var/lib/gpu_node/health
cd /
rm -rf "$1"
