"""What Python programs use of Tidegate: `tidegate.spark`, for PySpark. The gateway itself is the command `tidegate`."""
