"""The colours, and the room that texts have in every plot."""

from __future__ import annotations

from typing import Final

# name: (light, dark). Text colours reach a contrast of 4.5 against both backgrounds, lines 3.0
# (WCAG 2.2, 1.4.3 and 1.4.11). From "accent" on they are told apart without red, green or blue
# cones too: 0.05 in OKLab at least, under the simulation of Machado and others (2009).
PALETTE: Final[dict[str, tuple[str, str]]] = {
    "ink": ("#1b232d", "#e7ebf0"),
    "muted": ("#566270", "#a5b0bc"),
    "rule": ("#d9dfe6", "#323b46"),
    "paper": ("#fdfdfe", "#14181d"),
    "accent": ("#0a5fb4", "#6db3f8"),
    "second": ("#a8480a", "#f0a35c"),
    "third": ("#1d6b41", "#7be0a6"),
    "fourth": ("#d8589b", "#e7436d"),
    "fifth": ("#a57710", "#f0dc4e"),
    "sixth": ("#2f95b5", "#328bb0"),
    "seventh": ("#5a1f7a", "#a35be0"),
    "eighth": ("#721b3c", "#f2b8d8"),
}
LIGHT: Final = {name: pair[0] for name, pair in PALETTE.items()}
LINE_COLOURS: Final = [*PALETTE][[*PALETTE].index("accent") :]
# Longest labels, in characters: of a legend of one column, of one of two columns, and of rows of
# dots, which keep two thirds of the width.
LEGEND_LABEL, LEGEND_PAIR, ROW_LABEL = 60, 52, 32
