# Appended to look.sh: what enroot and srun say of themselves.
echo "answer${tab}enroot${tab}$(enroot version 2>&1 | head -n 1)"
if command -v srun >/dev/null; then
    said=$(srun --help 2>&1)
    case $said in
        *--container-image*) echo "answer${tab}srun${tab}--container-image" ;;
        *) echo "answer${tab}srun${tab}$(printf '%s\n' "$said" | grep -i -m 1 -e pyxis -e plugstack -e spank)" ;;
    esac
fi
# The .deb of enroot brings the profile that lets enroot-nsenter make user namespaces on Ubuntu 24.04.
[ ! -e /etc/apparmor.d/enroot ] || echo "answer${tab}apparmor${tab}yes"
