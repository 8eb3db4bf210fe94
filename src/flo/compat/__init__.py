"""What published clients of other systems send and expect: pure, like the wire."""
