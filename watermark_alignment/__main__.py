"""``python -m watermark_alignment``: shows the status of the splits in a split-watermark table, and draws it.

Exit codes: 0 success; 1 the table cannot be read, or the output cannot be written; 2 wrong usage; 3 the table has
nothing to show.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from flip27_stream.errors import AlignmentError, Flip27Error, MissingExtraError, OptionError
from flip27_stream.extras import check_installed
from flip27_stream.options.durations import parse_duration
from flip27_stream.wall_clock import now_ms
from watermark_alignment.monitoring.plotting.plot import plot
from watermark_alignment.monitoring.status import Status, StatusReader
from watermark_alignment.table.recordings import NothingToShowError
from watermark_alignment.table.split_watermark_table import NoTableError, SplitWatermarkTable

try:
    check_installed("rich", "monitoring", "python -m watermark_alignment")
except MissingExtraError as missing:
    sys.exit(str(missing))

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from watermark_alignment.formatting import name
from watermark_alignment.monitoring.status_view import render, render_to_fit, to_json

_WIDTH_OF_FILES = 160
_SILENCE_MS = 24 * 60 * 60 * 1000
_LONGEST_S = 3600
"""The longest time (s) from one look to the next with ``--watch``."""

_FAILED = 1
_CODES = {OptionError: 2, NothingToShowError: 3}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command, and returns its exit code."""
    options = _parser().parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name can have characters that the terminal cannot show.
        sys.stdout.reconfigure(errors="backslashreplace")
    table = SplitWatermarkTable(options.table, dict(options.storage_option))
    show: Callable[[SplitWatermarkTable, argparse.Namespace], None] = options.show
    try:
        show(table, options)
        print(end="", flush=True)
    except Flip27Error as error:
        print(error, file=sys.stderr)
        return next((code for kind, code in _CODES.items() if isinstance(error, kind)), _FAILED)
    except KeyboardInterrupt:
        pass
    except OSError as error:
        # Otherwise Python would fail again when it flushes the output at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # The reader of the pipe has ended, as ``head`` does.
            print(f"The output cannot be written: {error}.", file=sys.stderr)
            return _FAILED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m watermark_alignment",
        description="Shows and draws the status of splits from a split-watermark table.",
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("table", metavar="TABLE", help="path or URI, as in scan.watermark.alignment.table")
    common.add_argument("--group", help="show this group only")
    common.add_argument(
        "--storage-option",
        metavar="KEY=VALUE",
        type=_storage_option,
        action="append",
        default=[],
        help="storage option that is needed to reach the table and is not set in the environment; may be repeated",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    status = commands.add_parser(
        "status", parents=[common], help="the state and the watermark of every split"
    )
    status.add_argument(
        "--json", action="store_true", help="one line of JSON, with the names of Flink's metrics"
    )
    status.add_argument("--all", action="store_true", help="also sources that have been silent for a day")
    status.add_argument(
        "--watch",
        metavar="SECONDS",
        nargs="?",
        type=_seconds,
        const=2.0,
        help="repeat every 2 seconds, or at the given interval",
    )
    status.set_defaults(show=_status)
    picture = commands.add_parser("plot", parents=[common], help="a picture of the watermarks over time")
    picture.add_argument(
        "-o", "--output", metavar="FILE", type=_picture, required=True, help="PNG, SVG or PDF"
    )
    picture.add_argument(
        "--source",
        metavar="SOURCE",
        action="append",
        dest="sources",
        help="draw this source only, by its id or name as status shows them; may be repeated",
    )
    picture.add_argument(
        "--batches",
        metavar="NUMBER",
        type=_count,
        default=1000,
        help="how many of the newest batches of a source to draw (%(default)s)",
    )
    picture.add_argument(
        "--over", choices=["time", "batch"], default="time", help="what the horizontal axis has (%(default)s)"
    )
    picture.add_argument(
        "--max-drift",
        metavar="DURATION",
        help="draw this as the allowed drift, such as '5 minutes', in place of that of the query",
    )
    picture.set_defaults(show=_plot)
    return parser


def _storage_option(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        # The value may be a secret, so it is not shown.
        raise argparse.ArgumentTypeError("expected KEY=VALUE")
    return key, value


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(
            f"expected a number of seconds > 0, at most {_LONGEST_S}, not {text!r}"
        )
    return seconds


def _picture(text: str) -> Path:
    if not Path(text).suffix:
        raise argparse.ArgumentTypeError(
            f"expected a file name that ends with .png, .svg or .pdf, not {text!r}"
        )
    if not Path(text).parent.is_dir():
        raise argparse.ArgumentTypeError(
            f"folder '{Path(text).parent}' does not exist: create it, or name another folder"
        )
    return Path(text)


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a whole number > 0, not {text!r}")
    return int(text)


def _status(table: SplitWatermarkTable, options: argparse.Namespace) -> None:
    reader = StatusReader(table)
    if options.watch is not None:
        _watch(reader, options)
    elif options.json:
        print(to_json(_read(reader, options), now_ms()))
    else:
        _console().print(render(_read(reader, options), now_ms()))


def _console() -> Console:
    """Returns the console. Output that does not go to a terminal may have wide lines, unless ``COLUMNS`` is set."""
    if os.environ.get("COLUMNS") == "0":  # The width is not known. Rich would show nothing.
        del os.environ["COLUMNS"]
    console = Console(highlight=False)
    is_limited = console.is_terminal or os.environ.get("COLUMNS", "").isdigit()
    return console if is_limited else Console(highlight=False, width=_WIDTH_OF_FILES)


def _read(reader: StatusReader, options: argparse.Namespace) -> Status:
    now = now_ms()
    status = reader.read(now)
    # A source whose clock is ahead must not hide the others.
    since = min(now, max((split.recorded_at for split in status.splits), default=0)) - _SILENCE_MS
    shown = status.only(
        lambda split: options.group in (None, split.group) and (options.all or split.recorded_at >= since)
    )
    if not shown.splits:
        whose = f"group {options.group!r}" + (
            "" if options.all else " in its last day; --all shows what is older"
        )
        raise NothingToShowError.of(
            reader.table, whose, {s.member: status.names[s.member] for s in status.splits}
        )
    return shown


def _watch(reader: StatusReader, options: argparse.Namespace) -> None:
    """Shows the status again and again, until the process is interrupted."""
    while options.json:
        try:
            print(to_json(_read(reader, options), now_ms()), flush=True)
        except AlignmentError as error:
            print(_waiting(error), file=sys.stderr, flush=True)
        time.sleep(options.watch)
    console = _console()
    while not console.is_terminal:
        console.print(_look(reader, options))
        time.sleep(options.watch)
    with Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") as screen:
        while True:
            screen.update(_look(reader, options, console), refresh=True)
            time.sleep(options.watch)


def _look(
    reader: StatusReader, options: argparse.Namespace, terminal: Console | None = None
) -> RenderableType:
    """Returns the status to show, or a sentence if the table does not exist yet or cannot be reached."""
    try:
        status, now = _read(reader, options), now_ms()
        return render(status, now) if terminal is None else render_to_fit(status, now, terminal)
    except AlignmentError as error:
        return Text(_waiting(error), style="yellow")


def _waiting(error: AlignmentError) -> str:
    is_early = isinstance(error, NoTableError | NothingToShowError)
    return f"Waiting for the first batch. {error}" if is_early else str(error)


def _plot(table: SplitWatermarkTable, options: argparse.Namespace) -> None:
    if options.max_drift is not None:
        parse_duration(options.max_drift, "--max-drift")
    figure = plot(
        table,
        group=options.group,
        sources=options.sources,
        batches=options.batches,
        over=options.over,
        max_drift=options.max_drift,
    )
    try:
        with warnings.catch_warnings():
            # Matplotlib draws a box for the missing glyph.
            warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
            figure.savefig(options.output, dpi=130)
    except OSError as error:
        why = f"It cannot be written: {error.strerror or error}. Name another file."
        raise OptionError.of("--output", str(options.output), why) from None
    except ValueError as error:
        raise OptionError.of("--output", str(options.output), f"{error}.") from None
    sources = [name(panel.get_title()) for panel in figure.axes if panel.get_title()]
    print(f"Wrote {options.output}: {', '.join(sources)}.")


if __name__ == "__main__":
    sys.exit(main())
