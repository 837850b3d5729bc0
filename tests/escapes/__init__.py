"""Ways out of a trial's network, tried as root against servers that log what reaches them."""
