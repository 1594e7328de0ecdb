#!/bin/sh
# Written by trueup (role slurm). Waits for the device files of this node's GPUs: slurmd ends where one of gres.conf is
# missing, and a driver may create them after slurmd's place in the boot. Arguments: seconds, then the files.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
limit=$1
shift

missing_of() {
  for device in "$@"; do
    if [ ! -c "$device" ]; then printf ' %s' "$device"; fi
  done
}

# Seconds are counted: the clock may be set during the boot.
waited=0
query=
while missing=$(missing_of "$@") && [ -n "$missing" ]; do
  if [ "$waited" -ge "$limit" ]; then
    echo "slurmd is not started: no device$missing after $limit s, which gres.conf needs. Check the driver" \
      "(nvidia-smi, dmesg | grep NVRM); if the node has fewer GPUs now, drain it and report it." >&2
    if [ -n "$query" ]; then kill -9 "$query" 2>/dev/null; fi
    exit 1
  fi
  # As root it loads the driver, and creates the files of the GPUs that the driver has and of no others. One that hangs
  # is not waited for, and no second one is started.
  if [ -z "$query" ] || ! kill -0 "$query" 2>/dev/null; then
    nvidia-smi -L >/dev/null 2>&1 </dev/null &
    query=$!
  fi
  sleep 1
  waited=$((waited + 1))
done
exit 0
