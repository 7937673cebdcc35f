"""What every listener shares: accepting, limits, the budget for unfinished requests, and this process's descriptors."""
