-- Where do THP settings, memory limits of control groups or budgets prevent it?
WITH machines AS (
  SELECT thp,
         coalesce(refused, CASE WHEN cause = 'setting' THEN 'setting' ELSE 'nothing' END) AS prevented_by,
         machine,
         count(*) AS segments,
         sum(starts) AS starts,
         sum(reach_now) AS reachable,
         sum(huge) AS huge
  FROM files
  WHERE digest IS NULL
  GROUP BY thp, coalesce(refused, CASE WHEN cause = 'setting' THEN 'setting' ELSE 'nothing' END), machine
)
SELECT thp,
       prevented_by,
       count(*) AS hosts,
       sum(segments) AS segments,
       sum(starts) AS starts,
       sum(reachable) AS reachable,
       sum(huge) AS huge
FROM machines
GROUP BY thp, prevented_by
ORDER BY reachable DESC, thp, prevented_by
LIMIT 50
