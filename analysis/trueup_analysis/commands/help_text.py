"""The help of the commands beyond their options."""

from __future__ import annotations

import typer


def examples(*lines: str) -> str:
    """Commands to copy whole, also those with a comment; they fit into 80 columns."""
    return "[bold]Examples[/bold]\n\n" + "\n\n".join(lines)


def group(name: str, about: str, *lines: str) -> typer.Typer:
    """A command that has several of its own, with examples of them."""
    return typer.Typer(
        name=name,
        help=about,
        epilog=examples(*lines),
        no_args_is_help=True,
        rich_markup_mode="rich",
    )
