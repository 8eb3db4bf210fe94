"""Repeatable benchmarks; every figure stands beside a floor measured in the same run."""
