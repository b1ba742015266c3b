# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Generated from the argument parser of gpunode by "make docs"; change it there.
# shellcheck shell=bash

# From what the driver shows in /proc: nothing is asked that a sick GPU could hold up.
_gpunode_gpus() {
    local index=0 folder line
    for folder in /proc/driver/nvidia/gpus/*/; do
        [[ -d $folder ]] || return
        echo "$((index++))"
        while read -r line; do
            [[ $line =~ GPU-[0-9a-f-]{36}$ ]] && echo "${BASH_REMATCH[0]}"
        done <"${folder}information"
    done 2>/dev/null
}

_gpunode() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} path="" words="" before="" word
    COMPREPLY=()
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "$path $word" in
            " converge") path="converge" ;;
            " undo") path="undo" ;;
            " boot") path="boot" ;;
            " reset") path="reset" ;;
            " lease") path="lease" ;;
            " cleanup") path="cleanup" ;;
            " declaration") path="declaration" ;;
            " apply") path="apply" ;;
            " scratch") path="scratch" ;;
            " info") path="info" ;;
            " topo") path="topo" ;;
            " clocks") path="clocks" ;;
            "clocks list") path="clocks list" ;;
            "clocks max") path="clocks max" ;;
            "clocks reset") path="clocks reset" ;;
            "clocks set") path="clocks set" ;;
            " mig") path="mig" ;;
            "mig list") path="mig list" ;;
            "mig profiles") path="mig profiles" ;;
            "mig plan") path="mig plan" ;;
            " pin") path="pin" ;;
            "pin check") path="pin check" ;;
            " share") path="share" ;;
            "share advise") path="share advise" ;;
            " timeline") path="timeline" ;;
            " board") path="board" ;;
            " health") path="health" ;;
            " diagnose") path="diagnose" ;;
            " metrics") path="metrics" ;;
            " labels") path="labels" ;;
            " image") path="image" ;;
            " checkpoint") path="checkpoint" ;;
            "checkpoint put") path="checkpoint put" ;;
            "checkpoint get") path="checkpoint get" ;;
            "checkpoint list") path="checkpoint list" ;;
            "checkpoint plan") path="checkpoint plan" ;;
            " history") path="history" ;;
            " events") path="events" ;;
            " remedy") path="remedy" ;;
            "remedy status") path="remedy status" ;;
            "remedy release") path="remedy release" ;;
            " profile") path="profile" ;;
            "profile suggest") path="profile suggest" ;;
            " hook") path="hook" ;;
            "hook prolog") path="hook prolog" ;;
            "hook epilog") path="hook epilog" ;;
            "hook resume") path="hook resume" ;;
            "hook health") path="hook health" ;;
            "hook proof") path="hook proof" ;;
            " help") path="help" ;;
            " module") path="module" ;;
        esac
    done
    case "$path $previous" in
        "converge --declaration")
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        "undo --declaration")
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        "cleanup --kind")
            mapfile -t COMPREPLY < <(compgen -W "job_folders containers environments core_dumps tmp_files clocks gpu_processes stopped_containers" -- "$current")
            return
            ;;
        "info --gpu")
            [[ $current == *,* ]] && before=${current%,*},
            mapfile -t COMPREPLY < <(compgen -P "$before" -W "$(_gpunode_gpus)" -- "${current##*,}")
            return
            ;;
        "topo --svg")
            if [[ $current != -* ]]; then
                compopt -o filenames
                mapfile -t COMPREPLY < <(compgen -f -- "$current")
                return
            fi
            ;;
        "clocks list --gpu")
            [[ $current == *,* ]] && before=${current%,*},
            mapfile -t COMPREPLY < <(compgen -P "$before" -W "$(_gpunode_gpus)" -- "${current##*,}")
            return
            ;;
        "clocks max --gpu")
            [[ $current == *,* ]] && before=${current%,*},
            mapfile -t COMPREPLY < <(compgen -P "$before" -W "$(_gpunode_gpus)" -- "${current##*,}")
            return
            ;;
        "clocks reset --gpu")
            [[ $current == *,* ]] && before=${current%,*},
            mapfile -t COMPREPLY < <(compgen -P "$before" -W "$(_gpunode_gpus)" -- "${current##*,}")
            return
            ;;
        "clocks set --gpu")
            [[ $current == *,* ]] && before=${current%,*},
            mapfile -t COMPREPLY < <(compgen -P "$before" -W "$(_gpunode_gpus)" -- "${current##*,}")
            return
            ;;
        "mig list --gpu")
            [[ $current == *,* ]] && before=${current%,*},
            mapfile -t COMPREPLY < <(compgen -P "$before" -W "$(_gpunode_gpus)" -- "${current##*,}")
            return
            ;;
        "mig profiles --gpu")
            [[ $current == *,* ]] && before=${current%,*},
            mapfile -t COMPREPLY < <(compgen -P "$before" -W "$(_gpunode_gpus)" -- "${current##*,}")
            return
            ;;
        "mig plan --gpu")
            [[ $current == *,* ]] && before=${current%,*},
            mapfile -t COMPREPLY < <(compgen -P "$before" -W "$(_gpunode_gpus)" -- "${current##*,}")
            return
            ;;
        "pin --gpus")
            mapfile -t COMPREPLY < <(compgen -W "each none" -- "$current")
            return
            ;;
        "pin --launcher")
            mapfile -t COMPREPLY < <(compgen -W "srun openmpi intelmpi mvapich2 lsf numactl hpl torchrun kubernetes" -- "$current")
            return
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
        "share advise --gpu")
            [[ $current == *,* ]] && before=${current%,*},
            mapfile -t COMPREPLY < <(compgen -P "$before" -W "$(_gpunode_gpus)" -- "${current##*,}")
            return
            ;;
        "board --program")
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        "health --only")
            mapfile -t COMPREPLY < <(compgen -W "gpu_driver gpu_count gpu_lost gpu_recovery_action gpu_xid gpu_row_remap gpu_retired_pages gpu_repair gpu_ecc gpu_ecc_mode gpu_fabric fabric_manager_version nvswitch_sxid gpu_nvlink gpu_pcie gpu_product gpu_firmware gpu_inforom gpu_slowdown gpu_temperature gpu_performance gpu_settings gpu_mig_mode gpu_mig_layout gpu_mig_instances gpu_processes slurm_gres kubernetes_capacity profile converge cpu_count memory_size ib_ports scratch_mounted filesystem_read_only filesystem_space numa_layout cpu_load cpu_governor processes_stuck memory_errors memory_swap memory_huge_pages ib_flaps ib_errors network_flaps ib_pcie ib_partition_keys ib_gpu_direct pcie_acs nvme_count nvme_state nvme_smart scratch_array beeond_leftover kernel_taint kernel_machine_checks kernel_hung_tasks kernel_stalls kernel_out_of_memory cpu_throttling pci_errors ib_device_faults storage_errors nfs_servers ipmi_events clock_synchronised service_running limit_slurmd image_driver image_cuda image_communication image_containers image_links image_software env_deepspeed drift_files drift_units lease repeat_offender scratch_space remedies silences gpu_memory_test gpu_compute host_device_bandwidth gpu_peer_bandwidth nccl_all_reduce ib_bandwidth scratch_rate dcgm_diagnosis hpl_result" -- "$current")
            return
            ;;
        "health --without")
            mapfile -t COMPREPLY < <(compgen -W "gpu_driver gpu_count gpu_lost gpu_recovery_action gpu_xid gpu_row_remap gpu_retired_pages gpu_repair gpu_ecc gpu_ecc_mode gpu_fabric fabric_manager_version nvswitch_sxid gpu_nvlink gpu_pcie gpu_product gpu_firmware gpu_inforom gpu_slowdown gpu_temperature gpu_performance gpu_settings gpu_mig_mode gpu_mig_layout gpu_mig_instances gpu_processes slurm_gres kubernetes_capacity profile converge cpu_count memory_size ib_ports scratch_mounted filesystem_read_only filesystem_space numa_layout cpu_load cpu_governor processes_stuck memory_errors memory_swap memory_huge_pages ib_flaps ib_errors network_flaps ib_pcie ib_partition_keys ib_gpu_direct pcie_acs nvme_count nvme_state nvme_smart scratch_array beeond_leftover kernel_taint kernel_machine_checks kernel_hung_tasks kernel_stalls kernel_out_of_memory cpu_throttling pci_errors ib_device_faults storage_errors nfs_servers ipmi_events clock_synchronised service_running limit_slurmd image_driver image_cuda image_communication image_containers image_links image_software env_deepspeed drift_files drift_units lease repeat_offender scratch_space remedies silences gpu_memory_test gpu_compute host_device_bandwidth gpu_peer_bandwidth nccl_all_reduce ib_bandwidth scratch_rate dcgm_diagnosis hpl_result" -- "$current")
            return
            ;;
        "health --fail-on")
            mapfile -t COMPREPLY < <(compgen -W "warn unknown fail" -- "$current")
            return
            ;;
        "health --format")
            mapfile -t COMPREPLY < <(compgen -W "text json nagios npd prometheus nfd azure" -- "$current")
            return
            ;;
        "diagnose -o" | "diagnose --output")
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        "labels --mig-strategy")
            mapfile -t COMPREPLY < <(compgen -W "none single mixed" -- "$current")
            return
            ;;
        "labels -o" | "labels --output")
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        "image --save")
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        "image --compare")
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        "image --odd")
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        "checkpoint put --metrics")
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        "checkpoint put --sas-file")
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        "checkpoint get --metrics")
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        "checkpoint get --sas-file")
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        "checkpoint list --sas-file")
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            return
            ;;
        "converge --only" | \
            "converge --without" | \
            "undo --only" | \
            "undo --without" | \
            "clocks set --graphics" | \
            "clocks set --memory" | \
            "pin --ranks" | \
            "pin --threads" | \
            "pin --cpus" | \
            "pin check --pid" | \
            "pin check --job" | \
            "share advise --seconds" | \
            "share advise --interval" | \
            "timeline --most" | \
            "board --logdir" | \
            "board --jump" | \
            "board --local-port" | \
            "health --seconds" | \
            "health --call-timeout" | \
            "diagnose --hours" | \
            "diagnose --without" | \
            "diagnose --most" | \
            "diagnose --timeout" | \
            "metrics --activity" | \
            "labels --sharing" | \
            "labels --valid" | \
            "image --root" | \
            "image --require" | \
            "checkpoint put --part" | \
            "checkpoint put --keep" | \
            "checkpoint put --cpus" | \
            "checkpoint put --limit" | \
            "checkpoint put --to" | \
            "checkpoint put --work" | \
            "checkpoint put --nodes" | \
            "checkpoint put --files" | \
            "checkpoint get --part" | \
            "checkpoint get --cpus" | \
            "checkpoint get --limit" | \
            "checkpoint get --to" | \
            "checkpoint get --work" | \
            "checkpoint get --nodes" | \
            "checkpoint get --files" | \
            "checkpoint list --to" | \
            "checkpoint list --work" | \
            "checkpoint plan --bytes" | \
            "checkpoint plan --interval" | \
            "checkpoint plan --pause" | \
            "checkpoint plan --node-mtbf" | \
            "checkpoint plan --nodes" | \
            "checkpoint plan --files" | \
            "history --node" | \
            "events --node" | \
            "remedy --node" | \
            "remedy status --node" | \
            "remedy release --by" | \
            "remedy release --node" | \
            "profile suggest --name" | \
            "profile suggest --vm-size" | \
            "hook resume --node" | \
            "hook health --node" | \
            "hook proof --node")
            return
            ;;
    esac
    case "$path" in
        "") words="converge undo boot reset lease cleanup declaration apply scratch info topo clocks mig pin share timeline board health diagnose metrics labels image checkpoint history events remedy profile hook help module --help --version --json" ;;
        "converge") words="--help --check --diff --only --without --declaration --install --boot --json" ;;
        "undo") words="--help --check --diff --only --without --declaration --yes --json" ;;
        "boot") words="status disable admit --help --json" ;;
        "reset") words="--help --yes --check --without-slurm --without-nvml --json" ;;
        "lease") words="status follow --help --json" ;;
        "cleanup") words="--help --check --kind --json" ;;
        "declaration") words="show check --help --json" ;;
        "apply") words="all nvme_scratch mig_layout gpu_settings --help --check --json" ;;
        "scratch") words="status --help --json" ;;
        "info") words="--help --gpu --watch --json" ;;
        "topo") words="--help --draw --svg --json" ;;
        "clocks") words="list max reset set --help --json" ;;
        "clocks list") words="--help --gpu --json" ;;
        "clocks max") words="--help --gpu --check --json" ;;
        "clocks reset") words="--help --gpu --check --json" ;;
        "clocks set") words="--help --gpu --graphics --memory --snap --check --json" ;;
        "mig") words="list profiles plan --help --json" ;;
        "mig list") words="--help --gpu --json" ;;
        "mig profiles") words="--help --gpu --json" ;;
        "mig plan") words="--help --exact --around --gpu --json" ;;
        "pin") words="check --help --ranks --threads --gpus --launcher --bind --smt --share-cores --cpus --write --json" ;;
        "pin check") words="--help --pid --job --json" ;;
        "share") words="advise --help --json" ;;
        "share advise") words="--help --gpu --seconds --interval --json" ;;
        "timeline") words="--help --most --json" ;;
        "board") words="--help --logdir --jump --local-port --program --json" ;;
        "health") words="--help --quick --active --only --without --all --list --record --seconds --fail-on --watch --call-timeout --format --nagios --npd --json" ;;
        "diagnose") words="--help -o --output --hours --without --most --timeout --list --json" ;;
        "metrics") words="show write --help --activity --json" ;;
        "labels") words="--help --gfd --mig-strategy --sharing --renamed -o --output --valid --json" ;;
        "image") words="--help --root --require --save --compare --odd --json" ;;
        "checkpoint") words="put get list plan --help --json" ;;
        "checkpoint put") words="--help --part --keep --dry-run --cpus --limit --metrics --to --sas-file --work --nodes --files --json" ;;
        "checkpoint get") words="--help --part --dry-run --cpus --limit --metrics --to --sas-file --work --nodes --files --json" ;;
        "checkpoint list") words="--help --to --sas-file --work --json" ;;
        "checkpoint plan") words="--help --bytes --interval --pause --node-mtbf --nodes --files --json" ;;
        "history") words="--help --brief --node --json" ;;
        "events") words="show once follow --help --node --json" ;;
        "remedy") words="status release --help --check --node --json" ;;
        "remedy status") words="--help --node --json" ;;
        "remedy release") words="--help --by --node --json" ;;
        "profile") words="suggest --help --json" ;;
        "profile suggest") words="--help --name --vm-size --json" ;;
        "hook") words="prolog epilog resume health proof --help --json" ;;
        "hook prolog") words="--help --json" ;;
        "hook epilog") words="--help --json" ;;
        "hook resume") words="--help --node --json" ;;
        "hook health") words="--help --node --json" ;;
        "hook proof") words="--help --node --json" ;;
        "help") words="converge undo boot reset lease cleanup declaration apply scratch info topo clocks mig pin share timeline board health diagnose metrics labels image checkpoint history events remedy profile hook help module --help --json" ;;
        "module") words="--help --json" ;;
    esac
    if [[ $current != -* && $words != -* ]]; then
        words=${words%% -*}
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -F _gpunode gpunode
