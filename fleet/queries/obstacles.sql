-- Which kernels and filesystems hold text back that layouts would allow?
SELECT kernel_number,
       filesystem,
       cause,
       count(DISTINCT machine) AS hosts,
       sum(text) AS text,
       sum(layout_now - reach_now) AS lost_now,
       sum(layout_fix - reach_fix) AS lost_after_fix
FROM files
WHERE layout_fix > reach_fix
GROUP BY kernel_number, filesystem, cause
ORDER BY lost_after_fix DESC, kernel_number, filesystem, cause NULLS LAST
LIMIT 50
