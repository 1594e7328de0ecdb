#!/bin/sh
# Written by trueup (role slurm). Whether this node has what its jobs rely on; its last line says what is missing.

# Before and after a job its GPUs alone (prolog and epilog have SLURM_JOB_GPUS, such as 0,1 or 0-3); else all.
gpus=$(echo "$SLURM_JOB_GPUS" | tr ',' '\n' | awk -F- 'NF { for (i = $1; i <= $NF; i++) printf "%s%d", n++ ? "," : "", i }')
wanted=@GPUS@
if [ -n "$gpus" ]; then wanted=$(echo "$gpus" | tr ',' '\n' | wc -l); fi
found=$(nvidia-smi ${gpus:+-i "$gpus"} --query-gpu=uuid --format=csv,noheader 2>/dev/null | grep -c '^GPU-')
if [ "$found" -ne "$wanted" ]; then
  echo "$found of $wanted GPUs answer (nvidia-smi${gpus:+ -i $gpus})"
  exit 1
fi

found=0
for port in /sys/class/infiniband/*/ports/1; do
  if grep -q InfiniBand "$port/link_layer" 2>/dev/null && grep -q ACTIVE "$port/state"; then found=$((found + 1)); fi
done
if [ "$found" -lt @LINKS@ ]; then
  echo "$found of @LINKS@ InfiniBand links are active"
  exit 1
fi

folder=@SCRATCH@

if ! mountpoint -q "$folder"; then
  echo "$folder is not mounted"
  exit 1
fi

# With bytes in it: an empty file can be made on a full file system too. And df, since root may write to what file
# systems keep back from users.
file=$(mktemp "$folder/.trueup-health.XXXXXX" 2>/dev/null)
if [ -z "$file" ] || ! head -c 65536 /dev/zero 2>/dev/null > "$file" ||
    [ "$(df -P -k "$folder" | awk 'END { print ($4 > 0) }')" = 0 ]; then
  if [ -n "$file" ]; then rm -f "$file"; fi
  echo "$folder cannot be written to: full, read-only or away (df $folder)"
  exit 1
fi
rm -f "$file"

exit 0
