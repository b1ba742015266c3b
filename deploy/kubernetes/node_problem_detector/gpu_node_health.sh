#!/bin/sh
# A custom plugin of node-problem-detector: the last verdict of the health gate (health_gate_npd_file), as its exit status and one line.
# 0 no problem, 1 a problem, 2 unknown. Needs sh, cat and date; the image of node-problem-detector has no Python.
#   gpu_node_health.sh FILE [NOW]     NOW: seconds since 1970, for tests
set -u
file=${1:-/gpu_node_health/npd}
now=${2:-$(date +%s)}
expires='' status='' message=''

unknown() {
    printf '%.80s\n' "$1"
    exit 2
}

[ -r "$file" ] || unknown "no verdict: $file cannot be read"
while IFS= read -r line; do
    case $line in
    expires=*) expires=${line#expires=} ;;
    status=*) status=${line#status=} ;;
    message=*) message=${line#message=} ;;
    esac
done <"$file"
case $expires in
'' | *[!0-9]*) unknown "no verdict: $file has no time" ;;
esac
[ "$now" -le "$expires" ] || unknown "the last verdict is too old: gpu-node-health.timer does not run"
case $status in
0 | 1 | 2) ;;
*) unknown "no verdict: $file has no status" ;;
esac
printf '%.80s\n' "$message"
exit "$status"
