//! Promised: filters that a plan pushes down, its own and those that joins produce at run time,
//! apply to the column that they name, also if tables have columns of the same name.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field};

use crate::common::{self, config, rows};

const PEOPLE: i64 = 40;
const TEAMS: i64 = 6;

/// Rows of `id`, `name` and a number.
fn write(path: &Path, count: i64, number: &str, of: impl Fn(i64) -> Option<i64>) {
    let schema = common::schema(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
        Field::new(number, DataType::Int64, true),
    ]);
    // Every third row has no name.
    let names = (1..=count).map(|id| (id % 3 != 0).then(|| format!("n{id}")));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(1..=count)),
        Arc::new(names.collect::<StringArray>()),
        Arc::new((1..=count).map(of).collect::<Int64Array>()),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("a batch");
    common::write(path, schema, &[batch], 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_are_those_of_their_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (people, teams) = (path("people.parquet"), path("teams.parquet"));
    write(&people, PEOPLE, "team", |id| Some(id % (TEAMS + 1)));
    write(&teams, TEAMS, "lead", |id| Some(id * 5));
    let tables = [("people", people.as_path()), ("teams", teams.as_path())];
    let session = common::session(config(), &tables).await;
    let of_team = |team: i64| (1..=PEOPLE).filter(move |id| id % (TEAMS + 1) == team);
    let shown = |ids: Vec<i64>| {
        let mut shown: Vec<String> = ids.iter().map(ToString::to_string).collect();
        shown.sort_unstable();
        shown
    };
    for (sql, expected) in [
        // The last join's filter is about t.id, not p.id.
        (
            "SELECT p.id FROM people p JOIN teams t ON p.team = t.id JOIN teams u ON u.id = t.id \
             WHERE u.lead = 10",
            of_team(2).collect(),
        ),
        (
            "SELECT p.id FROM people p JOIN teams t ON p.team = t.id \
             WHERE t.id IN (SELECT id FROM teams WHERE lead = 10)",
            of_team(2).collect(),
        ),
        // The filter of the join is about x.id, not e.id, which is 30.
        (
            "SELECT q.id FROM teams p JOIN (SELECT x.id FROM people x WHERE EXISTS \
             (SELECT 1 FROM people e WHERE x.id = 35 - e.id)) q ON p.id = q.id AND p.id = 5",
            vec![5],
        ),
        (
            "SELECT q.id FROM teams p JOIN (SELECT x.id FROM people x WHERE x.id IN \
             (SELECT 35 - e.id FROM people e WHERE e.name IS DISTINCT FROM x.name)) q \
             ON p.id = q.id AND p.id = 5",
            vec![5],
        ),
        // The persons who lead no team.
        (
            "SELECT p.id FROM teams t RIGHT JOIN people p ON t.lead = p.id WHERE t.id IS NULL",
            (1..=PEOPLE)
                .filter(|id| id % 5 != 0 || *id > TEAMS * 5)
                .collect(),
        ),
        (
            "SELECT t.id FROM people p RIGHT JOIN teams t ON p.id = t.lead WHERE p.name IS NULL",
            (1..=TEAMS).filter(|id| id * 5 % 3 == 0).collect(),
        ),
        (
            "SELECT t.id FROM people p FULL JOIN teams t ON p.id = t.lead \
             WHERE p.name IS NULL AND t.id > 1",
            (2..=TEAMS).filter(|id| id * 5 % 3 == 0).collect(),
        ),
    ] {
        let ids: Vec<String> = rows(&session, sql).await;
        let digits = |row: &String| row.chars().filter(char::is_ascii_digit).collect::<String>();
        let ids: Vec<String> = ids.iter().map(digits).collect();
        assert_eq!(ids, shown(expected), "{sql}");
    }
}
