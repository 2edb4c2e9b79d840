"""Joining three streams at once: chains and cycles, by equality and by distance."""
