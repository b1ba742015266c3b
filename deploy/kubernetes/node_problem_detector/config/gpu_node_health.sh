#!/bin/sh
# A custom plugin of node-problem-detector: what the last health verdict of this GPU node says of one subject.
#   gpu_node_health.sh SUBJECT [LONGEST [FILE]]
# SUBJECT is node, gpu, nvlink, infiniband, scratch or warnings; LONGEST is how many bytes may be printed, FILE what the
# gate writes after each run of the passive checks. Exit status 0: no problem, 1: a problem, 2: unknown, which it is
# too where the file is missing, is not what the gate writes, or is older than it says that it holds.
# It needs a POSIX shell and date, as the image of node-problem-detector has no Python.
# shellcheck disable=SC2317  # what is behind a function that ends the script
LC_ALL=C
export LC_ALL
PATH=${PATH:-/usr/bin:/bin}
subject=$1
longest=${2:-80}
file=${3:-/run/gpu_node/npd/status}
# Two and a half of the longest interval that the gate takes, rounded up.
most_valid=170000

say() { # STATUS TEXT
    text=$2
    case $text in
        *[![:print:]]*) text='its message is not plain text' ;;
    esac
    printf "%.${longest}s\n" "$text"
    exit "$1"
}

number() { # TEXT: digits without a leading zero, and few enough for the shell's arithmetic
    case $1 in
        '' | *[!0-9]* | 0?* | ?????????????*) return 1 ;;
    esac
}

look() {
    read -r head || head=
    [ "$head" = 'gpu_node status 1' ] || say 2 "$file is not what this plugin reads"
    read -r word time valid rest || word=
    if [ "$word" != time ] || [ -n "$rest" ] || ! number "$time" || ! number "$valid" || [ "$valid" -gt $most_valid ]
    then
        say 2 "$file tells no time"
    fi
    now=$(date +%s)
    number "$now" || say 2 'the time of this node is unknown'
    age=$((now - time))
    [ "$age" -ge -60 ] || say 2 'the last verdict is from the future: look at the clock of the node'
    [ "$age" -le "$valid" ] || say 2 "the last verdict is $age s old: look at gpu-node-health.timer on the node"
    left=20
    while [ $left -gt 0 ] && read -r name state message; do
        left=$((left - 1))
        [ "$name" = "$subject" ] || continue
        case $state in
            ok) say 0 "$message" ;;
            problem) say 1 "$message" ;;
            unknown) say 2 "$message" ;;
        esac
        break
    done
    say 2 "$file tells nothing of this subject"
}

number "$longest" || longest=80
if [ ! -e "$file" ] && [ ! -L "$file" ]; then
    say 2 'no verdict yet: is the role health_gate on this node?'
fi
if [ -L "$file" ] || [ ! -f "$file" ] || [ ! -r "$file" ]; then
    say 2 "$file is no file that can be read"
fi
# Nothing of it runs where the file cannot be opened.
look <"$file" || say 2 "$file cannot be read"
