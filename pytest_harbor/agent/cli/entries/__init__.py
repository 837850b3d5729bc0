"""One module per tool, and the texts of settings that several share."""
