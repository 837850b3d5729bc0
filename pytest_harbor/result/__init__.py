"""What a trial came to: rewards, test reports, results."""
