#!/bin/sh
# Written by trueup (role slurm). Runs the programs of /etc/slurm/@FOLDER@ in the order of their names. One
# that fails, or takes longer than @SECONDS@ s, drains the node with its last line as the reason.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
for hook in /etc/slurm/@FOLDER@/*; do
  if [ ! -f "$hook" ] || [ ! -x "$hook" ]; then continue; fi
  said=$(timeout -k 5 @SECONDS@ "$hook" 2>&1 </dev/null)
  status=$?
  if [ "$status" -eq 0 ]; then continue; fi
  said=$(printf '%s\n' "$said" | tail -n 1 | cut -c 1-180)
  # 137: it had to be killed.
  if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then said="no answer within @SECONDS@ s"; fi
  if [ -n "$SLURMD_NODENAME" ]; then
    timeout -k 5 @SECONDS@ scontrol update "nodename=$SLURMD_NODENAME" state=drain \
      "reason=trueup: ${hook##*/}: ${said:-exit status $status}"
  fi
  echo "${hook##*/}: ${said:-exit status $status}" >&2
  exit 1
done
