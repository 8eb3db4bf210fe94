"""Requests: what the machine knows of those that were carried out."""

from flo.engine.due import REQUESTS
from flo.engine.feature import Feature, folds_in
from flo.engine.requests import rules
from flo.engine.requests.snapshot import SNAPSHOT

FEATURE = Feature(folds=folds_in(rules), due={REQUESTS: rules.forget_due}, snapshot=SNAPSHOT)
