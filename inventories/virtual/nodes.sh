#!/bin/sh
# A dynamic inventory: the virtual nodes that tools/virtual_node has running, in the group gpu_nodes.
exec "$(dirname "$0")/../../tools/virtual_node/virtual_node" --quiet inventory --json
