"""What may have touched a reward: found from outside, explained, and undone where that helps."""
