"""Access: tokens, made, rotated and revoked."""
