"""Questions about the text of many machines, in SQL, on DuckDB or Spark."""
