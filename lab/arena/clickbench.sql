SELECT count(*) FROM hits
SELECT count(*) FROM hits WHERE advengineid <> 0
SELECT sum(advengineid), count(*), avg(resolutionwidth) FROM hits
SELECT avg(userid) FROM hits
SELECT count(DISTINCT userid) FROM hits
SELECT count(DISTINCT searchphrase) FROM hits
SELECT min(eventdate), max(eventdate) FROM hits
SELECT advengineid, count(*) FROM hits WHERE advengineid <> 0 GROUP BY advengineid ORDER BY count(*) DESC
SELECT regionid, count(DISTINCT userid) AS u FROM hits GROUP BY regionid ORDER BY u DESC LIMIT 10
SELECT regionid, sum(advengineid), count(*) AS c, avg(resolutionwidth), count(DISTINCT userid) FROM hits GROUP BY regionid ORDER BY c DESC LIMIT 10
SELECT mobilephonemodel, count(DISTINCT userid) AS u FROM hits WHERE mobilephonemodel <> '' GROUP BY mobilephonemodel ORDER BY u DESC LIMIT 10
SELECT mobilephone, mobilephonemodel, count(DISTINCT userid) AS u FROM hits WHERE mobilephonemodel <> '' GROUP BY mobilephone, mobilephonemodel ORDER BY u DESC LIMIT 10
SELECT searchphrase, count(*) AS c FROM hits WHERE searchphrase <> '' GROUP BY searchphrase ORDER BY c DESC LIMIT 10
SELECT searchphrase, count(DISTINCT userid) AS u FROM hits WHERE searchphrase <> '' GROUP BY searchphrase ORDER BY u DESC LIMIT 10
SELECT searchengineid, searchphrase, count(*) AS c FROM hits WHERE searchphrase <> '' GROUP BY searchengineid, searchphrase ORDER BY c DESC LIMIT 10
SELECT userid, count(*) FROM hits GROUP BY userid ORDER BY count(*) DESC LIMIT 10
SELECT userid, searchphrase, count(*) FROM hits GROUP BY userid, searchphrase ORDER BY count(*) DESC LIMIT 10
SELECT userid, searchphrase, count(*) FROM hits GROUP BY userid, searchphrase LIMIT 10
SELECT userid, extract(minute FROM eventtime) AS m, searchphrase, count(*) FROM hits GROUP BY userid, m, searchphrase ORDER BY count(*) DESC LIMIT 10
SELECT userid FROM hits WHERE userid = 435090932899640449
SELECT count(*) FROM hits WHERE url LIKE '%google%'
SELECT searchphrase, min(url), count(*) AS c FROM hits WHERE url LIKE '%google%' AND searchphrase <> '' GROUP BY searchphrase ORDER BY c DESC LIMIT 10
SELECT searchphrase, min(url), min(title), count(*) AS c, count(DISTINCT userid) FROM hits WHERE title LIKE '%Google%' AND url NOT LIKE '%.google.%' AND searchphrase <> '' GROUP BY searchphrase ORDER BY c DESC LIMIT 10
SELECT * FROM hits WHERE url LIKE '%google%' ORDER BY eventtime LIMIT 10
SELECT searchphrase FROM hits WHERE searchphrase <> '' ORDER BY eventtime LIMIT 10
SELECT searchphrase FROM hits WHERE searchphrase <> '' ORDER BY searchphrase LIMIT 10
SELECT searchphrase FROM hits WHERE searchphrase <> '' ORDER BY eventtime, searchphrase LIMIT 10
SELECT counterid, avg(length(url)) AS l, count(*) AS c FROM hits WHERE url <> '' GROUP BY counterid HAVING count(*) > 100000 ORDER BY l DESC LIMIT 25
SELECT regexp_replace(referer, '^https?://(?:www\.)?([^/]+)/.*$', '\1') AS k, avg(length(referer)) AS l, count(*) AS c, min(referer) FROM hits WHERE referer <> '' GROUP BY k HAVING count(*) > 100000 ORDER BY l DESC LIMIT 25
SELECT sum(resolutionwidth), sum(resolutionwidth + 1), sum(resolutionwidth + 2), sum(resolutionwidth + 3), sum(resolutionwidth + 4), sum(resolutionwidth + 5), sum(resolutionwidth + 6), sum(resolutionwidth + 7), sum(resolutionwidth + 8), sum(resolutionwidth + 9), sum(resolutionwidth + 10), sum(resolutionwidth + 11), sum(resolutionwidth + 12), sum(resolutionwidth + 13), sum(resolutionwidth + 14), sum(resolutionwidth + 15), sum(resolutionwidth + 16), sum(resolutionwidth + 17), sum(resolutionwidth + 18), sum(resolutionwidth + 19), sum(resolutionwidth + 20), sum(resolutionwidth + 21), sum(resolutionwidth + 22), sum(resolutionwidth + 23), sum(resolutionwidth + 24), sum(resolutionwidth + 25), sum(resolutionwidth + 26), sum(resolutionwidth + 27), sum(resolutionwidth + 28), sum(resolutionwidth + 29), sum(resolutionwidth + 30), sum(resolutionwidth + 31), sum(resolutionwidth + 32), sum(resolutionwidth + 33), sum(resolutionwidth + 34), sum(resolutionwidth + 35), sum(resolutionwidth + 36), sum(resolutionwidth + 37), sum(resolutionwidth + 38), sum(resolutionwidth + 39), sum(resolutionwidth + 40), sum(resolutionwidth + 41), sum(resolutionwidth + 42), sum(resolutionwidth + 43), sum(resolutionwidth + 44), sum(resolutionwidth + 45), sum(resolutionwidth + 46), sum(resolutionwidth + 47), sum(resolutionwidth + 48), sum(resolutionwidth + 49), sum(resolutionwidth + 50), sum(resolutionwidth + 51), sum(resolutionwidth + 52), sum(resolutionwidth + 53), sum(resolutionwidth + 54), sum(resolutionwidth + 55), sum(resolutionwidth + 56), sum(resolutionwidth + 57), sum(resolutionwidth + 58), sum(resolutionwidth + 59), sum(resolutionwidth + 60), sum(resolutionwidth + 61), sum(resolutionwidth + 62), sum(resolutionwidth + 63), sum(resolutionwidth + 64), sum(resolutionwidth + 65), sum(resolutionwidth + 66), sum(resolutionwidth + 67), sum(resolutionwidth + 68), sum(resolutionwidth + 69), sum(resolutionwidth + 70), sum(resolutionwidth + 71), sum(resolutionwidth + 72), sum(resolutionwidth + 73), sum(resolutionwidth + 74), sum(resolutionwidth + 75), sum(resolutionwidth + 76), sum(resolutionwidth + 77), sum(resolutionwidth + 78), sum(resolutionwidth + 79), sum(resolutionwidth + 80), sum(resolutionwidth + 81), sum(resolutionwidth + 82), sum(resolutionwidth + 83), sum(resolutionwidth + 84), sum(resolutionwidth + 85), sum(resolutionwidth + 86), sum(resolutionwidth + 87), sum(resolutionwidth + 88), sum(resolutionwidth + 89) FROM hits
SELECT searchengineid, clientip, count(*) AS c, sum(isrefresh), avg(resolutionwidth) FROM hits WHERE searchphrase <> '' GROUP BY searchengineid, clientip ORDER BY c DESC LIMIT 10
SELECT watchid, clientip, count(*) AS c, sum(isrefresh), avg(resolutionwidth) FROM hits WHERE searchphrase <> '' GROUP BY watchid, clientip ORDER BY c DESC LIMIT 10
SELECT watchid, clientip, count(*) AS c, sum(isrefresh), avg(resolutionwidth) FROM hits GROUP BY watchid, clientip ORDER BY c DESC LIMIT 10
SELECT url, count(*) AS c FROM hits GROUP BY url ORDER BY c DESC LIMIT 10
SELECT 1, url, count(*) AS c FROM hits GROUP BY 1, url ORDER BY c DESC LIMIT 10
SELECT clientip, clientip - 1, clientip - 2, clientip - 3, count(*) AS c FROM hits GROUP BY clientip, clientip - 1, clientip - 2, clientip - 3 ORDER BY c DESC LIMIT 10
SELECT url, count(*) AS pageviews FROM hits WHERE counterid = 62 AND eventdate >= '2013-07-01' AND eventdate <= '2013-07-31' AND dontcounthits = 0 AND isrefresh = 0 AND url <> '' GROUP BY url ORDER BY pageviews DESC LIMIT 10
SELECT title, count(*) AS pageviews FROM hits WHERE counterid = 62 AND eventdate >= '2013-07-01' AND eventdate <= '2013-07-31' AND dontcounthits = 0 AND isrefresh = 0 AND title <> '' GROUP BY title ORDER BY pageviews DESC LIMIT 10
SELECT url, count(*) AS pageviews FROM hits WHERE counterid = 62 AND eventdate >= '2013-07-01' AND eventdate <= '2013-07-31' AND isrefresh = 0 AND islink <> 0 AND isdownload = 0 GROUP BY url ORDER BY pageviews DESC LIMIT 10 OFFSET 1000
SELECT traficsourceid, searchengineid, advengineid, CASE WHEN (searchengineid = 0 AND advengineid = 0) THEN referer ELSE '' END AS src, url AS dst, count(*) AS pageviews FROM hits WHERE counterid = 62 AND eventdate >= '2013-07-01' AND eventdate <= '2013-07-31' AND isrefresh = 0 GROUP BY traficsourceid, searchengineid, advengineid, src, dst ORDER BY pageviews DESC LIMIT 10 OFFSET 1000
SELECT urlhash, eventdate, count(*) AS pageviews FROM hits WHERE counterid = 62 AND eventdate >= '2013-07-01' AND eventdate <= '2013-07-31' AND isrefresh = 0 AND traficsourceid IN (-1, 6) AND refererhash = 3594120000172545465 GROUP BY urlhash, eventdate ORDER BY pageviews DESC LIMIT 10 OFFSET 100
SELECT windowclientwidth, windowclientheight, count(*) AS pageviews FROM hits WHERE counterid = 62 AND eventdate >= '2013-07-01' AND eventdate <= '2013-07-31' AND isrefresh = 0 AND dontcounthits = 0 AND urlhash = 2868770270353813622 GROUP BY windowclientwidth, windowclientheight ORDER BY pageviews DESC LIMIT 10 OFFSET 10000
SELECT date_trunc('minute', eventtime) AS m, count(*) AS pageviews FROM hits WHERE counterid = 62 AND eventdate >= '2013-07-14' AND eventdate <= '2013-07-15' AND isrefresh = 0 AND dontcounthits = 0 GROUP BY date_trunc('minute', eventtime) ORDER BY date_trunc('minute', eventtime) LIMIT 10 OFFSET 1000
