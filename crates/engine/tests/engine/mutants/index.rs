//! Mutants of indexes and manifests: damaged, or crafted so that their checksums agree.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::files::files;
use super::random::Random;
use super::scan::{caught, check_panics, engine, note_panics, rows, say, wrong};

/// Queries that the index on `i`, or on `s3`, serves.
const QUERIES: [&str; 4] = [
    "SELECT id FROM m WHERE i BETWEEN 100 AND 300",
    "SELECT count(*) FROM m WHERE i = 7 OR i > 900",
    "SELECT i, s3 FROM m WHERE i >= 0 ORDER BY i",
    "SELECT id, s1 FROM m WHERE s3 LIKE 'text 1%'",
];

pub(crate) fn run(seeds: Range<u64>) {
    note_panics();
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let table = folder.path().join("t.parquet");
        fs::write(&table, &files()[4]).expect("written");
        let right = make_indexes(&table).await;
        let kept: Vec<(PathBuf, Vec<u8>)> = index_files(folder.path());
        for seed in seeds {
            let mut random = Random(seed);
            let (what, crafted) = mutate(&kept, &mut random);
            say(&format!("mutant {seed} {what}"));
            // A new engine, because engines cache manifests.
            let session = engine(false);
            let path = table.to_str().expect("UTF-8");
            caught("registering", session.register("m", path))
                .await
                .expect("the table is whole");
            let mut outcome = "rows";
            for (sql, right) in &right {
                match caught(sql, rows(&session, sql)).await {
                    Ok(rows) if rows == *right => {}
                    // An index that was crafted to mislead may find too few rows, but never rows
                    // that do not match.
                    Ok(rows) if crafted && is_part(&rows, right, sql) => outcome = "fewer rows",
                    Ok(rows) => wrong(&format!("{sql}: {} rows, not {}", rows.len(), right.len())),
                    Err(error) if error.contains("panicked") => wrong(&error),
                    Err(_) => outcome = "error",
                }
            }
            let refreshed = caught("REFRESH", rows(&session, "REFRESH INDEX by_i")).await;
            if refreshed.is_ok() {
                for (sql, right) in &right[..3] {
                    // An index that misleads and covers all current files has nothing to refresh.
                    match caught(sql, rows(&session, sql)).await {
                        Ok(rows) if rows == *right => {}
                        Ok(rows) if crafted && is_part(&rows, right, sql) => {}
                        other => wrong(&format!("{sql}: after REFRESH {other:?}")),
                    }
                }
            }
            check_panics();
            say(&format!("outcome {outcome}"));
            restore(folder.path(), &kept);
        }
    });
}

fn is_part(rows: &[String], right: &[String], sql: &str) -> bool {
    sql.contains("count(") || rows.iter().all(|row| right.binary_search(row).is_ok())
}

/// Builds the indexes; returns the right rows of each query.
async fn make_indexes(table: &Path) -> Vec<(&'static str, Vec<String>)> {
    let session = engine(false);
    session
        .register("m", table.to_str().expect("UTF-8"))
        .await
        .expect("registered");
    let mut right = Vec::new();
    for sql in QUERIES {
        right.push((sql, rows(&session, sql).await.expect(sql)));
    }
    for sql in ["CREATE INDEX by_i ON m (i)", "CREATE INDEX by_s ON m (s3)"] {
        rows(&session, sql).await.expect(sql);
    }
    for (sql, right) in &right {
        assert_eq!(rows(&session, sql).await.expect(sql), *right);
    }
    right
}

fn index_files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = fs::read_dir(folder.join("_coscan")).expect("indexes");
    let files = files.map(|file| file.expect("a file").path());
    let files = files.filter(|path| path.is_file());
    let mut files: Vec<_> = files
        .map(|path| (path.clone(), fs::read(path).expect("read")))
        .collect();
    files.sort_unstable();
    files
}

fn restore(folder: &Path, kept: &[(PathBuf, Vec<u8>)]) {
    for (path, _) in index_files(folder) {
        fs::remove_file(path).expect("removed");
    }
    for (path, bytes) in kept {
        fs::write(path, bytes).expect("written");
    }
}

/// Changes a file; returns a description, and whether checksums agree with the change.
fn mutate(kept: &[(PathBuf, Vec<u8>)], random: &mut Random) -> (String, bool) {
    let (path, bytes) = &kept[random.at(kept.len())];
    let mut bytes = bytes.clone();
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let is_manifest = name.rsplit('.').next() == Some("json");
    let what = match random.below(4) {
        0 => {
            bytes.truncate(random.at(bytes.len()));
            "cut off".to_owned()
        }
        1 if is_manifest => {
            let what = edit_number(&mut bytes, random);
            seal(&mut bytes);
            fs::write(path, &bytes).expect("written");
            return (format!("{name}: {what}, sealed"), true);
        }
        2 if !is_manifest => {
            let what = flip(&mut bytes, random);
            fs::write(path, &bytes).expect("written");
            let manifest = kept.iter().find(|(_, manifest)| {
                let manifest = String::from_utf8_lossy(manifest);
                manifest.contains(&format!("\"{name}\""))
            });
            let Some((manifest, text)) = manifest else {
                return (format!("{name}: {what}"), false);
            };
            fs::write(manifest, agreeing(text, &bytes)).expect("written");
            return (format!("{name}: {what}, sealed"), true);
        }
        _ => flip(&mut bytes, random),
    };
    fs::write(path, &bytes).expect("written");
    (format!("{name}: {what}"), false)
}

fn flip(bytes: &mut [u8], random: &mut Random) -> String {
    let at = random.at(bytes.len());
    bytes[at] ^= 1 << random.below(8);
    format!("byte {at}")
}

/// Changes one number of a manifest.
fn edit_number(bytes: &mut Vec<u8>, random: &mut Random) -> String {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let starts: Vec<usize> = text
        .match_indices(|c: char| c.is_ascii_digit())
        .map(|(at, _)| at)
        .filter(|at| matches!(text.as_bytes()[at - 1], b' ' | b'-'))
        .collect();
    let at = starts[random.at(starts.len())];
    let length = text[at..].bytes().take_while(u8::is_ascii_digit).count();
    let known: i64 = text[at..at + length].parse().unwrap_or(0);
    let number = random.number(known).unsigned_abs();
    *bytes = format!("{}{number}{}", &text[..at], &text[at + length..]).into_bytes();
    format!("{known} became {number}")
}

/// Gives a manifest a matching checksum.
fn seal(bytes: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let begin = text.find("\"manifest\":").expect("a manifest") + "\"manifest\":".len();
    let end = text.rfind("\"crc32\"").expect("its checksum");
    let manifest = text[begin..end].trim().trim_end_matches(',');
    let (mut compact, mut quoted) = (String::new(), false);
    for c in manifest.chars() {
        quoted ^= c == '"';
        if quoted || !c.is_whitespace() {
            compact.push(c);
        }
    }
    let crc = crc32fast::hash(compact.as_bytes());
    *bytes = format!("{}\"crc32\": {crc}\n}}", &text[..end]).into_bytes();
}

/// A manifest whose checksums agree with `data`, with the leaves of the built index.
fn agreeing(manifest: &[u8], data: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(manifest).into_owned();
    let number = |name: &str| -> usize {
        let at = text.find(&format!("\"{name}\": ")).expect(name) + name.len() + 4;
        let digits: String = text[at..]
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        digits.parse().expect(name)
    };
    let leaves_end = number("leaves_end");
    let tail = crc32fast::hash(&data[leaves_end..]);
    let known = number("tail_crc32");
    let text = text.replace(
        &format!("\"tail_crc32\": {known}"),
        &format!("\"tail_crc32\": {tail}"),
    );
    // There is one leaf, of 240 rows.
    let at = text.find("\"leaves_crc32\": [").expect("leaves") + "\"leaves_crc32\": [".len();
    let end = at + text[at..].find(']').expect("their end");
    let leaf = crc32fast::hash(&data[4..leaves_end]);
    let mut sealed = format!("{}{leaf}{}", &text[..at], &text[end..]).into_bytes();
    seal(&mut sealed);
    sealed
}
