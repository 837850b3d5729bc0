"""The command ``clean``: what runs left on an engine, listed and removed."""
