#!/bin/sh
# What decides whether enroot and pyxis can work here, and what is installed of them, as lines "kind<tab>name<tab>value";
# a thing that is not there has no line, and nothing is changed. By environment: MANAGER (apt or dnf), PACKAGES of enroot,
# PLACES whose file systems are looked at, PLUGIN, SLURM_DIR (configuration), SLURM_INCLUDE and the file VARIABLES.
tab=$(printf '\t')
for name in user.max_user_namespaces user.max_mnt_namespaces kernel.unprivileged_userns_clone \
    kernel.apparmor_restrict_unprivileged_userns; do
    file=/proc/sys/${name%.*}/${name##*.}
    [ ! -r "$file" ] || echo "kernel$tab$name$tab$(cat "$file")"
done
for place in $PLACES; do
    for path in "$place" "$place/enroot"; do
        # The last line has: device, blocks of 1 KiB, used, free, percent, mount point.
        [ ! -d "$path" ] || df -P -k "$path" | awk -v path="$path" -v OFS='\t' 'END { print "path", path, $4 " " $6 }'
    done
done
for file in /etc/enroot/enroot.conf "$SLURM_DIR/plugstack.conf" "$SLURM_DIR/plugstack.conf.d/pyxis.conf" "$VARIABLES"; do
    [ -r "$file" ] || continue
    echo "file$tab$file$tab"
    sed -e "s|^|line$tab$file$tab|" -e '$a\' "$file"
done

say() {
    [ -z "$2" ] || printf 'answer\t%s\t%s\n' "$1" "$2"
}
for name in $PACKAGES; do
    case $MANAGER in
        apt) say "package $name" "$(dpkg-query -W -f='${db:Status-Status} ${Version}' "$name" 2>/dev/null |
            sed -n 's/^installed //p')" ;;
        dnf) ! rpm -q "$name" >/dev/null 2>&1 || say "package $name" "$(rpm -q --qf '%{VERSION}-%{RELEASE}' "$name")" ;;
    esac
done
! command -v enroot >/dev/null || say enroot "$(enroot version 2>&1 | head -n 1)"
if command -v srun >/dev/null; then
    # "slurm 24.05.4", or "slurm-wlm 22.05.8" of Debian's package.
    say slurm "$(srun --version 2>/dev/null | sed -n 's/^slurm[^ ]* //p')"
    # SchedMD's own packages: the header files are in another one than the distribution's.
    [ "$MANAGER" != apt ] || say schedmd "$(dpkg-query -S "$(command -v srun)" 2>/dev/null | grep -o '^slurm-smd')"
    said=$(srun --help 2>&1)
    case $said in
        *--container-image*) say srun --container-image ;;
        *) printf 'answer\tsrun\t%s\n' "$(printf '%s\n' "$said" | grep -i -m 1 -e pyxis -e plugstack -e spank)" ;;
    esac
fi
! command -v nvidia-container-cli >/dev/null || say nvidia "$(command -v nvidia-container-cli)"
# The note stands beside the plugin, and says nothing where that is gone.
[ ! -r "$PLUGIN.built" ] || [ ! -r "$PLUGIN" ] || say built "$(cat "$PLUGIN.built")"
[ ! -r "$SLURM_INCLUDE/slurm/spank.h" ] || say headers "$SLURM_INCLUDE/slurm/spank.h"
# The .deb of enroot brings the profile that lets enroot-nsenter make user namespaces on Ubuntu 24.04.
[ ! -e /etc/apparmor.d/enroot ] || say apparmor yes
