//! Which nodes are behind the names of a list?
//!
//! An entry `dns:NAME:PORT` stands for a node at each address that the name has. Names are looked
//! up before the first query is planned, and while a query is planned once what is known of them is
//! old; that query gets the nodes that are known. So nodes come and go without a restart, and no
//! query waits for the names' server. A look-up that fails, or finds no address, changes nothing.
//! A host may have addresses of both families. Those of version 6 count only if there are no
//! others, so that a node is not listed twice.
//! Not here: whether a node that is found answers (`suspects.rs`).
//! Bounds: [`NODES_MAX`] nodes, the first ones in the order of their addresses.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures::future::join_all;
use parking_lot::Mutex;
use tokio::net::lookup_host;
use tokio::time::timeout;
use url::Url;

use crate::error::{Error, Result};

/// The most nodes of a cluster; planning costs memory for each pair of a node and a stage.
pub(super) const NODES_MAX: usize = 1024;

/// How old the addresses of names may become. A query that loses a node runs again, so this only
/// bounds how late new nodes get their first parts.
const OLD_AFTER: Duration = Duration::from_secs(5);

/// What a look-up may take.
const LOOKED_UP_WITHIN: Duration = Duration::from_secs(10);

/// A name, and the port of the nodes at its addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) host: String,
    pub(super) port: u16,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dns:{}:{}", self.host, self.port)
    }
}

/// The nodes of a list, of which some may come and go.
#[derive(Debug)]
pub(crate) struct NodeList {
    /// Those that are listed by their addresses.
    fixed: Vec<Url>,
    names: Vec<(Name, Mutex<Found>)>,
    /// That of URLs.
    scheme: &'static str,
    looked_up: Mutex<Option<Instant>>,
}

/// The nodes at a name's addresses, or why none is known.
type Found = Result<Vec<Url>, String>;

impl NodeList {
    pub(super) fn new(fixed: &[Url], names: &[Name], has_tls: bool) -> Self {
        let unknown = |name: &Name| {
            let found = Err("it was not looked up".to_owned());
            (name.clone(), Mutex::new(found))
        };
        Self {
            fixed: fixed.to_vec(),
            names: names.iter().map(unknown).collect(),
            scheme: if has_tls { "https" } else { "http" },
            looked_up: Mutex::default(),
        }
    }

    /// The nodes that are known: first those that are listed by their addresses.
    pub(crate) fn urls(&self) -> Vec<Url> {
        let mut urls = self.fixed.clone();
        let mut found = BTreeSet::new();
        for (_, known) in &self.names {
            found.extend(known.lock().iter().flatten().cloned());
        }
        urls.extend(found.into_iter().filter(|url| !self.fixed.contains(url)));
        urls.truncate(NODES_MAX);
        urls
    }

    /// The nodes that are known, if there is one.
    ///
    /// # Errors
    /// [`Error::Name`].
    pub(crate) fn known(&self) -> Result<Vec<Url>> {
        let urls = self.urls();
        match self.unknown().pop() {
            Some(error) if urls.is_empty() => Err(error),
            _ => Ok(urls),
        }
    }

    /// The errors of names that have no known address.
    pub(crate) fn unknown(&self) -> Vec<Error> {
        let error = |(name, known): &(Name, Mutex<Found>)| {
            let reason = known.lock().as_ref().err().cloned()?;
            let name = name.to_string();
            Some(Error::Name { name, reason })
        };
        self.names.iter().filter_map(error).collect()
    }

    /// Whether nodes may come and go.
    pub(crate) fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    /// Whether the names should be looked up now. The caller that gets `true` does that.
    pub(crate) fn is_due(&self) -> bool {
        if !self.has_names() {
            return false;
        }
        let mut looked_up = self.looked_up.lock();
        let is_due = looked_up.is_none_or(|at| at.elapsed() >= OLD_AFTER);
        if is_due {
            *looked_up = Some(Instant::now());
        }
        is_due
    }

    /// Looks the names up, all at once.
    pub(crate) async fn look_up(&self) {
        *self.looked_up.lock() = Some(Instant::now());
        let found = self.names.iter().map(|(name, _)| addresses(name));
        for (at, found) in join_all(found).await.into_iter().enumerate() {
            self.note(at, found);
        }
    }

    /// Notes what a look-up of a name has found.
    fn note(&self, at: usize, found: Result<Vec<SocketAddr>, String>) {
        let (name, known) = &self.names[at];
        let urls = found.and_then(|found| match self.nodes_at(found) {
            urls if urls.is_empty() => Err("it has no address".to_owned()),
            urls => Ok(urls),
        });
        let mut known = known.lock();
        match urls {
            Ok(urls) => {
                if known.as_ref().ok() != Some(&urls) {
                    log::info!("{name} has {} addresses", urls.len());
                }
                *known = Ok(urls);
            }
            Err(reason) => {
                log::warn!("{name}: {reason}");
                if known.is_err() {
                    *known = Err(reason);
                }
            }
        }
    }

    /// The nodes at these addresses of one name.
    fn nodes_at(&self, mut found: Vec<SocketAddr>) -> Vec<Url> {
        if found.iter().any(SocketAddr::is_ipv4) {
            found.retain(SocketAddr::is_ipv4);
        }
        found.sort_unstable();
        found.dedup();
        let url = |address: SocketAddr| Url::parse(&format!("{}://{address}", self.scheme)).ok();
        found.into_iter().filter_map(url).collect()
    }
}

/// The addresses of a name, or why there are none.
async fn addresses(name: &Name) -> Result<Vec<SocketAddr>, String> {
    let looked_up = lookup_host((name.host.as_str(), name.port));
    match timeout(LOOKED_UP_WITHIN, looked_up).await {
        Ok(Ok(found)) => Ok(found.collect()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", LOOKED_UP_WITHIN.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(fixed: &[&str]) -> NodeList {
        let url = |node: &&str| Url::parse(&format!("http://{node}")).unwrap();
        let fixed: Vec<Url> = fixed.iter().map(url).collect();
        let names = ["workers.example", "others.example"].map(|host| Name {
            host: host.to_owned(),
            port: 7,
        });
        NodeList::new(&fixed, &names, false)
    }

    fn found(addresses: &[&str]) -> Vec<SocketAddr> {
        let addresses = addresses.iter().map(|address| address.parse().unwrap());
        addresses.collect()
    }

    fn nodes(list: &NodeList) -> Vec<String> {
        let urls = list.urls();
        urls.iter().map(|url| url.authority().to_owned()).collect()
    }

    #[test]
    fn nodes_come_and_go() {
        let list = list(&["10.0.0.9:7"]);
        assert_eq!(nodes(&list), ["10.0.0.9:7"]);
        list.note(0, Ok(found(&["10.0.0.2:7", "10.0.0.1:7", "10.0.0.2:7"])));
        list.note(1, Ok(found(&["10.0.0.9:7", "10.0.0.1:7", "[fd00::1]:7"])));
        assert_eq!(nodes(&list), ["10.0.0.9:7", "10.0.0.1:7", "10.0.0.2:7"]);
        list.note(1, Ok(found(&["[fd00::1]:7"])));
        list.note(0, Ok(found(&["10.0.0.3:7"])));
        assert_eq!(nodes(&list), ["10.0.0.9:7", "10.0.0.3:7", "[fd00::1]:7"]);
        assert!(list.unknown().is_empty());
    }

    #[test]
    fn a_failed_look_up_changes_nothing() {
        let list = list(&[]);
        assert!(list.known().is_err());
        list.note(0, Ok(found(&["10.0.0.1:7"])));
        for nothing in [Ok(vec![]), Err("no answer".to_owned())] {
            list.note(0, nothing.clone());
            list.note(1, nothing);
            assert_eq!(nodes(&list), ["10.0.0.1:7"]);
        }
        let unknown: Vec<String> = list.unknown().iter().map(ToString::to_string).collect();
        assert_eq!(unknown, ["dns:others.example:7: no answer"]);
    }

    #[test]
    fn names_are_looked_up_when_they_are_old() {
        let list = list(&[]);
        assert!(list.is_due());
        assert!(!list.is_due(), "another caller does it");
        assert!(!NodeList::new(&[], &[], false).is_due());
    }
}
