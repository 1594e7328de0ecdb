"""What a Windows host is and has: asked over PSRP, understood here on the controller."""
