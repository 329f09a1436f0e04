//! Promised: `serial` and identities number the rows of a session's own tables as PostgreSQL does:
//! where no value or DEFAULT is given, each number once, and with gaps after ROLLBACK. Who may give
//! a value, and what LIKE copies, is PostgreSQL's, which gave all expected answers.

use crate::own_tables::answers;

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::too_many_lines)] // A list of statements.
async fn serial_columns_have_the_next_number() {
    answers(&[
        (
            "CREATE TABLE s (id serial PRIMARY KEY, a text, big bigserial, small SMALLSERIAL)",
            "",
        ),
        ("INSERT INTO s (a) VALUES ('x'), ('y')", ""),
        ("INSERT INTO s VALUES (DEFAULT, 'z')", ""),
        (
            "INSERT INTO s (a, id) VALUES ('p', DEFAULT), ('q', DEFAULT)",
            "",
        ),
        ("INSERT INTO s (id, a) VALUES (10, 'ten')", ""),
        ("INSERT INTO s DEFAULT VALUES", ""),
        ("INSERT INTO s (id) VALUES (DEFAULT)", ""),
        ("INSERT INTO s (id) VALUES (NULL)", "error 23502"),
        ("INSERT INTO s (id) VALUES (7)", "error 23505"),
        (
            "INSERT INTO s (a) SELECT 'r' || x FROM generate_series(1, 2) g(x)",
            "",
        ),
        (
            "SELECT id, count(a), min(big) = min(small) FROM s GROUP BY id ORDER BY id",
            "1 | 1 | t; 2 | 1 | t; 3 | 1 | t; 4 | 1 | t; 5 | 1 | t; 6 | 0 | t; 7 | 0 | t; \
             8 | 1 | t; 9 | 1 | t; 10 | 1 | t",
        ),
        (
            "SELECT big FROM s WHERE id IN (6, 7, 10) ORDER BY id",
            "7; 8; 6",
        ),
        (
            "SELECT pg_typeof(id), pg_typeof(big), pg_typeof(small) FROM s LIMIT 1",
            "integer | bigint | smallint",
        ),
        ("DELETE FROM s", ""),
        ("BEGIN", ""),
        ("INSERT INTO s (a) VALUES ('gone')", ""),
        ("ROLLBACK", ""),
        ("INSERT INTO s (a) VALUES ('after')", ""),
        ("SELECT id FROM s", "11"),
        ("ALTER TABLE s RENAME id TO key", ""),
        ("ALTER TABLE s RENAME TO s2", ""),
        ("INSERT INTO s2 (a) VALUES ('later')", ""),
        (
            "SELECT key, a FROM s2 ORDER BY key",
            "11 | after; 12 | later",
        ),
        ("CREATE TABLE l (LIKE s2 INCLUDING DEFAULTS)", ""),
        ("INSERT INTO l (a) VALUES ('copy')", ""),
        ("SELECT key, a FROM l", "13 | copy"),
        ("TRUNCATE s2 RESTART IDENTITY", "error 0A000"),
        ("TRUNCATE s2", ""),
        ("INSERT INTO s2 (a) VALUES ('x')", ""),
        ("SELECT key FROM s2", "14"),
        ("CREATE TABLE m (id smallserial, a int CHECK (id <> 2))", ""),
        ("INSERT INTO m (a) VALUES (1)", ""),
        ("INSERT INTO m (a) VALUES (1)", "error 23514"),
        (
            "INSERT INTO m (a) SELECT x FROM generate_series(1, 32765) g(x)",
            "",
        ),
        (
            "INSERT INTO m (a) VALUES (1)",
            "error 2200H nextval: reached maximum value of sequence \"m_id_seq\" (32767)",
        ),
        (
            "SELECT count(*), min(id), max(id), count(DISTINCT id) FROM m",
            "32766 | 1 | 32767 | 32766",
        ),
        ("DELETE FROM m", ""),
        ("ALTER TABLE m ADD k serial", ""),
        ("INSERT INTO m (id) VALUES (3), (4)", ""),
        ("SELECT id, k FROM m ORDER BY id", "3 | 1; 4 | 2"),
        (
            "CREATE TABLE e (a serial DEFAULT 1)",
            "error 42601 multiple default values",
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_follow_the_order_of_the_rows() {
    answers(&[
        ("CREATE TABLE o (id serial, a int)", ""),
        (
            "INSERT INTO o (a) SELECT x FROM generate_series(1, 50000) g(x)",
            "",
        ),
        ("SELECT count(*) FROM o WHERE id <> a", "0"),
        ("INSERT INTO o (a) SELECT a FROM o ORDER BY a DESC", ""),
        (
            "SELECT count(*), count(*) FILTER (WHERE id + a <> 100001) FROM o WHERE id > 50000",
            "50000 | 0",
        ),
        ("CREATE TABLE v (id serial, a int)", ""),
        (
            "INSERT INTO v (a) VALUES ((SELECT 7)), (8), ((SELECT 9))",
            "",
        ),
        (
            "INSERT INTO v (a) SELECT 10 UNION ALL SELECT 11 UNION ALL SELECT 12",
            "",
        ),
        (
            "INSERT INTO v (a) SELECT a FROM (SELECT a FROM v WHERE a > 9 ORDER BY a DESC) q",
            "",
        ),
        (
            "SELECT id, a FROM v ORDER BY id",
            "1 | 7; 2 | 8; 3 | 9; 4 | 10; 5 | 11; 6 | 12; 7 | 12; 8 | 11; 9 | 10",
        ),
        (
            "CREATE TABLE c (id int GENERATED ALWAYS AS IDENTITY CHECK (id > 0), a int)",
            "",
        ),
        (
            "INSERT INTO c (a) SELECT a FROM (SELECT a FROM v WHERE a < 9 ORDER BY a DESC) q",
            "",
        ),
        ("INSERT INTO c (a) SELECT 6 UNION ALL SELECT 5", ""),
        (
            "SELECT id, a FROM c ORDER BY id",
            "1 | 8; 2 | 7; 3 | 6; 4 | 5",
        ),
        (
            "INSERT INTO v VALUES (DEFAULT, 2), (DEFAULT, 1) ORDER BY 2",
            "error 0A000",
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn identities_refuse_what_postgresql_refuses() {
    answers(&[
        (
            "CREATE TABLE i (id int GENERATED ALWAYS AS IDENTITY, \
             b bigint GENERATED BY DEFAULT AS IDENTITY (START WITH 100 NO CYCLE INCREMENT BY 10), \
             a text)",
            "",
        ),
        ("INSERT INTO i (a) VALUES ('x'), ('y')", ""),
        ("INSERT INTO i VALUES (DEFAULT, DEFAULT, 'z')", ""),
        (
            "INSERT INTO i (id, a) VALUES (5, 'no')",
            "error 428C9 cannot insert a non-DEFAULT value into column \"id\"",
        ),
        ("INSERT INTO i SELECT 1, 2, 'no'", "error 428C9"),
        (
            "EXPLAIN ANALYZE INSERT INTO i (id, a) VALUES (5, 'no')",
            "error 428C9",
        ),
        ("EXPLAIN ANALYZE UPDATE i SET id = 9", "error 428C9"),
        ("INSERT INTO i (b, a) VALUES (1, 'own')", ""),
        (
            "UPDATE i SET id = 9",
            "error 428C9 column \"id\" can only be updated to DEFAULT",
        ),
        ("UPDATE i SET b = b + 1, a = a || '!' WHERE b = 1", ""),
        (
            "SELECT * FROM i ORDER BY id",
            "1 | 100 | x; 2 | 110 | y; 3 | 120 | z; 4 | 2 | own!",
        ),
        ("CREATE TABLE li (LIKE i INCLUDING DEFAULTS)", ""),
        ("INSERT INTO li (a) VALUES ('x')", "error 23502"),
        (
            "CREATE TABLE e (a text GENERATED ALWAYS AS IDENTITY)",
            "error 22023 identity column type must be smallint, integer, or bigint",
        ),
        (
            "CREATE TABLE e (a int DEFAULT 1 GENERATED ALWAYS AS IDENTITY)",
            "error 42601 both default and identity specified",
        ),
        (
            "CREATE TABLE e (a int GENERATED ALWAYS AS IDENTITY (MINVALUE 5))",
            "error 0A000",
        ),
    ])
    .await;
}
