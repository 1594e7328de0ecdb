"""The command ``trueup``: data to standard output, messages to standard error, a known error in one
sentence.
"""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final

import typer
from trueup_node.errors import BadInput, TrueupError
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from .commands.interface import PROGRESS, examples, put, say, sentence, unwritten
from .commands.usage import usage

EXIT_CODES = (
    "Exit status: 0 success; 1 a failed check, wrong input or a known error, in one sentence; 2"
    " something could not be judged; 64 wrong usage. The help of each command says more."
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
        "read": "Read a tool's log: its figures, its checks, and a verdict.",
        "explain": "Find known faults in any log: causes first, with the next steps.",
        "health": "Judge each node by the limits of its size: pass, warn, fail or no verdict.",
        "case": "Guide a repair: from a node's fault until it takes jobs again, with the cost.",
        "compare": "Compare two runs, days, folders or drivers, and the settings that changed.",
        "history": "Find the run at which a figure changed, its nodes and changed settings.",
        "report": "Write one HTML page, with its plots as PNG and its tables as CSV.",
        "list": "List the records: measured, failed, or not readable.",
        "scaling": "Show speed-up, efficiency, and the count from which more nodes or cores do"
        " not pay.",
        "reference": "Show published results, their errors, and your run beside them.",
        "baseline": "Make limits for `health` from your own healthy nodes.",
        "morning": "Send what changed since the last run, by mail, webhook or a program; install"
        " its timer.",
    },
    "Price": {
        "cost": "Show node-hours and US$ of each run, and US$ per unit of work.",
        "sizes": "Find VM sizes by GPUs, cores, memory and so on, with their price an hour.",
        "prices": "Show prices, fetch newer ones, and compare both.",
    },
    "Plan": {
        "advise": "Recommend a size and a number of nodes for a job, with its time and price.",
        "evidence": "Show and import results that others published.",
        "model": "Estimate a language model's memory, layout, speed and cost from its config.json.",
        "presets": "Show published benchmarks that a run can reproduce, with time and US$.",
        "flops": "Compute the operations of a training step, and convert rates and step times.",
        "checkpoint": "Compute how long a checkpoint to Blob takes, and how often to write one.",
        "topology": "Check, write or show NCCL topology files of Azure's GPU sizes.",
        "dryrun": "List what the hosts of an inventory lack for their work; contacts no host.",
    },
    "Import and export": {
        "import": "Turn logs of tools into records.",
        "export": "Write records in the formats of llm-d, SuperBench, ReFrame or OpenMetrics.",
        "pack": "Put many records into Parquet files, which are read much faster.",
    },
    "Azure": {
        "azure": "Show what a deployment creates and costs, and expired runs on Azure.",
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
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
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
    put(f"trueup {number}\n")
    raise typer.Exit


@app.callback(
    epilog=examples(
        "trueup read nccl.log --size ND96asr_v4     # figures, checks, a verdict",
        "journalctl -k | trueup explain -           # known faults, next steps",
        "trueup import runs/*/ --size auto          # logs become records",
        "trueup health                   # each node against what its size must reach",
        "trueup report                   # one HTML page of everything",
        "trueup cost --region eastus     # what it costs there",
        "trueup scaling                  # how results/ scales",
        "trueup sizes --gpu H100 --gpus 8 --region eastus2 # which, and the price",
        "trueup advise stencil grid=512x512x512 steps=1000  # what to rent for it",
    )
    + "\n\n"
    + EXIT_CODES
)
def _trueup(
    context: typer.Context,
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Read logs, judge nodes, and show what work on Azure HPC and AI machines costs."""
    if context.invoked_subcommand is None:
        from .commands.start import next_commands  # noqa: PLC0415 WHY: no other command needs it

        put(next_commands(Path()))


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


_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


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
    # Closed by the caller (<&-, 2>&-): nothing to read, and nobody to tell.
    sys.stdin = sys.stdin or os.fdopen(os.open(os.devnull, os.O_RDONLY))
    sys.stderr = sys.stderr or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    try:
        if sys.stdout is None:
            raise BadInput("standard output is closed")
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
        if error.filename is None and error.errno not in _FULL:
            raise
        # Of typer's help; of a file the name is known.
        reason = sentence(error) if error.filename else unwritten(error)
        say(f"trueup: error: {reason}")
        sys.exit(1)
    except KeyboardInterrupt:
        # Before or after typer, which ends likewise.
        sys.exit(130)
    finally:
        PROGRESS.end()
