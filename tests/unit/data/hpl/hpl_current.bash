# A fixture, not NVIDIA's script: it takes the options of hpl.sh as the hpc-benchmarks images from 23.5 on have it
# (docs.nvidia.com/nvidia-hpc-benchmarks/HPL_benchmark.html), ends at any other one as they do, and says what it got.
threads=${OMP_NUM_THREADS:-unset}
while [ $# -gt 0 ]; do
  case $1 in
    --cuda-compat | --no-multinode) ;;
    --dat | --exec-name | --ucx-tls | --ucx-affinity | --gpu-affinity | --mem-affinity | --cpu-affinity)
      [ -n "${2:-}" ] || exit 1
      [ "$1" != --dat ] || dat=$2
      [ "$1" != --cpu-affinity ] || cpus=$2
      shift
      ;;
    *)
      echo "usage: $1 is unknown" >&2
      exit 1
      ;;
  esac
  shift
done
[ -f "$dat" ] || exit 1
echo "local rank $SLURM_LOCALID: threads $threads, CPUs $(echo "$cpus" | cut -d: -f$((SLURM_LOCALID + 1)))"
