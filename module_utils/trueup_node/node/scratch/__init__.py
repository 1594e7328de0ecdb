"""The scratch file system over a node's local NVMe disks: found, made, or refused."""
