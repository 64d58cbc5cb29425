-- What reaches less than at the first time of the machine or image: another layout, kernel or filesystem?
SELECT *
FROM (SELECT host,
             machine,
             coalesce(image, digest, '') AS image,
             file,
             min_by(build_id, time) AS build_id_before,
             max_by(build_id, time) AS build_id_after,
             min_by(reach_now, time) AS reached_before,
             max_by(reach_now, time) AS reached_after
      FROM inventory
      WHERE leaf = 2097152
      GROUP BY host, machine, coalesce(image, digest, ''), file, segment) AS ends
WHERE reached_after < reached_before
ORDER BY reached_before - reached_after DESC, host, machine, image, file
LIMIT 50
