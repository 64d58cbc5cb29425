-- Where do THP settings, memory limits of control groups or budgets prevent it?
--
-- A memory limit is what prevents it if a third of it, less 32 MiB, has no room for the text: `hugetext run`
-- takes no more of a control group.
WITH told AS (
  SELECT thp,
         coalesce(refused,
                  CASE WHEN cause = 'setting' THEN 'setting'
                       WHEN huge < reach_now AND memory_limit / 3 - 33554432 < reach_now THEN 'memory_limit'
                       ELSE 'nothing' END) AS prevented_by,
         machine, starts, reach_now, huge, memory_limit
  FROM files
  WHERE digest IS NULL
),
machines AS (
  SELECT thp,
         prevented_by,
         machine,
         count(*) AS segments,
         sum(starts) AS starts,
         sum(reach_now) AS reachable,
         sum(huge) AS huge,
         min(memory_limit) AS lowest_limit
  FROM told
  GROUP BY thp, prevented_by, machine
)
SELECT thp,
       prevented_by,
       count(*) AS hosts,
       sum(segments) AS segments,
       sum(starts) AS starts,
       sum(reachable) AS reachable,
       sum(huge) AS huge,
       min(lowest_limit) AS lowest_limit
FROM machines
GROUP BY thp, prevented_by
ORDER BY reachable DESC, thp, prevented_by
LIMIT 50
