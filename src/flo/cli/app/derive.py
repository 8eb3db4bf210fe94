"""Commands that follow from the declaration of an operation.

    plain_command(
        "disable", DisableAction, "name",
        text="Disabled action: {name}", also={"enabled": False},
        examples=["flo action disable send-email"],
    )

Arguments, flags, ranges and help are those of the declaration. What is shown is a function of the
reply, or a template: `{name}` is a field of the message, `{reply.version}` one of the reply, and
`{reply.count:run(s)}` says how many runs there are. Where a command does more than connect, call
and show, only its arguments and flags are derived: see `operation_command`. Where the fields of
the reply are all there is to show, the whole command is: see `declared_commands`.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from string import Formatter
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeAlias, TypeVar

import click
import msgspec

from flo.cli.app.command import FloCommand
from flo.cli.app.hints import add_hints
from flo.cli.app.options import Format, GlobalSettings, pass_settings
from flo.cli.app.output import Columns, aligned, count_text, show, show_list, time_text
from flo.cli.app.pages import LIMIT_DEFAULT, Page, collect, page_options
from flo.cli.app.parameters import Given, build, by_flags, names_of, parameters_of
from flo.cli.app.say import say
from flo.model.base import Message, Nothing
from flo.model.declare.operation import DECLARED, Command, Operation, Query, R
from flo.model.errors import FloError, reworded

P = ParamSpec("P")
M = TypeVar("M", bound=Message)
T = TypeVar("T")

Body: TypeAlias = Callable[Concatenate[GlobalSettings, M, P], None]
Asked: TypeAlias = type[Command[R]] | type[Query[R]]
Paths: TypeAlias = Sequence[str] | Mapping[str, str]
"""Fields of the message and, as `reply.version`, of the reply; with the names to show them by."""

FORCE = click.Option(["-f", "--force"], is_flag=True, help="Do not ask, even on a terminal.")
NOTHING_IS_ASKED = click.Option(
    ["-f", "--force"],
    is_flag=True,
    expose_value=False,
    help="Accepted, but nothing is asked anyway.",
)
YES = click.Option(["-y", "--yes"], is_flag=True, help="Do not ask, even on a terminal.")


def operation_command(
    name: str,
    message: type[M],
    *given: Given,
    examples: Sequence[str],
    aliases: Sequence[str] = (),
    help: str | None = None,
) -> Callable[[Body[M, P]], FloCommand]:
    """A command whose function is given the message that the command line means.

    What the command line says beside the fields of the message is given to the function by name.
    The help is the function's docstring unless said otherwise.
    """

    def decorate(body: Body[M, P]) -> FloCommand:
        carry_out: Callable[..., None] = body

        def run(settings: GlobalSettings, /, **values: Any) -> None:
            fields = {one: values.pop(one) for one in message.__struct_fields__ if one in values}
            built: M | None = None
            try:
                built = build(message, fields)
                carry_out(settings, built, **values)
            except FloError as error:
                error.message = reworded(error.message, names)
                if built is not None:
                    add_hints(settings, built, error)
                raise

        params = [one for field in given for one in parameters_of(message, field)]
        names = names_of(params)
        for param in params:
            if isinstance(param, click.Option):
                param.help = by_flags(param.help or "", params)
        return FloCommand(
            name,
            params=params,
            callback=pass_settings(run),
            help=by_flags(help or body.__doc__ or "", params),
            examples=examples,
            aliases=aliases,
        )

    return decorate


def plain_command(
    name: str,
    message: Asked[R],
    *given: Given,
    text: str | Callable[[R], str],
    raw: str | Callable[[R], str | bytes] | None = None,
    json: Paths | Callable[[R], object] | None = None,
    also: Mapping[str, object] | None = None,
    asks: str | None = None,
    warns: Callable[[R], Sequence[str]] = lambda reply: (),
    examples: Sequence[str],
    aliases: Sequence[str] = (),
    help: str | None = None,
    more: str = "",
) -> FloCommand:
    """A command that connects, calls one operation and shows the reply.

    `raw` is the first argument unless said otherwise. `json` is the reply; where that says nothing,
    it is the arguments, and `also` beside them. `asks` is what has to be confirmed, `warns` what is
    said on stderr. `help` is that of the operation, and `more` a paragraph below it.
    """
    help = help or summary_of(message, "Show")
    if asks is not None:
        given = (*given, FORCE)
        help += " On a terminal it asks first."

    @operation_command(
        name, message, *given, examples=examples, aliases=aliases, help=_paragraphs(help, more)
    )
    def call(settings: GlobalSettings, sent: Any, force: bool = False) -> None:
        if asks is not None:
            confirm(asks.format_map(msgspec.structs.asdict(sent)), force)
        reply = settings.call(sent)
        exchange = Exchange(sent, reply)
        show(
            settings.format,
            exchange.value(shown, also or {}),
            text=exchange.text(text),
            raw=exchange.text(first if raw is None else raw),
        )
        for warning in warns(reply):
            say(f"Warning: {warning}", err=True)

    arguments = [one.name for one in call.params if isinstance(one, click.Argument) and one.name]
    first = f"{{{arguments[0]}}}" if arguments else ""
    says_nothing = DECLARED[message].reply is Nothing or also is not None
    shown = arguments if json is None and says_nothing else json
    return call


def list_command(
    name: str,
    message: type[Query[Page[T]]],
    *given: Given,
    columns: Columns[T],
    none: str,
    heading: str | None = None,
    to_value: Callable[[T], Any] = lambda item: item,
    limit: int = LIMIT_DEFAULT,
    examples: Sequence[str],
    aliases: Sequence[str] = ("ls",),
    more: str = "",
) -> FloCommand:
    """A command that shows a list, over as many pages as it takes."""

    @operation_command(
        name,
        message,
        *given,
        *page_options(limit),
        examples=examples,
        aliases=aliases,
        help=_paragraphs(summary_of(message, "List"), more),
    )
    def call(settings: GlobalSettings, query: Any) -> None:
        with settings.connect() as flo:
            items, cursor = collect(flo.call, query, query.limit)
        if heading is not None and settings.format is Format.TEXT:
            say(heading.format_map(msgspec.structs.asdict(query)))
        show_list(settings.format, items, columns, none=none, cursor=cursor, to_value=to_value)

    return call


def declared_commands(group: str) -> Iterator[FloCommand]:
    """The commands of a group that are declared whole: `cli="flo schedule skip nightly"`.

    What must be given is an argument, what may be given a flag; every field of the reply is shown.
    """
    for operation in DECLARED.values():
        match (operation.cli or "").split():
            case ["flo", of_group, name, *_] if of_group == group:
                yield _declared_command(name, operation)


def _declared_command(name: str, operation: Operation) -> FloCommand:
    message: Any = operation.message
    given = [field for field in message.__struct_fields__ if field != "namespace"]
    examples = [operation.cli or ""]
    if operation.reply is Nothing:
        return plain_command(name, message, *given, text="OK", examples=examples)
    return plain_command(name, message, *given, text=fields_text, examples=examples)


def fields_text(reply: Message) -> str:
    """A line for every field of a reply."""
    values = msgspec.structs.asdict(reply)
    return aligned(
        {
            name.removesuffix("_at_ms").removesuffix("_ms").replace("_", " ").capitalize(): (
                time_text(value) or "never" if name.endswith("_at_ms") else value
            )
            for name, value in values.items()
        }
    )


def summary_of(message: type[Message], verb: str) -> str:
    """The first paragraph of an operation's help; of a query, with what is done to its answer."""
    summary = DECLARED[message].help.partition("\n\n")[0]
    if not issubclass(message, Query):
        return summary
    return f"{verb} {summary[0].lower()}{summary[1:]}"


def _paragraphs(*texts: str) -> str:
    return "\n\n".join(" ".join(text.split()) for text in texts if text)


def confirm(question: str, is_forced: bool) -> None:
    """Ask at a terminal, unless it is forced; without a yes, the command ends."""
    if not is_forced and is_at_terminal():
        click.confirm(question, abort=True, err=True)


def is_at_terminal() -> bool:
    return sys.stdin.isatty()


class Templates(Formatter):
    """None is nothing, and `{count:run(s)}` is "1 run" or "2 runs"."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return ""
        noun = format_spec.removesuffix("(s)")
        if noun != format_spec:
            return count_text(value, noun)
        return str(super().format_field(value, format_spec))


TEMPLATES = Templates()


class Exchange(NamedTuple):
    """A message and the reply to it, as templates and paths see them."""

    message: Message
    reply: Message

    def text(self, template: str | Callable[[Any], T]) -> str | T:
        if not isinstance(template, str):
            return template(self.reply)
        fields = msgspec.structs.asdict(self.message)
        return TEMPLATES.format(template, **fields, reply=self.reply).rstrip()

    def value(
        self, json: Paths | Callable[[Any], object] | None, also: Mapping[str, object]
    ) -> object:
        if json is None:
            return self.reply
        if not isinstance(json, Sequence | Mapping):
            return json(self.reply)
        if not isinstance(json, Mapping):
            json = {path.rpartition(".")[2]: path for path in json}
        return {name: self._at(path) for name, path in json.items()} | dict(also)

    def _at(self, path: str) -> object:
        of_reply = path.removeprefix("reply.")
        return getattr(self.message, path) if of_reply == path else getattr(self.reply, of_reply)
