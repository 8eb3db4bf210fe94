"""Losses: what the machine knows of them."""

from flo.engine.feature import Feature, folds_in, rules_in
from flo.engine.losses import rules

FEATURE = Feature(rules=rules_in(rules), folds=folds_in(rules))
