"""Services of a site that a module of the node's half talks to."""
