"""The order of a trial, and what it leaves on disk."""
