"""A task's folder on disk, read and checked; no container and no pytest in sight."""
