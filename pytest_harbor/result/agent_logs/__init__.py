"""What agents leave behind about their work → trajectories.

Each reader takes bytes and gives a :class:`pytest_harbor.result.trajectory.Trajectory`. The
bytes come from a container: what is broken in them, as a last line that was cut off, is passed
over, and only where nothing is left does a reader raise ``TrajectoryFormatError``.
"""
