#!/bin/sh
# Runs in a replica as it gets cloud-init: its Python stays what the image's is, and cloud-init runs under the base's
# (../../replicas/finish.sh).
set -eu
ln -s /usr/lib/replica/python3.11 /usr/bin/python3.11
# The vendors' stand-ins and the image's Open MPI leave relations open that dpkg would stop at.
if ! dpkg --install --force-depends --force-confold /tmp/cloud-init/*.deb > /tmp/said 2>&1; then
    cat /tmp/said >&2
    exit 1
fi
rm /usr/bin/python3.11
for program in /usr/bin/cloud-i* /usr/lib/cloud-init/*; do
    sed -i '1s|^#!.*/python3$|#!/usr/bin/python|' "$program"
done
# Each machine makes its own.
rm -rf /etc/ssh/ssh_host_* /tmp/cloud-init /tmp/install.sh /tmp/said
# What the images say, and so nothing is generated.
echo LANG=C.UTF-8 > /etc/default/locale
cloud-init --version
