# Runs one program alone on this host for at most so many seconds, and beside it, as long as it runs, another one
# that samples; ends all that they started. No two of these run at once (mutex Global\trueup-benchmark, which Windows
# frees when its holder ends, however it ends).
# Result: busy (another benchmark holds the host: nothing ran), returncode, stdout, stderr, seconds, timed_out, beside
# (what the other one printed; null where it could not be started).
# Source: learn.microsoft.com, System.Diagnostics.Process, System.Threading.Mutex, taskkill.
[CmdletBinding(SupportsShouldProcess)]
param (
    [Parameter(Mandatory)][string]$Program,
    [string]$Arguments = '',
    [Parameter(Mandatory)][int]$TimeoutSeconds,
    [System.Collections.IDictionary]$Variables = @{},
    [string]$BesideProgram = '',
    [string]$BesideArguments = '',
    [int]$LockSeconds = 5
)
$ErrorActionPreference = 'Stop'

function Start-Tool([string]$File, [string]$Line) {
    $start = New-Object System.Diagnostics.ProcessStartInfo
    $start.FileName = $File
    $start.Arguments = $Line
    $start.UseShellExecute = $false
    $start.CreateNoWindow = $true
    $start.RedirectStandardInput = $true
    $start.RedirectStandardOutput = $true
    $start.RedirectStandardError = $true
    $start.StandardOutputEncoding = [System.Text.Encoding]::UTF8
    $start.StandardErrorEncoding = [System.Text.Encoding]::UTF8
    foreach ($name in $Variables.Keys) { $start.EnvironmentVariables[$name] = [string]$Variables[$name] }
    $tool = [System.Diagnostics.Process]::Start($start)
    $tool.StandardInput.Close()
    # Both are read while it runs: a full pipe would stop it.
    @{ Process = $tool; Out = $tool.StandardOutput.ReadToEndAsync(); Err = $tool.StandardError.ReadToEndAsync() }
}

function Stop-Tool($Tool) {
    # What taskkill writes of a process that has just ended is no error here.
    $ErrorActionPreference = 'SilentlyContinue'
    if ($null -ne $Tool -and -not $Tool.Process.HasExited) {
        & "$env:SystemRoot\System32\taskkill.exe" /PID $Tool.Process.Id /T /F 2>&1 | Out-Null
        $Tool.Process.WaitForExit(10000) | Out-Null
    }
}

# What it printed; what a descendant that is still there holds back is not waited for.
function Read-Tool($Task) { if ($Task.Wait(10000)) { $Task.Result } else { '' } }

$Ansible.Changed = $false
$lock = New-Object System.Threading.Mutex($false, 'Global\trueup-benchmark')
$held = $false
try {
    try { $held = $lock.WaitOne($LockSeconds * 1000) }
    # Its last holder was killed; the mutex is ours.
    catch [System.Threading.AbandonedMutexException] { $held = $true }
    if (-not $held) {
        $Ansible.Result = @{ busy = $true }
        return
    }
    $sampler = $null
    $tool = $null
    try {
        if ($BesideProgram) {
            try { $sampler = Start-Tool $BesideProgram $BesideArguments } catch { $sampler = $null }
        }
        $watch = [System.Diagnostics.Stopwatch]::StartNew()
        $tool = Start-Tool $Program $Arguments
        $ended = $tool.Process.WaitForExit($TimeoutSeconds * 1000)
        $seconds = $watch.Elapsed.TotalSeconds
    }
    finally {
        Stop-Tool $tool
        Stop-Tool $sampler
    }
    $Ansible.Result = @{
        busy = $false
        returncode = $tool.Process.ExitCode
        stdout = Read-Tool $tool.Out
        stderr = Read-Tool $tool.Err
        seconds = $seconds
        timed_out = -not $ended
        beside = $(if ($null -ne $sampler) { Read-Tool $sampler.Out } else { $null })
    }
}
finally {
    if ($held) { $lock.ReleaseMutex() }
    $lock.Dispose()
}
