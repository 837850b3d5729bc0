"""Reports of a job, made from its folder alone: numbers, comparison, a page, tables.

Reads what trials left behind, also those of a job that still runs, was cut off, or was run
by Harbor itself. Nothing in the folder is trusted.
"""
