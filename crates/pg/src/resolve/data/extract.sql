-- Extracts the .tsv files in this folder from PostgreSQL 15: psql -At -F $'\t' -f extract.sql
\o types.tsv
select t.oid, t.typname, t.typcategory, case when t.typispreferred then 't' else 'f' end, t.typelem, t.typarray
  from pg_type t
 where t.typnamespace = 'pg_catalog'::regnamespace and t.typtype in ('b', 'p', 'r', 'm')
   and t.typname !~ '^_pg_' and t.typname !~ 'handler$'
 order by t.oid;
\o operators.tsv
select o.oprname, coalesce(l.typname, '-'), coalesce(r.typname, '-'), x.typname
  from pg_operator o
  left join pg_type l on l.oid = o.oprleft
  left join pg_type r on r.oid = o.oprright
  join pg_type x on x.oid = o.oprresult
 where o.oprnamespace = 'pg_catalog'::regnamespace
 order by 1, 2, 3;
\o functions.tsv
select p.proname, case when p.provariadic <> 0 then 'v' else '-' end, p.pronargdefaults,
       array_to_string(array(select t.typname from unnest(p.proargtypes) with ordinality a(oid, n) join pg_type t on t.oid = a.oid order by n), ','),
       x.typname, case when p.proretset then 's' else p.prokind::text end
  from pg_proc p join pg_type x on x.oid = p.prorettype
 where p.pronamespace = 'pg_catalog'::regnamespace and p.pronargs > 0 and p.prokind in ('f', 'a', 'w')
   and (p.proname in ('array_cat', 'hashtext', 'hashtextextended', 'starts_with') or
        coalesce(obj_description(p.oid, 'pg_proc'), '') !~ '^(implementation of|I/O|internal|statistics|planner support|aggregate transition|aggregate final|less-equal|sort support|hash|(B|b)tree|GIN|GiST|SP-GiST|BRIN)')
   and not exists (select 1 from unnest(p.proargtypes) a(oid) join pg_type t on t.oid = a.oid
                    where t.typname in ('internal', 'cstring', 'trigger', 'event_trigger') or t.typname ~ 'handler$')
   and p.proname !~ '^(pg_stat_get|pg_replication|pg_logical|binary_upgrade|lo_|pg_lsn|bt(?!rim)|RI_)'
 order by 1, 4;
\o casts.tsv
select s.typname, t.typname, c.castcontext
  from pg_cast c join pg_type s on s.oid = c.castsource join pg_type t on t.oid = c.casttarget
 order by 1, 2;
\o
