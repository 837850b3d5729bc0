"""Commands for those who begin with a task: a new one, and its file's schema for editors."""
