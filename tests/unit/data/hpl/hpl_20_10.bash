# A fixture, not NVIDIA's script: it takes the options of hpl.sh of hpc-benchmarks:20.10-hpl, demands the three that this
# one demands, ends at any other one, and says what it got. Its threads come from --cpu-cores-per-rank alone.
while [ $# -gt 0 ]; do
  case $1 in
    --xhpl-ai) ;;
    --clock | --config | --dat | --ucx-affinity | --mem-affinity) ;;
    --cpu-affinity) cpus=$2 ;;
    --gpu-affinity) gpus=$2 ;;
    --cpu-cores-per-rank) threads=$2 ;;
    *)
      echo "usage: $1 is unknown" >&2
      exit 1
      ;;
  esac
  [ "$1" != --dat ] || dat=$2
  [ "$1" = --xhpl-ai ] || shift
  shift
done
if [ -z "$cpus" ] || [ -z "$gpus" ] || [ -z "$threads" ] || [ ! -f "$dat" ]; then
  echo "ERROR: cpu and/or gpu values not set" >&2
  exit 1
fi
echo "local rank $SLURM_LOCALID: threads $threads, CPUs $(echo "$cpus" | cut -d: -f$((SLURM_LOCALID + 1)))"
