#compdef gpunode
# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Generated from the argument parser of gpunode by "make docs"; change it there.

# From what the driver shows in /proc: nothing is asked that a sick GPU could hold up.
_gpunode_gpus() {
    local -a gpus
    local folder index=0 line
    for folder in /proc/driver/nvidia/gpus/*(N/); do
        gpus+=($((index++)))
        while read -r line; do
            [[ $line =~ 'GPU-[0-9a-f-]{36}$' ]] && gpus+=($MATCH)
        done <$folder/information
    done 2>/dev/null
    _sequence compadd - $gpus
}

_gpunode() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--version[print the version of this command]' \
        '--json[print JSON for programs]' \
        '1:command:((converge\:bring\ this\ node\ to\ its\ declaration undo\:take\ away\ what\ a\ converge\ made boot\:a\ node\ that\ converges\ itself\ at\ each\ boot reset\:drain\ this\ node\,\ and\ take\ away\ all\ that\ converges\ made lease\:until\ when\ this\ node\ may\ be\ used cleanup\:remove\ what\ jobs\ and\ users\ left\ on\ this\ node declaration\:what\ is\ wanted\ of\ this\ node apply\:put\ the\ scratch\ and\ the\ GPUs\'\''\ settings\ in\ force\ again scratch\:the\ local\ scratch info\:the\ GPUs\ of\ this\ node\,\ and\ what\ runs\ on\ them topo\:what\ hangs\ on\ which\ NUMA\ node clocks\:show\,\ raise\ and\ reset\ the\ clocks\ of\ the\ GPUs mig\:show\ how\ GPUs\ are\ divided\ \(MIG\)\,\ and\ what\ a\ wish\ would\ do pin\:place\ the\ ranks\ of\ a\ job\,\ and\ check\ those\ of\ a\ running\ one share\:how\ the\ GPUs\ can\ be\ shared\,\ from\ how\ they\ are\ used timeline\:where\ the\ time\ of\ a\ Horovod\ job\ went board\:TensorBoard\ on\ this\ node\,\ with\ the\ ssh\ line\ to\ reach\ it health\:what\ is\ wrong\ with\ this\ node\,\ and\ what\ to\ do diagnose\:all\ that\ this\ node\ tells\ of\ itself\,\ as\ one\ archive metrics\:what\ the\ GPUs\ do\,\ as\ metrics\ for\ Prometheus labels\:what\ this\ node\ has\,\ as\ labels\ of\ a\ Kubernetes\ node image\:what\ software\ is\ installed\,\ and\ whether\ it\ fits\ together checkpoint\:bring\ checkpoints\ into\ a\ store\ of\ blobs\ and\ back history\:what\ happened\ to\ this\ node\ and\ its\ parts\,\ and\ what\ it\ owes events\:what\ the\ cloud\ has\ announced\ for\ this\ machine remedy\:what\ this\ node\ tries\ by\ itself\ on\ a\ part\ that\ failed profile\:what\ a\ machine\ of\ this\ type\ must\ look\ like hook\:what\ Slurm\ runs\ before\ and\ after\ each\ job help\:the\ options\ and\ examples\ of\ a\ command module\:))' \
        '*:: :->below' \
        && ret=0
    if [[ $state == below ]]; then
        case $line[1] in
            converge) _gpunode_converge && ret=0 ;;
            undo) _gpunode_undo && ret=0 ;;
            boot) _gpunode_boot && ret=0 ;;
            reset) _gpunode_reset && ret=0 ;;
            lease) _gpunode_lease && ret=0 ;;
            cleanup) _gpunode_cleanup && ret=0 ;;
            declaration) _gpunode_declaration && ret=0 ;;
            apply) _gpunode_apply && ret=0 ;;
            scratch) _gpunode_scratch && ret=0 ;;
            info) _gpunode_info && ret=0 ;;
            topo) _gpunode_topo && ret=0 ;;
            clocks) _gpunode_clocks && ret=0 ;;
            mig) _gpunode_mig && ret=0 ;;
            pin) _gpunode_pin && ret=0 ;;
            share) _gpunode_share && ret=0 ;;
            timeline) _gpunode_timeline && ret=0 ;;
            board) _gpunode_board && ret=0 ;;
            health) _gpunode_health && ret=0 ;;
            diagnose) _gpunode_diagnose && ret=0 ;;
            metrics) _gpunode_metrics && ret=0 ;;
            labels) _gpunode_labels && ret=0 ;;
            image) _gpunode_image && ret=0 ;;
            checkpoint) _gpunode_checkpoint && ret=0 ;;
            history) _gpunode_history && ret=0 ;;
            events) _gpunode_events && ret=0 ;;
            remedy) _gpunode_remedy && ret=0 ;;
            profile) _gpunode_profile && ret=0 ;;
            hook) _gpunode_hook && ret=0 ;;
            help) _gpunode_help && ret=0 ;;
            module) _gpunode_module && ret=0 ;;
        esac
    fi
    return ret
}

_gpunode_converge() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--check[tell what would be done]' \
        '--diff[show files and settings before and after]' \
        '*--only=[this resource]:NAME: ' \
        '*--without=[not this resource]:NAME: ' \
        '--declaration=[a declaration (JSON; - for standard input) in place of the one of this node]:FILE:_files' \
        '--install[and at each boot from now on, before slurmd starts]' \
        '--boot[==SUPPRESS==]' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_undo() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--check[tell what would be done]' \
        '--diff[show files and settings before and after]' \
        '*--only=[this resource]:NAME: ' \
        '*--without=[not this resource]:NAME: ' \
        '--declaration=[a declaration (JSON; - for standard input) in place of the one of this node]:FILE:_files' \
        '--yes[confirm that the scratch is lost]' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_boot() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--json[print JSON for programs]' \
        '1:status|disable|admit:(status disable admit)' \
        && ret=0
    return ret
}

_gpunode_reset() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--yes[lose the scratch]' \
        '--check[tell what would be done]' \
        '--without-slurm[ask and drain nothing in Slurm]' \
        '--without-nvml[do not ask the driver who computes]' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_lease() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--json[print JSON for programs]' \
        '1:status|follow:(status follow)' \
        && ret=0
    return ret
}

_gpunode_cleanup() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--check[tell what would be done]' \
        '*--kind=[only this kind]:KIND:(job_folders containers environments core_dumps tmp_files clocks gpu_processes stopped_containers)' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_declaration() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--json[print JSON for programs]' \
        '1:show|check:(show check)' \
        '2:FILE:_files' \
        && ret=0
    return ret
}

_gpunode_apply() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--check[tell what would be done]' \
        '--json[print JSON for programs]' \
        '1:all|nvme_scratch|mig_layout|gpu_settings:(all nvme_scratch mig_layout gpu_settings)' \
        && ret=0
    return ret
}

_gpunode_scratch() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--json[print JSON for programs]' \
        '1:status:(status)' \
        && ret=0
    return ret
}

_gpunode_info() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '*--gpu=[only this GPU\: index, UUID or PCI address]:GPU:_gpunode_gpus' \
        '--watch=[show it again every so many seconds (2 without a number), until ^C]::SECONDS: ' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_topo() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--draw[as a drawing of at most 80 columns, in place of the table]' \
        '--svg=[as an SVG picture, into FILE or printed]::FILE:_files' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_clocks() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--json[print JSON for programs]' \
        '1:command:((list\:clocks\ of\ each\ GPU\:\ now\,\ held\ at\,\ default\ and\ maximum max\:hold\ the\ graphics\ and\ memory\ clock\ at\ their\ maximum\ \(temporary\) reset\:return\ the\ clocks\ to\ the\ driver\'\''s\ default\ \(temporary\) set\:hold\ the\ clocks\ at\ these\ values\ \(temporary\)))' \
        '*:: :->below' \
        && ret=0
    if [[ $state == below ]]; then
        case $line[1] in
            list) _gpunode_clocks_list && ret=0 ;;
            max) _gpunode_clocks_max && ret=0 ;;
            reset) _gpunode_clocks_reset && ret=0 ;;
            set) _gpunode_clocks_set && ret=0 ;;
        esac
    fi
    return ret
}

_gpunode_clocks_list() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '*--gpu=[only this GPU\: index, UUID or PCI address]:GPU:_gpunode_gpus' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_clocks_max() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '*--gpu=[only this GPU\: index, UUID or PCI address]:GPU:_gpunode_gpus' \
        '--check[tell what would be done]' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_clocks_reset() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '*--gpu=[only this GPU\: index, UUID or PCI address]:GPU:_gpunode_gpus' \
        '--check[tell what would be done]' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_clocks_set() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '*--gpu=[only this GPU\: index, UUID or PCI address]:GPU:_gpunode_gpus' \
        '--graphics=[graphics (SM) clock to hold]:MHZ: ' \
        '--memory=[memory clock to hold]:MHZ: ' \
        '--snap[take the nearest supported clock instead of refusing]' \
        '--check[tell what would be done]' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_mig() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--json[print JSON for programs]' \
        '1:command:((list\:instances\ of\ each\ GPU\,\ who\ uses\ them\,\ what\ is\ declared profiles\:what\ each\ GPU\ can\ be\ divided\ into\,\ and\ how\ many\ more\ fit plan\:what\ would\ be\ done\ for\ a\ wish\;\ nothing\ is\ changed))' \
        '*:: :->below' \
        && ret=0
    if [[ $state == below ]]; then
        case $line[1] in
            list) _gpunode_mig_list && ret=0 ;;
            profiles) _gpunode_mig_profiles && ret=0 ;;
            plan) _gpunode_mig_plan && ret=0 ;;
        esac
    fi
    return ret
}

_gpunode_mig_list() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '*--gpu=[only this GPU\: index, UUID or PCI address]:GPU:_gpunode_gpus' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_mig_profiles() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '*--gpu=[only this GPU\: index, UUID or PCI address]:GPU:_gpunode_gpus' \
        '--json[print JSON for programs]' \
        '*:GPU:_gpunode_gpus' \
        && ret=0
    return ret
}

_gpunode_mig_plan() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--exact[what nobody asked for goes (the default)]' \
        '--around[what nobody asked for stays]' \
        '*--gpu=[only this GPU\: index, UUID or PCI address]:GPU:_gpunode_gpus' \
        '--json[print JSON for programs]' \
        '1:WISH: ' \
        && ret=0
    return ret
}

_gpunode_pin() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--ranks=[how many ranks (processes) run on this node]:N: ' \
        '--threads=[threads of each rank]:N: ' \
        '--gpus=[each (one a rank; the default where there are GPUs), none, or a list\: 0,1,4,5]:WHICH:(each none)' \
        '--launcher=[for whom the line is written (default\: srun)]:LAUNCHER:(srun openmpi intelmpi mvapich2 lsf numactl hpl torchrun kubernetes)' \
        '--bind=[core\: each rank has cores of its own (the default)]:core|numa:(core numa)' \
        '--smt[use all hardware threads of a core, not one]' \
        '--share-cores[let ranks share cores where there are too few]' \
        '--cpus=[use only these CPUs, such as 0-23,48-71]:LIST: ' \
        '--write=[write MPI_NP and MPI_ARGS for scripts, and the files they name]:FILE:_files' \
        '--json[print JSON for programs]' \
        '1:command:((check\:look\ at\ a\ running\ job\:\ who\ shares\ a\ core\,\ crosses\ a\ NUMA\ node\,\ sits\ away\ from\ its\ GPU))' \
        '*:: :->below' \
        && ret=0
    if [[ $state == below ]]; then
        case $line[1] in
            check) _gpunode_pin_check && ret=0 ;;
        esac
    fi
    return ret
}

_gpunode_pin_check() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '*--pid=[this process]:N: ' \
        '--job=[the processes of this Slurm job]:ID: ' \
        '--json[print JSON for programs]' \
        '1:PATTERN: ' \
        && ret=0
    return ret
}

_gpunode_share() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--json[print JSON for programs]' \
        '1:command:((advise\:advise\ on\ each\ GPU\:\ dedicated\,\ time-slicing\ or\ shards\,\ or\ MIG))' \
        '*:: :->below' \
        && ret=0
    if [[ $state == below ]]; then
        case $line[1] in
            advise) _gpunode_share_advise && ret=0 ;;
        esac
    fi
    return ret
}

_gpunode_share_advise() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '*--gpu=[only this GPU\: index, UUID or PCI address]:GPU:_gpunode_gpus' \
        '--seconds=[how long to look (default\: 60)]:SECONDS: ' \
        '--interval=[from one sample to the next (default\: 1)]:SECONDS: ' \
        '--json[print JSON for programs]' \
        '*:GPU:_gpunode_gpus' \
        && ret=0
    return ret
}

_gpunode_timeline() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--most=[read so much of it at most (default\: 4)]:GIB: ' \
        '--json[print JSON for programs]' \
        '1:FILE:_files' \
        && ret=0
    return ret
}

_gpunode_board() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--logdir=[the folder with the event files]:DIR: ' \
        '--jump=[the machine to go through, as ssh -J takes it]:HOST: ' \
        '--local-port=[the port on your machine (default\: 6006)]:PORT: ' \
        '--program=[another TensorBoard than that in PATH]:FILE:_files' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_health() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--quick[what is done before a job]' \
        '--active[measure too, for minutes]' \
        '*--only=[only this check]:CHECK:(gpu_driver gpu_count gpu_lost gpu_recovery_action gpu_xid gpu_row_remap gpu_retired_pages gpu_repair gpu_ecc gpu_ecc_mode gpu_fabric fabric_manager_version nvswitch_sxid gpu_nvlink gpu_pcie gpu_product gpu_firmware gpu_inforom gpu_slowdown gpu_temperature gpu_performance gpu_settings gpu_mig_mode gpu_mig_layout gpu_mig_instances gpu_processes slurm_gres kubernetes_capacity profile converge cpu_count memory_size ib_ports scratch_mounted filesystem_read_only filesystem_space numa_layout cpu_load cpu_governor processes_stuck memory_errors memory_swap memory_huge_pages ib_flaps ib_errors network_flaps ib_pcie ib_partition_keys ib_gpu_direct pcie_acs nvme_count nvme_state nvme_smart scratch_array beeond_leftover kernel_taint kernel_machine_checks kernel_hung_tasks kernel_stalls kernel_out_of_memory cpu_throttling pci_errors ib_device_faults storage_errors nfs_servers ipmi_events clock_synchronised service_running limit_slurmd image_driver image_cuda image_communication image_containers image_links image_software env_deepspeed drift_files drift_units lease repeat_offender scratch_space remedies silences gpu_memory_test gpu_compute host_device_bandwidth gpu_peer_bandwidth nccl_all_reduce ib_bandwidth scratch_rate dcgm_diagnosis hpl_result)' \
        '*--without=[leave this check out]:CHECK:(gpu_driver gpu_count gpu_lost gpu_recovery_action gpu_xid gpu_row_remap gpu_retired_pages gpu_repair gpu_ecc gpu_ecc_mode gpu_fabric fabric_manager_version nvswitch_sxid gpu_nvlink gpu_pcie gpu_product gpu_firmware gpu_inforom gpu_slowdown gpu_temperature gpu_performance gpu_settings gpu_mig_mode gpu_mig_layout gpu_mig_instances gpu_processes slurm_gres kubernetes_capacity profile converge cpu_count memory_size ib_ports scratch_mounted filesystem_read_only filesystem_space numa_layout cpu_load cpu_governor processes_stuck memory_errors memory_swap memory_huge_pages ib_flaps ib_errors network_flaps ib_pcie ib_partition_keys ib_gpu_direct pcie_acs nvme_count nvme_state nvme_smart scratch_array beeond_leftover kernel_taint kernel_machine_checks kernel_hung_tasks kernel_stalls kernel_out_of_memory cpu_throttling pci_errors ib_device_faults storage_errors nfs_servers ipmi_events clock_synchronised service_running limit_slurmd image_driver image_cuda image_communication image_containers image_links image_software env_deepspeed drift_files drift_units lease repeat_offender scratch_space remedies silences gpu_memory_test gpu_compute host_device_bandwidth gpu_peer_bandwidth nccl_all_reduce ib_bandwidth scratch_rate dcgm_diagnosis hpl_result)' \
        '--all[tell what passed as well]' \
        '--list[list the checks of this level]' \
        '--record[keep counters and verdict (root)]' \
        '--seconds=[time for all active checks]:N: ' \
        '--fail-on=[end with 0 but for this outcome and worse ones]:OUTCOME:(warn unknown fail)' \
        '--watch=[show it again every so many seconds (30 without a number), until ^C]::SECONDS: ' \
        '--call-timeout=[limit of one NVML call]:S: ' \
        '--format=[text, json, nagios, npd, prometheus, nfd, azure]:FORM:(text json nagios npd prometheus nfd azure)' \
        '--nagios[for Nagios and Icinga]' \
        '--npd[for node-problem-detector]' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_diagnose() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--output=[the archive (.tar.gz)]:FILE:_files' \
        '--hours=[how far back logs are told (default\: 24)]:H: ' \
        '*--without=[leave this part out]:PART: ' \
        '--most=[the most that the archive may have (default\: 64)]:MIB: ' \
        '--timeout=[the time limit of all of it (default\: 420)]:S: ' \
        '--list[list the parts]' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_metrics() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--activity=[how long activity is counted, from 0.1 to 10 (Hopper and newer)]:SECONDS: ' \
        '--json[print JSON for programs]' \
        '1:show|write:(show write)' \
        && ret=0
    return ret
}

_gpunode_labels() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--gfd[add the labels nvidia.com/*, for a cluster without GPU feature discovery]' \
        '--mig-strategy=[of the device plugin, for --gfd\: none (its own default), single or mixed]:none|single|mixed:(none single mixed)' \
        '*--sharing=[how the device plugin shares, for --gfd\: time-slicing=4, mps=2, time-slicing\:nvidia.com/mig-1g.10gb=2]:WAY\[\:RESOURCE\]=N: ' \
        '--renamed[it offers what is shared as RESOURCE.shared]' \
        '--output=[write them into this file, in one step]:FILE:_files' \
        '--valid=[how long they hold, from 60 to 604800]:SECONDS: ' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_image() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--root=[look at the image that is mounted there]:DIR: ' \
        '*--require=[a component, and what its version must be\: >=, <=, ==, !=, > or <, several with commas]:NAME>=VERSION: ' \
        '--save=[write the versions into this file, as a baseline]:FILE:_files' \
        '--compare=[compare with the baseline in this file]:FILE:_files' \
        '--odd=[look at no image, but compare the versions in these files of nodes]:FILE:_files' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_checkpoint() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--json[print JSON for programs]' \
        '1:command:((put\:copy\ files\,\ then\ write\ the\ manifest get\:bring\ a\ checkpoint\ back list\:the\ checkpoints\ in\ the\ store plan\:caps\,\ how\ long\ a\ copy\ takes\,\ how\ often\ to\ write\ one))' \
        '*:: :->below' \
        && ret=0
    if [[ $state == below ]]; then
        case $line[1] in
            put) _gpunode_checkpoint_put && ret=0 ;;
            get) _gpunode_checkpoint_get && ret=0 ;;
            list) _gpunode_checkpoint_list && ret=0 ;;
            plan) _gpunode_checkpoint_plan && ret=0 ;;
        esac
    fi
    return ret
}

_gpunode_checkpoint_put() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--part=[this node'\''s part, counted from 0\: 0/4 to 3/4 on four nodes]:I/N: ' \
        '--keep=[then remove whole ones of this run beside the last N]:N: ' \
        '--dry-run[tell what would be done]' \
        '--cpus=[run azcopy on these, such as 40-47]:LIST: ' \
        '--limit=[stop after so long]:SECONDS: ' \
        '--metrics=[write figures for the textfile collector, also of a failure]:FILE:_files' \
        '--to=[the container, or a folder in it]:URL: ' \
        '--sas-file=[file with a shared access signature, of yours alone]:FILE:_files' \
        '--work=[for plans and logs]:FOLDER: ' \
        '--nodes=[nodes that copy to this account at the same time]:N: ' \
        '--files=[files that each copies at a time]:N: ' \
        '--json[print JSON for programs]' \
        '1:NAME: ' \
        '2:FILE:_files' \
        && ret=0
    return ret
}

_gpunode_checkpoint_get() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--part=[only what that part wrote]:I/N: ' \
        '--dry-run[tell what would be done]' \
        '--cpus=[run azcopy on these, such as 40-47]:LIST: ' \
        '--limit=[stop after so long]:SECONDS: ' \
        '--metrics=[write figures for the textfile collector, also of a failure]:FILE:_files' \
        '--to=[the container, or a folder in it]:URL: ' \
        '--sas-file=[file with a shared access signature, of yours alone]:FILE:_files' \
        '--work=[for plans and logs]:FOLDER: ' \
        '--nodes=[nodes that copy to this account at the same time]:N: ' \
        '--files=[files that each copies at a time]:N: ' \
        '--json[print JSON for programs]' \
        '1:NAME: ' \
        '2:FOLDER: ' \
        && ret=0
    return ret
}

_gpunode_checkpoint_list() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--to=[the container, or a folder in it]:URL: ' \
        '--sas-file=[file with a shared access signature, of yours alone]:FILE:_files' \
        '--work=[for plans and logs]:FOLDER: ' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_checkpoint_plan() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--bytes=[of the whole checkpoint\: 800G, 1.5T]:SIZE: ' \
        '--interval=[how often it is written now]:SECONDS: ' \
        '--pause=[how long training stops for one]:SECONDS: ' \
        '--node-mtbf=[mean time between failures of one node]:HOURS: ' \
        '--nodes=[nodes that copy to this account at the same time]:N: ' \
        '--files=[files that each copies at a time]:N: ' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_history() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--brief[one line]' \
        '--node=[NodeName of this node]:NAME: ' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_events() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--node=[name of this node in slurm.conf]:NAME: ' \
        '--json[print JSON for programs]' \
        '1:show|once|follow:(show once follow)' \
        && ret=0
    return ret
}

_gpunode_remedy() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--check[tell what would be done]' \
        '--node=[NodeName of this node]:NAME: ' \
        '--json[print JSON for programs]' \
        '1:command:((status\:what\ was\ tried\,\ and\ the\ breaker release\:release\ the\ breaker))' \
        '*:: :->below' \
        && ret=0
    if [[ $state == below ]]; then
        case $line[1] in
            status) _gpunode_remedy_status && ret=0 ;;
            release) _gpunode_remedy_release && ret=0 ;;
        esac
    fi
    return ret
}

_gpunode_remedy_status() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--node=[NodeName of this node]:NAME: ' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_remedy_release() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--by=[who has looked and answers for it]:NAME: ' \
        '--node=[NodeName of this node]:NAME: ' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_profile() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--json[print JSON for programs]' \
        '1:command:((suggest\:write\ a\ profile\ of\ this\ machine\,\ for\ a\ person\ to\ check))' \
        '*:: :->below' \
        && ret=0
    if [[ $state == below ]]; then
        case $line[1] in
            suggest) _gpunode_profile_suggest && ret=0 ;;
        esac
    fi
    return ret
}

_gpunode_profile_suggest() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--name=[the name of the profile, and of its file without .yml]:NAME: ' \
        '--vm-size=[the VM size]:SIZE: ' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_hook() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--json[print JSON for programs]' \
        '1:command:((prolog\:before\ a\ job\:\ the\ scratch\ is\ there\,\ the\ clocks\ of\ its\ GPUs\ are\ up epilog\:after\ a\ job\:\ nothing\ of\ it\ is\ left\ on\ its\ GPUs\ and\ on\ the\ scratch resume\:put\ this\ node\ back\ into\ service\,\ if\ these\ hooks\ drained\ it health\:check\ this\ node\,\ and\ drain\ it\ or\ put\ it\ back\ by\ what\ is\ found proof\:run\ what\ this\ node\ has\ to\ pass\ before\ it\ takes\ jobs\ again))' \
        '*:: :->below' \
        && ret=0
    if [[ $state == below ]]; then
        case $line[1] in
            prolog) _gpunode_hook_prolog && ret=0 ;;
            epilog) _gpunode_hook_epilog && ret=0 ;;
            resume) _gpunode_hook_resume && ret=0 ;;
            health) _gpunode_hook_health && ret=0 ;;
            proof) _gpunode_hook_proof && ret=0 ;;
        esac
    fi
    return ret
}

_gpunode_hook_prolog() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_hook_epilog() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_hook_resume() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--node=[NodeName of this node]:NAME: ' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_hook_health() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--node=[NodeName of this node]:NAME: ' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_hook_proof() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--node=[NodeName of this node]:NAME: ' \
        '--json[print JSON for programs]' \
        && ret=0
    return ret
}

_gpunode_help() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--json[print JSON for programs]' \
        '*:COMMAND:(converge undo boot reset lease cleanup declaration apply scratch info topo clocks mig pin share timeline board health diagnose metrics labels image checkpoint history events remedy profile hook help module)' \
        && ret=0
    return ret
}

_gpunode_module() {
    local curcontext=$curcontext state line ret=1
    typeset -A opt_args
    _arguments -C \
        '(- *)--help[show this help message and exit]' \
        '--json[print JSON for programs]' \
        '1:NAME: ' \
        && ret=0
    return ret
}

_gpunode "$@"
