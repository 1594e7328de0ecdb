"""A Windows host's facts: asked over PSRP, parsed here on the controller."""
