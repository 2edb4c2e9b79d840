"""Rows are stored once, in their workset; new rows are dealt out and look into all in reach."""
