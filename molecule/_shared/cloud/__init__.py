"""The emulated cloud: as much of Azure as trueup calls. No Azure (docs/dev/stand_ins.md)."""
