//! SET, SHOW and RESET: what are a session's settings, and what do these statements do?
//!
//! A dotted name (`coscan.policy`, `datafusion.execution.batch_size`) belongs to the session's
//! configuration and is set there, or to the client (`custom.rs`). Any other name is PostgreSQL's.
//! A few of these settings have an effect. Those that only tune what Coscan does not have are kept
//! and shown. Those that would change how values look accept only the format that values have
//! anyway. An unknown name is an error.
//!
//! | file | question |
//! |---|---|
//! | `board/` | how does a query read settings, and how does it change one? |
//! | `custom.rs` | which settings are a client's own? |
//! | `described.rs` | what does `pg_settings` say about a setting, beside its value? |
//! | `known.rs` | which of PostgreSQL's settings exist, and what does SET do with each? |
//! | `local.rs` | which settings last until the end of a transaction? |
//! | `modes.rs` | READ ONLY and ISOLATION LEVEL: what are they, and when may they change? |
//! | `options.rs` | how is an option of the session's configuration read and set? |
//! | `saved.rs` | what do ROLLBACK and RESET ALL restore? |
//! | `shown.rs` | what does SHOW show? |
//! | `statement.rs` | which statements are about settings? |
//! | `values.rs` | what does the text of a value mean? |
//!
//! Not here: Coscan's own settings (`../../settings/`), which of them a session may change
//! (`../../rights/settings.rs`), and what a server does by its client's settings: timeouts,
//! keepalive, notices.
//!
//! C1: a setting that affects others needs the right ([`Rights`]), for SET and for RESET.
//! C2: `RESET ALL` and `DISCARD ALL` reset only the session's settings. `coscan.memory`, which all
//! sessions share, returns to the engine's original value only if RESET names it.

mod board;
mod custom;
mod described;
mod known;
mod local;
mod modes;
mod options;
mod saved;
mod shown;
mod statement;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use coscan_pg::output::IntervalStyle;
use coscan_pg::{PgError, zone_name, zone_text};
use datafusion::error::Result;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::{ContextModifier, Expr, Set, TransactionMode};

use self::custom::is_custom;
use self::known::{KNOWN, Known, MESSAGES, Rule, find};
use self::local::Local;
use self::options::{
    CHECKSUMS, DEFAULT_SCHEMA, MEMORY, TIME_ZONE, configure, entry, is_of_environment, restore,
};
use self::values::{check_fixed, given, invalid, on_or_off, one_of, show_duration};
use crate::notices::Severity;
use crate::right::Rights;
use crate::session_names::TEMPORARY_SCHEMA;

pub use self::board::{Board, Published, Request, register_functions};
pub use self::described::{Described, described};
pub use self::known::VERSION;
pub use self::modes::TransactionModes;
pub use self::options::entry_text;
pub use self::saved::SavedSettings;
pub use self::statement::SettingStatement;
pub use self::values::{Keepalive, duration};

/// The setting of the one role that a session has.
const ROLE: &str = "role";

/// The name and the new value of a setting whose changes PostgreSQL reports to clients.
pub type Report = (&'static str, String);

/// One session's settings.
pub struct SessionSettings {
    /// The settings of `KNOWN` that differ from their defaults, by name.
    changed: BTreeMap<&'static str, String>,
    /// The values that RESET restores: those of the factory, and of a client's startup message.
    initial: SavedSettings,
    /// The timeouts that are set, by name.
    timeouts: BTreeMap<&'static str, Duration>,
    keepalive: Keepalive,
    /// The user's name, for `session_authorization`.
    user: String,
    /// What the session is restricted to (C1); `None` for an unrestricted one.
    rights: Option<Rights>,
    board: Arc<Board>,
    /// The settings that SET LOCAL changed in this transaction, with their old values
    /// (`local.rs`).
    local: Local,
    /// The options of the environment that differ from those at the start of the session.
    environment: BTreeMap<String, String>,
    /// The environment with which the session began.
    first_environment: Arc<RuntimeEnv>,
    /// The options of caches that were set, as they were before.
    first_caches: BTreeMap<String, String>,
    /// Whether the program whose session this is has a block.
    in_block: bool,
}

impl SessionSettings {
    /// The settings of a new session.
    #[must_use]
    pub fn new(context: &SessionContext, user: &str) -> Self {
        let state = context.state_ref();
        let state = state.read();
        Self {
            changed: BTreeMap::new(),
            initial: SavedSettings::of_options(Arc::clone(state.config_options())),
            timeouts: BTreeMap::new(),
            keepalive: Keepalive::default(),
            user: user.to_owned(),
            rights: Rights::of(state.config()),
            board: state.config().get_extension().unwrap_or_default(),
            local: Local::new(),
            environment: BTreeMap::new(),
            first_environment: Arc::clone(state.runtime_env()),
            first_caches: BTreeMap::new(),
            in_block: false,
        }
    }

    /// Notes that a program's block begins or ends.
    pub(crate) fn note_block(&mut self, begins: bool) {
        self.in_block = begins;
    }

    /// Whether a program's block is open.
    pub(crate) fn is_in_block(&self) -> bool {
        self.in_block
    }

    /// Whether the session may name files of the server, and so may see their folders in messages.
    #[must_use]
    pub fn may_name_files(&self) -> bool {
        self.rights.is_none_or(|rights| rights.files)
    }

    /// Publishes the current values for queries to read.
    fn publish(&self, context: &SessionContext) {
        let values = KNOWN.iter().map(|known| self.published(context, known));
        self.board.publish(values.collect());
    }

    fn published(&self, context: &SessionContext, known: &Known) -> Published {
        let value = self.value(context, known);
        let (now, then) = (
            self.changed.get(known.name),
            self.initial.changed.get(known.name),
        );
        let source = match then {
            _ if modes::default_of(known.name).is_some() => "override",
            then if now != then => "session",
            Some(_) => "client",
            None if value == known.default => "default",
            None => "configuration file",
        };
        // Only a time zone may be configured for all connections.
        let reset = match (then, known.name) {
            (Some(then), _) => then.clone(),
            (None, "TimeZone") => {
                let zone = self.initial.options.execution.time_zone.as_deref();
                zone_text(zone.unwrap_or(known.default))
            }
            (None, _) => known.default.to_owned(),
        };
        Published {
            name: known.name,
            value,
            default: known.default,
            reset,
            source,
            is_fixed: matches!(known.rule, Rule::ReadOnly),
        }
    }

    /// Whether the client wants notices of this severity.
    #[must_use]
    pub fn wants(&self, severity: Severity) -> bool {
        match self.changed.get(MESSAGES).map(String::as_str) {
            Some("error") => false,
            Some("warning") => severity >= Severity::Warning,
            _ => true,
        }
    }

    /// How long a statement may take.
    #[must_use]
    pub fn statement_timeout(&self) -> Option<Duration> {
        self.timeouts.get("statement_timeout").copied()
    }

    /// How long the client may be idle, in a transaction or outside of one.
    #[must_use]
    pub fn idle_timeout(&self, in_transaction: bool) -> Option<Duration> {
        let name = if in_transaction {
            "idle_in_transaction_session_timeout"
        } else {
            "idle_session_timeout"
        };
        self.timeouts.get(name).copied()
    }

    /// The keepalive settings of the client's socket.
    #[must_use]
    pub fn keepalive(&self) -> Keepalive {
        self.keepalive
    }

    /// The settings reported to a client when it connects.
    #[must_use]
    pub fn reports(&self, context: &SessionContext) -> Vec<Report> {
        let reported = KNOWN.iter().filter_map(|known| self.report(context, known));
        reported.collect()
    }

    /// The report of a setting, if its changes are reported.
    fn report(&self, context: &SessionContext, known: &Known) -> Option<Report> {
        let report = || (known.name, self.value(context, known));
        known.reported.then(report)
    }

    /// Carries out SET or RESET; SHOW changes nothing. A transaction, if there is one, keeps its
    /// modes whatever becomes of their defaults, and whoever owns it checks whether SET may change
    /// them ([`SettingStatement::may_be_late`]). Returns what is to be reported to a client.
    ///
    /// # Errors
    /// As [`SessionSettings::set`]; 0A000 for what no session has.
    pub async fn change(
        &mut self,
        context: &SessionContext,
        statement: &SettingStatement,
        in_transaction: bool,
    ) -> Result<Vec<Report>> {
        if in_transaction {
            self.keep_modes(context)?;
        }
        let report = match statement {
            SettingStatement::Set(set) => self.apply(context, set, in_transaction).await?,
            SettingStatement::Reset(None) => return self.reset_all(context).await,
            SettingStatement::Reset(Some(name)) if name == ROLE => None,
            SettingStatement::Reset(Some(name)) => {
                self.forget(name);
                self.reset(context, name).await?
            }
            SettingStatement::Show(_) => None,
        };
        Ok(report.into_iter().collect())
    }

    /// Carries out SET and RESET as [`SessionSettings::change`] does, and SHOW. Returns the rows.
    pub(crate) async fn answer(
        &mut self,
        context: &SessionContext,
        statement: &SettingStatement,
        in_transaction: bool,
    ) -> Result<Vec<RecordBatch>> {
        if let SettingStatement::Show(name) = statement {
            return Ok(vec![self.shown(context, name)?]);
        }
        self.change(context, statement, in_transaction).await?;
        Ok(vec![])
    }

    /// Carries out a SET statement.
    async fn apply(
        &mut self,
        context: &SessionContext,
        set: &Set,
        in_transaction: bool,
    ) -> Result<Option<Report>> {
        match set {
            Set::SingleAssignment {
                scope: Some(ContextModifier::Global),
                ..
            } => Err(PgError::unsupported("settings belong to one connection; use SET").into()),
            Set::SingleAssignment {
                scope,
                variable,
                values,
                ..
            } => {
                let name = variable.to_string().to_lowercase().replace('"', "");
                let local = matches!(scope, Some(ContextModifier::Local));
                let local = local || modes::default_of(&name).is_some();
                self.assign(context, &name, values, local.then_some(in_transaction))
                    .await
            }
            Set::SetTimeZone { local, value } => {
                let value = std::slice::from_ref(value);
                self.assign(context, "timezone", value, local.then_some(in_transaction))
                    .await
            }
            Set::SetNames { charset_name, .. } => {
                self.set(context, "client_encoding", &charset_name.value)
                    .await
            }
            Set::SetTransaction {
                snapshot: Some(_), ..
            } => Err(PgError::unsupported("snapshots are not exported").into()),
            Set::SetTransaction {
                modes,
                session: true,
                ..
            } => self.set_default_modes(context, modes).await,
            Set::SetTransaction { modes, .. } => {
                if in_transaction {
                    self.set_modes(context, modes).await?;
                }
                Ok(None)
            }
            Set::SetNamesDefault {} => Ok(None),
            Set::SetRole {
                role_name: None, ..
            } => Ok(None),
            other => Err(PgError::unsupported(format!("not supported: SET {other}")).into()),
        }
    }

    /// Sets the modes of the session's next transactions.
    async fn set_default_modes(
        &mut self,
        context: &SessionContext,
        modes: &[TransactionMode],
    ) -> Result<Option<Report>> {
        let mut report = None;
        for (name, value) in modes::settings(modes) {
            let name = modes::default_of(name).unwrap_or(name);
            self.forget(name);
            report = self.set(context, name, value).await?.or(report);
        }
        Ok(report)
    }

    /// Sets the modes of the current transaction.
    ///
    /// # Errors
    /// As [`SessionSettings::set`].
    pub async fn set_modes(
        &mut self,
        context: &SessionContext,
        modes: &[TransactionMode],
    ) -> Result<()> {
        for (name, value) in modes::settings(modes) {
            self.remember(context, name)?;
            self.set(context, name, value).await?;
        }
        Ok(())
    }

    /// Keeps the modes of the current transaction, whatever becomes of the defaults, which are for
    /// later ones.
    fn keep_modes(&mut self, context: &SessionContext) -> Result<()> {
        let now = self.modes(context).written();
        for (name, value) in modes::settings(&now) {
            self.remember(context, name)?;
            self.changed.insert(name, value.to_owned());
        }
        Ok(())
    }

    /// The modes of the current transaction, or of the next one.
    #[must_use]
    pub fn modes(&self, context: &SessionContext) -> TransactionModes {
        let value = |name| find(name).map(|known| self.value(context, known));
        TransactionModes {
            read_only: value(modes::READ_ONLY).is_ok_and(|value| value == "on"),
            isolation: value(modes::ISOLATION).unwrap_or_default(),
        }
    }

    /// Runs `SET name = values`. `local` is `Some` for SET LOCAL, and says whether a transaction
    /// is open.
    async fn assign(
        &mut self,
        context: &SessionContext,
        name: &str,
        values: &[Expr],
        local: Option<bool>,
    ) -> Result<Option<Report>> {
        let value = given(values)?;
        match local {
            Some(false) => return Ok(None),
            Some(true) => self.remember(context, name)?,
            None => self.forget(name),
        }
        match value {
            Some(value) => self.set(context, name, &value).await,
            None => self.reset(context, name).await,
        }
    }

    /// Sets one setting by name. Returns what is to be reported to a client.
    ///
    /// # Errors
    /// 42704 if there is no such setting; 22023 if it cannot have this value, and 55P02 if it has
    /// one value only; [`Error::Denied`](crate::Error::Denied).
    pub async fn set(
        &mut self,
        context: &SessionContext,
        name: &str,
        value: &str,
    ) -> Result<Option<Report>> {
        self.check_right(name, Some(value))?;
        if is_custom(context, name) {
            self.set_custom(name, value)?;
            return Ok(None);
        }
        if is_of_environment(name) {
            self.set_environment(context, name, value).await?;
            return Ok(None);
        }
        if name.contains('.') {
            configure(context, name, value).await?;
            return Ok(None);
        }
        let known = find(name)?;
        let kept = self.put(context, known, value.trim()).await?;
        self.changed.insert(known.name, kept);
        self.publish(context);
        Ok(self.report(context, known))
    }

    /// Gives one of PostgreSQL's settings the effect that a value has. Returns the value as SHOW
    /// shows it.
    async fn put(
        &mut self,
        context: &SessionContext,
        known: &Known,
        value: &str,
    ) -> Result<String> {
        Ok(match known.rule {
            Rule::Kept => value.to_owned(),
            Rule::Boolean => on_or_off(known, value)?.to_owned(),
            Rule::One(values) => one_of(known, values, value)?.to_owned(),
            Rule::Fixed(accepted) => {
                check_fixed(known, accepted, value)?;
                known.default.to_owned()
            }
            Rule::ReadOnly => {
                let text = format!("{} cannot be changed", known.name);
                return Err(PgError::new("55P02", text).into());
            }
            Rule::Timeout => self.set_timeout(known, value)?,
            Rule::Keepalive => self.set_keepalive(known.name, value)?.to_string(),
            Rule::IntervalStyle => {
                let style = IntervalStyle::named(&value.to_lowercase());
                let style = style.ok_or_else(|| invalid(known.name, value))?;
                configure(context, IntervalStyle::OPTION, style.name()).await?;
                style.name().to_owned()
            }
            Rule::TimeZone => {
                let zone = zone_name(value);
                let zone = zone.ok_or_else(|| invalid(known.name, value))?;
                configure(context, TIME_ZONE, &zone).await?;
                zone_text(&zone)
            }
            Rule::SearchPath => {
                let schema = first_schema(context, value);
                let schema = schema.as_deref().unwrap_or(TEMPORARY_SCHEMA);
                configure(context, DEFAULT_SCHEMA, schema).await?;
                value.to_owned()
            }
        })
    }

    /// Resets one setting to its value at the start of the session. Returns what is to be reported
    /// to a client.
    ///
    /// # Errors
    /// 42704 if there is no such setting; [`Error::Denied`](crate::Error::Denied).
    pub async fn reset(&mut self, context: &SessionContext, name: &str) -> Result<Option<Report>> {
        self.check_right(name, None)?;
        if name == MEMORY || name == CHECKSUMS {
            configure(context, name, "default").await?;
            return Ok(None);
        }
        if is_custom(context, name) {
            match self.initial.custom.get(&name.to_lowercase()) {
                Some(value) => self.set_custom(name, value)?,
                None => self.board.forget_custom(name),
            }
            return Ok(None);
        }
        if is_of_environment(name) {
            self.reset_environment(context, name).await?;
            return Ok(None);
        }
        if name.contains('.') {
            let value = entry(&self.initial.options, name)?;
            restore(context, name, value).await?;
            return Ok(None);
        }
        let known = find(name)?;
        match self.initial.changed.get(known.name) {
            Some(value) => self.changed.insert(known.name, value.clone()),
            None => self.changed.remove(known.name),
        };
        self.put_back(context, known).await?;
        self.publish(context);
        Ok(self.report(context, known))
    }

    /// Undoes the effect of one of PostgreSQL's settings, whose value has been reset.
    async fn put_back(&mut self, context: &SessionContext, known: &Known) -> Result<()> {
        match known.rule {
            Rule::Timeout => match self.initial.timeouts.get(known.name) {
                Some(timeout) => drop(self.timeouts.insert(known.name, *timeout)),
                None => drop(self.timeouts.remove(known.name)),
            },
            Rule::Keepalive => {
                let mut initial = self.initial.keepalive;
                let settings = (
                    self.keepalive.setting(known.name),
                    initial.setting(known.name),
                );
                if let (Some(setting), Some(initial)) = settings {
                    *setting = *initial;
                }
            }
            Rule::IntervalStyle => {
                let style = self.value(context, known);
                configure(context, IntervalStyle::OPTION, &style).await?;
            }
            Rule::TimeZone => {
                let zone = self.initial.options.execution.time_zone.clone();
                restore(context, TIME_ZONE, zone).await?;
            }
            Rule::SearchPath => {
                let schema = match self.changed.get(known.name) {
                    Some(path) => first_schema(context, path).unwrap_or_default(),
                    None => self.initial.options.catalog.default_schema.clone(),
                };
                configure(context, DEFAULT_SCHEMA, &schema).await?;
            }
            _ => {}
        }
        Ok(())
    }

    fn check_right(&self, name: &str, value: Option<&str>) -> Result<()> {
        let check = |rights: Rights| rights.check_setting(name, value);
        self.rights.map_or(Ok(()), check)
    }

    /// Changes a timeout, and returns it as SHOW writes it; 0 stands for none.
    fn set_timeout(&mut self, known: &Known, value: &str) -> Result<String, PgError> {
        let timeout = duration(value).ok_or_else(|| invalid(known.name, value))?;
        if timeout.is_zero() {
            self.timeouts.remove(known.name);
        } else {
            self.timeouts.insert(known.name, timeout);
        }
        Ok(show_duration(timeout))
    }

    /// Changes a keepalive setting. Returns its new value; 0 restores the default.
    fn set_keepalive(&mut self, name: &str, value: &str) -> Result<u32, PgError> {
        let number = Keepalive::number(name, value)?;
        if let Some(setting) = self.keepalive.setting(name) {
            *setting = number;
        }
        Ok(number)
    }

    /// The value of one of PostgreSQL's settings, as SHOW shows it.
    fn value(&self, context: &SessionContext, known: &Known) -> String {
        match known.name {
            "session_authorization" => self.user.clone(),
            "TimeZone" => {
                let state = context.state_ref();
                let state = state.read();
                let zone = state.config_options().execution.time_zone.as_deref();
                zone_text(zone.unwrap_or(known.default))
            }
            name => match (self.changed.get(name), modes::default_of(name)) {
                (Some(changed), _) => changed.clone(),
                (None, Some(default)) => {
                    let default = self.changed.get(default).cloned();
                    default.unwrap_or_else(|| known.default.to_owned())
                }
                (None, None) => known.default.to_owned(),
            },
        }
    }
}

/// The first existing schema of a search path: unqualified names resolve in one schema only.
/// `None` if none exists.
fn first_schema(context: &SessionContext, path: &str) -> Option<String> {
    let state = context.state();
    let catalog = state
        .catalog_list()
        .catalog(&state.config_options().catalog.default_catalog)?;
    let implicit = ["pg_catalog", TEMPORARY_SCHEMA];
    path.split(',')
        .map(|schema| schema.trim().trim_matches('"'))
        .find(|schema| !implicit.contains(schema) && catalog.schema(schema).is_some())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use datafusion::prelude::SessionConfig;

    use super::*;
    use crate::statement::{StatementText, parse_postgresql};

    /// Carries out a statement.
    async fn change(
        settings: &mut SessionSettings,
        context: &SessionContext,
        sql: &str,
        in_transaction: bool,
    ) -> Result<Vec<Report>> {
        let parsed = parse_postgresql(StatementText::whole(sql).unwrap()).unwrap();
        let statement = SettingStatement::of(&parsed[0]).unwrap().unwrap();
        settings.change(context, &statement, in_transaction).await
    }

    /// The value that SHOW shows.
    fn shown(settings: &SessionSettings, context: &SessionContext, name: &str) -> Option<String> {
        let rows = settings.shown(context, name).unwrap();
        let values = rows.column(0).as_string::<i32>();
        values.iter().next().unwrap().map(str::to_owned)
    }

    #[tokio::test]
    async fn reset_all_restores_the_sessions_settings() {
        let context = SessionContext::new();
        let mut settings = SessionSettings::new(&context, "me");
        let name = "datafusion.execution.batch_size";
        let before = shown(&settings, &context, name);
        settings.set(&context, name, "17").await.unwrap();
        settings
            .set(&context, "timezone", "Europe/Berlin")
            .await
            .unwrap();
        assert_eq!(shown(&settings, &context, name).as_deref(), Some("17"));
        settings.reset_all(&context).await.unwrap();
        assert_eq!(shown(&settings, &context, name), before);
        assert_eq!(context.state().config().options().execution.time_zone, None);
    }

    #[tokio::test]
    async fn a_local_change_ends_with_its_transaction() {
        let context = SessionContext::new();
        let mut settings = SessionSettings::new(&context, "me");
        let local = "SET LOCAL work_mem = '1MB'";
        for (in_transaction, expected) in [(false, "4MB"), (true, "1MB")] {
            let changed = change(&mut settings, &context, local, in_transaction);
            changed.await.unwrap();
            let now = shown(&settings, &context, "work_mem");
            assert_eq!(now.as_deref(), Some(expected));
        }
        settings.end_transaction(&context).await.unwrap();
        let now = shown(&settings, &context, "work_mem");
        assert_eq!(now.as_deref(), Some("4MB"));
    }

    #[tokio::test]
    async fn a_transaction_keeps_its_modes_when_their_defaults_change() {
        let context = SessionContext::new();
        let mut settings = SessionSettings::new(&context, "me");
        let name = "default_transaction_read_only";
        let sql = format!("SET {name} = on");
        let reports = change(&mut settings, &context, &sql, true).await.unwrap();
        assert_eq!(reports, [(name, "on".to_owned())]);
        assert!(!settings.modes(&context).read_only);
        settings.end_transaction(&context).await.unwrap();
        assert!(settings.modes(&context).read_only);
    }

    #[tokio::test]
    async fn reset_of_the_one_role_is_nothing_to_do() {
        let context = SessionContext::new();
        let mut settings = SessionSettings::new(&context, "me");
        let reset = change(&mut settings, &context, "RESET ROLE", false).await;
        assert!(reset.unwrap().is_empty());
        let unknown = change(&mut settings, &context, "RESET roles", false).await;
        let code = PgError::of(&unknown.unwrap_err()).map(PgError::code);
        assert_eq!(code, Some("42704"));
    }

    #[tokio::test]
    async fn sessions_cannot_change_the_shared_budget() {
        let config = SessionConfig::new().with_extension(Arc::new(Rights::ALL));
        let context = SessionContext::new_with_config(config);
        let mut settings = SessionSettings::new(&context, "me");
        let name = "datafusion.runtime.memory_limit";
        let set = settings.set(&context, name, "1G").await;
        assert!(crate::is_denied(&set.unwrap_err()));
        let reset = settings.reset(&context, name).await;
        assert!(crate::is_denied(&reset.unwrap_err()));
    }
}
