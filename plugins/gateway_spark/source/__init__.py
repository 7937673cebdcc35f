"""Reading the broker's log from Spark: what the data source `tidegate` does for a query that reads."""
