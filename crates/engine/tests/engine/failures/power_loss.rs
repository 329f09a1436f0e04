//! Promised: when power fails, at whatever step and whatever unsynced data is then lost, an index
//! is the old one or the new one, a statement that was reported as done is done, and rows are
//! right. The same holds for a process that is killed, and for two such processes on one folder.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use coscan::{Disk, LocalStore, Session};
use coscan_rewrite::{RewriteOptions, rewrite};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;

use crate::common::{self, plain, plain_rows, rows};
use crate::indexes::{Layout, batch, run, write};

/// The fate of names that were not synced; contents that were not synced are always lost.
#[derive(Clone, Copy, Debug)]
enum Names {
    Lost,
    Kept,
}

/// A change of a folder's names that is not synced yet.
enum Change {
    Made(PathBuf),
    FolderMade(PathBuf),
    /// From, to, and a copy of the file that the target had.
    Renamed(PathBuf, PathBuf, Option<PathBuf>),
    /// The name, and a copy of the file.
    Removed(PathBuf, PathBuf),
}

/// A disk that loses everything that was not synced.
#[derive(Debug)]
struct Forgetful {
    state: Mutex<State>,
    /// The folder of the copies.
    attic: TempDir,
}

#[derive(Default)]
struct State {
    /// The number of calls until power fails.
    left: Option<usize>,
    calls: usize,
    changes: Vec<Change>,
    /// The synced bytes of each file created here, by inode.
    synced: HashMap<u64, u64>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

impl Forgetful {
    fn new(left: Option<usize>) -> Arc<Self> {
        let state = State {
            left,
            ..State::default()
        };
        Arc::new(Self {
            state: Mutex::new(state),
            attic: tempfile::tempdir().unwrap(),
        })
    }

    /// Counts a call, unless power has failed.
    fn call(&self) -> io::Result<parking_lot::MutexGuard<'_, State>> {
        let mut state = self.state.lock();
        match &mut state.left {
            Some(0) => return Err(io::Error::other("no power")),
            Some(left) => *left -= 1,
            None => {}
        }
        state.calls += 1;
        Ok(state)
    }

    fn has_failed(&self) -> bool {
        self.state.lock().left == Some(0)
    }

    fn copy(&self, state: &State, path: &Path) -> PathBuf {
        let copy = self.attic.path().join(format!("{}", state.calls));
        fs::hard_link(path, &copy).unwrap();
        copy
    }

    /// Power fails now; then the folder is in the state that a new process finds.
    fn lose(&self, folder: &Path, names: Names) {
        let mut state = self.state.lock();
        state.left = Some(0);
        let changes = std::mem::take(&mut state.changes);
        if matches!(names, Names::Lost) {
            for change in changes.into_iter().rev() {
                match change {
                    Change::Made(path) => fs::remove_file(path).unwrap(),
                    Change::FolderMade(path) => fs::remove_dir_all(path).unwrap(),
                    Change::Renamed(from, to, before) => {
                        fs::rename(&to, from).unwrap();
                        if let Some(before) = before {
                            fs::hard_link(before, to).unwrap();
                        }
                    }
                    Change::Removed(path, copy) => fs::hard_link(copy, path).unwrap(),
                }
            }
        }
        for path in files_below(folder) {
            let metadata = fs::metadata(&path).unwrap();
            if let Some(synced) = state.synced.get(&metadata.ino())
                && metadata.len() > *synced
            {
                let file = File::options().write(true).open(&path).unwrap();
                file.set_len(*synced).unwrap();
            }
        }
    }
}

/// Waits until no task of a session on this disk is left: a process that has lost its power has no
/// file open, and the next one takes a file that is open for one that is written.
async fn ended(disk: &Arc<Forgetful>) {
    let begun = Instant::now();
    while Arc::strong_count(disk) > 1 {
        assert!(begun.elapsed() < ENDS_WITHIN, "something uses the disk");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// How long the tasks of a dropped session may take to end beside other tests.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}

impl Disk for Forgetful {
    fn create(&self, path: &Path) -> io::Result<File> {
        let mut state = self.call()?;
        let file = File::options().write(true).create_new(true).open(path)?;
        state.synced.insert(file.metadata()?.ino(), 0);
        state.changes.push(Change::Made(path.to_owned()));
        Ok(file)
    }

    fn sync(&self, file: &File, _: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        let metadata = file.metadata()?;
        state.synced.insert(metadata.ino(), metadata.len());
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        let before = to.exists().then(|| self.copy(&state, to));
        fs::rename(from, to)?;
        let change = Change::Renamed(from.to_owned(), to.to_owned(), before);
        state.changes.push(change);
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        fs::hard_link(from, to)?;
        state.changes.push(Change::Made(to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        if !path.exists() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let copy = self.copy(&state, path);
        fs::remove_file(path)?;
        state.changes.push(Change::Removed(path.to_owned(), copy));
        Ok(())
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        fs::create_dir(path)?;
        state.changes.push(Change::FolderMade(path.to_owned()));
        Ok(())
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.call()?;
        state.changes.retain(|change| {
            let name = match change {
                Change::Made(name)
                | Change::FolderMade(name)
                | Change::Renamed(_, name, _)
                | Change::Removed(name, _) => name,
            };
            name.parent() != Some(path)
        });
        Ok(())
    }
}

const QUERY: &str = "SELECT id, s FROM t WHERE k BETWEEN 10 AND 40";
const STATE: &str = "SELECT files || ' ' || state FROM coscan.indexes";

/// A session whose indexes are on this disk.
async fn session_on(disk: Arc<Forgetful>, folder: &Path) -> Session {
    let session = common::session(common::config(), &[]).await;
    let url = url::Url::parse("forgetful://disk").unwrap();
    let runtime = session.engine().runtime();
    runtime.register_object_store(&url, Arc::new(LocalStore::on(disk)));
    let indexes = format!("forgetful://disk{}/indexes", folder.display());
    session.set("coscan.index_folder", &indexes).unwrap();
    let table = folder.join("t").join("");
    session
        .register("t", table.to_str().unwrap())
        .await
        .unwrap();
    session
}

fn add(folder: &Path, name: &str, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let rows = batch(&mut random, 0, 3000, false);
    write(&folder.join("t").join(name), &[rows], Layout::Aligned);
}

/// Runs one statement during which power fails after `after` calls. Returns whether it failed
/// before the statement had ended.
async fn one_loss(statement: &str, after: usize, names: Names) -> bool {
    let context = format!("{statement}, power fails after {after}, names {names:?}");
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("t")).unwrap();
    add(folder.path(), "0.parquet", 1);
    let (mut old, new): (&[&str], &[&str]) = match statement {
        "CREATE INDEX i ON t (k)" => (&[], &["1 ready"]),
        "REFRESH INDEX i" => (&["1 ready"], &["2 ready"]),
        _ => (&["1 ready"], &[]),
    };
    if !old.is_empty() {
        let before = session_on(Forgetful::new(None), folder.path()).await;
        run(&before, "CREATE INDEX i ON t (k)").await.unwrap();
    }
    if statement.starts_with("REFRESH") {
        add(folder.path(), "1.parquet", 2);
    }
    let table = folder.path().join("t").join("");
    let expected = plain_rows(&plain(&[("t", &table)]).await, QUERY).await;

    let disk = Forgetful::new(Some(after));
    let session = session_on(Arc::clone(&disk), folder.path()).await;
    let outcome = run(&session, statement).await;
    let failed = disk.has_failed();
    // The statement's remaining work finds a disk that fails every call.
    disk.lose(folder.path(), names);
    if outcome.is_ok() {
        old = new;
    }
    assert!(outcome.is_ok() || failed, "{context}: {outcome:?}");
    drop(session);
    ended(&disk).await;

    let later = session_on(Forgetful::new(None), folder.path()).await;
    let found = rows(&later, STATE).await;
    assert!(found == old || found == new, "{context}: {found:?}");
    assert_eq!(rows(&later, QUERY).await, expected, "{context}");
    let broken = rows(&later, STATE).await;
    assert_eq!(broken, found, "{context}: found broken by its first query");
    let again = if found.is_empty() {
        "CREATE INDEX i ON t (k)"
    } else {
        "REFRESH INDEX i"
    };
    run(&later, again).await.unwrap();
    assert_eq!(rows(&later, QUERY).await, expected, "{context}");
    failed
}

#[tokio::test(flavor = "multi_thread")]
async fn power_may_fail_at_any_step() {
    for statement in ["CREATE INDEX i ON t (k)", "REFRESH INDEX i", "DROP INDEX i"] {
        for names in [Names::Lost, Names::Kept] {
            let mut after = 0;
            while one_loss(statement, after, names).await {
                after += 1;
            }
            let least = if statement.starts_with("DROP") { 3 } else { 7 };
            assert!(after >= least, "{statement}: {after} steps");
        }
    }
}

/// Runs an INSERT of several files during which power fails after `after` calls. Returns whether it
/// failed before the statement had ended.
async fn one_loss_of_an_insert(values: &str, after: usize, names: Names) -> bool {
    let context = format!("{values}, power fails after {after}, names {names:?}");
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("t/p=1");
    fs::create_dir_all(&part).unwrap();
    let values_of = |values: Vec<i64>| Arc::new(arrow::array::Int64Array::from(values)) as _;
    let row = arrow::array::RecordBatch::try_from_iter([("v", values_of(vec![0]))]).unwrap();
    common::write(&part.join("0.parquet"), row.schema(), &[row], 10);
    let table = folder.path().join("t").join("");
    let disk = Forgetful::new(Some(after));
    let session = session_on(Arc::clone(&disk), folder.path()).await;
    let on_disk = format!("forgetful://disk{}", table.display());
    session.register("t", &on_disk).await.unwrap();
    let outcome = run(&session, &format!("INSERT INTO t VALUES {values}")).await;
    let failed = disk.has_failed();
    disk.lose(folder.path(), names);
    assert!(outcome.is_ok() || failed, "{context}: {outcome:?}");
    drop(session);
    ended(&disk).await;

    let later = common::session(common::config(), &[("t", &table)]).await;
    let found = rows(&later, "SELECT count(*) FROM t").await;
    let new = (1 + values.matches('(').count()).to_string();
    let old = outcome.is_err() && found == ["1"];
    assert!(old || found == [new], "{context}: {found:?}, {outcome:?}");
    let staged = files_below(&folder.path().join("t")).into_iter();
    let staged: Vec<_> = staged
        .filter(|path| path.to_string_lossy().contains('#'))
        .collect();
    assert!(staged.is_empty(), "{context}: {staged:?}");
    failed
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_is_whole_whenever_power_fails() {
    for values in ["(1, 1)", "(1, 1), (2, 2), (3, 3)"] {
        for names in [Names::Lost, Names::Kept] {
            let mut after = 0;
            while one_loss_of_an_insert(values, after, names).await {
                after += 1;
            }
            assert!(after >= 4, "{values}: {after} steps");
        }
    }
}

/// The folder in which a child works.
const FOLDER: &str = "COSCAN_TEST_KILLED_FOLDER";

/// The process that is killed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a child of another test"]
async fn a_child_that_works_until_it_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let folder = PathBuf::from(folder);
    let table = folder.join("t").join("");
    fs::write(works(&folder, std::process::id()), "").unwrap();
    loop {
        let session = common::session(common::config(), &[("t", &table)]).await;
        for statement in [
            "CREATE INDEX IF NOT EXISTS i ON t (k)",
            "REFRESH INDEX i",
            "DROP INDEX IF EXISTS i",
            "CREATE INDEX IF NOT EXISTS i ON t (k)",
        ] {
            // Another process may have dropped or built the index.
            let _ = run(&session, statement).await;
            let options = RewriteOptions {
                replace: true,
                sort_by: vec!["id".to_owned()],
                ..RewriteOptions::default()
            };
            let (source, target) = (folder.join("t/0.parquet"), folder.join("t/9.parquet"));
            let (source, target) = (source.to_str().unwrap(), target.to_str().unwrap());
            rewrite(session.engine(), source, target, &options, |_| {})
                .await
                .unwrap();
        }
    }
}

fn child(folder: &Path) -> Child {
    let name = "failures::power_loss::a_child_that_works_until_it_is_killed";
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The file that says that a child has begun to work.
fn works(folder: &Path, child: u32) -> PathBuf {
    folder.join(format!("{child} works"))
}

async fn kill_and_look(rounds: u64, children: usize) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("t")).unwrap();
    add(folder.path(), "0.parquet", 1);
    let table = folder.path().join("t").join("");
    let mut random = StdRng::seed_from_u64(7);
    let expected = plain_rows(&plain(&[("t", &table)]).await, QUERY).await;
    // With the child's copy of the file in the table, every row is there twice.
    let twice: Vec<String> = expected
        .iter()
        .flat_map(|row| [row.clone(), row.clone()])
        .collect();
    let (mut indexed, mut rewritten) = (0, 0);
    for round in 0.. {
        // A slow machine needs more rounds, and longer ones, to see both states.
        let seen_both = indexed > 0 && rewritten > 0;
        if round >= 10 * rounds || (round >= rounds && seen_both) {
            break;
        }
        let mut working: Vec<Child> = (0..children).map(|_| child(folder.path())).collect();
        // The machine takes as long as it likes to start a process.
        let all_work = async {
            let has_begun = |child: &Child| works(folder.path(), child.id()).exists();
            while !working.iter().all(has_begun) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let at_work = tokio::time::timeout(Duration::from_secs(60), all_work).await;
        let millis = random.random_range(30..600_u64) * (1 + round / rounds);
        tokio::time::sleep(Duration::from_millis(millis)).await;
        for child in &mut working {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(at_work.is_ok(), "round {round}: a child does not work");
        for child in &working {
            fs::remove_file(works(folder.path(), child.id())).unwrap();
        }
        let session = common::session(common::config(), &[("t", &table)]).await;
        let states = rows(&session, "SELECT state FROM coscan.indexes").await;
        assert!(
            states.is_empty() || states == ["ready"],
            "round {round}: {states:?}"
        );
        indexed += states.len();
        let found = rows(&session, QUERY).await;
        let copied = folder.path().join("t/9.parquet").exists();
        rewritten += usize::from(copied);
        let expected = if copied { &twice } else { &expected };
        assert_eq!(&found, expected, "round {round}");
        if children == 1 {
            let after = rows(&session, "SELECT state FROM coscan.indexes").await;
            assert_eq!(after, states, "round {round}: broken");
        }
        // Nothing blocks the next process.
        run(&session, "CREATE INDEX IF NOT EXISTS i ON t (k)")
            .await
            .unwrap();
        run(&session, "REFRESH INDEX i").await.unwrap();
        assert_eq!(&rows(&session, QUERY).await, expected, "round {round}");
        let _ = fs::remove_file(folder.path().join("t/9.parquet"));
    }
    assert!(indexed > 0 && rewritten > 0, "{indexed}, {rewritten}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_leaves_the_old_state_or_the_new() {
    kill_and_look(12, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_on_one_folder_may_be_killed() {
    kill_and_look(6, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: run by hand"]
async fn processes_are_killed_again_and_again() {
    kill_and_look(300, 1).await;
    kill_and_look(300, 2).await;
}
