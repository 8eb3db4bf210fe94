"""Function blocks: registrations, locks, and the ledgers of workflow runs that use blocks."""
