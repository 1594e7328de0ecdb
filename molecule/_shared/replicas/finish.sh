#!/bin/sh
# Runs in a replica as it is built, after its files are there: what is installed, moved, removed and switched on.
# $1: the folder of HPC-X in /opt.
set -eu
home=/opt/$1/ompi
arch=x86_64-linux-gnu
ldconfig

# HPC-X's Open MPI is Debian's at another place, which it finds by OPAL_PREFIX.
mkdir -p "$home/libexec" "$home/lib/$arch" "$home/share"
for program in orterun opal_wrapper ompi_info; do cp -a "/usr/bin/$program" "$home/libexec/"; done
cp -a /usr/bin/orted "$home/bin/"
for name in mpirun mpiexec; do ln -s orterun "$home/libexec/$name"; done
for name in mpicc mpicxx mpifort; do ln -s opal_wrapper "$home/libexec/$name"; done
for library in /usr/lib/$arch/libmpi*.so* /usr/lib/$arch/libmca_common_*.so* /usr/lib/$arch/libopen-*.so* \
    /usr/lib/$arch/liboshmem*.so*; do
    cp -d "$library" "$home/lib/"
    ln -s "../$(basename "$library")" "$home/lib/$arch/"
done
cp -a /usr/lib/$arch/openmpi "$home/lib/$arch/openmpi"
# Some names lead through /etc/alternatives.
for library in mpi mpi_cxx mpi_mpifh; do
    [ -e "$home/lib/lib$library.so" ] || ln -sf "lib$library.so.40" "$home/lib/lib$library.so"
done
ln -s "lib/$arch/openmpi/include" "$home/include"
cp -a /usr/share/openmpi "$home/share/openmpi"
# HPC-X's UCX is Debian's, likewise; the distribution's package is not there beside the image's own.
mkdir -p "$home/../ucx/lib"
cp -d /usr/lib/$arch/libuc[mpst]*.so* "$home/../ucx/lib/"
cp -a /usr/lib/$arch/ucx "$home/../ucx/lib/ucx"
dpkg --purge --force-depends openmpi-bin openmpi-common libopenmpi-dev libopenmpi3 libucx0 python3-dev python3-venv \
    python3.11-dev python3.11-venv libpython3-dev libpython3.11-dev >/dev/null 2>&1
rm -f /usr/lib/udev/rules.d/60-rdma*

# The packages of a source get another version, and name each other by it.
set_version() {
    awk -v RS= -v ORS='\n\n' -v source="$1" -v new="$2" '
        $0 ~ "(^|\n)(Package|Source): " source "(\n|$)" {
            old = $0
            sub(/.*\nVersion: /, "", old)
            sub(/\n.*/, "", old)
            sub("\nVersion: [^\n]*", "\nVersion: " new)
            while (at = index($0, "(= " old ")")) $0 = substr($0, 1, at + 2) new substr($0, at + 3 + length(old))
        }
        { print }' /var/lib/dpkg/status > /var/lib/dpkg/status.new
    mv /var/lib/dpkg/status.new /var/lib/dpkg/status
}
while read -r verb source version; do
    [ "$verb" != version ] || set_version "$source" "$version"
done < /tmp/selections

if ls /tmp/debs/*.deb >/dev/null 2>&1; then dpkg --install /tmp/debs/*.deb >/dev/null; fi
if ls /tmp/rpms/*/*.rpm >/dev/null 2>&1; then rpm --install --nodeps --replacefiles /tmp/rpms/*/*.rpm; fi

while read -r verb object more; do
    case $verb in
        enable|mask) systemctl --quiet --root=/ "$verb" "$object" ;;
        hold) echo "$object hold" | dpkg --set-selections ;;
        append) printf '%s\n' "$more" >> "$object" ;;
        # The base's own programs keep their interpreter.
        python) ln -sf "$more" "/usr/bin/$object" ;;
    esac
done < /tmp/selections
# Ansible's module apt goes on under this one, whose bindings are the base's (docs/guides/images.md); on PATH by that name alone.
mkdir -p /usr/lib/replica
mv /usr/bin/python3.11 /usr/lib/replica/python3.11
ln -sf /usr/lib/replica/python3.11 /usr/bin/python
for program in /usr/bin/dnf* /usr/bin/py3* /usr/libexec/dnf*; do
    [ ! -f "$program" ] || sed -i '1s|/usr/bin/python3$|/usr/bin/python|' "$program"
done
: > /etc/machine-id
rm -rf /tmp/debs /tmp/rpms /tmp/selections /tmp/finish.sh
