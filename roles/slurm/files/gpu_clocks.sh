#!/bin/sh
# Written by trueup (role slurm). Jobs may set the clocks of their GPUs: puts them back to what this node is to have.
if [ -z "$SLURM_JOB_GPUS" ]; then exit 0; fi
nvidia-smi -i "$SLURM_JOB_GPUS" -rgc || { echo "nvidia-smi -rgc failed on GPUs $SLURM_JOB_GPUS"; exit 1; }
# Role gpu_clocks: locked from each boot on.
if systemctl is-enabled -q trueup-gpu-clocks.service 2>/dev/null; then
  /usr/local/libexec/trueup/gpu_clocks lock >/dev/null || { echo "the GPU clocks could not be locked again"; exit 1; }
fi
