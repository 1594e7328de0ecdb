"""The simulated Windows host: as much of WinRM and of the Ansible modules as trueup calls.

No Windows and no PowerShell (docs/dev/stand_ins.md).
"""
