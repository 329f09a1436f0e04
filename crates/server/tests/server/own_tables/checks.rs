//! Promised: no row of a session's own table violates a CHECK constraint, whichever statement
//! writes it. The condition is that of SELECT, over the values as the column stores them, and NULL
//! does not violate it. Names, errors and the order of checks are PostgreSQL's, which gave all
//! expected answers.

use crate::own_tables::answers;

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::too_many_lines)] // A list of statements.
async fn rows_keep_checks() {
    answers(&[
        (
            "CREATE TABLE c (a int CHECK (a > 0), b text CONSTRAINT named CHECK (b <> ''), \
             n numeric(5,2), CHECK (n < 10 OR a > 5), CONSTRAINT \"Named\" CHECK (c.a < 1e2), \
             k char(3) CHECK (k IN ('x', 'yy')))",
            "",
        ),
        (
            "INSERT INTO c VALUES (1, 'x', 1, 'x'), (NULL, NULL, NULL, NULL)",
            "",
        ),
        (
            "INSERT INTO c VALUES (0, 'x', 1, 'x')",
            "error 23514 new row for relation \"c\" violates check constraint \"c_a_check\"",
        ),
        (
            "INSERT INTO c VALUES (2, '', 1, 'x')",
            "error constraint \"named\"",
        ),
        (
            "INSERT INTO c VALUES (2, 'x', 9.996, 'x')",
            "error constraint \"c_check\"",
        ),
        ("INSERT INTO c VALUES (2, 'x', 9.994, 'x')", ""),
        (
            "INSERT INTO c VALUES (200, 'x', 9.994, 'x')",
            "error constraint \"Named\"",
        ),
        (
            "INSERT INTO c VALUES (2, 'x', 9.994, 'z')",
            "error constraint \"c_k_check\"",
        ),
        (
            "INSERT INTO c SELECT x, '', x, 'yy' FROM generate_series(1, 3) g(x)",
            "error constraint \"named\"",
        ),
        ("UPDATE c SET a = a - 1", "error constraint \"c_a_check\""),
        ("UPDATE c SET a = a + 1", ""),
        (
            "UPDATE c SET b = '' WHERE a = 2",
            "error constraint \"named\"",
        ),
        (
            "UPDATE c SET n = 20 FROM (SELECT 1) s WHERE a = 2",
            "error constraint \"c_check\"",
        ),
        ("UPDATE c SET n = 20, a = 6 WHERE a = 2", ""),
        (
            "SELECT a, b, n FROM c ORDER BY a",
            "3 | x | 9.99; 6 | x | 20.00; NULL | NULL | NULL",
        ),
        ("DELETE FROM c WHERE a > 5", ""),
        ("ALTER TABLE c RENAME TO d", ""),
        (
            "INSERT INTO d (a) VALUES (0)",
            "error relation \"d\" violates check constraint \"c_a",
        ),
        ("CREATE TABLE l (LIKE d)", ""),
        ("INSERT INTO l (a) VALUES (0)", ""),
        ("BEGIN", ""),
        ("INSERT INTO d (a) VALUES (4)", ""),
        ("INSERT INTO d (a) VALUES (0)", "error 23514"),
        ("ROLLBACK", ""),
        ("SELECT count(*) FROM d", "2"),
        (
            "CREATE TABLE y (a int NOT NULL CHECK (a > 0) CHECK (a < 5), b int CHECK (a < b))",
            "",
        ),
        ("INSERT INTO y VALUES (NULL, 1)", "error 23502"),
        (
            "INSERT INTO y VALUES (7, 1)",
            "error constraint \"y_a_check1\"",
        ),
        (
            "INSERT INTO y VALUES (-7, -8)",
            "error constraint \"y_a_check\"",
        ),
        (
            "INSERT INTO y VALUES (1, 3), (3, 1), (9, 1)",
            "error constraint \"y_check\"",
        ),
        ("SELECT count(*) FROM y", "0"),
        (
            "CREATE TABLE z (a int CHECK (a BETWEEN 1 AND 3), \
             t text CHECK (t ~ '^[a-z]+$' AND length(t) > 1), d date CHECK (d > '2020-01-01'), \
             l int[] CHECK (array_length(l, 1) = 2), r float8 DEFAULT random() CHECK (r < 1))",
            "",
        ),
        ("INSERT INTO z VALUES (2, 'ab', '2021-01-01', '{1,2}')", ""),
        (
            "INSERT INTO z (t) VALUES ('a')",
            "error constraint \"z_t_check\"",
        ),
        (
            "INSERT INTO z (d) VALUES ('2019-01-01')",
            "error constraint \"z_d_check\"",
        ),
        (
            "INSERT INTO z (l) VALUES ('{1}')",
            "error constraint \"z_l_check\"",
        ),
        (
            "INSERT INTO z (a) VALUES (4)",
            "error constraint \"z_a_check\"",
        ),
        (
            "UPDATE z SET r = random() + 1",
            "error constraint \"z_r_check\"",
        ),
        ("UPDATE z SET r = random()", ""),
        ("SELECT a, t, d, l FROM z", "2 | ab | 2021-01-01 | {1,2}"),
    ])
    .await;
}

/// NULL of a statement has no type of its own.
#[tokio::test(flavor = "multi_thread")]
async fn conditions_are_typed_by_their_columns() {
    answers(&[
        (
            "CREATE TABLE m (id serial, d jsonb CHECK (coalesce(d, '{\"a\": 1}') ? 'a'), \
             u uuid, w uuid, k char(3), \
             CHECK (coalesce(u, w) <> '00000000-0000-0000-0000-000000000000'), \
             CHECK (coalesce(k, 'x ') = 'x'))",
            "",
        ),
        (
            "INSERT INTO m (u) VALUES ('11111111-1111-1111-1111-111111111111')",
            "",
        ),
        (
            "INSERT INTO m (w) VALUES ('00000000-0000-0000-0000-000000000000')",
            "error 23514 new row for relation \"m\" violates check constraint \"m_check\"",
        ),
        ("UPDATE m SET d = NULL, u = NULL, k = NULL", ""),
        ("UPDATE m SET d = '{}'", "error constraint \"m_d_check\""),
        (
            "UPDATE m SET u = NULL, w = '00000000-0000-0000-0000-000000000000' FROM (SELECT 1) s",
            "error constraint \"m_check\"",
        ),
        (
            "SELECT id, d, u, w, k FROM m",
            "1 | NULL | NULL | NULL | NULL",
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_are_added_and_follow_columns() {
    answers(&[
        (
            "CREATE TABLE c (a int CHECK (a > 0), n int, CHECK (n < a))",
            "",
        ),
        ("INSERT INTO c VALUES (1, 0), (3, NULL), (NULL, NULL)", ""),
        ("ALTER TABLE c RENAME COLUMN a TO z", ""),
        (
            "INSERT INTO c (z) VALUES (-1)",
            "error constraint \"c_a_check\"",
        ),
        (
            "INSERT INTO c VALUES (1, 2)",
            "error constraint \"c_check\"",
        ),
        ("ALTER TABLE c DROP COLUMN n", ""),
        ("INSERT INTO c (z) VALUES (2)", ""),
        (
            "ALTER TABLE c ADD d int CHECK (d > 0), ADD e int DEFAULT 0 CHECK (e >= z)",
            "error 23514 check constraint \"c_check\" of relation \"c\" is violated by some row",
        ),
        ("SELECT * FROM c ORDER BY z", "1; 2; 3; NULL"),
        (
            "ALTER TABLE c ADD d int CHECK (d > 0), ADD e int DEFAULT 1 CHECK (e <= z)",
            "",
        ),
        (
            "SELECT * FROM c ORDER BY z",
            "1 | NULL | 1; 2 | NULL | 1; 3 | NULL | 1; NULL | NULL | 1",
        ),
        (
            "INSERT INTO c (z, d) VALUES (1, 0)",
            "error constraint \"c_d_check\"",
        ),
        (
            "INSERT INTO c (z, e) VALUES (1, 7)",
            "error constraint \"c_check\"",
        ),
        (
            "ALTER TABLE c ADD CONSTRAINT small CHECK (z < 1)",
            "error 23514 check constraint \"small\" of relation \"c\" is violated by some row",
        ),
        ("ALTER TABLE c ADD CONSTRAINT small CHECK (z < 10)", ""),
        (
            "ALTER TABLE c ADD CONSTRAINT small CHECK (z < 10)",
            "error 42710 constraint \"small\" for relation \"c\" already exists",
        ),
        ("ALTER TABLE c ADD CHECK (z < 20)", ""),
        (
            "INSERT INTO c (z) VALUES (15)",
            "error constraint \"small\"",
        ),
        ("INSERT INTO c (z) VALUES (9)", ""),
        ("BEGIN; ALTER TABLE c ADD CHECK (z < 10)", ""),
        ("ROLLBACK", ""),
        ("CREATE TABLE x (a int CHECK (b > 0))", "error 42703"),
        (
            "CREATE TABLE x (a int CHECK (a + 1))",
            "error 42804 argument of CHECK must be type boolean, not type integer",
        ),
        ("CREATE TABLE x (a int CHECK (sum(a) > 1))", "error 42803"),
        (
            "CREATE TABLE x (a int CHECK (a > (SELECT 1)))",
            "error 0A000",
        ),
        (
            "CREATE TABLE x (a int CHECK (row_number() OVER () > 1))",
            "error 42P20",
        ),
        (
            "CREATE TABLE x (a int CONSTRAINT q CHECK (a > 0), CONSTRAINT q CHECK (a > 1))",
            "error 42710 check constraint \"q\" already exists",
        ),
    ])
    .await;
}
