//! Which nodes does a cluster have, and how are they reached?
//!
//! A file in TOML lists them, by their addresses or by names that have one for each node
//! (`dns:workers.example:50051`, see `names.rs`):
//!
//! ```toml
//! nodes = ["127.0.0.1:50051", "127.0.0.1:50052"]
//! bytes_per_node = "64MiB"   # a query that reads more runs on more nodes
//! connect_timeout = "2s"
//! silence_timeout = "5s"     # of a node that owes an answer
//!
//! [tls]                      # as of this file's folder
//! certificate = "coordinator.pem"
//! key = "coordinator-key.pem"
//! authority = "authority.pem"
//! name = "workers.example"   # that all certificates have, whatever address a node is reached by
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use coscan_quantities::{parse_bytes, parse_duration};
use serde::Deserialize;
use url::Url;

use super::links::{Links, Timeouts, Tls, TlsFiles};
use super::names::{NODES_MAX, Name, NodeList};
use crate::error::{Error, Result};

/// What a node reads at least before a second one helps: four chunks. The plan of a part takes a
/// few milliseconds to send, and a chunk some 80 ms to read from a disk.
const BYTES_PER_NODE_DEFAULT: u64 = 64 << 20;

/// What an entry begins with that is a name of several nodes.
const NAME: &str = "dns:";

/// The nodes of a cluster.
#[derive(Clone, Debug)]
pub struct Nodes {
    urls: Vec<Url>,
    names: Vec<Name>,
    bytes_per_node: u64,
    links: Links,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    nodes: Vec<String>,
    bytes_per_node: Option<String>,
    connect_timeout: Option<String>,
    silence_timeout: Option<String>,
    tls: Option<WrittenTls>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTls {
    certificate: PathBuf,
    key: PathBuf,
    authority: PathBuf,
    name: Option<String>,
}

impl Nodes {
    /// Nodes at these addresses, each `HOST:PORT`, or `dns:NAME:PORT` for a node at each address
    /// that the name has.
    ///
    /// # Errors
    /// What is wrong about the list, in a sentence.
    pub fn new<'a>(addresses: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let (mut urls, mut names) = (vec![], vec![]);
        for address in addresses {
            match address.strip_prefix(NAME) {
                Some(text) => names.push(parsed_name(text)?),
                None => urls.push(url(address)?),
            }
        }
        let listed = urls.len() + names.len();
        if !(1..=NODES_MAX).contains(&listed) {
            return Err(format!(
                "a cluster has 1 to {NODES_MAX} nodes, not {listed}"
            ));
        }
        let distinct = urls.iter().collect::<BTreeSet<_>>().len();
        if distinct + names.iter().collect::<BTreeSet<_>>().len() < listed {
            return Err("a node is listed twice".to_owned());
        }
        Ok(Self {
            urls,
            names,
            bytes_per_node: BYTES_PER_NODE_DEFAULT,
            links: Links::default(),
        })
    }

    /// The nodes that a file lists; or those of one name, if the path is `dns:NAME:PORT`.
    ///
    /// # Errors
    /// [`Error::List`] and [`Error::TlsFile`], which name the file.
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.to_str().filter(|path| path.starts_with(NAME));
        let read = match name {
            Some(name) => Self::new([name]).map(|nodes| (nodes, None)),
            None => {
                let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
                text.and_then(|text| Self::parse(&text))
            }
        };
        let (nodes, tls) = read.map_err(|reason| Error::List {
            path: path.to_owned(),
            reason,
        })?;
        let Some(WrittenTls {
            certificate,
            key,
            authority,
            name,
        }) = tls
        else {
            return Ok(nodes);
        };
        let folder = path.parent().unwrap_or(Path::new(""));
        let tls = Tls::read(&TlsFiles {
            certificate: folder.join(certificate),
            key: folder.join(key),
            authority: folder.join(authority),
        })?;
        Ok(nodes.with_tls(match name {
            Some(name) => tls.with_name(name),
            None => tls,
        }))
    }

    fn parse(text: &str) -> Result<(Self, Option<WrittenTls>), String> {
        let written: Written = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut nodes = Self::new(written.nodes.iter().map(String::as_str))?;
        let named = |name: &'static str| move |error| format!("{name}: {error}");
        if let Some(text) = &written.bytes_per_node {
            nodes.bytes_per_node = parse_bytes(text).map_err(named("bytes_per_node"))?;
        }
        let timeouts = &mut nodes.links.timeouts;
        if let Some(text) = &written.connect_timeout {
            timeouts.connect = parse_duration(text).map_err(named("connect_timeout"))?;
        }
        if let Some(text) = &written.silence_timeout {
            timeouts.silence = parse_duration(text).map_err(named("silence_timeout"))?;
        }
        Ok((nodes, written.tls))
    }

    /// The same nodes, of which each reads so many bytes before another one helps.
    #[must_use]
    pub fn with_bytes_per_node(mut self, bytes: u64) -> Self {
        self.bytes_per_node = bytes;
        self
    }

    /// The same nodes with other timeouts.
    #[must_use]
    pub fn with_timeouts(mut self, timeouts: Timeouts) -> Self {
        self.links.timeouts = timeouts;
        self
    }

    /// The same nodes, which this process reaches with its certificate.
    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Self {
        for url in &mut self.urls {
            // A URL does not name the port that is its scheme's own. None of this can fail.
            let port = url.port_or_known_default();
            let _ = url.set_scheme("https");
            let _ = url.set_port(port);
        }
        self.links.tls = Some(tls);
        self
    }

    /// How the nodes are reached.
    #[must_use]
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// The nodes as listed.
    pub(crate) fn list(&self) -> NodeList {
        NodeList::new(&self.urls, &self.names, self.links.tls.is_some())
    }

    pub(crate) fn bytes_per_node(&self) -> u64 {
        self.bytes_per_node
    }
}

/// The name in an entry, without what marks it as one.
fn parsed_name(entry: &str) -> Result<Name, String> {
    let parsed = url(entry).ok().and_then(|_| {
        let (host, port) = entry.rsplit_once(':')?;
        Some(Name {
            host: host.to_owned(),
            port: port.parse().ok()?,
        })
    });
    parsed.ok_or_else(|| format!("\"{NAME}{entry}\" is not dns:NAME:PORT"))
}

/// The name of a node in messages: its host and port.
pub(crate) fn name(url: &Url) -> &str {
    &url[url::Position::BeforeHost..url::Position::AfterPort]
}

fn url(address: &str) -> Result<Url, String> {
    let wrong = || format!("{address:?} is not HOST:PORT");
    let url = Url::parse(&format!("http://{address}")).map_err(|_| wrong())?;
    let is_address = url.has_host() && url.path() == "/" && url.query().is_none();
    // A port that is HTTP's own is left out of a URL.
    let has_port = address
        .rsplit(':')
        .next()
        .is_some_and(|port| port.parse::<u16>().is_ok());
    if is_address && has_port && url.username().is_empty() {
        Ok(url)
    } else {
        Err(wrong())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_file_lists_nodes_and_times() {
        let nodes = Nodes::parse(
            "nodes = [\"127.0.0.1:50051\", \"[::1]:50052\"]\n\
             bytes_per_node = \"1MiB\"\nconnect_timeout = \"500ms\"",
        );
        let (nodes, tls) = nodes.unwrap();
        assert!(tls.is_none());
        let urls = nodes.list().urls();
        let names: Vec<&str> = urls.iter().map(name).collect();
        assert_eq!(names, ["127.0.0.1:50051", "[::1]:50052"]);
        assert_eq!(nodes.bytes_per_node(), 1 << 20);
        assert_eq!(nodes.links().timeouts.connect, Duration::from_millis(500));
        assert_eq!(nodes.links().timeouts.silence, Timeouts::default().silence);
    }

    #[test]
    fn a_name_may_be_all_of_a_list() {
        let nodes = Nodes::read(Path::new("dns:workers.example:50051")).unwrap();
        assert!(nodes.list().has_names());
        let error = Nodes::read(Path::new("dns:workers.example")).unwrap_err();
        assert!(error.to_string().contains("dns:NAME:PORT"), "{error}");
    }

    #[test]
    fn what_is_wrong_about_a_list_is_said() {
        for (text, said) in [
            ("nodes = []", "1 to 1024"),
            ("nodes = [\"a:1\", \"a:1\"]", "twice"),
            ("nodes = [\"dns:a:1\", \"dns:a:1\"]", "twice"),
            ("nodes = [\"dns:a\"]", "\"dns:a\" is not dns:NAME:PORT"),
            ("nodes = [\"a\"]", "HOST:PORT"),
            ("nodes = [\"http://a:1\"]", "HOST:PORT"),
            ("nodes = [\"a:1/x\"]", "HOST:PORT"),
            ("node = [\"a:1\"]", "node"),
            ("nodes = [\"a:1\"]\n[tls]\nkey = \"k\"", "certificate"),
            (
                "nodes = [\"a:1\"]\nbytes_per_node = \"much\"",
                "bytes_per_node",
            ),
        ] {
            let error = Nodes::parse(text).err().unwrap();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
