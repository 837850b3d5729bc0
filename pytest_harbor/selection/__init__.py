"""Best of n: which of several attempts at a task is chosen, by whom, and what it would earn.

No pytest: a finished job can be selected from as a run that ends. Verdicts are read, never
changed.
"""
