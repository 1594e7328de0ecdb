"""The simulated Windows host: as much of WinRM and of the Ansible modules as trueup calls.

No Windows and no PowerShell (docs/windows_simulated.md).
"""
