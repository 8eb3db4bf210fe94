"""flo dlq ...: the dead letters of all actions and of all consumer groups."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from flo.cli.app.command import CommandGroup
from flo.cli.app.derive import confirm
from flo.cli.app.options import GlobalSettings, pass_settings
from flo.cli.app.output import Columns, count_text, show, show_list, time_text
from flo.cli.workflow.options import read_since

if TYPE_CHECKING:
    from flo.client.blocking import BlockingFlo

ERROR_SHOWN_MAX = 60
AT_ONCE = 100
"""So many dead letters are named in one call."""


class DeadLetter(NamedTuple):
    """A run or a record that has failed for good."""

    kind: str
    owner: str
    """The action, or the stream and its group."""
    id: str
    died_at_ms: int
    attempts: int
    error_code: str | None = None
    error: str | None = None


COLUMNS: Columns[DeadLetter] = {
    "ID": lambda dead: dead.id,
    "OF": lambda dead: f"{dead.kind} {dead.owner}",
    "DIED": lambda dead: time_text(dead.died_at_ms),
    "ATTEMPTS": lambda dead: dead.attempts,
    "CODE": lambda dead: dead.error_code,
    "ERROR": lambda dead: (dead.error or "")[:ERROR_SHOWN_MAX],
}


class _Filter(NamedTuple):
    action: str | None
    stream: str | None
    since_ms: int
    code: str | None

    def fits(self, dead: DeadLetter) -> bool:
        return dead.died_at_ms >= self.since_ms and self.code in (None, dead.error_code)


def _filters(command: Any) -> Any:
    for option in (
        click.option("--code", metavar="CODE", help="Only those with this error code."),
        click.option(
            "--since", metavar="TIME", help="Only those that died since then, or 12h ago."
        ),
        click.option("--stream", metavar="NAME", help="Only those of groups of this stream."),
        click.option("-a", "--action", metavar="NAME", help="Only those of this action."),
    ):
        command = option(command)
    return command


@click.group(
    "dlq",
    cls=CommandGroup,
    examples=["flo dlq list", "flo dlq requeue --all --action send-email", "flo dlq purge --all"],
)
def dlq() -> None:
    """See dead letters of all actions and groups, try them again, or forget them."""


@dlq.command("list", examples=["flo dlq list", "flo dlq list --since 1d --code timeout"])
@_filters
@pass_settings
def list_dead(settings: GlobalSettings, /, **filters: Any) -> None:
    """Show the dead letters of all actions and of all consumer groups."""
    with settings.connect() as flo:
        found = _found(flo, _filter(**filters))
    show_list(
        settings.format,
        found,
        COLUMNS,
        none="no dead letters",
        cursor=None,
        to_value=lambda dead: dead._asdict(),
    )


@dlq.command(
    "requeue",
    examples=[
        "flo dlq requeue charge-payment-1",
        "flo dlq requeue --all --since 1d --code timeout",
    ],
)
@click.argument("ids", nargs=-1, metavar="[RUN]...")
@click.option("--all", "everything", is_flag=True, help="All that the filters leave.")
@_filters
@pass_settings
def requeue(
    settings: GlobalSettings, /, ids: Sequence[str], everything: bool, **filters: Any
) -> None:
    """Try dead letters again, with all their retries: the runs named, or all that fit."""
    _change(settings, "Requeued", ids, everything, _filter(**filters), is_purge=False)


@dlq.command(
    "purge", examples=["flo dlq purge charge-payment-1", "flo dlq purge --all --since 1d --yes"]
)
@click.argument("ids", nargs=-1, metavar="[RUN]...")
@click.option("--all", "everything", is_flag=True, help="All that the filters leave.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask, even on a terminal.")
@_filters
@pass_settings
def purge(
    settings: GlobalSettings, /, ids: Sequence[str], everything: bool, yes: bool, **filters: Any
) -> None:
    """Forget dead letters: the runs named, or all that fit. On a terminal it asks first."""
    what = ", ".join(ids) or "all these dead letters"
    confirm(f"Forget {what} for good?", yes)
    _change(settings, "Purged", ids, everything, _filter(**filters), is_purge=True)


def _filter(action: str | None, stream: str | None, since: str | None, code: str | None) -> _Filter:
    since_ms = read_since(since, "--since") if since is not None else 0
    return _Filter(action, stream, since_ms, code)


def _change(
    settings: GlobalSettings,
    word: str,
    ids: Sequence[str],
    everything: bool,
    filter: _Filter,
    *,
    is_purge: bool,
) -> None:
    if everything == bool(ids):
        raise click.UsageError("name the runs, or say --all")
    done: list[str] = []
    with settings.connect() as flo:
        chosen = [_named(run_id) for run_id in ids] or _found(flo, filter)
        for (kind, owner), letters in groupby(chosen, key=lambda dead: (dead.kind, dead.owner)):
            named = [dead.id for dead in letters]
            for start in range(0, len(named), AT_ONCE):
                done += _changed(flo, kind, owner, named[start : start + AT_ONCE], is_purge)
    text = f"{word} {count_text(len(done), 'dead letter')}" if done else "(no dead letters)"
    show(settings.format, {"ids": done}, text=text, raw="\n".join(done))


def _changed(
    flo: "BlockingFlo", kind: str, owner: str, ids: list[str], is_purge: bool
) -> list[str]:
    if kind == "action":
        return flo.actions.purge(owner, ids) if is_purge else flo.actions.requeue(owner, ids)
    stream, _, name = owner.partition("/")
    group = flo.streams.group(stream, name)
    return group.purge(ids) if is_purge else group.requeue(ids)


def _named(run_id: str) -> DeadLetter:
    """A run is called after its action."""
    return DeadLetter("action", run_id.rpartition("-")[0], run_id, 0, 0)


def _found(flo: "BlockingFlo", filter: _Filter) -> list[DeadLetter]:
    found: list[DeadLetter] = []
    if filter.stream is None:
        found += (dead for dead in _dead_runs(flo, filter.action) if filter.fits(dead))
    if filter.action is None:
        found += (dead for dead in _dead_records(flo, filter.stream) if filter.fits(dead))
    return found


def _dead_runs(flo: "BlockingFlo", only: str | None) -> Iterator[DeadLetter]:
    from flo.cli.views.runs import items
    from flo.model.actions import ListActions
    from flo.model.runs import ListDeadRuns

    names = [only] if only is not None else [one.name for one in items(flo, ListActions())]
    for name in names:
        for run in items(flo, ListDeadRuns(action=name)):
            yield DeadLetter(
                "action",
                name,
                run.run_id,
                run.finished_at_ms or 0,
                run.attempt,
                run.error_code,
                run.error,
            )


def _dead_records(flo: "BlockingFlo", only: str | None) -> Iterator[DeadLetter]:
    from flo.cli.views.runs import items
    from flo.model.groups import ListDeadRecords, ListGroups
    from flo.model.streams import ListStreams

    names = [only] if only is not None else [one.name for one in items(flo, ListStreams())]
    for name in names:
        for group in items(flo, ListGroups(stream=name)):
            if not group.dead:
                continue
            for dead in items(flo, ListDeadRecords(stream=name, group=group.name)):
                yield DeadLetter(
                    "group",
                    f"{name}/{group.name}",
                    str(dead.record.stream_id),
                    dead.died_at_ms,
                    dead.deliveries,
                )
