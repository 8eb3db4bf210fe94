"""How large a regular expression is once its counted repetitions are written out.

a{100}        100            (a{100}){50}b        5,001
"""

import re
from functools import lru_cache

import jsonschema_rs

SIZE_MAX = 10**9
LOOK_MAX = 100_000
"""Of a larger pattern it is not tried whether it fits a name: it is taken to."""

_TOKEN = re.compile(
    r"(?P<property>\\[pP]\{[^}]*\})|(?P<plain>\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^()|*+?{}\\\[])"
    r"|(?P<open>\()|(?P<close>\))|(?P<bounds>\{(?P<least>[0-9]*),?(?P<most>[0-9]*)\})|(?P<other>.)",
    re.DOTALL,
)
PROPERTY_SIZE = 300
"""What compiling a class such as \\p{L} takes, beside a plain character."""


@lru_cache(maxsize=1_024)
def pattern_size(pattern: str, property_size: int = 1) -> int:
    """The characters and classes that there are to match, each as often as it may be repeated."""
    outer: list[int] = []
    total, last = 0, 0
    for token in _TOKEN.finditer(pattern):
        match token.lastgroup:
            case "open":
                outer.append(total)
                total = last = 0
            case "close":
                last = total
                total += outer.pop() if outer else 0
            case "most" | "least" | "bounds":
                times = max(int(token["least"][:9] or 0), int(token["most"][:9] or 0), 1)
                total = min(total + last * (times - 1), SIZE_MAX)
                last = min(last * times, SIZE_MAX)
            case "property":
                last = property_size
                total += last
            case "plain":
                last = 1
                total += 1
            case _:
                pass
    return total + sum(outer)


@lru_cache(maxsize=4_096)
def may_fit(pattern: str, name: str) -> bool:
    """Whether a name fits a pattern; also true where it would take long to find out."""
    if pattern_size(pattern) * len(name) > LOOK_MAX:
        return True
    return bool(_compiled(pattern).is_valid(name))


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(
        {"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions()
    )
