"""Where a trial happens: the contract of environments, and their backends."""
