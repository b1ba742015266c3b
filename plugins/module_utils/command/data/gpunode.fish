# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Generated from the argument parser of gpunode by "make docs"; change it there.

# From what the driver shows in /proc: nothing is asked that a sick GPU could hold up.
function __gpunode_gpus
    set -l index 0
    for folder in /proc/driver/nvidia/gpus/*/
        echo $index
        set index (math $index + 1)
        string match -r 'GPU-[0-9a-f-]{36}$' <$folder/information
    end 2>/dev/null
end

# The command that the words before the cursor name.
function __gpunode_at
    set -l path ""
    for word in (commandline -opc)[2..]
        switch "$path $word"
            case ' converge'
                set path 'converge'
            case ' undo'
                set path 'undo'
            case ' boot'
                set path 'boot'
            case ' reset'
                set path 'reset'
            case ' lease'
                set path 'lease'
            case ' cleanup'
                set path 'cleanup'
            case ' declaration'
                set path 'declaration'
            case ' apply'
                set path 'apply'
            case ' scratch'
                set path 'scratch'
            case ' info'
                set path 'info'
            case ' topo'
                set path 'topo'
            case ' clocks'
                set path 'clocks'
            case 'clocks list'
                set path 'clocks list'
            case 'clocks max'
                set path 'clocks max'
            case 'clocks reset'
                set path 'clocks reset'
            case 'clocks set'
                set path 'clocks set'
            case ' mig'
                set path 'mig'
            case 'mig list'
                set path 'mig list'
            case 'mig profiles'
                set path 'mig profiles'
            case 'mig plan'
                set path 'mig plan'
            case ' pin'
                set path 'pin'
            case 'pin check'
                set path 'pin check'
            case ' share'
                set path 'share'
            case 'share advise'
                set path 'share advise'
            case ' timeline'
                set path 'timeline'
            case ' board'
                set path 'board'
            case ' health'
                set path 'health'
            case ' diagnose'
                set path 'diagnose'
            case ' metrics'
                set path 'metrics'
            case ' labels'
                set path 'labels'
            case ' image'
                set path 'image'
            case ' checkpoint'
                set path 'checkpoint'
            case 'checkpoint put'
                set path 'checkpoint put'
            case 'checkpoint get'
                set path 'checkpoint get'
            case 'checkpoint list'
                set path 'checkpoint list'
            case 'checkpoint plan'
                set path 'checkpoint plan'
            case ' history'
                set path 'history'
            case ' events'
                set path 'events'
            case ' remedy'
                set path 'remedy'
            case 'remedy status'
                set path 'remedy status'
            case 'remedy release'
                set path 'remedy release'
            case ' profile'
                set path 'profile'
            case 'profile suggest'
                set path 'profile suggest'
            case ' hook'
                set path 'hook'
            case 'hook prolog'
                set path 'hook prolog'
            case 'hook epilog'
                set path 'hook epilog'
            case 'hook resume'
                set path 'hook resume'
            case 'hook health'
                set path 'hook health'
            case 'hook proof'
                set path 'hook proof'
            case ' help'
                set path 'help'
            case ' module'
                set path 'module'
        end
    end
    test "$path" = "$argv"
end

complete -c gpunode -f
complete -c gpunode -n '__gpunode_at \'\'' -a converge -d 'bring this node to its declaration'
complete -c gpunode -n '__gpunode_at \'\'' -a undo -d 'take away what a converge made'
complete -c gpunode -n '__gpunode_at \'\'' -a boot -d 'a node that converges itself at each boot'
complete -c gpunode -n '__gpunode_at \'\'' -a reset -d 'drain this node, and take away all that converges made'
complete -c gpunode -n '__gpunode_at \'\'' -a lease -d 'until when this node may be used'
complete -c gpunode -n '__gpunode_at \'\'' -a cleanup -d 'remove what jobs and users left on this node'
complete -c gpunode -n '__gpunode_at \'\'' -a declaration -d 'what is wanted of this node'
complete -c gpunode -n '__gpunode_at \'\'' -a apply -d 'put the scratch and the GPUs\' settings in force again'
complete -c gpunode -n '__gpunode_at \'\'' -a scratch -d 'the local scratch'
complete -c gpunode -n '__gpunode_at \'\'' -a info -d 'the GPUs of this node, and what runs on them'
complete -c gpunode -n '__gpunode_at \'\'' -a topo -d 'what hangs on which NUMA node'
complete -c gpunode -n '__gpunode_at \'\'' -a clocks -d 'show, raise and reset the clocks of the GPUs'
complete -c gpunode -n '__gpunode_at \'\'' -a mig -d 'show how GPUs are divided (MIG), and what a wish would do'
complete -c gpunode -n '__gpunode_at \'\'' -a pin -d 'place the ranks of a job, and check those of a running one'
complete -c gpunode -n '__gpunode_at \'\'' -a share -d 'how the GPUs can be shared, from how they are used'
complete -c gpunode -n '__gpunode_at \'\'' -a timeline -d 'where the time of a Horovod job went'
complete -c gpunode -n '__gpunode_at \'\'' -a board -d 'TensorBoard on this node, with the ssh line to reach it'
complete -c gpunode -n '__gpunode_at \'\'' -a health -d 'what is wrong with this node, and what to do'
complete -c gpunode -n '__gpunode_at \'\'' -a diagnose -d 'all that this node tells of itself, as one archive'
complete -c gpunode -n '__gpunode_at \'\'' -a metrics -d 'what the GPUs do, as metrics for Prometheus'
complete -c gpunode -n '__gpunode_at \'\'' -a labels -d 'what this node has, as labels of a Kubernetes node'
complete -c gpunode -n '__gpunode_at \'\'' -a image -d 'what software is installed, and whether it fits together'
complete -c gpunode -n '__gpunode_at \'\'' -a checkpoint -d 'bring checkpoints into a store of blobs and back'
complete -c gpunode -n '__gpunode_at \'\'' -a history -d 'what happened to this node and its parts, and what it owes'
complete -c gpunode -n '__gpunode_at \'\'' -a events -d 'what the cloud has announced for this machine'
complete -c gpunode -n '__gpunode_at \'\'' -a remedy -d 'what this node tries by itself on a part that failed'
complete -c gpunode -n '__gpunode_at \'\'' -a profile -d 'what a machine of this type must look like'
complete -c gpunode -n '__gpunode_at \'\'' -a hook -d 'what Slurm runs before and after each job'
complete -c gpunode -n '__gpunode_at \'\'' -a help -d 'the options and examples of a command'
complete -c gpunode -n '__gpunode_at \'\'' -a module -d ''
complete -c gpunode -n '__gpunode_at \'\'' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at \'\'' -l version -d 'print the version of this command'
complete -c gpunode -n '__gpunode_at \'\'' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at converge' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at converge' -l check -d 'tell what would be done'
complete -c gpunode -n '__gpunode_at converge' -l diff -d 'show files and settings before and after'
complete -c gpunode -n '__gpunode_at converge' -l only -d 'this resource' -x
complete -c gpunode -n '__gpunode_at converge' -l without -d 'not this resource' -x
complete -c gpunode -n '__gpunode_at converge' -l declaration -d 'a declaration (JSON; - for standard input) in place of the one of this node' -r -F
complete -c gpunode -n '__gpunode_at converge' -l install -d 'and at each boot from now on, before slurmd starts'
complete -c gpunode -n '__gpunode_at converge' -l boot -d '==SUPPRESS=='
complete -c gpunode -n '__gpunode_at converge' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at undo' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at undo' -l check -d 'tell what would be done'
complete -c gpunode -n '__gpunode_at undo' -l diff -d 'show files and settings before and after'
complete -c gpunode -n '__gpunode_at undo' -l only -d 'this resource' -x
complete -c gpunode -n '__gpunode_at undo' -l without -d 'not this resource' -x
complete -c gpunode -n '__gpunode_at undo' -l declaration -d 'a declaration (JSON; - for standard input) in place of the one of this node' -r -F
complete -c gpunode -n '__gpunode_at undo' -l yes -d 'confirm that the scratch is lost'
complete -c gpunode -n '__gpunode_at undo' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at boot' -a 'status disable admit'
complete -c gpunode -n '__gpunode_at boot' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at boot' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at reset' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at reset' -l yes -d 'lose the scratch'
complete -c gpunode -n '__gpunode_at reset' -l check -d 'tell what would be done'
complete -c gpunode -n '__gpunode_at reset' -l without-slurm -d 'ask and drain nothing in Slurm'
complete -c gpunode -n '__gpunode_at reset' -l without-nvml -d 'do not ask the driver who computes'
complete -c gpunode -n '__gpunode_at reset' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at lease' -a 'status follow'
complete -c gpunode -n '__gpunode_at lease' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at lease' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at cleanup' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at cleanup' -l check -d 'tell what would be done'
complete -c gpunode -n '__gpunode_at cleanup' -l kind -d 'only this kind' -x -a 'job_folders containers environments core_dumps tmp_files clocks gpu_processes stopped_containers'
complete -c gpunode -n '__gpunode_at cleanup' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at declaration' -a 'show check'
complete -c gpunode -n '__gpunode_at declaration' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at declaration' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at apply' -a 'all nvme_scratch mig_layout gpu_settings'
complete -c gpunode -n '__gpunode_at apply' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at apply' -l check -d 'tell what would be done'
complete -c gpunode -n '__gpunode_at apply' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at scratch' -a 'status'
complete -c gpunode -n '__gpunode_at scratch' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at scratch' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at info' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at info' -l gpu -d 'only this GPU: index, UUID or PCI address' -x -a '(__fish_complete_list , __gpunode_gpus)'
complete -c gpunode -n '__gpunode_at info' -l watch -d 'show it again every so many seconds (2 without a number), until ^C'
complete -c gpunode -n '__gpunode_at info' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at topo' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at topo' -l draw -d 'as a drawing of at most 80 columns, in place of the table'
complete -c gpunode -n '__gpunode_at topo' -l svg -d 'as an SVG picture, into FILE or printed'
complete -c gpunode -n '__gpunode_at topo; and test (commandline -opc)[-1] = --svg' -F
complete -c gpunode -n '__gpunode_at topo' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at clocks' -a list -d 'clocks of each GPU: now, held at, default and maximum'
complete -c gpunode -n '__gpunode_at clocks' -a max -d 'hold the graphics and memory clock at their maximum (temporary)'
complete -c gpunode -n '__gpunode_at clocks' -a reset -d 'return the clocks to the driver\'s default (temporary)'
complete -c gpunode -n '__gpunode_at clocks' -a set -d 'hold the clocks at these values (temporary)'
complete -c gpunode -n '__gpunode_at clocks' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at clocks' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at clocks list' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at clocks list' -l gpu -d 'only this GPU: index, UUID or PCI address' -x -a '(__fish_complete_list , __gpunode_gpus)'
complete -c gpunode -n '__gpunode_at clocks list' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at clocks max' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at clocks max' -l gpu -d 'only this GPU: index, UUID or PCI address' -x -a '(__fish_complete_list , __gpunode_gpus)'
complete -c gpunode -n '__gpunode_at clocks max' -l check -d 'tell what would be done'
complete -c gpunode -n '__gpunode_at clocks max' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at clocks reset' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at clocks reset' -l gpu -d 'only this GPU: index, UUID or PCI address' -x -a '(__fish_complete_list , __gpunode_gpus)'
complete -c gpunode -n '__gpunode_at clocks reset' -l check -d 'tell what would be done'
complete -c gpunode -n '__gpunode_at clocks reset' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at clocks set' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at clocks set' -l gpu -d 'only this GPU: index, UUID or PCI address' -x -a '(__fish_complete_list , __gpunode_gpus)'
complete -c gpunode -n '__gpunode_at clocks set' -l graphics -d 'graphics (SM) clock to hold' -x
complete -c gpunode -n '__gpunode_at clocks set' -l memory -d 'memory clock to hold' -x
complete -c gpunode -n '__gpunode_at clocks set' -l snap -d 'take the nearest supported clock instead of refusing'
complete -c gpunode -n '__gpunode_at clocks set' -l check -d 'tell what would be done'
complete -c gpunode -n '__gpunode_at clocks set' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at mig' -a list -d 'instances of each GPU, who uses them, what is declared'
complete -c gpunode -n '__gpunode_at mig' -a profiles -d 'what each GPU can be divided into, and how many more fit'
complete -c gpunode -n '__gpunode_at mig' -a plan -d 'what would be done for a wish; nothing is changed'
complete -c gpunode -n '__gpunode_at mig' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at mig' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at mig list' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at mig list' -l gpu -d 'only this GPU: index, UUID or PCI address' -x -a '(__fish_complete_list , __gpunode_gpus)'
complete -c gpunode -n '__gpunode_at mig list' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at mig profiles' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at mig profiles' -l gpu -d 'only this GPU: index, UUID or PCI address' -x -a '(__fish_complete_list , __gpunode_gpus)'
complete -c gpunode -n '__gpunode_at mig profiles' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at mig plan' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at mig plan' -l exact -d 'what nobody asked for goes (the default)'
complete -c gpunode -n '__gpunode_at mig plan' -l around -d 'what nobody asked for stays'
complete -c gpunode -n '__gpunode_at mig plan' -l gpu -d 'only this GPU: index, UUID or PCI address' -x -a '(__fish_complete_list , __gpunode_gpus)'
complete -c gpunode -n '__gpunode_at mig plan' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at pin' -a check -d 'look at a running job: who shares a core, crosses a NUMA node, sits away from its GPU'
complete -c gpunode -n '__gpunode_at pin' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at pin' -l ranks -d 'how many ranks (processes) run on this node' -x
complete -c gpunode -n '__gpunode_at pin' -l threads -d 'threads of each rank' -x
complete -c gpunode -n '__gpunode_at pin' -l gpus -d 'each (one a rank; the default where there are GPUs), none, or a list: 0,1,4,5' -x -a 'each none'
complete -c gpunode -n '__gpunode_at pin' -l launcher -d 'for whom the line is written (default: srun)' -x -a 'srun openmpi intelmpi mvapich2 lsf numactl hpl torchrun kubernetes'
complete -c gpunode -n '__gpunode_at pin' -l bind -d 'core: each rank has cores of its own (the default)' -x -a 'core numa'
complete -c gpunode -n '__gpunode_at pin' -l smt -d 'use all hardware threads of a core, not one'
complete -c gpunode -n '__gpunode_at pin' -l share-cores -d 'let ranks share cores where there are too few'
complete -c gpunode -n '__gpunode_at pin' -l cpus -d 'use only these CPUs, such as 0-23,48-71' -x
complete -c gpunode -n '__gpunode_at pin' -l write -d 'write MPI_NP and MPI_ARGS for scripts, and the files they name' -r -F
complete -c gpunode -n '__gpunode_at pin' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at pin check' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at pin check' -l pid -d 'this process' -x
complete -c gpunode -n '__gpunode_at pin check' -l job -d 'the processes of this Slurm job' -x
complete -c gpunode -n '__gpunode_at pin check' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at share' -a advise -d 'advise on each GPU: dedicated, time-slicing or shards, or MIG'
complete -c gpunode -n '__gpunode_at share' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at share' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at share advise' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at share advise' -l gpu -d 'only this GPU: index, UUID or PCI address' -x -a '(__fish_complete_list , __gpunode_gpus)'
complete -c gpunode -n '__gpunode_at share advise' -l seconds -d 'how long to look (default: 60)' -x
complete -c gpunode -n '__gpunode_at share advise' -l interval -d 'from one sample to the next (default: 1)' -x
complete -c gpunode -n '__gpunode_at share advise' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at timeline' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at timeline' -l most -d 'read so much of it at most (default: 4)' -x
complete -c gpunode -n '__gpunode_at timeline' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at board' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at board' -l logdir -d 'the folder with the event files' -x
complete -c gpunode -n '__gpunode_at board' -l jump -d 'the machine to go through, as ssh -J takes it' -x
complete -c gpunode -n '__gpunode_at board' -l local-port -d 'the port on your machine (default: 6006)' -x
complete -c gpunode -n '__gpunode_at board' -l program -d 'another TensorBoard than that in PATH' -r -F
complete -c gpunode -n '__gpunode_at board' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at health' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at health' -l quick -d 'what is done before a job'
complete -c gpunode -n '__gpunode_at health' -l active -d 'measure too, for minutes'
complete -c gpunode -n '__gpunode_at health' -l only -d 'only this check' -x -a 'gpu_driver gpu_count gpu_lost gpu_recovery_action gpu_xid gpu_row_remap gpu_retired_pages gpu_repair gpu_ecc gpu_ecc_mode gpu_fabric fabric_manager_version nvswitch_sxid gpu_nvlink gpu_pcie gpu_product gpu_firmware gpu_inforom gpu_slowdown gpu_temperature gpu_performance gpu_settings gpu_mig_mode gpu_mig_layout gpu_mig_instances gpu_processes slurm_gres kubernetes_capacity profile converge cpu_count memory_size ib_ports scratch_mounted filesystem_read_only filesystem_space numa_layout cpu_load cpu_governor processes_stuck memory_errors memory_swap memory_huge_pages ib_flaps ib_errors network_flaps ib_pcie ib_partition_keys ib_gpu_direct pcie_acs nvme_count nvme_state nvme_smart scratch_array beeond_leftover kernel_taint kernel_machine_checks kernel_hung_tasks kernel_stalls kernel_out_of_memory cpu_throttling pci_errors ib_device_faults storage_errors nfs_servers ipmi_events clock_synchronised service_running limit_slurmd image_driver image_cuda image_communication image_containers image_links image_software env_deepspeed drift_files drift_units lease repeat_offender scratch_space remedies silences gpu_memory_test gpu_compute host_device_bandwidth gpu_peer_bandwidth nccl_all_reduce ib_bandwidth scratch_rate dcgm_diagnosis hpl_result'
complete -c gpunode -n '__gpunode_at health' -l without -d 'leave this check out' -x -a 'gpu_driver gpu_count gpu_lost gpu_recovery_action gpu_xid gpu_row_remap gpu_retired_pages gpu_repair gpu_ecc gpu_ecc_mode gpu_fabric fabric_manager_version nvswitch_sxid gpu_nvlink gpu_pcie gpu_product gpu_firmware gpu_inforom gpu_slowdown gpu_temperature gpu_performance gpu_settings gpu_mig_mode gpu_mig_layout gpu_mig_instances gpu_processes slurm_gres kubernetes_capacity profile converge cpu_count memory_size ib_ports scratch_mounted filesystem_read_only filesystem_space numa_layout cpu_load cpu_governor processes_stuck memory_errors memory_swap memory_huge_pages ib_flaps ib_errors network_flaps ib_pcie ib_partition_keys ib_gpu_direct pcie_acs nvme_count nvme_state nvme_smart scratch_array beeond_leftover kernel_taint kernel_machine_checks kernel_hung_tasks kernel_stalls kernel_out_of_memory cpu_throttling pci_errors ib_device_faults storage_errors nfs_servers ipmi_events clock_synchronised service_running limit_slurmd image_driver image_cuda image_communication image_containers image_links image_software env_deepspeed drift_files drift_units lease repeat_offender scratch_space remedies silences gpu_memory_test gpu_compute host_device_bandwidth gpu_peer_bandwidth nccl_all_reduce ib_bandwidth scratch_rate dcgm_diagnosis hpl_result'
complete -c gpunode -n '__gpunode_at health' -l all -d 'tell what passed as well'
complete -c gpunode -n '__gpunode_at health' -l list -d 'list the checks of this level'
complete -c gpunode -n '__gpunode_at health' -l record -d 'keep counters and verdict (root)'
complete -c gpunode -n '__gpunode_at health' -l seconds -d 'time for all active checks' -x
complete -c gpunode -n '__gpunode_at health' -l fail-on -d 'end with 0 but for this outcome and worse ones' -x -a 'warn unknown fail'
complete -c gpunode -n '__gpunode_at health' -l watch -d 'show it again every so many seconds (30 without a number), until ^C'
complete -c gpunode -n '__gpunode_at health' -l call-timeout -d 'limit of one NVML call' -x
complete -c gpunode -n '__gpunode_at health' -l format -d 'text, json, nagios, npd, prometheus, nfd, azure' -x -a 'text json nagios npd prometheus nfd azure'
complete -c gpunode -n '__gpunode_at health' -l nagios -d 'for Nagios and Icinga'
complete -c gpunode -n '__gpunode_at health' -l npd -d 'for node-problem-detector'
complete -c gpunode -n '__gpunode_at health' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at diagnose' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at diagnose' -l output -d 'the archive (.tar.gz)' -r -F
complete -c gpunode -n '__gpunode_at diagnose' -l hours -d 'how far back logs are told (default: 24)' -x
complete -c gpunode -n '__gpunode_at diagnose' -l without -d 'leave this part out' -x
complete -c gpunode -n '__gpunode_at diagnose' -l most -d 'the most that the archive may have (default: 64)' -x
complete -c gpunode -n '__gpunode_at diagnose' -l timeout -d 'the time limit of all of it (default: 420)' -x
complete -c gpunode -n '__gpunode_at diagnose' -l list -d 'list the parts'
complete -c gpunode -n '__gpunode_at diagnose' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at metrics' -a 'show write'
complete -c gpunode -n '__gpunode_at metrics' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at metrics' -l activity -d 'how long activity is counted, from 0.1 to 10 (Hopper and newer)' -x
complete -c gpunode -n '__gpunode_at metrics' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at labels' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at labels' -l gfd -d 'add the labels nvidia.com/*, for a cluster without GPU feature discovery'
complete -c gpunode -n '__gpunode_at labels' -l mig-strategy -d 'of the device plugin, for --gfd: none (its own default), single or mixed' -x -a 'none single mixed'
complete -c gpunode -n '__gpunode_at labels' -l sharing -d 'how the device plugin shares, for --gfd: time-slicing=4, mps=2, time-slicing:nvidia.com/mig-1g.10gb=2' -x
complete -c gpunode -n '__gpunode_at labels' -l renamed -d 'it offers what is shared as RESOURCE.shared'
complete -c gpunode -n '__gpunode_at labels' -l output -d 'write them into this file, in one step' -r -F
complete -c gpunode -n '__gpunode_at labels' -l valid -d 'how long they hold, from 60 to 604800' -x
complete -c gpunode -n '__gpunode_at labels' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at image' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at image' -l root -d 'look at the image that is mounted there' -x
complete -c gpunode -n '__gpunode_at image' -l require -d 'a component, and what its version must be: >=, <=, ==, !=, > or <, several with commas' -x
complete -c gpunode -n '__gpunode_at image' -l save -d 'write the versions into this file, as a baseline' -r -F
complete -c gpunode -n '__gpunode_at image' -l compare -d 'compare with the baseline in this file' -r -F
complete -c gpunode -n '__gpunode_at image' -l odd -d 'look at no image, but compare the versions in these files of nodes' -r -F
complete -c gpunode -n '__gpunode_at image' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at checkpoint' -a put -d 'copy files, then write the manifest'
complete -c gpunode -n '__gpunode_at checkpoint' -a get -d 'bring a checkpoint back'
complete -c gpunode -n '__gpunode_at checkpoint' -a list -d 'the checkpoints in the store'
complete -c gpunode -n '__gpunode_at checkpoint' -a plan -d 'caps, how long a copy takes, how often to write one'
complete -c gpunode -n '__gpunode_at checkpoint' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at checkpoint' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at checkpoint put' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at checkpoint put' -l part -d 'this node\'s part, counted from 0: 0/4 to 3/4 on four nodes' -x
complete -c gpunode -n '__gpunode_at checkpoint put' -l keep -d 'then remove whole ones of this run beside the last N' -x
complete -c gpunode -n '__gpunode_at checkpoint put' -l dry-run -d 'tell what would be done'
complete -c gpunode -n '__gpunode_at checkpoint put' -l cpus -d 'run azcopy on these, such as 40-47' -x
complete -c gpunode -n '__gpunode_at checkpoint put' -l limit -d 'stop after so long' -x
complete -c gpunode -n '__gpunode_at checkpoint put' -l metrics -d 'write figures for the textfile collector, also of a failure' -r -F
complete -c gpunode -n '__gpunode_at checkpoint put' -l to -d 'the container, or a folder in it' -x
complete -c gpunode -n '__gpunode_at checkpoint put' -l sas-file -d 'file with a shared access signature, of yours alone' -r -F
complete -c gpunode -n '__gpunode_at checkpoint put' -l work -d 'for plans and logs' -x
complete -c gpunode -n '__gpunode_at checkpoint put' -l nodes -d 'nodes that copy to this account at the same time' -x
complete -c gpunode -n '__gpunode_at checkpoint put' -l files -d 'files that each copies at a time' -x
complete -c gpunode -n '__gpunode_at checkpoint put' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at checkpoint get' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at checkpoint get' -l part -d 'only what that part wrote' -x
complete -c gpunode -n '__gpunode_at checkpoint get' -l dry-run -d 'tell what would be done'
complete -c gpunode -n '__gpunode_at checkpoint get' -l cpus -d 'run azcopy on these, such as 40-47' -x
complete -c gpunode -n '__gpunode_at checkpoint get' -l limit -d 'stop after so long' -x
complete -c gpunode -n '__gpunode_at checkpoint get' -l metrics -d 'write figures for the textfile collector, also of a failure' -r -F
complete -c gpunode -n '__gpunode_at checkpoint get' -l to -d 'the container, or a folder in it' -x
complete -c gpunode -n '__gpunode_at checkpoint get' -l sas-file -d 'file with a shared access signature, of yours alone' -r -F
complete -c gpunode -n '__gpunode_at checkpoint get' -l work -d 'for plans and logs' -x
complete -c gpunode -n '__gpunode_at checkpoint get' -l nodes -d 'nodes that copy to this account at the same time' -x
complete -c gpunode -n '__gpunode_at checkpoint get' -l files -d 'files that each copies at a time' -x
complete -c gpunode -n '__gpunode_at checkpoint get' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at checkpoint list' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at checkpoint list' -l to -d 'the container, or a folder in it' -x
complete -c gpunode -n '__gpunode_at checkpoint list' -l sas-file -d 'file with a shared access signature, of yours alone' -r -F
complete -c gpunode -n '__gpunode_at checkpoint list' -l work -d 'for plans and logs' -x
complete -c gpunode -n '__gpunode_at checkpoint list' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at checkpoint plan' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at checkpoint plan' -l bytes -d 'of the whole checkpoint: 800G, 1.5T' -x
complete -c gpunode -n '__gpunode_at checkpoint plan' -l interval -d 'how often it is written now' -x
complete -c gpunode -n '__gpunode_at checkpoint plan' -l pause -d 'how long training stops for one' -x
complete -c gpunode -n '__gpunode_at checkpoint plan' -l node-mtbf -d 'mean time between failures of one node' -x
complete -c gpunode -n '__gpunode_at checkpoint plan' -l nodes -d 'nodes that copy to this account at the same time' -x
complete -c gpunode -n '__gpunode_at checkpoint plan' -l files -d 'files that each copies at a time' -x
complete -c gpunode -n '__gpunode_at checkpoint plan' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at history' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at history' -l brief -d 'one line'
complete -c gpunode -n '__gpunode_at history' -l node -d 'NodeName of this node' -x
complete -c gpunode -n '__gpunode_at history' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at events' -a 'show once follow'
complete -c gpunode -n '__gpunode_at events' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at events' -l node -d 'name of this node in slurm.conf' -x
complete -c gpunode -n '__gpunode_at events' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at remedy' -a status -d 'what was tried, and the breaker'
complete -c gpunode -n '__gpunode_at remedy' -a release -d 'release the breaker'
complete -c gpunode -n '__gpunode_at remedy' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at remedy' -l check -d 'tell what would be done'
complete -c gpunode -n '__gpunode_at remedy' -l node -d 'NodeName of this node' -x
complete -c gpunode -n '__gpunode_at remedy' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at remedy status' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at remedy status' -l node -d 'NodeName of this node' -x
complete -c gpunode -n '__gpunode_at remedy status' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at remedy release' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at remedy release' -l by -d 'who has looked and answers for it' -x
complete -c gpunode -n '__gpunode_at remedy release' -l node -d 'NodeName of this node' -x
complete -c gpunode -n '__gpunode_at remedy release' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at profile' -a suggest -d 'write a profile of this machine, for a person to check'
complete -c gpunode -n '__gpunode_at profile' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at profile' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at profile suggest' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at profile suggest' -l name -d 'the name of the profile, and of its file without .yml' -x
complete -c gpunode -n '__gpunode_at profile suggest' -l vm-size -d 'the VM size' -x
complete -c gpunode -n '__gpunode_at profile suggest' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at hook' -a prolog -d 'before a job: the scratch is there, the clocks of its GPUs are up'
complete -c gpunode -n '__gpunode_at hook' -a epilog -d 'after a job: nothing of it is left on its GPUs and on the scratch'
complete -c gpunode -n '__gpunode_at hook' -a resume -d 'put this node back into service, if these hooks drained it'
complete -c gpunode -n '__gpunode_at hook' -a health -d 'check this node, and drain it or put it back by what is found'
complete -c gpunode -n '__gpunode_at hook' -a proof -d 'run what this node has to pass before it takes jobs again'
complete -c gpunode -n '__gpunode_at hook' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at hook' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at hook prolog' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at hook prolog' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at hook epilog' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at hook epilog' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at hook resume' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at hook resume' -l node -d 'NodeName of this node' -x
complete -c gpunode -n '__gpunode_at hook resume' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at hook health' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at hook health' -l node -d 'NodeName of this node' -x
complete -c gpunode -n '__gpunode_at hook health' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at hook proof' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at hook proof' -l node -d 'NodeName of this node' -x
complete -c gpunode -n '__gpunode_at hook proof' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at help' -a 'converge undo boot reset lease cleanup declaration apply scratch info topo clocks mig pin share timeline board health diagnose metrics labels image checkpoint history events remedy profile hook help module'
complete -c gpunode -n '__gpunode_at help' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at help' -l json -d 'print JSON for programs'
complete -c gpunode -n '__gpunode_at module' -l help -d 'show this help message and exit'
complete -c gpunode -n '__gpunode_at module' -l json -d 'print JSON for programs'
