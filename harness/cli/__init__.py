"""The command `prebench`: one file a verb group; heavy imports inside the verbs."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from harness.cli import measuring as measuring_verbs
from harness.cli import publishing as publishing_verbs
from harness.cli import registering as registering_verbs
from harness.cli import showing as showing_verbs
from harness.cli.output import printable
from prereg.errors import EnvironmentFault, Exit, InputError, InterruptedRunError, PrebenchError

if TYPE_CHECKING:
    from collections.abc import Sequence

DEBUG = "PREBENCH_DEBUG"
"""Set to anything, this variable prints the traceback of an error."""

app = typer.Typer(
    name="prebench",
    help="Preregistered tests of mechanistic-interpretability claims about pairs of transformers: "
    "register a hypothesis file, run it against a model pair, publish a report that a stranger "
    "can check.",
    no_args_is_help=False,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 done, verified or PASS; 1 unexpected fault; 2 bad input; 3 integrity; "
    "4 environment; 10 FAIL; 11 incomplete or not re-judged; 12 INCONCLUSIVE; "
    "13 NOT_DIAGNOSTIC; 14 DEVIATED; 15 UNDECIDABLE; 130 interrupted.",
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from harness.code_version import version as installed

        print(f"prebench {installed()}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


for _group in (registering_verbs, measuring_verbs, publishing_verbs, showing_verbs):
    _group.add_to(app)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and exits with the documented code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(given, prog_name="prebench", standalone_mode=False)
        if code == Exit.INTERRUPTED:  # what the command-line library makes of an interrupt
            raise KeyboardInterrupt
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort) as error:
        _stop(_interrupted(), given, cause=error)
    except BrokenPipeError:
        # whoever read our output has closed it: there is nobody left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(Exit.FAULT)
    except PrebenchError as error:
        _stop(error, given)
    except MemoryError as error:
        _stop(_out_of_memory(), given, cause=error)
    except OSError as error:
        _stop(_environment(error), given, cause=error)
    except Exception as error:  # noqa: BLE001 - the last resort: say so, exit 1, lose nothing
        _stop(_usage(error) or _fault(error), given, cause=error)
    sys.exit(int(code or 0))


def _stop(
    error: PrebenchError, arguments: Sequence[str], *, cause: BaseException | None = None
) -> NoReturn:
    if os.environ.get(DEBUG):
        traceback.print_exception(cause or error)
    if "--json" in arguments:
        print(json.dumps({"error": error.as_dict()}, ensure_ascii=False))
    print(f"prebench: {printable(str(error))}", file=sys.stderr)
    sys.exit(error.exit_code)


def _interrupted() -> PrebenchError:
    return InterruptedRunError(
        "interrupted",
        expected="time to finish",
        fix="repeat the command: a run takes over the stages that were finished",
        code="run.interrupted",
    )


def _usage(error: Exception) -> PrebenchError | None:
    """The command-line library's complaint about the words of a call, as one of ours."""
    complaint = getattr(error, "format_message", None)
    if complaint is None:
        return None
    context = getattr(error, "ctx", None)
    verb = context.command_path if context is not None else "prebench"
    return InputError(
        complaint() or "no verb",
        expected="a call as the help shows it",
        fix=f"{verb} --help",
        code="usage",
    )


def _out_of_memory() -> PrebenchError:
    return EnvironmentFault(
        "the machine ran out of memory",
        expected="room for the models and one batch",
        fix="close other programs, or use a machine with more memory",
        code="environment.memory",
    )


def _environment(error: OSError) -> PrebenchError:
    from pathlib import Path

    from prereg.files import fault

    return fault(error, Path(str(error.filename or ".")))


def _fault(error: Exception) -> PrebenchError:
    return PrebenchError(
        f"an unexpected {type(error).__name__}: {error}",
        expected="no such thing: this is a fault of prebench",
        fix=f"run again with {DEBUG}=1 and report the traceback",
        code="fault.unexpected",
    )
