"""One file a command. What several share: ``options`` declares, ``output`` reads and writes.

Imports of the analysis stand inside the commands: pandas, scipy and matplotlib take over a second,
``trueup --help`` a tenth.
"""
