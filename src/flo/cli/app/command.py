"""Commands and groups of them: with examples, global flags, aliases and the nearest name."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

import click

from flo.cli.app.options import RAW_FLAG, RAW_KEY, GlobalOption, global_options
from flo.model.errors import FloError

_RANGES = (
    (re.compile(r"(\d+)<=x<=(\d+)"), r"\1 to \2"),
    (re.compile(r"x>=(\d+)"), r"\1 or more"),
    (re.compile(r"x>(\d+)"), r"more than \1"),
)


class LazyCommand(NamedTuple):
    """A command that is imported when it is used."""

    target: str
    """module:name"""
    summary: str
    aliases: tuple[str, ...] = ()


class FloCommand(click.Command):
    """A command. `examples` are whole command lines, and tests run them."""

    def __init__(
        self,
        *args: Any,
        examples: Sequence[str] = (),
        aliases: Sequence[str] = (),
        takes_global_flags: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.aliases = aliases
        if takes_global_flags:
            self.params += global_options(self.params)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[RAW_KEY] = RAW_FLAG in args  # known before any payload is read, wherever it stands
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_options(self, ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self.examples, formatter)


class CommandGroup(click.Group):
    """A group of commands, in the order in which they are declared."""

    command_class = FloCommand

    def __init__(
        self,
        *args: Any,
        lazy: Mapping[str, LazyCommand] | None = None,
        examples: Sequence[str] = (),
        aliases: Sequence[str] = (),
        notes: Mapping[str, Mapping[str, str]] | None = None,
        hints: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("no_args_is_help", False)
        super().__init__(*args, **kwargs)
        self.lazy = lazy or {}
        self.examples = examples
        self.aliases = aliases
        self.notes = notes or {}
        self.hints = hints or {}
        self.params += global_options(self.params)

    def add(self, *commands: click.Command) -> None:
        for command in commands:
            self.add_command(command)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            args = ["--help"]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an error gets the hint that helps here, in place of the general one."""
        try:
            return super().invoke(ctx)
        except FloError as error:
            hint = self.hints.get(error.code)
            if hint is not None and not getattr(error, "__notes__", None):
                error.add_note(hint)
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(dict.fromkeys([*self.lazy, *self.commands]))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for name, command in self.commands.items():
            if cmd_name == name or cmd_name in _aliases(command):
                return command
        for name, lazy in self.lazy.items():
            if cmd_name == name or cmd_name in lazy.aliases:
                self.commands[name] = loaded = self.load(name, lazy)
                return loaded
        return None

    def load(self, name: str, lazy: LazyCommand) -> click.Command:
        module, _, attribute = lazy.target.partition(":")
        loaded: click.Command = getattr(import_module(module), attribute)
        return loaded

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            near = get_close_matches(name, self.list_commands(ctx), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"there is no command {name!r}{hint}")
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(self._table_of_commands())
        _write_options(self, ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        _write_examples(self.examples, formatter)
        for title, meanings in self.notes.items():
            with formatter.section(title):
                formatter.write_dl(meanings.items())

    def _table_of_commands(self) -> list[tuple[str, str]]:
        """Names and summaries, without importing what is not needed yet."""
        summaries = {}
        for name, lazy in self.lazy.items():
            summaries[", ".join([name, *lazy.aliases])] = lazy.summary
        for name, command in self.commands.items():
            if name not in self.lazy:
                names = ", ".join([name, *_aliases(command)])
                summaries[names] = command.get_short_help_str(limit=80)
        return list(summaries.items())


def _aliases(command: click.Command) -> Sequence[str]:
    return command.aliases if isinstance(command, FloCommand | CommandGroup) else ()


def _write_options(
    command: click.Command, ctx: click.Context, formatter: click.HelpFormatter
) -> None:
    sections: dict[str, list[tuple[str, str]]] = {"Options": [], "Global options": []}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None and not isinstance(param, click.Argument):
            title = "Global options" if isinstance(param, GlobalOption) else "Options"
            names, help = record
            sections[title].append((names, _ranges_in_words(help)))
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def _ranges_in_words(help: str) -> str:
    """What click writes as 0<=x<=9, as it stands in derived help."""
    for pattern, words in _RANGES:
        help = pattern.sub(words, help)
    return help


def _write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    with formatter.section("Examples"):
        for example in examples:
            formatter.write(f"{'':{formatter.current_indent}}{example}\n")
