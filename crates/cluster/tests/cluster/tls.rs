//! Promised: processes that have certificates of one authority run queries together, on any
//! address; one without, or with another authority's, gets nothing, and is told why.

use std::net::SocketAddr;
use std::path::Path;

use coscan_cluster::{Cluster, Nodes, Tls, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use crate::common;
use crate::workers::{self, Worker, rows};

/// An authority, and the folder in which its certificates are.
struct Authority {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("authority.pem"), own.pem()).unwrap();
        Self {
            folder,
            issuer: Issuer::new(params, key),
        }
    }

    /// A certificate for this machine.
    fn issue(&self, name: &str) -> TlsFiles {
        self.issue_for(name, "127.0.0.1")
    }

    /// A certificate that names this host.
    fn issue_for(&self, name: &str, host: &str) -> TlsFiles {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([host.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = |what: &str, text: String| {
            let path = self.folder.path().join(format!("{name}{what}.pem"));
            std::fs::write(&path, text).unwrap();
            path
        };
        TlsFiles {
            certificate: file("", certificate.pem()),
            key: file("-key", key.serialize_pem()),
            authority: self.folder.path().join("authority.pem"),
        }
    }

    fn tls(&self, name: &str) -> Tls {
        Tls::read(&self.issue(name)).unwrap()
    }
}

fn nodes(workers: &[Worker]) -> Nodes {
    let names: Vec<String> = workers.iter().map(|w| w.address.to_string()).collect();
    let nodes = Nodes::new(names.iter().map(String::as_str)).unwrap();
    nodes
        .with_bytes_per_node(1)
        .with_timeouts(workers::TIMEOUTS)
}

fn listed(folder: &Path, addresses: &[SocketAddr]) -> Nodes {
    let list = format!(
        "nodes = [\"{}\", \"{}\"]\nbytes_per_node = \"1B\"\n[tls]\ncertificate = \"me.pem\"\n\
         key = \"me-key.pem\"\nauthority = \"authority.pem\"\n",
        addresses[0], addresses[1]
    );
    std::fs::write(folder.join("nodes.toml"), list).unwrap();
    Nodes::read(&folder.join("nodes.toml")).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_processes_of_one_authority_work_together() {
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let (ours, other) = (Authority::new(), Authority::new());
    let start = |name: &str| Worker::start_with(workers::config(), Some(ours.tls(name)));
    let workers = [start("first"), start("second")];
    let addresses = [workers[0].address, workers[1].address];

    // The join's rows go from worker to worker.
    let join = "SELECT count(*), sum(l_quantity) FROM lineitem JOIN orders \
                ON l_orderkey = o_orderkey WHERE o_totalprice > 1000";
    ours.issue("me");
    let cluster = Cluster::new(listed(ours.folder.path(), &addresses)).unwrap();
    let session = workers::session_on(&cluster, &tables).await;
    let alone = common::session(workers::config(), &tables).await;
    assert_eq!(rows(&session, join).await, rows(&alone, join).await);
    let plan = rows(&session, &format!("EXPLAIN {join}")).await.unwrap();
    assert!(plan.concat().contains("Network"), "{plan:?}");
    assert!(
        workers
            .iter()
            .all(|worker| worker.engine.metrics().io_bytes > 0),
        "both have read"
    );

    for intruder in [
        nodes(&workers),
        nodes(&workers).with_tls(other.tls("intruder")),
    ] {
        let cluster = Cluster::new(intruder).unwrap();
        let error = cluster.connected().await.err().unwrap().to_string();
        assert!(error.contains(&addresses[0].to_string()), "{error}");
    }
    // One that trusts our authority, and has another one's certificate.
    let mut files = other.issue("intruder");
    files.authority = ours.folder.path().join("authority.pem");
    let intruder = nodes(&workers).with_tls(Tls::read(&files).unwrap());
    let cluster = Cluster::new(intruder).unwrap();
    assert!(cluster.connected().await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_nodes_may_have_one_name() {
    const NAME: &str = "workers.example";
    let tables = common::tpch_tables(&common::tpch(0.05));
    let tables = common::borrowed(&tables);
    let authority = Authority::new();
    let tls = |name: &str| Tls::read(&authority.issue_for(name, NAME)).unwrap();
    let named = |name: &str| tls(name).with_name(NAME);
    let start = |name: &str| Worker::start_with(workers::config(), Some(named(name)));
    let workers = [start("first"), start("second")];
    let cluster = Cluster::new(nodes(&workers).with_tls(tls("other"))).unwrap();
    let error = cluster.connected().await.err().unwrap().to_string();
    assert!(error.contains(&workers[0].address.to_string()), "{error}");

    // The join's rows go from worker to worker.
    let join = "SELECT count(*), sum(l_quantity) FROM lineitem JOIN orders \
                ON l_orderkey = o_orderkey WHERE o_totalprice > 1000";
    let ours = nodes(&workers).with_tls(named("me"));
    let session = workers::session_on(&Cluster::new(ours).unwrap(), &tables).await;
    let alone = common::session(workers::config(), &tables).await;
    assert_eq!(rows(&session, join).await, rows(&alone, join).await);
    let plan = rows(&session, &format!("EXPLAIN {join}")).await.unwrap();
    assert!(plan.concat().contains("Network"), "{plan:?}");
}

#[test]
fn files_that_are_no_certificates_are_named() {
    let authority = Authority::new();
    let files = authority.issue("me");
    let swapped = TlsFiles {
        certificate: files.key.clone(),
        ..files.clone()
    };
    let error = Tls::read(&swapped).unwrap_err().to_string();
    assert!(
        error.contains("me-key.pem") && error.contains("certificate"),
        "{error}"
    );
    let missing = TlsFiles {
        authority: "nowhere.pem".into(),
        ..files.clone()
    };
    let error = Tls::read(&missing).unwrap_err().to_string();
    assert!(error.contains("nowhere.pem"), "{error}");
    // A key of another certificate.
    let other = authority.issue("other");
    let mixed = TlsFiles {
        key: other.key,
        ..files
    };
    let tls = Tls::read(&mixed).unwrap();
    let nodes = Nodes::new(["127.0.0.1:1"]).unwrap().with_tls(tls);
    let error = Cluster::new(nodes).err().unwrap().to_string();
    assert!(error.contains("do not work together"), "{error}");
}
