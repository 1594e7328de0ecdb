# Lets WinRM answer on HTTP (port 5985) to one range of addresses, whatever network Windows takes the VM's for. Messages
# are encrypted by NTLM: AllowUnencrypted stays false, and Basic stays off. Run by Azure (a run command of the
# deployment, as SYSTEM), again without change. Prints nothing.
# Source: about_Remote_Requirements and New-NetFirewallRule of Microsoft's PowerShell documentation.
param([Parameter(Mandatory)][string]$From)
$ErrorActionPreference = 'Stop'
Enable-PSRemoting -SkipNetworkProfileCheck -Force | Out-Null
Set-Service -Name WinRM -StartupType Automatic
Remove-NetFirewallRule -Name trueup-winrm -ErrorAction SilentlyContinue
New-NetFirewallRule -Name trueup-winrm -DisplayName 'trueup: WinRM from the login node' -Direction Inbound `
    -Action Allow -Protocol TCP -LocalPort 5985 -RemoteAddress $From -Profile Any | Out-Null
