"""flo workflow rerun: one run, or by filters all that fit, as a bulk job."""

from typing import Any

import click

from flo.cli.app.command import FloCommand


def or_in_bulk(single: FloCommand) -> FloCommand:
    """The command for one run, which without one does what `flo bulk rerun` does."""
    from flo.cli.bulk.bulk import rerun as in_bulk

    alone = {param.name for param in single.params}
    shared = [param for param in in_bulk.params if param.name not in alone]
    of_one, of_many = single.callback, in_bulk.callback
    assert of_one is not None
    assert of_many is not None
    own = [param.name for param in in_bulk.params if param.expose_value]

    def call(**values: Any) -> Any:
        many = {name: values.pop(name) for name in own if name is not None and name in values}
        if values["run_id"] is not None:
            if any(many.values()):
                raise click.UsageError("name one run, or choose runs by --failed and --since")
            return of_one(**values)
        if not any(many.values()):
            raise click.UsageError("name a run, or choose runs by --failed and --since")
        if any(values[name] is not None for name in ("step", "input", "version")):
            raise click.UsageError("--from, --input and --version are for one run")
        return of_many(**many)

    for param in single.params:
        if param.name == "run_id":
            param.required = False
            param.metavar = "[RUN]"
    single.params += [param for param in shared if not isinstance(param, click.Argument)]
    single.callback = call
    return single
