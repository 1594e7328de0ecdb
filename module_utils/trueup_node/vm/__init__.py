"""Programs that cloud-init installs on the VMs of a run."""
