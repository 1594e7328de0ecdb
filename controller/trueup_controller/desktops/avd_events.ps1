# What the agent of Azure Virtual Desktop logged in the last minutes, newest first. Changes nothing.
# Result: a list of id, message and when (UTC).
# Source: learn.microsoft.com, Get-WinEvent; Azure Virtual Desktop, troubleshoot the agent (log Application, source
# WVD-Agent).
[CmdletBinding(SupportsShouldProcess)]
param (
    [Parameter(Mandatory)][int]$Minutes
)
$ErrorActionPreference = 'Stop'
$wanted = @{ LogName = 'Application'; ProviderName = 'WVD-Agent'; StartTime = (Get-Date).AddMinutes(-$Minutes) }
# No such event is an error of that cmdlet.
$events = @(Get-WinEvent -FilterHashtable $wanted -MaxEvents 20 -ErrorAction SilentlyContinue)
$Ansible.Result = @($events | ForEach-Object {
        @{ id = $_.Id; message = $_.Message; when = $_.TimeCreated.ToUniversalTime().ToString('o') }
    })
$Ansible.Changed = $false
