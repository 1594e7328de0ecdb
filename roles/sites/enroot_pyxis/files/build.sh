#!/bin/sh
# Builds pyxis: $1 the source, $2 the plugin's place, $3 the version that srun says; SLURM_INCLUDE, where slurm/*.h are.
set -eu
[ -n "$3" ] || {
    echo "enroot_pyxis: there is no srun on this node, and pyxis is built against the Slurm that it is to run with:" \
        "install Slurm first (role slurm)." >&2
    exit 1
}
header=$SLURM_INCLUDE/slurm/slurm_version.h
[ -r "$header" ] || {
    echo "$header is missing: install Slurm's development package" >&2
    exit 1
}
# 0x160508 is 22.05.8: a byte each.
number=$(sed -n 's/^#define SLURM_VERSION_NUMBER *\(0x[0-9a-fA-F]*\).*/\1/p' "$header")
found=$(printf '%d.%02d.%d' $((number >> 16 & 255)) $((number >> 8 & 255)) $((number & 255)))
[ "$found" = "${3%%-*}" ] || {
    echo "$header is of Slurm $found, and srun is $3: install the development package of $3" >&2
    exit 1
}
cd "$1"
make clean
CPPFLAGS="-I$SLURM_INCLUDE" make
mkdir -p "${2%/*}"
# Beside its place first: slurmd may have the old one mapped.
install -m 0644 spank_pyxis.so "$2.new"
mv "$2.new" "$2"
