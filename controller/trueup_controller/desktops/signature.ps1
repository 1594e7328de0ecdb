# Whether Windows trusts the Authenticode signature of a program, and whose it is. Changes nothing.
# Result: status (Valid, NotSigned, HashMismatch, ...) and signer (the subject of its certificate).
# Source: learn.microsoft.com, Get-AuthenticodeSignature.
[CmdletBinding(SupportsShouldProcess)]
param (
    [Parameter(Mandatory)][string]$Path
)
$ErrorActionPreference = 'Stop'
$signature = Get-AuthenticodeSignature -LiteralPath $Path
$Ansible.Result = @{
    status = [string]$signature.Status
    signer = [string]$signature.SignerCertificate.Subject
}
$Ansible.Changed = $false
