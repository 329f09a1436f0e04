-- Which functions, operators and casts does PostgreSQL have over the types that Coscan reads?
-- Makes catalogue.tsv: psql -At -F $'\t' -f catalogue.sql > catalogue.tsv
-- Functions of the manual's chapters 9.1 to 9.22 whose result depends on the arguments only.
with types(name) as (select unnest(array['bool', 'int2', 'int4', 'int8', 'float4', 'float8', 'numeric', 'text', 'bytea',
    'date', 'time', 'timestamp', 'timestamptz', 'interval', 'uuid', 'jsonb'])),
names(name) as (select unnest(string_to_array('abs cbrt ceil ceiling degrees div exp factorial floor gcd lcm ln log '
    'log10 min_scale mod power radians round scale sign sqrt trim_scale trunc width_bucket acos acosd asin asind atan '
    'atand atan2 atan2d cos cosd cot cotd sin sind tan tand sinh cosh tanh asinh acosh atanh bit_length char_length '
    'character_length length lower octet_length upper initcap ascii btrim chr left lpad ltrim md5 repeat replace '
    'reverse right rpad rtrim split_part starts_with strpos substr substring position overlay to_hex translate '
    'regexp_replace regexp_like regexp_count regexp_instr regexp_substr quote_ident quote_literal quote_nullable '
    'get_bit get_byte set_bit set_byte encode decode sha224 sha256 sha384 sha512 convert_from convert_to bit_count '
    'age date_part date_trunc date_bin extract isfinite justify_days justify_hours justify_interval make_date '
    'make_time make_timestamp make_timestamptz to_timestamp to_date to_char to_number timezone', ' '))),
aggregates(name) as (select unnest(string_to_array('avg bit_and bit_or bit_xor bool_and bool_or count every max min '
    'sum corr covar_pop covar_samp regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy '
    'regr_syy stddev stddev_pop stddev_samp variance var_pop var_samp', ' '))),
functions as (
    select p.proname, p.prokind, p.prorettype,
        (select string_agg(t.typname, ' ' order by i) from unnest(p.proargtypes) with ordinality a(oid, i) join pg_type t on t.oid = a.oid) args,
        (select bool_and(t.typname in (select name from types)) from unnest(p.proargtypes) a(oid) join pg_type t on t.oid = a.oid) known
    from pg_proc p where p.pronamespace = 'pg_catalog'::regnamespace and p.provariadic = 0 and not p.proretset)
select 'function', proname, args, r.typname from functions join pg_type r on r.oid = prorettype
    where prokind = 'f' and known and proname in (select name from names) and r.typname in (select name from types)
union
select 'aggregate', proname, args, r.typname from functions join pg_type r on r.oid = prorettype
    where prokind = 'a' and known and proname in (select name from aggregates) and r.typname in (select name from types)
union
select case oprkind when 'b' then 'operator' else 'prefix' end, oprname, concat_ws(' ', l.typname, r.typname), q.typname
    from pg_operator left join pg_type l on l.oid = oprleft join pg_type r on r.oid = oprright join pg_type q on q.oid = oprresult
    where (oprleft = 0 or l.typname in (select name from types)) and r.typname in (select name from types)
    and q.typname in (select name from types) and oprname not in ('~<~', '~<=~', '~>~', '~>=~', '@?', '@@') and oprname !~ '~~'
union
select 'cast', castcontext::text, s.typname, t.typname from pg_cast join pg_type s on s.oid = castsource join pg_type t on t.oid = casttarget
    where s.typname in (select name from types) and t.typname in (select name from types) and s.typname <> t.typname
union
select 'cast', 'x', s.name, 'text' from types s where s.name <> 'text'
order by 1, 2, 3, 4;
