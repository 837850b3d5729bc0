"""An agent of this package's own: a model at the keyboard of a terminal in the environment."""
