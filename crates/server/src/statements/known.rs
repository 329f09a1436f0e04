//! Which queries did clients send before? What they parse to is kept.
//!
//! Dashboards send the same texts all the time. Parsing and rewriting takes 9 to 12 % of a short
//! query's processor time, and depends on nothing but the text. A text that comes a second time is
//! parsed and kept; from the third time on its tree is copied. A text that comes once costs a hash.
//! Not here: plans. They depend on tables, settings and rights, and would keep the rows of dropped
//! tables in memory.
//!
//! Bounds: one query of at most [`SHORT_BYTES`] bytes each; all of them together take at most
//! [`KEPT_BYTES`], by the estimate that ledgers use. They count in the engine's memory and not for
//! a connection, and are given back when it is short. The oldest goes first.
//! KNOWN-I1: what is kept follows from the text alone: parsing asks for no settings, rights or
//! tables.
//! KNOWN-I2: a connection is charged for a statement that was known as for any other.
//! KNOWN-I3: no call of the account is made under the lock of the texts, because the engine may
//! ask for bytes back before it answers.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use coscan::{Reclaim, Retained, StatementSize};
use coscan_pg::dialect::Written;
use datafusion::config::ConfigOptions;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;

use super::parse::{Cost, Parsed, SHORT_BYTES, parse_all};
use super::statement::Action;
use crate::failure::Failure;
use crate::net::Ledger;

/// A query of TPC-H is estimated to take 0.1 to 0.3 MB, and takes a part of that.
const KEPT_BYTES: usize = 4 << 20;
/// Of the texts that came once, so many hashes are remembered.
const SEEN: usize = 1 << 10;

/// The texts that the server knows. All connections share it.
#[derive(Default)]
pub(crate) struct KnownTexts {
    texts: Mutex<Texts>,
    /// Has the bytes of `texts` from the first session on; `None` if that has no engine.
    account: OnceLock<Option<Retained>>,
}

#[derive(Default)]
struct Texts {
    kept: HashMap<Arc<str>, Arc<Known>>,
    /// The texts of `kept`, the oldest first.
    order: VecDeque<Arc<str>>,
    /// What `kept` takes, estimated.
    bytes: usize,
    /// The hashes of texts that came once, each at its own place; empty until the first text comes.
    seen: Vec<u64>,
}

/// What a text parses to.
struct Known {
    action: Action,
    size: StatementSize,
    written: Written,
}

/// What is known of a text.
enum Found {
    New,
    /// It came before, and is not kept.
    Seen,
    Kept(Arc<Known>),
}

impl KnownTexts {
    /// Counts what is kept in the memory of the session's engine, from the first session on.
    pub(crate) fn count_in(self: &Arc<Self>, session: &ConfigOptions) {
        self.account.get_or_init(|| {
            let own: Weak<Self> = Arc::downgrade(self);
            Retained::new(session, own)
        });
    }

    /// Parses all statements of a text, like [`parse_all`].
    pub(crate) fn parse(&self, ledger: &Ledger, sql: &str) -> Result<Vec<Parsed>, Failure> {
        if sql.len() > SHORT_BYTES {
            return parse_all(ledger, sql);
        }
        let found = self.texts().find(sql);
        match found {
            Found::New => parse_all(ledger, sql),
            Found::Seen => {
                let all = parse_all(ledger, sql)?;
                if let Some(known) = Known::of(&all) {
                    self.keep(sql, known);
                }
                Ok(all)
            }
            Found::Kept(known) => Ok(vec![known.parsed(ledger, sql)?]),
        }
    }

    /// Keeps a text if there is memory for it.
    fn keep(&self, sql: &str, known: Known) {
        let bytes = known.size.memory_bytes();
        let refused = |account: &Retained| !account.try_keep(bytes);
        if bytes > KEPT_BYTES || self.account().is_some_and(refused) {
            return;
        }
        // KNOWN-I3
        let freed = self.texts().keep(sql, known);
        self.give_back(freed);
    }

    fn account(&self) -> Option<&Retained> {
        self.account.get().and_then(Option::as_ref)
    }

    fn give_back(&self, bytes: usize) {
        if bytes > 0
            && let Some(account) = self.account()
        {
            account.give_back(bytes);
        }
    }

    fn texts(&self) -> MutexGuard<'_, Texts> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reclaim for KnownTexts {
    fn reclaim(&self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let freed = self.texts().drop_oldest(bytes);
        self.give_back(freed);
    }
}

impl Drop for KnownTexts {
    fn drop(&mut self) {
        let bytes = self.texts().bytes;
        self.give_back(bytes);
    }
}

impl Texts {
    fn find(&mut self, sql: &str) -> Found {
        if let Some(known) = self.kept.get(sql) {
            return Found::Kept(Arc::clone(known));
        }
        self.seen.resize(SEEN, 0);
        let hash = self.kept.hasher().hash_one(sql);
        let place = usize::try_from(hash % SEEN as u64).unwrap_or(0);
        // Two texts of one hash, or none yet where the hash is 0: a text is kept the first time.
        if std::mem::replace(&mut self.seen[place], hash) == hash {
            Found::Seen
        } else {
            Found::New
        }
    }

    /// Keeps a text of at most [`KEPT_BYTES`], in place of the oldest ones. Returns the bytes that
    /// are free then.
    fn keep(&mut self, sql: &str, known: Known) -> usize {
        let bytes = known.size.memory_bytes();
        // Another connection may have kept it meanwhile.
        if self.kept.contains_key(sql) {
            return bytes;
        }
        let freed = self.drop_oldest((self.bytes + bytes).saturating_sub(KEPT_BYTES));
        let text: Arc<str> = sql.into();
        self.order.push_back(Arc::clone(&text));
        self.kept.insert(text, Arc::new(known));
        self.bytes += bytes;
        freed
    }

    /// Drops the oldest texts until so many bytes are free, or none is left. Returns the bytes.
    fn drop_oldest(&mut self, bytes: usize) -> usize {
        let mut freed = 0;
        while freed < bytes
            && let Some(oldest) = self.order.pop_front()
        {
            if let Some(gone) = self.kept.remove(&oldest) {
                freed += gone.size.memory_bytes();
            }
        }
        self.bytes -= freed;
        freed
    }
}

impl Known {
    /// A text that is one query. Other statements do not repeat, or hold what must not be kept: the
    /// secrets of CREATE EXTERNAL TABLE.
    fn of(all: &[Parsed]) -> Option<Self> {
        let [parsed] = all else {
            return None;
        };
        let Action::Plan(statement) = &parsed.action else {
            return None;
        };
        let DfStatement::Statement(statement) = statement.as_ref() else {
            return None;
        };
        matches!(statement.as_ref(), SqlStatement::Query(_)).then(|| Self {
            action: parsed.action.clone(),
            size: parsed.cost.size(),
            written: parsed.written.clone(),
        })
    }

    fn parsed(&self, ledger: &Ledger, sql: &str) -> Result<Parsed, Failure> {
        let cost = Cost::charged(ledger, self.size)?;
        Ok(Parsed {
            action: self.action.clone(),
            cost: Arc::new(cost),
            written: self.written.clone(),
            place: 0..sql.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use coscan::{Engine, EngineConfig};
    use datafusion::execution::memory_pool::{
        GreedyMemoryPool, MemoryConsumer, MemoryPool, UnboundedMemoryPool,
    };

    use super::*;

    const QUERY: &str = "SELECT a, $1::int8 AS b FROM t WHERE c = 'x' ORDER BY 1";

    fn ledger() -> Ledger {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        Ledger::new(&pool)
    }

    /// How many texts are kept after this one came so many times.
    fn kept(sql: &str, times: usize) -> usize {
        let (known, ledger) = (KnownTexts::default(), ledger());
        for _ in 0..times {
            drop(known.parse(&ledger, sql));
        }
        known.texts().kept.len()
    }

    #[test]
    fn a_query_is_kept_when_it_comes_a_second_time() {
        assert_eq!(kept(QUERY, 1), 0);
        assert_eq!(kept(QUERY, 2), 1);
        assert_eq!(kept(QUERY, 9), 1);
    }

    #[test]
    fn other_statements_and_errors_are_not_kept() {
        for sql in [
            "SELEC 1",
            "SELECT 1; SELECT 2",
            "INSERT INTO t VALUES (1)",
            "SET x = 1",
            "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '/x'",
            "",
        ] {
            assert_eq!(kept(sql, 3), 0, "{sql}");
        }
        let long = format!("SELECT '{}'", "x".repeat(SHORT_BYTES));
        assert_eq!(kept(&long, 3), 0);
    }

    #[test]
    fn a_known_text_parses_to_the_same() {
        let (known, ledger) = (KnownTexts::default(), ledger());
        let fresh = parse_all(&ledger, QUERY).unwrap();
        for _ in 0..4 {
            let all = known.parse(&ledger, QUERY).unwrap();
            assert_eq!(all.len(), 1);
            let actions = [&all[0].action, &fresh[0].action];
            let [one, other] = actions.map(|action| format!("{action:?}"));
            assert_eq!(one, other);
            assert_eq!(all[0].written, fresh[0].written);
            assert_eq!(all[0].cost.size(), fresh[0].cost.size());
        }
    }

    #[test]
    fn a_known_text_is_charged_to_its_connection() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 30));
        let (known, ledger) = (KnownTexts::default(), Ledger::new(&pool));
        for _ in 0..4 {
            let all = known.parse(&ledger, QUERY).unwrap();
            assert_eq!(
                pool.reserved(),
                all[0].cost.size().memory_bytes(),
                "KNOWN-I2"
            );
            drop(all);
            assert_eq!(pool.reserved(), 0);
        }
    }

    /// The memory of the engine below.
    const LIMIT: usize = 64 << 20;

    fn engine() -> Engine {
        let config = EngineConfig {
            memory_bytes: Some(LIMIT as u64),
            ..EngineConfig::default()
        };
        Engine::new(config).unwrap()
    }

    /// Texts that count in the engine's memory.
    fn counted(engine: &Engine) -> Arc<KnownTexts> {
        let known = Arc::<KnownTexts>::default();
        let session = engine.session();
        known.count_in(session.context().copied_config().options());
        known
    }

    /// Lets a text come twice; whether it is kept then.
    fn comes_twice(known: &KnownTexts, sql: &str) -> bool {
        for _ in 0..2 {
            known.parse(&ledger(), sql).unwrap();
        }
        known.texts().kept.contains_key(sql)
    }

    #[test]
    fn what_is_kept_counts_in_the_engines_memory() {
        let engine = engine();
        let known = counted(&engine);
        let bytes = || usize::try_from(engine.memory().statement_bytes()).unwrap();
        assert!(comes_twice(&known, QUERY) && comes_twice(&known, "SELECT 1"));
        assert_eq!(bytes(), known.texts().bytes);
        // Many take the place of others.
        for number in 0..2_000 {
            assert!(comes_twice(&known, &format!("SELECT a + {number} FROM t")));
        }
        assert_eq!(bytes(), known.texts().bytes);
        assert!(bytes() > KEPT_BYTES / 2);
        drop(known);
        assert_eq!(bytes(), 0);
    }

    #[test]
    fn what_is_kept_is_given_back_when_memory_is_short() {
        let engine = engine();
        let known = counted(&engine);
        assert!(comes_twice(&known, QUERY));
        let pool = &engine.runtime().memory_pool;
        let operator = MemoryConsumer::new("operator").register(pool);
        operator.grow(LIMIT);
        let begun = Instant::now();
        // The memory's clock may be at it on a thread of its own.
        while engine.memory().statement_bytes() > 0 {
            assert!(begun.elapsed() < Duration::from_secs(10), "it is kept");
            std::thread::sleep(Duration::from_millis(5));
        }
        let texts = known.texts();
        assert_eq!((texts.kept.len(), texts.bytes), (0, 0));
        drop(texts);
        assert!(!comes_twice(&known, QUERY), "there is no memory for it");
        operator.free();
        assert!(comes_twice(&known, QUERY));
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let (known, ledger) = (KnownTexts::default(), ledger());
        for number in 0..2_000 {
            let sql = format!("SELECT a + {number} FROM t");
            for _ in 0..2 {
                known.parse(&ledger, &sql).unwrap();
            }
            let texts = known.texts();
            assert!(texts.bytes <= KEPT_BYTES);
            assert_eq!(texts.kept.len(), texts.order.len());
            assert!(texts.kept.contains_key(sql.as_str()), "the newest stays");
        }
        assert!(!known.texts().kept.contains_key("SELECT a + 0 FROM t"));
    }
}
