"""How an explanation is shown: each cause with its times, then what would help."""

from flo.cli.app.output import lines, time_text
from flo.core.printable import printable
from flo.model.explain import Cause
from flo.model.runs import RunExplanation
from flo.model.workflows import Explanation


def explanation_text(explanation: RunExplanation | Explanation) -> str:
    text_lines = [f"{explanation.run_id} is {explanation.status}. {explanation.summary}"]
    for cause in explanation.causes:
        text_lines.append(f"  - {cause.text} [{cause.code}]")
        if times := _times(cause):
            text_lines.append(f"    {times}")
    if next_at := time_text(explanation.next_at_ms):
        text_lines.append(lines({"Next": next_at}))
    text_lines += [f"Try: {command}" for command in explanation.advice]
    return printable("\n".join(text_lines))


def _times(cause: Cause) -> str:
    since, until = time_text(cause.since_at_ms), time_text(cause.next_at_ms)
    place = "" if cause.since_position is None else f" (position {cause.since_position})"
    by = f" by {cause.by}" if cause.by else ""
    told = (since and f"since {since}{place}{by}", until and f"until {until}")
    return ", ".join(one for one in told if one)
