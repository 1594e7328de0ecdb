# Runs one program alone on this host for at most so many seconds, and beside it, as long as it runs, another one
# that samples; ends all that they started. No two of these run at once (mutex Global\trueup-benchmark, which Windows
# frees when its holder ends, however it ends).
# Result: busy (another benchmark holds the host: nothing ran), returncode, stdout, stderr, seconds, timed_out, beside
# (what the other one printed; null where it could not be started). An output is begin (base64 of its first MostBytes),
# end (base64 of what comes after them: all, or at least the last ShownBytes), size and sha256 of the whole.
# Source: learn.microsoft.com, System.Diagnostics.Process, System.IO.Stream.ReadAsync, System.Threading.Mutex, taskkill.
[CmdletBinding(SupportsShouldProcess)]
param (
    [Parameter(Mandatory)][string]$Program,
    [string]$Arguments = '',
    [Parameter(Mandatory)][int]$TimeoutSeconds,
    [System.Collections.IDictionary]$Variables = @{},
    [string]$BesideProgram = '',
    [string]$BesideArguments = '',
    [Parameter(Mandatory)][int]$MostBytes,
    [Parameter(Mandatory)][int]$ShownBytes,
    [int]$LockSeconds = 5
)
$ErrorActionPreference = 'Stop'

function Start-Reading([System.IO.Stream]$Stream) {
    $buffer = New-Object byte[] 65536
    @{
        Stream = $Stream
        Buffer = $buffer
        Next = $Stream.ReadAsync($buffer, 0, $buffer.Length)
        Size = [long]0
        # Of .NET's, the one that hosts with the FIPS policy have too.
        Hash = New-Object System.Security.Cryptography.SHA256CryptoServiceProvider
        Begin = New-Object System.IO.MemoryStream
        End = New-Object 'System.Collections.Generic.Queue[byte[]]'
        EndSize = 0
    }
}

# Takes the next part of an output, if there is one, and says whether there was.
function Read-Part($Output) {
    if ($null -eq $Output.Next -or -not $Output.Next.IsCompleted) { return $false }
    $count = $(if ($Output.Next.IsFaulted -or $Output.Next.IsCanceled) { 0 } else { $Output.Next.Result })
    if ($count -eq 0) {
        $Output.Next = $null
        return $true
    }
    $Output.Hash.TransformBlock($Output.Buffer, 0, $count, $null, 0) | Out-Null
    $Output.Size += $count
    $fits = [int][Math]::Min([long]$count, $MostBytes - $Output.Begin.Length)
    $Output.Begin.Write($Output.Buffer, 0, $fits)
    if ($fits -lt $count) {
        $rest = New-Object byte[] ($count - $fits)
        [Array]::Copy($Output.Buffer, $fits, $rest, 0, $rest.Length)
        $Output.End.Enqueue($rest)
        $Output.EndSize += $rest.Length
        while ($Output.EndSize - $Output.End.Peek().Length -ge $ShownBytes) {
            $Output.EndSize -= $Output.End.Dequeue().Length
        }
    }
    $Output.Next = $Output.Stream.ReadAsync($Output.Buffer, 0, $Output.Buffer.Length)
    $true
}

# Takes a part of each of these outputs, and says whether any had one.
function Read-Parts($Outputs) { @($Outputs | Where-Object { Read-Part $_ }).Count -gt 0 }

function Start-Tool([string]$File, [string]$Line) {
    $start = New-Object System.Diagnostics.ProcessStartInfo
    $start.FileName = $File
    $start.Arguments = $Line
    $start.UseShellExecute = $false
    $start.CreateNoWindow = $true
    $start.RedirectStandardInput = $true
    $start.RedirectStandardOutput = $true
    $start.RedirectStandardError = $true
    foreach ($name in $Variables.Keys) { $start.EnvironmentVariables[$name] = [string]$Variables[$name] }
    $tool = [System.Diagnostics.Process]::Start($start)
    $tool.StandardInput.Close()
    $out = Start-Reading $tool.StandardOutput.BaseStream
    $err = Start-Reading $tool.StandardError.BaseStream
    @{ Process = $tool; Out = $out; Err = $err; Outputs = @($out, $err) }
}

# Waits for its end, and says whether it came in time. All is read meanwhile: a full pipe would stop who writes to it.
# It sleeps until the program prints or ends, and looks at the sampler four times a second: it must not be measured.
function Wait-Tool($Tool, $Outputs, [long]$Milliseconds) {
    $watch = [System.Diagnostics.Stopwatch]::StartNew()
    while (-not $Tool.Process.HasExited -and $watch.ElapsedMilliseconds -lt $Milliseconds) {
        if (Read-Parts $Outputs) { continue }
        $next = @($Tool.Outputs | ForEach-Object { $_.Next } | Where-Object { $null -ne $_ })
        if ($next.Count) {
            [System.Threading.Tasks.Task]::WaitAny([System.Threading.Tasks.Task[]]$next, 250) | Out-Null
        }
        else { $Tool.Process.WaitForExit(250) | Out-Null }
    }
    $Tool.Process.HasExited
}

function Stop-Tool($Tool) {
    # What taskkill writes of a process that has just ended is no error here.
    $ErrorActionPreference = 'SilentlyContinue'
    if ($null -ne $Tool -and -not $Tool.Process.HasExited) {
        & "$env:SystemRoot\System32\taskkill.exe" /PID $Tool.Process.Id /T /F 2>&1 | Out-Null
        $Tool.Process.WaitForExit(10000) | Out-Null
    }
}

# The rest of what they printed; what a descendant that is still there holds back is not waited for.
function Read-Rest($Outputs) {
    $watch = [System.Diagnostics.Stopwatch]::StartNew()
    while (@($Outputs | Where-Object { $null -ne $_.Next }).Count -and $watch.ElapsedMilliseconds -lt 10000) {
        if (-not (Read-Parts $Outputs)) { Start-Sleep -Milliseconds 20 }
    }
}

function Get-Kept($Output) {
    $Output.Hash.TransformFinalBlock($Output.Buffer, 0, 0) | Out-Null
    $end = New-Object System.IO.MemoryStream
    foreach ($part in $Output.End) { $end.Write($part, 0, $part.Length) }
    @{
        begin = [Convert]::ToBase64String($Output.Begin.ToArray())
        end = [Convert]::ToBase64String($end.ToArray())
        size = $Output.Size
        sha256 = [BitConverter]::ToString($Output.Hash.Hash).Replace('-', '').ToLowerInvariant()
    }
}

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
        $outputs = @($tool.Outputs) + @(if ($null -ne $sampler) { $sampler.Outputs })
        $ended = Wait-Tool $tool $outputs ($TimeoutSeconds * 1000)
        $seconds = $watch.Elapsed.TotalSeconds
    }
    finally {
        Stop-Tool $tool
        Stop-Tool $sampler
    }
    Read-Rest $outputs
    $Ansible.Result = @{
        busy = $false
        returncode = $tool.Process.ExitCode
        stdout = Get-Kept $tool.Out
        stderr = Get-Kept $tool.Err
        seconds = $seconds
        timed_out = -not $ended
        beside = $(if ($null -ne $sampler) { Get-Kept $sampler.Out } else { $null })
    }
}
finally {
    if ($held) { $lock.ReleaseMutex() }
    $lock.Dispose()
}
