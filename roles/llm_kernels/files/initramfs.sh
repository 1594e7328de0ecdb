#!/bin/sh
# Rebuilds the running kernel's initramfs where that holds the kernel module nvidia, with the files of /etc/modprobe.d.
# Argument: the folder of boot images, if another. Says "rebuilt" where it did.
set -eu
kernel=$(uname -r)
boot=${1:-/boot}
for image in "$boot/initrd.img-$kernel" "$boot/initramfs-$kernel.img"; do
    [ -e "$image" ] || continue
    lister=$(command -v lsinitramfs || command -v lsinitrd) || continue
    # Not by a pipe: a reader that ends early fails the lister.
    case $("$lister" "$image") in */nvidia.ko*) ;; *) continue ;; esac
    if command -v update-initramfs >/dev/null; then
        update-initramfs -u -k "$kernel"
    else
        dracut --force "$image" "$kernel"
    fi
    echo rebuilt
done
