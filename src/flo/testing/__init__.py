"""What our tests and our users' tests import."""
