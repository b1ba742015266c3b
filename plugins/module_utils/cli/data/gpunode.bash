# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Generated from the argument parser of gpunode by "make docs"; change it there.
# shellcheck shell=bash

_gpunode() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} path="" words="" word
    COMPREPLY=()
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "$path $word" in
            " apply") path="apply" ;;
            " scratch") path="scratch" ;;
            " info") path="info" ;;
            " topo") path="topo" ;;
            " clocks") path="clocks" ;;
            "clocks list") path="clocks list" ;;
            "clocks max") path="clocks max" ;;
            "clocks reset") path="clocks reset" ;;
            "clocks set") path="clocks set" ;;
            " pin") path="pin" ;;
            "pin check") path="pin check" ;;
            " health") path="health" ;;
            " profile") path="profile" ;;
            "profile suggest") path="profile suggest" ;;
            " hook") path="hook" ;;
            "hook prolog") path="hook prolog" ;;
            "hook epilog") path="hook epilog" ;;
            "hook resume") path="hook resume" ;;
            "hook health") path="hook health" ;;
        esac
    done
    case "$path $previous" in
        "topo --svg")
            if [[ $current != -* ]]; then
                compopt -o filenames
                mapfile -t COMPREPLY < <(compgen -f -- "$current")
                return
            fi
            ;;
        "pin --bind")
            mapfile -t COMPREPLY < <(compgen -W "core numa" -- "$current")
            return
            ;;
        "pin --write")
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        "health --format")
            mapfile -t COMPREPLY < <(compgen -W "text json nagios npd prometheus nfd azure" -- "$current")
            return
            ;;
        "clocks list --gpu" | \
            "clocks max --gpu" | \
            "clocks reset --gpu" | \
            "clocks set --gpu" | \
            "clocks set --graphics" | \
            "clocks set --memory" | \
            "pin --ranks" | \
            "pin --threads" | \
            "pin --gpus" | \
            "pin --launcher" | \
            "pin --cpus" | \
            "pin check --pid" | \
            "pin check --job" | \
            "health --only" | \
            "health --without" | \
            "health --call-timeout" | \
            "profile suggest --name" | \
            "profile suggest --vm-size" | \
            "hook resume --node" | \
            "hook health --node")
            return
            ;;
    esac
    case "$path" in
        "") words="apply scratch info topo clocks pin health profile hook --help" ;;
        "apply") words="all scratch settings --help --check --json" ;;
        "scratch") words="status --help --json" ;;
        "info") words="--help --json" ;;
        "topo") words="--help --draw --svg --json" ;;
        "clocks") words="list max reset set --help" ;;
        "clocks list") words="--help --gpu --json" ;;
        "clocks max") words="--help --gpu --check --json" ;;
        "clocks reset") words="--help --gpu --check --json" ;;
        "clocks set") words="--help --gpu --graphics --memory --snap --check --json" ;;
        "pin") words="check --help --ranks --threads --gpus --launcher --bind --smt --share-cores --cpus --write --json" ;;
        "pin check") words="--help --pid --job --json" ;;
        "health") words="--help --quick --active --only --without --all --list --record --call-timeout --format --nagios --npd --json" ;;
        "profile") words="suggest --help" ;;
        "profile suggest") words="--help --name --vm-size --json" ;;
        "hook") words="prolog epilog resume health --help" ;;
        "hook prolog") words="--help --json" ;;
        "hook epilog") words="--help --json" ;;
        "hook resume") words="--help --node --json" ;;
        "hook health") words="--help --node --json" ;;
    esac
    if [[ $current != -* && $words != -* ]]; then
        words=${words%% -*}
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -F _gpunode gpunode
