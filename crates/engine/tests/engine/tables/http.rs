//! Promised: a Parquet file on a web server that answers range requests is a table, read
//! cooperatively. A missing file, a server that cannot list folders and a server that dies in the
//! middle of an answer give errors that name the URL.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field};
use coscan::{EngineConfig, Session, StorageError, storage_error};
use coscan_storage::device::{ObjectDevice, ObjectOptions};
use object_store::ClientOptions;
use object_store::http::HttpBuilder;

use crate::common::{self, collect, config, plain, plain_rows, rows, session};

const ROWS: i64 = 30_000;

fn write(path: &Path) {
    let schema = common::schema(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("s", DataType::Utf8, false),
    ]);
    let values = (0..ROWS).map(|k| format!("value {}", k * 7919 % 30_011));
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            Arc::new(Int64Array::from_iter_values(0..ROWS)),
            Arc::new(StringArray::from_iter_values(values)),
        ],
    );
    common::write(path, schema, &[batch.expect("a batch")], 3000);
}

/// A web server on loopback: GET and HEAD of one file, whole or a range.
struct Server {
    url: String,
    life: Arc<Mutex<Life>>,
}

/// How a server answers GET.
#[derive(Clone, Copy)]
enum Life {
    Well,
    /// One more answer breaks off after its first half.
    Dying,
    Dead,
}

impl Server {
    /// Serves `file` as `/data/x.parquet`, until the process ends.
    fn start(file: &Path) -> Self {
        let bytes: Arc<[u8]> = fs::read(file).expect("read").into();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let life = Arc::new(Mutex::new(Life::Well));
        let shared = Arc::clone(&life);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (bytes, life) = (Arc::clone(&bytes), Arc::clone(&shared));
                // The thread ends with the connection, however the client closes it.
                thread::spawn(move || serve(connection, &bytes, &life));
            }
        });
        Self { url, life }
    }

    fn file(&self) -> String {
        format!("{}/data/x.parquet", self.url)
    }

    /// The next answer to GET breaks off after half of its bytes, and is the last one. HEAD is
    /// still answered, so that a query can be planned.
    fn die(&self) {
        *self.life.lock().expect("no panic") = Life::Dying;
    }
}

/// Answers the requests of one connection.
fn serve(mut connection: TcpStream, bytes: &[u8], life: &Mutex<Life>) -> std::io::Result<()> {
    let mut lines = BufReader::new(connection.try_clone()?).lines();
    while let Some(request) = lines.next().transpose()? {
        let mut range = None;
        for header in lines.by_ref() {
            let header = header?.to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(wanted) = header.strip_prefix("range: bytes=") {
                let (first, last) = wanted.split_once('-').expect("first and last");
                let number = |text: &str| text.parse::<usize>().expect("a number");
                range = Some(number(first)..number(last) + 1);
            }
        }
        let mut words = request.split(' ');
        let (method, path) = (words.next(), words.next());
        let (status, body) = match (method, path, range) {
            (Some("GET" | "HEAD"), Some("/data/x.parquet"), None) => ("200 OK".to_owned(), bytes),
            (Some("GET" | "HEAD"), Some("/data/x.parquet"), Some(range)) => {
                let (first, last, all) = (range.start, range.end - 1, bytes.len());
                let of = format!("Content-Range: bytes {first}-{last}/{all}");
                (format!("206 Partial Content\r\n{of}"), &bytes[range])
            }
            (Some("GET" | "HEAD"), ..) => ("404 Not Found".to_owned(), &[][..]),
            _ => ("405 Method Not Allowed".to_owned(), &[][..]),
        };
        let length = body.len();
        write!(
            connection,
            "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nETag: \"one\"\r\n\r\n"
        )?;
        if method == Some("HEAD") {
            continue;
        }
        let mut life = life.lock().expect("no panic");
        match *life {
            Life::Well => connection.write_all(body)?,
            Life::Dying => {
                *life = Life::Dead;
                return connection.write_all(&body[..length / 2]);
            }
            Life::Dead => return Ok(()),
        }
    }
    Ok(())
}

fn small_chunks() -> EngineConfig {
    EngineConfig {
        chunk_bytes: 32 << 10,
        ..config()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_on_a_web_server_is_a_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.parquet");
    write(&path);
    let server = Server::start(&path);
    let session: Session = session(small_chunks(), &[("t", Path::new(&server.file()))]).await;
    let local = plain(&[("t", &path)]).await;
    let plan = session.explain("SELECT s FROM t WHERE k > 7").await;
    let plan = plan.expect("a plan");
    assert!(plan.contains("CScan"), "{plan}");
    let queries = [
        "SELECT count(*), sum(k), min(s), max(s) FROM t",
        "SELECT k, s FROM t WHERE k BETWEEN 2990 AND 3010",
        "SELECT count(*), max(s) FROM t WHERE s LIKE '%7' AND k % 3 = 1",
    ];
    let (a, b, c) = tokio::join!(
        rows(&session, queries[0]),
        rows(&session, queries[1]),
        rows(&session, queries[2]),
    );
    for (sql, found) in queries.iter().zip([a, b, c]) {
        assert_eq!(found, plain_rows(&local, sql).await, "{sql}");
    }
    let devices = rows(&session, "SELECT name FROM coscan.devices WHERE bytes > 0").await;
    assert_eq!(devices, [server.url.as_str()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_a_web_server_lacks_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.parquet");
    write(&path);
    let server = Server::start(&path);
    let session = session(config(), &[]).await;
    // The server cannot list folders, either.
    for (place, why) in [
        ("data/none.parquet", "no such file"),
        ("data/", "name one file"),
    ] {
        let url = format!("{}/{place}", server.url);
        let error = session.register("t", &url).await.expect_err("not there");
        let error = error.to_string();
        assert!(error.contains(&url) && error.contains(why), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_web_server_that_dies_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.parquet");
    write(&path);
    let server = Server::start(&path);
    let session = session(small_chunks(), &[("t", Path::new(&server.file()))]).await;
    // Less patience than the default of two minutes.
    let hasty = ObjectOptions {
        request_timeout: Duration::from_millis(500),
        attempts_max: 2,
        ..ObjectOptions::default()
    };
    let store = HttpBuilder::new()
        .with_url(&server.url)
        .with_client_options(ClientOptions::new().with_allow_http(true))
        .build();
    let device = ObjectDevice::new(&server.url, Arc::new(store.expect("a store")), hasty);
    let devices = session.engine().devices();
    let registered = devices.register(&server.url, Arc::new(device));
    registered.expect("registered");
    let sql = "SELECT count(*), max(s) FROM t WHERE k < 3000";
    assert_eq!(rows(&session, sql).await, ["3000|value 9990"]);
    server.die();
    let rest = "SELECT count(*), max(s) FROM t WHERE k >= 15000";
    let stream = session.sql(rest).await.expect("planned");
    let error = collect(stream).await.expect_err("a dead server");
    assert!(error.to_string().contains(&server.file()), "{error}");
    let found = storage_error(&error);
    assert!(
        matches!(found, Some(StorageError::Unread { .. })),
        "{error}"
    );
}
