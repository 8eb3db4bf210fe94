"""flo block, flo job, flo lock, flo remediation."""
