"""The command ``trueup``: data to standard output, messages to standard error, a known error in one
sentence.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final

import typer
from trueup_node.errors import TrueupError
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from .commands.messages import PROGRESS, print_, say, sentence
from .commands.options import examples
from .commands.usage import usage

EXIT_CODES = (
    "Exit status: 0 fine; 1 bad input or a known error, said in one sentence; 2 `trueup health`"
    " or `explain` could not judge everything; 64 wrong usage."
)
# The class is typer's own copy of click's, of which it exports the children only. Its status is
# EX_USAGE of sysexits.h: 2, which typer would give, is a verdict of health.
_WRONG_USAGE: Final[type[Exception]] = next(
    kind
    for kind in typer.BadParameter.__mro__
    if issubclass(kind, Exception) and kind.__name__ == "UsageError"
)

# Groups of commands in the order of the help, with their summaries. Only the file of the requested
# command is imported from commands/.
GROUPS: Final = {
    "Judge": {
        "read": "Figures, checks and warnings in a tool's own output.",
        "explain": "The known faults in any log, causes first, and the next steps.",
        "health": "What healthy nodes reach, node by node: pass, warn, fail or no verdict.",
        "case": "Repair cases: a node from its fault to taking jobs again, and what that costs.",
        "compare": "What changed between two runs, days, folders or drivers, and what with it.",
        "history": "At which run each figure changed, on which nodes, and what changed with it.",
        "report": "One self-contained HTML page, with its plots as PNG and its tables as CSV.",
        "list": "What was measured, what failed and what could not be read.",
        "scaling": "Speed-up, efficiency, serial fraction, fits, and where adding cores or nodes"
        " stops paying.",
        "reference": "Published tables, what is wrong with them, and this run beside.",
        "baseline": "Limits from your own healthy nodes, for health.",
        "morning": "What changed since the run before, sent by webhook, mail or a program; its"
        " timer.",
    },
    "Price": {
        "cost": "Node-hours and US$ of each run, and US$ by unit of work.",
        "sizes": "VM sizes that have what is needed, and the price of an hour in a region, or the"
        " lowest of\nall regions.",
        "prices": "Prices: show them, fetch newer ones, compare both.",
    },
    "Plan": {
        "advise": "Which size and how many for a piece of work, how long, and what it costs.",
        "evidence": "Results that others published, how old they are, and their import.",
        "model": "A language model's memory, layout, speed and cost, from its config.json.",
        "presets": "Published pieces of work that a run can reproduce, with time and US$.",
        "flops": "What a training step computes, and what a TFLOP/s or a step time means.",
        "checkpoint": "How long a checkpoint to Blob takes, and how often to write one.",
        "topology": "NCCL topology files of Azure's GPU sizes: check, write, show.",
        "dryrun": "What hosts of an inventory lack for their work; no host is contacted.",
    },
    "Import and export": {
        "import": "Turn logs of other runs into records.",
        "export": "Records in the formats of llm-d, SuperBench, ReFrame and OpenMetrics.",
        "pack": "Put many records into Parquet files, which are read much faster.",
    },
    "Azure": {
        "azure": "What a deployment makes and costs, and what runs left there.",
    },
}
COMMANDS: Final = {name: text for group in GROUPS.values() for name, text in group.items()}
# No module of Python can be called as these.
_FILES: Final = {"list": "listing", "import": "importing"}

# Parts of rich that typer's help imports for Markdown and for tracebacks. trueup uses neither: they
# took 40 % of the time of `trueup --help`.
_NOT_IN_HELP: Final = {"rich.markdown": "Markdown", "rich.traceback": "Traceback"}

# Options that had another name, which still works and is not in the help.
FORMERLY = {"--as-size": "--size", "--tool": "--benchmark"}


class Group(TyperGroup):
    """The commands; they take their options under earlier names too."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for group, commands in GROUPS.items():
            for name, about in commands.items():
                self.commands[name] = TyperCommand(name, short_help=about, rich_help_panel=group)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, subcommand, rest = super().resolve_command(ctx, args)
        return name, subcommand and command(str(subcommand.name)), rest

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for before, argument in pairwise(["", *args]):
            name = before if not argument else argument.removesuffix("=")
            if not argument or (argument.startswith("--") and argument.endswith("=")):
                raise typer.BadParameter(f"what follows {name} is empty: give a value or remove it")
        return super().parse_args(ctx, _sized(list(map(_renamed, args))))


def _renamed(argument: str) -> str:
    name, equals, value = argument.partition("=")
    return f"{FORMERLY.get(name, name)}{equals}{value}"


def _sized(args: list[str]) -> list[str]:
    """The arguments with VM sizes as Azure writes them: Standard_ND96asr_v4 for nd96asr_v4."""
    if not any(argument.startswith("--size") for argument in args):
        return args
    from .catalog import spelled_size  # noqa: PLC0415 WHY: it reads a file, and only --size needs it

    sized = []
    for before, argument in pairwise(["", *args]):
        name, equals, value = argument.partition("=")
        if before == "--size":
            sized.append(spelled_size(argument))
        elif name == "--size" and equals:
            sized.append(f"{name}={spelled_size(value)}")
        else:
            sized.append(argument)
    return sized


app = typer.Typer(
    name="trueup",
    cls=Group,
    invoke_without_command=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def command(name: str) -> Any:
    """A command, or a group of them, as typer runs it."""
    group = get_group(import_module(f".commands.{_FILES.get(name, name)}", __package__).app)
    return group.commands.get(name, group)


def _say_version(is_requested: bool) -> None:
    if not is_requested:
        return
    # 20 ms that no other command needs.
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        number = version("trueup")
    except PackageNotFoundError:
        number = "of a checkout that is not installed"
    print_(f"trueup {number}\n")
    raise typer.Exit


@app.callback(
    epilog=examples(
        "trueup scaling                  # how results/ scales",
        "trueup cost --region eastus     # what it costs there",
        "trueup scaling results/20261120T091300Z-7c1e --format markdown",
        "trueup reference                # published tables, yours beside them",
        "trueup report                   # one HTML page of everything",
        "trueup advise stencil grid=512x512x512 steps=1000  # what to rent for it",
        "trueup health                   # each node against what its size must reach",
        "trueup topology show --size Standard_ND96asr_v4   # GPUs, NICs, masks",
        "journalctl -k | trueup explain -                 # known faults, next steps",
        "trueup sizes --gpu H100 --gpus 8 --region eastus2 # which, and the price",
    )
    + "\n\n"
    + EXIT_CODES
)
def _trueup(
    context: typer.Context,
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Say the version."),
    ] = False,
) -> None:
    """Turn trueup's records into scaling, cost and reference tables and one report."""
    if context.invoked_subcommand is None:
        from .commands.start import next_commands  # noqa: PLC0415 WHY: no other command needs it

        print_(next_commands(Path()))


def _import_help() -> None:
    """Import typer's help without the parts that this program never shows. If that fails, typer
    imports the rest of itself later."""
    stand_ins = {name: ModuleType(name) for name in _NOT_IN_HELP if name not in sys.modules}
    for name, module in stand_ins.items():
        setattr(module, _NOT_IN_HELP[name], type(_NOT_IN_HELP[name], (), {}))
    sys.modules.update(stand_ins)
    try:
        with suppress(ImportError):
            import_module("typer.rich_utils")
    finally:
        for name in stand_ins:
            del sys.modules[name]


# Packages that a plain `pip install trueup` leaves out, and the extra that has them.
_EXTRAS: Final = {
    "jinja2": "report",
    "matplotlib": "report",
    "ansible": "all",
    "azure": "azure",
    "jmespath": "azure",
    "jsonschema": "azure",
}


def _known(error: TrueupError | ModuleNotFoundError | MemoryError) -> str:
    """The message on an error.

    Raises:
        ModuleNotFoundError: of a package that no extra has.
    """
    if isinstance(error, MemoryError):
        return "not enough memory for these records; give fewer of them"
    if isinstance(error, TrueupError):
        return str(error)
    package = (error.name or "").partition(".")[0]
    if package not in _EXTRAS:
        raise error
    return (
        f"{package} is not installed, which this command needs:"
        f" pip install 'trueup[{_EXTRAS[package]}]'"
    )


def _status() -> int | None:
    """Run the command; its exit status, None for 0."""
    try:
        status: int | None = app(prog_name="trueup", standalone_mode=False)
    except _WRONG_USAGE as error:
        # A group without a command has printed its help.
        if message := usage(error):
            say(f"trueup: error: {message}")
        return 64
    return status


def main() -> None:
    """Entry point of the command."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets a question mark instead of a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        if sys.stdout is None or sys.stderr is None:
            # Closed by the caller (>&-): output has nowhere to go.
            sys.exit(1)
        PROGRESS.begin()
        if {"-h", "--help"} & {*sys.argv}:
            _import_help()
        sys.exit(_status())
    except (TrueupError, ModuleNotFoundError, MemoryError) as error:
        say(f"trueup: error: {_known(error)}")
        sys.exit(1)
    except OSError as error:
        # A look at a path that fails for more than that nothing is there: too long a name, a folder
        # that may not be searched, a server that is gone.
        if error.filename is None:
            raise
        say(f"trueup: error: {sentence(error)}")
        sys.exit(1)
    except KeyboardInterrupt:
        # Before or after typer, which ends likewise.
        sys.exit(130)
    finally:
        PROGRESS.end()
