"""The emulated cloud: as much of Azure as trueup calls. No Azure (docs/azure_emulated.md)."""
