//! Serves a folder as S3 on a port of 127.0.0.1 and prints the port. The folder's subfolders are
//! the buckets. The server ends when its standard input ends, so that it does not outlive the test
//! that started it.

use std::error::Error;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args()
        .nth(1)
        .ok_or("usage: coscan-test-s3-server FOLDER")?;
    let files = FileSystem::new(folder).map_err(|error| format!("{error:?}"))?;
    let mut builder = S3ServiceBuilder::new(files);
    builder.set_auth(SimpleAuth::from_single("test", "test-secret"));
    let service = builder.build();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("{}", listener.local_addr()?.port());
    let (mut input, mut ignored) = (tokio::io::stdin(), [0; 64]);
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (socket, _) = accepted?;
                let service = service.clone();
                tokio::spawn(async move {
                    let server = Builder::new(TokioExecutor::new());
                    // A client that disconnects is not an error of the server.
                    let _ = server.serve_connection(TokioIo::new(socket), service).await;
                });
            }
            read = input.read(&mut ignored) => {
                if matches!(read, Ok(0) | Err(_)) {
                    return Ok(());
                }
            }
        }
    }
}
