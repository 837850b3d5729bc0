"""Who grades: the contract of verifiers, and the one that every task brings."""
