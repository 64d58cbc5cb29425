-- What would an upgrade of every older kernel give, for each kernel that brings something?
--
-- A row for kernel 6018 (6.18) counts the text that needs that kernel or an older one.
WITH needs AS (
  SELECT needs_kernel, machine, sum(layout_now) AS layout_now, sum(layout_fix) AS layout_fix
  FROM files
  WHERE needs_kernel IS NOT NULL
  GROUP BY needs_kernel, machine
)
SELECT wanted.needs_kernel AS upgrade_to,
       count(DISTINCT needs.machine) AS hosts,
       sum(needs.layout_now) AS gained_now,
       sum(needs.layout_fix) AS gained_after_fix
FROM needs
JOIN (SELECT DISTINCT needs_kernel FROM needs) AS wanted
  ON needs.needs_kernel <= wanted.needs_kernel
GROUP BY wanted.needs_kernel
ORDER BY upgrade_to
