#!/bin/sh
# What is installed, as lines "answer<tab>name<tab>value"; a thing that is not there has no line.
# $1: apt or dnf; $2: where pyxis's build is noted; then the names of enroot's packages.
manager=$1 noted=$2
shift 2
say() {
    [ -z "$2" ] || printf 'answer\t%s\t%s\n' "$1" "$2"
}
for name in "$@"; do
    case $manager in
        apt) say "package $name" "$(dpkg-query -W -f='${db:Status-Status} ${Version}' "$name" 2>/dev/null |
            sed -n 's/^installed //p')" ;;
        dnf) ! rpm -q "$name" >/dev/null 2>&1 || say "package $name" "$(rpm -q --qf '%{VERSION}-%{RELEASE}' "$name")" ;;
    esac
done
# "slurm 24.05.4", or "slurm-wlm 22.05.8" of Debian's package.
say slurm "$(srun --version 2>/dev/null | sed -n 's/^slurm[^ ]* //p')"
! systemctl --quiet is-active slurmd 2>/dev/null || say slurmd active
! command -v nvidia-container-cli >/dev/null || say nvidia "$(command -v nvidia-container-cli)"
# The note stands beside the plugin, and says nothing where that is gone.
[ ! -r "$noted" ] || [ ! -r "${noted%.built}" ] || say built "$(cat "$noted")"
[ ! -r "$SLURM_INCLUDE/slurm/spank.h" ] || say headers "$SLURM_INCLUDE/slurm/spank.h"
