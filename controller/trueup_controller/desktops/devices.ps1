# NVIDIA's devices on PCI as Windows' device manager has them, and when this host booted. Changes nothing.
# Result: devices (a list of device, name, error_code, driver_version), booted and now (UTC, as 2026-11-23T18:00:00).
# A device without a driver has error_code 28 and no driver_version; a healthy one has 0.
# Source: learn.microsoft.com, classes Win32_PnPEntity, Win32_VideoController and Win32_OperatingSystem.
[CmdletBinding(SupportsShouldProcess)]
param ()
$ErrorActionPreference = 'Stop'
$drivers = @{}
Get-CimInstance -ClassName Win32_VideoController | ForEach-Object { $drivers[$_.PNPDeviceID] = $_.DriverVersion }
$devices = Get-CimInstance -ClassName Win32_PnPEntity | Where-Object { $_.DeviceID -like 'PCI\VEN_10DE*' }
$system = Get-CimInstance -ClassName Win32_OperatingSystem
$Ansible.Result = @{
    devices = @($devices | ForEach-Object {
        @{
            device = $_.DeviceID
            name = $_.Name
            error_code = $_.ConfigManagerErrorCode
            driver_version = $drivers[$_.DeviceID]
        }
    })
    booted = $system.LastBootUpTime.ToUniversalTime().ToString('s')
    now = [DateTime]::UtcNow.ToString('s')
}
$Ansible.Changed = $false
