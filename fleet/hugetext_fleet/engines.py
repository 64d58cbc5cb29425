"""The engines: each makes the views `inventory` and `files` of a directory of Parquet, and runs SQL."""

# The newest rows of each machine and image, for the leaf that every architecture has.
FILES = """
CREATE OR REPLACE TEMPORARY VIEW files AS
SELECT inventory.*
FROM inventory
JOIN (SELECT machine, digest, max(time) AS time FROM inventory GROUP BY machine, digest) AS newest
  ON inventory.machine = newest.machine AND inventory.time = newest.time
 AND inventory.digest IS NOT DISTINCT FROM newest.digest
WHERE inventory.leaf = 2097152
"""


# Columns that schema 1 did not have at first; rows of older programs lack them. Spark's VARCHAR has a length.
LATER = {"memory_limit": "BIGINT", "verdict": "STRING"}


class Period:
    """Dates from the first to the last, as YYYY-MM-DD; None where it has no bound."""

    def __init__(self, first=None, last=None):
        self.bounds = [("date >= ", first), ("date <= ", last)]

    def rows(self, source, columns):
        """SQL for the rows of `source`, which has `columns`, in this period, with all columns."""
        later = [
            f", CAST(NULL AS {kind}) AS {name}" for name, kind in LATER.items() if name not in columns
        ]
        bounds = [f"{side}'{date}'" for side, date in self.bounds if date]
        where = f" WHERE {' AND '.join(bounds)}" if bounds else ""
        return f"SELECT *{''.join(later)} FROM {source}{where}"


class Answer:
    """Names of columns, and rows of plain values."""

    def __init__(self, columns, rows):
        self.columns = list(columns)
        self.rows = [tuple(plain(value) for value in row) for row in rows]


def plain(value):
    """A number as Python has it: sums of DuckDB and Spark have different types."""
    if value is None or isinstance(value, (str, int)):
        return value
    number = float(value)
    return int(number) if number.is_integer() else round(number, 6)


class DuckDB:
    """The embedded engine."""

    def __init__(self, place, memory=None, period=Period()):
        import duckdb

        self.connection = duckdb.connect()
        # The smaller side of every join stands second in our SQL. DuckDB takes the rows of a filter on nulls for fewer
        # than they are, and would keep the larger side in memory.
        self.connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        if memory:
            self.connection.execute(f"SET memory_limit = '{memory}'")
        if place.startswith("s3://"):
            self.connection.execute("INSTALL httpfs; LOAD httpfs")
            self.connection.execute("CREATE SECRET (TYPE s3, PROVIDER credential_chain)")
        files = f"{place.rstrip('/')}/*/*/*.parquet".replace("'", "''")
        types = "hive_types = {'date': DATE, 'host': VARCHAR}"
        source = f"read_parquet('{files}', hive_partitioning = true, union_by_name = true, {types})"
        columns = [row[0] for row in self.connection.execute(f"DESCRIBE FROM {source}").fetchall()]
        rows = period.rows(source, columns)
        self.connection.execute(f"CREATE TEMPORARY VIEW inventory AS {rows}")
        self.connection.execute(FILES)

    def run(self, query):
        """The answer to a query."""
        found = self.connection.execute(query)
        return Answer([column[0] for column in found.description], found.fetchall())

    def close(self):
        """Gives its memory back."""
        self.connection.close()


class Spark:
    """Spark, with a master as `local[*]`, `local-cluster[2,1,1024]` or `spark://HOST:PORT`."""

    def __init__(self, place, master, period=Period()):
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master).appName("hugetext-fleet")
        self.session = (
            builder.config("spark.sql.session.timeZone", "UTC")
            .config("spark.ui.enabled", "false")
            # A host that is named by digits stays a name.
            .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
            .config("spark.sql.shuffle.partitions", "8")
            .getOrCreate()
        )
        source = self.session.read.option("mergeSchema", "true").parquet(place)
        source.createOrReplaceTempView("source")
        rows = period.rows("source", source.columns)
        self.session.sql(f"CREATE OR REPLACE TEMPORARY VIEW inventory AS {rows}")
        self.session.sql(FILES)

    def run(self, query):
        """The answer to a query."""
        found = self.session.sql(query)
        return Answer(found.columns, [tuple(row) for row in found.collect()])

    def close(self):
        """Ends its workers."""
        self.session.stop()
