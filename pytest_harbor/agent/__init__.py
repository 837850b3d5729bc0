"""Who works on a task: the contract of agents, and those that come with the package."""
