"""Who moves what, and why: one strategy per file, each a frozen configuration."""
