"""Datasets by name: from a registry, a git repository, a Hub or a folder, into one cache.

No pytest here. A name becomes a :mod:`spec`, a spec a list of pinned tasks
(:mod:`resolve`), and those become folders in the cache (:mod:`fetch`).
"""
