#!/bin/sh
# What decides whether enroot and pyxis can work here, as lines "kind<tab>name<tab>value"; nothing is changed.
# $1: Slurm's folder of configuration; $2: folders, apart by blanks, whose file systems are looked at.
tab=$(printf '\t')
for name in user/max_user_namespaces user/max_mnt_namespaces kernel/unprivileged_userns_clone \
    kernel/apparmor_restrict_unprivileged_userns; do
    [ ! -r "/proc/sys/$name" ] || echo "kernel$tab$name$tab$(cat "/proc/sys/$name")"
done
for path in $2; do
    # The last line has: device, blocks of 1 KiB, used, free, percent, mount point.
    [ ! -d "$path" ] || df -P -k "$path" | awk -v path="$path" -v OFS='\t' 'END { print "path", path, $4 " " $6 }'
done
for file in /etc/enroot/enroot.conf "$1/plugstack.conf" "$1/plugstack.conf.d/pyxis.conf"; do
    [ -r "$file" ] || continue
    echo "file$tab$file$tab"
    sed "s|^|line$tab$file$tab|" "$file"
done
