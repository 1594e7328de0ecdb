"""Services of a site: CycleCloud, Open OnDemand, EESSI, enroot with pyxis."""
