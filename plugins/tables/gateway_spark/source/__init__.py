"""Reading the broker's log from Spark: the reading side of the data source `tidegate`."""
